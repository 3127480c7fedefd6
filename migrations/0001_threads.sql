-- A thread: one durable line of work. Changes at turn boundaries, when a lease
-- changes hands and when its facts are edited; never at a step.
CREATE TABLE threads (
    no               INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused, so that no late write finds another thread
    thread_id        TEXT    NOT NULL UNIQUE,
    graph            TEXT    NOT NULL DEFAULT '',       -- fingerprint of the newest turn's graph
    graph_name       TEXT    NOT NULL DEFAULT '',
    status           TEXT    NOT NULL,
    turn             INTEGER NOT NULL DEFAULT 0,
    owner            TEXT    NOT NULL DEFAULT '',       -- random id of the open store that holds the lease
    lease            TEXT    NOT NULL DEFAULT 'free' CHECK (lease IN ('free', 'moving', 'waiting')),
    fence            INTEGER NOT NULL DEFAULT 0,        -- counts how often the lease was taken
    crashes          INTEGER NOT NULL DEFAULT 0,        -- owners that died while they moved the thread on crash_base
    crash_base       INTEGER NOT NULL DEFAULT 0,
    wake_at          INTEGER,                           -- ms since 1970, UTC, as every time in this file
    cancel_requested TEXT    NOT NULL DEFAULT '',       -- JSON: who wants the running turn to end, and why; empty: nobody
    cwd              TEXT    NOT NULL DEFAULT '',
    roots            TEXT    NOT NULL DEFAULT '[]',     -- JSON list of strings
    title            TEXT    NOT NULL DEFAULT '',
    mode             TEXT    NOT NULL DEFAULT '',
    options          TEXT    NOT NULL DEFAULT '{}',     -- JSON object
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL                   -- at turn boundaries
) STRICT;

CREATE INDEX threads_recent ON threads (updated_at DESC, no DESC);
CREATE INDEX threads_owned ON threads (owner) WHERE owner <> '';

-- An entry of a thread's log. Never updated, but prune and redaction set
-- payload to NULL; the hashes stay. The payload stands last, so that a history
-- reads the small columns and never the overflow pages behind them.
CREATE TABLE checkpoints (
    id           INTEGER PRIMARY KEY,                   -- append order over all threads
    no           INTEGER NOT NULL REFERENCES threads (no),
    seq          INTEGER NOT NULL,                      -- 1, 2, 3 ... within the thread
    base         INTEGER NOT NULL,
    ns           TEXT    NOT NULL,                      -- of a subgraph; empty for the graph itself
    kind         TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    turn         INTEGER NOT NULL,
    step         INTEGER NOT NULL,
    parent       INTEGER NOT NULL,
    tasks        TEXT    NOT NULL,                      -- JSON list of strings
    next         TEXT    NOT NULL,                      -- JSON list of strings
    actor        TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    payload_hash BLOB    NOT NULL,                      -- SHA-256 of payload, salt included
    hash         BLOB    NOT NULL,                      -- SHA-256 of the previous hash and this row's columns
    payload      BLOB                                   -- 16 random bytes, then JSON
) STRICT;

CREATE UNIQUE INDEX checkpoints_place ON checkpoints (no, seq);

-- Where turns begin, and what holds a whole state: few rows of many.
CREATE INDEX checkpoints_turns ON checkpoints (no, seq) WHERE ns = '' AND kind IN ('input', 'fork', 'graph', 'prune');

-- A part of a thread's whole state at a seq: a cache that may be dropped at any time.
CREATE TABLE snapshots (
    no    INTEGER NOT NULL REFERENCES threads (no),
    seq   INTEGER NOT NULL,
    part  INTEGER NOT NULL,                             -- from 0
    parts INTEGER NOT NULL,
    hash  BLOB    NOT NULL,                             -- SHA-256 of the chain's hash at seq and the whole content
    data  BLOB    NOT NULL,
    PRIMARY KEY (no, seq, part)
) STRICT;

-- What a step that is not committed yet has got so far.
CREATE TABLE results (
    no    INTEGER NOT NULL REFERENCES threads (no),
    base  INTEGER NOT NULL,
    task  TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    value BLOB    NOT NULL,                             -- JSON
    at    INTEGER NOT NULL,
    PRIMARY KEY (no, base, task, n)
) STRICT, WITHOUT ROWID;

-- An index of the log for the inbox and for timers: one row a question, timer
-- or signal wait. What is in it is also in the log, and verify compares the two.
CREATE TABLE interrupts (
    no          INTEGER NOT NULL REFERENCES threads (no),
    seq         INTEGER NOT NULL,                       -- of the entry that asked
    base        INTEGER NOT NULL,
    kind        TEXT    NOT NULL,                       -- before, after, dynamic; timer, signal
    node        TEXT    NOT NULL,
    asking_node TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    message     TEXT    NOT NULL,
    data        TEXT    NOT NULL,                       -- JSON
    question    TEXT    NOT NULL,                       -- JSON: all that stands beside the payload
    choices     TEXT    NOT NULL,                       -- JSON list: the options that a person has
    digest      TEXT    NOT NULL,                       -- of what is approved
    deadline    INTEGER,
    asked_at    INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'answered', 'void', 'cancelled')),
    answer_seq  INTEGER,                                -- the entry that answered
    answer      TEXT,                                   -- JSON
    actor       TEXT,
    via         TEXT,
    answered_at INTEGER,
    PRIMARY KEY (no, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX interrupts_open ON interrupts (asked_at, no, seq) WHERE state = 'pending';

-- A signal that no wait has taken yet. It belongs to the turn under way.
CREATE TABLE signals (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    no    INTEGER NOT NULL REFERENCES threads (no),
    name  TEXT    NOT NULL,
    value TEXT    NOT NULL,                             -- JSON
    actor TEXT    NOT NULL,
    via   TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

CREATE INDEX signals_waiting ON signals (no, id);

-- The definition of a graph by its fingerprint: a paused turn goes on with the
-- graph that it was paused in.
CREATE TABLE graphs (
    fingerprint TEXT PRIMARY KEY,                       -- SHA-256 of definition, in hex
    name        TEXT NOT NULL,
    definition  BLOB NOT NULL,                          -- JSON, canonical
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
