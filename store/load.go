package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// ErrRemoved: what was asked for needs a payload that was pruned or redacted.
var ErrRemoved = errors.New("payload was removed")

// loaded is a thread as it was read, at one entry.
type loaded struct {
	row   threadRow
	view  engine.View
	bases map[string]int64 // of each namespace that has rows since the base
	turn  turnFacts
	since int64 // bytes of payloads after the newest snapshot
	size  int64 // of that snapshot
}

// turnFacts are what a view says of the turn as a whole. They are folded along
// with the state, and kept in a snapshot, so that a load need not look for
// rows far back.
type turnFacts struct {
	outsideStep int64
	maxSteps    int
	inputSeq    int64
}

func (t *turnFacts) note(e *engine.Entry, seq int64) {
	if e.Namespace != "" {
		return
	}
	switch e.Kind {
	case engine.KindInput, engine.KindFork, engine.KindGraph:
		t.maxSteps, t.inputSeq = 0, seq
		if e.Payload.Input != nil {
			t.maxSteps = e.Payload.Input.MaxSteps
		}
		t.outsideStep = e.Step
	case engine.KindAnswer, engine.KindUpdate, engine.KindEnd:
		t.outsideStep = e.Step
	}
}

// findThread reads a thread's row. ErrNotFound, ErrDeleted.
func (s *Store) findThread(ctx context.Context, tx *sqlx.Tx, thread string) (threadRow, error) {
	var row threadRow
	err := tx.GetContext(ctx, &row, selectThreadByID, thread)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return row, fmt.Errorf("thread %s: %w", thread, engine.ErrNotFound)
	case err != nil:
		return row, fmt.Errorf("read thread %s: %w", thread, err)
	case engine.Status(row.Status) == engine.Deleted:
		return row, fmt.Errorf("thread %s: %w", thread, engine.ErrDeleted)
	}
	return row, nil
}

// load reads a thread as it was after entry seq; 0 is the newest. It reads the
// rows from the newest snapshot, or from the base if that is older, and
// verifies every one of them.
func (s *Store) load(ctx context.Context, tx *sqlx.Tx, thread string, seq int64) (*loaded, error) {
	row, err := s.findThread(ctx, tx, thread)
	if err != nil {
		return nil, err
	}
	newest := seq == 0 || seq == row.Head
	if seq == 0 {
		seq = row.Head
	}
	if seq < 0 || seq > row.Head {
		return nil, fmt.Errorf("checkpoint %s: %w; the newest is %s", engine.CheckpointID(thread, seq), engine.ErrNotFound, engine.CheckpointID(thread, row.Head))
	}
	l := &loaded{row: row, bases: make(map[string]int64)}
	l.view.State = make(map[string]any)
	if seq > 0 {
		if err := s.fold(ctx, tx, l, seq); err != nil {
			return nil, err
		}
	}
	if newest {
		if l.view.Results, err = readResults(ctx, tx, row.No, l.bases[""]); err != nil {
			return nil, fmt.Errorf("results of thread %s: %w", thread, err)
		}
		if l.view.Signals, err = readSignals(ctx, tx, row.No); err != nil {
			return nil, fmt.Errorf("signals of thread %s: %w", thread, err)
		}
	}
	l.view.OutsideStep, l.view.MaxSteps, l.view.InputSeq = l.turn.outsideStep, l.turn.maxSteps, l.turn.inputSeq
	l.view.Thread, err = s.thread(&row, l.bases[""])
	return l, err
}

// fold computes state and tail at entry seq.
func (s *Store) fold(ctx context.Context, tx *sqlx.Tx, l *loaded, seq int64) error {
	base, err := baseAt(ctx, tx, l.row.No, seq)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", l.row.ThreadID, err)
	}
	folded, err := s.foldStart(ctx, tx, l, seq)
	if err != nil {
		return err
	}
	walk := rowWalk{s: s, tx: tx, no: l.row.No, thread: l.row.ThreadID, payloads: true}
	return walk.each(ctx, min(base, folded+1), seq, func(r *entryRow) error {
		e, err := s.decode(l.row.ThreadID, r)
		if err != nil {
			return err
		}
		if r.Seq > folded {
			if err := l.fold(r, &e); err != nil {
				return err
			}
		}
		if e.Namespace == "" && e.Kind.MovesBase() {
			clear(l.bases)
			l.view.Tail = l.view.Tail[:0]
		}
		if e.Kind.MovesBase() || e.Namespace == "" {
			l.bases[e.Namespace] = e.Base
		}
		if r.Seq >= base {
			l.view.Tail = append(l.view.Tail, e)
		}
		l.view.Head = e
		return nil
	})
}

func (l *loaded) fold(r *entryRow, e *engine.Entry) error {
	l.since += int64(len(r.Payload))
	l.turn.note(e, e.Seq)
	if e.Namespace != "" {
		return nil // a subgraph has a state of its own
	}
	if e.Removed && e.Kind.ChangesState() {
		return fmt.Errorf("state of thread %s: the payload of entry %d is needed for it: %w", l.row.ThreadID, e.Seq, ErrRemoved)
	}
	if err := engine.Fold(l.view.State, &e.Payload, e.Kind); err != nil {
		return fmt.Errorf("state of thread %s: entry %d: %w", l.row.ThreadID, e.Seq, err)
	}
	return nil
}

// foldStart puts what the fold begins with into l and gives the seq that it is
// of: the newest snapshot, else a state that the log itself holds, else nothing.
func (s *Store) foldStart(ctx context.Context, tx *sqlx.Tx, l *loaded, seq int64) (int64, error) {
	snap, err := s.newestSnapshot(ctx, tx, &l.row, seq)
	if err != nil {
		return 0, err
	}
	if snap != nil {
		l.view.State, l.turn, l.size = snap.state, snap.turn, snap.size
		return snap.seq, nil
	}
	whole, err := s.wholeState(ctx, tx, &l.row, seq)
	if err != nil || whole == nil {
		return 0, err
	}
	l.view.State = whole.state
	if l.turn, err = s.turnAt(ctx, tx, &l.row, whole.seq); err != nil {
		return 0, err
	}
	return whole.seq, nil
}

// baseAt is the seq of the newest entry of the graph itself, up to seq, that
// moves the base. It is nearly always a few rows back.
func baseAt(ctx context.Context, q sqlx.QueryerContext, no, seq int64) (int64, error) {
	var base int64
	err := sqlx.GetContext(ctx, q, &base, `SELECT base FROM checkpoints WHERE no = ? AND seq <= ? AND ns = '' ORDER BY seq DESC LIMIT 1`, no, seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 1, nil
	}
	// A changed base is for the hash to find, not for a walk from nowhere.
	return max(1, min(base, seq)), err
}

// decode gives the entry of a row, payload included.
func (s *Store) decode(thread string, r *entryRow) (engine.Entry, error) {
	bad := func(column string, err error) error {
		return &CorruptError{Path: s.path, Thread: thread, Seq: r.Seq, Table: "checkpoints", Column: column, Reason: err.Error()}
	}
	e, err := r.entry()
	if err != nil {
		return e, bad("", err)
	}
	if r.Payload == nil {
		e.Removed = true
		return e, nil
	}
	if err := r.payloadFits(); err != nil {
		return e, bad("payload", err)
	}
	if e.Payload, err = decodePayload(r.Payload[saltSize:]); err != nil {
		return e, bad("payload", err)
	}
	return e, nil
}

// rowWalk goes through rows of one thread in order and verifies each.
type rowWalk struct {
	s        *Store
	tx       sqlx.QueryerContext
	no       int64
	thread   string
	payloads bool
}

// each gives the rows from first to last, every one of which must be there.
// The row that f gets is used again for the next.
func (w *rowWalk) each(ctx context.Context, first, last int64, f func(*entryRow) error) error {
	prev := genesis(w.thread)
	if first > 1 {
		err := sqlx.GetContext(ctx, w.tx, &prev, `SELECT hash FROM checkpoints WHERE no = ? AND seq = ?`, w.no, first-1)
		if errors.Is(err, sql.ErrNoRows) {
			return w.corrupt(first-1, "", "the row is missing")
		}
		if err != nil {
			return fmt.Errorf("read thread %s: %w", w.thread, err)
		}
	}
	columns := smallColumns
	if w.payloads {
		columns = entryColumns
	}
	rows, err := w.tx.QueryxContext(ctx, `SELECT `+columns+` FROM checkpoints WHERE no = ? AND seq BETWEEN ? AND ? ORDER BY seq`, w.no, first, last)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", w.thread, err)
	}
	defer rows.Close()
	want := first
	for rows.Next() {
		var r entryRow
		if err := rows.StructScan(&r); err != nil {
			return fmt.Errorf("read %s: %w", engine.CheckpointID(w.thread, want), err)
		}
		if r.Seq != want {
			return w.corrupt(want, "", "the row is missing")
		}
		if err := r.fits(prev); err != nil {
			return w.corrupt(want, "", err.Error())
		}
		prev = r.Hash
		want++
		if err := f(&r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read thread %s: %w", w.thread, err)
	}
	if want != last+1 {
		return w.corrupt(want, "", "the row is missing")
	}
	return nil
}

func (w *rowWalk) corrupt(seq int64, column, reason string) error {
	return &CorruptError{Path: w.s.path, Thread: w.thread, Seq: seq, Table: "checkpoints", Column: column, Reason: reason}
}

// resultRow is a row of results.
type resultRow struct {
	Base  int64  `db:"base"`
	Task  string `db:"task"`
	N     int64  `db:"n"`
	Kind  string `db:"kind"`
	Key   string `db:"key"`
	Value []byte `db:"value"`
	At    int64  `db:"at"`
}

func readResults(ctx context.Context, tx *sqlx.Tx, no, base int64) ([]engine.Result, error) {
	var rows []resultRow
	err := tx.SelectContext(ctx, &rows, `SELECT base, task, n, kind, key, value, at FROM results WHERE no = ? AND base >= ? ORDER BY base, task, n`, no, base)
	if err != nil {
		return nil, err
	}
	var out []engine.Result
	for _, r := range rows {
		out = append(out, engine.Result{Base: r.Base, Task: r.Task, N: r.N, Kind: engine.ResultKind(r.Kind), Key: r.Key, Value: r.Value, At: fromMS(r.At)})
	}
	return out, nil
}

// At is the thread as it was right after entry seq; 0 is the newest.
func (s *Store) At(ctx context.Context, thread string, seq int64) (*engine.View, error) {
	var l *loaded
	err := s.inTx(ctx, func(tx *sqlx.Tx) (err error) {
		l, err = s.load(ctx, tx, thread, seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &l.view, nil
}

// State is the state of a thread right after entry seq; 0 is the newest.
func (s *Store) State(ctx context.Context, thread string, seq int64) (map[string]any, error) {
	v, err := s.At(ctx, thread, seq)
	if err != nil {
		return nil, err
	}
	return v.State, nil
}

// Entries gives the log from after+1 on, at most limit entries (0: all), to fn.
// It reads in batches, so that a slow fn does not keep the write-ahead log from
// being written back.
func (s *Store) Entries(ctx context.Context, thread string, after int64, limit int, fn func(engine.Entry) error) error {
	const batch = 128
	for after = max(after, 0); ; {
		n := int64(batch)
		if limit > 0 {
			n = min(n, int64(limit))
		}
		var entries []engine.Entry
		err := s.inTx(ctx, func(tx *sqlx.Tx) error {
			row, err := s.findThread(ctx, tx, thread)
			if err != nil || after >= row.Head {
				return err
			}
			walk := rowWalk{s: s, tx: tx, no: row.No, thread: thread, payloads: true}
			return walk.each(ctx, after+1, min(after+n, row.Head), func(r *entryRow) error {
				e, err := s.decode(thread, r)
				entries = append(entries, e)
				return err
			})
		})
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		after += int64(len(entries))
		if limit > 0 {
			if limit -= len(entries); limit <= 0 {
				return nil
			}
		}
		if int64(len(entries)) < n {
			return nil
		}
	}
}
