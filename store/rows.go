package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// threadRow is a row of threads.
type threadRow struct {
	No              int64         `db:"no"`
	ThreadID        string        `db:"thread_id"`
	Graph           string        `db:"graph"`
	GraphName       string        `db:"graph_name"`
	Status          string        `db:"status"`
	Turn            int64         `db:"turn"`
	Owner           string        `db:"owner"`
	Lease           string        `db:"lease"`
	Fence           int64         `db:"fence"`
	Crashes         int           `db:"crashes"`
	CrashBase       int64         `db:"crash_base"`
	WakeAt          sql.NullInt64 `db:"wake_at"`
	CancelRequested string        `db:"cancel_requested"`
	Cwd             string        `db:"cwd"`
	Roots           string        `db:"roots"`
	Title           string        `db:"title"`
	Mode            string        `db:"mode"`
	Options         string        `db:"options"`
	CreatedAt       int64         `db:"created_at"`
	UpdatedAt       int64         `db:"updated_at"`

	Head    int64 `db:"head"`    // seq of the newest entry; not a column
	Signals int64 `db:"signals"` // id of the newest signal that waits; not a column
}

const threadColumns = `no, thread_id, graph, graph_name, status, turn, owner, lease, fence, crashes, crash_base,
	wake_at, cancel_requested, cwd, roots, title, mode, options, created_at, updated_at,
	coalesce((SELECT max(seq) FROM checkpoints WHERE checkpoints.no = threads.no), 0) AS head,
	coalesce((SELECT max(id) FROM signals WHERE signals.no = threads.no), 0) AS signals`

const (
	selectThreadByID = `SELECT ` + threadColumns + ` FROM threads WHERE thread_id = ?`
	selectThreadByNo = `SELECT ` + threadColumns + ` FROM threads WHERE no = ?`
)

// scan reads the columns in the order of threadColumns; for prepared
// statements, which sqlx does not scan.
func (t *threadRow) scan(row interface{ Scan(...any) error }) error {
	return row.Scan(&t.No, &t.ThreadID, &t.Graph, &t.GraphName, &t.Status, &t.Turn, &t.Owner, &t.Lease, &t.Fence,
		&t.Crashes, &t.CrashBase, &t.WakeAt, &t.CancelRequested, &t.Cwd, &t.Roots, &t.Title, &t.Mode, &t.Options,
		&t.CreatedAt, &t.UpdatedAt, &t.Head, &t.Signals)
}

// thread is the row as the engine sees it. Owner and Crashes, which need a
// look at the system, are added by who knows them.
func (t *threadRow) thread(path string) (engine.Thread, error) {
	out := engine.Thread{
		ID: t.ThreadID, Graph: t.Graph, GraphName: t.GraphName, Status: engine.Status(t.Status), Turn: t.Turn,
		Head: t.Head, Lease: parseLease(t.Lease), Fence: t.Fence, Crashes: t.Crashes,
		CancelRequested: t.CancelRequested != "", Cwd: t.Cwd, Title: t.Title, Mode: t.Mode,
		CreatedAt: fromMS(t.CreatedAt), UpdatedAt: fromMS(t.UpdatedAt),
	}
	bad := func(column string, err error) error {
		return &CorruptError{Path: path, Thread: t.ThreadID, Table: "threads", Column: column, Reason: err.Error()}
	}
	var err error
	if out.Roots, err = parseList(t.Roots); err != nil {
		return out, bad("roots", err)
	}
	if t.CancelRequested != "" {
		if err := json.Unmarshal([]byte(t.CancelRequested), &out.CancelBy); err != nil {
			return out, bad("cancel_requested", err)
		}
	}
	if t.WakeAt.Valid {
		at := fromMS(t.WakeAt.Int64)
		out.WakeAt = &at
	}
	options, err := value.Decode([]byte(t.Options))
	if err != nil {
		return out, bad("options", err)
	}
	if m, ok := options.(map[string]any); ok && len(m) > 0 {
		out.Options = m
	}
	return out, nil
}

// setFacts takes over the session facts of t.
func (t *threadRow) setFacts(facts *engine.Thread) error {
	roots, err := formatList(facts.Roots)
	if err != nil {
		return err
	}
	options := []byte("{}")
	if len(facts.Options) > 0 {
		if options, err = value.Marshal(facts.Options); err != nil {
			return fmt.Errorf("options of thread %s: %w", t.ThreadID, err)
		}
	}
	t.Cwd, t.Roots, t.Title, t.Mode, t.Options = facts.Cwd, roots, facts.Title, facts.Mode, string(options)
	return nil
}

func parseLease(s string) engine.Lease {
	switch s {
	case engine.LeaseMoving.String():
		return engine.LeaseMoving
	case engine.LeaseWaiting.String():
		return engine.LeaseWaiting
	}
	return engine.LeaseFree
}

// entryRow is a row of checkpoints.
type entryRow struct {
	ID          int64  `db:"id"`
	No          int64  `db:"no"`
	Seq         int64  `db:"seq"`
	Base        int64  `db:"base"`
	NS          string `db:"ns"`
	Kind        string `db:"kind"`
	Status      string `db:"status"`
	Turn        int64  `db:"turn"`
	Step        int64  `db:"step"`
	Parent      int64  `db:"parent"`
	Tasks       string `db:"tasks"`
	Next        string `db:"next"`
	Actor       string `db:"actor"`
	At          int64  `db:"at"`
	PayloadHash []byte `db:"payload_hash"`
	Hash        []byte `db:"hash"`
	Payload     []byte `db:"payload"` // nil if removed, or not asked for
}

const (
	smallColumns = `id, no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash`
	entryColumns = smallColumns + `, payload`
)

// entry is the row as the engine sees it, without its payload.
func (r *entryRow) entry() (engine.Entry, error) {
	e := engine.Entry{
		Seq: r.Seq, Base: r.Base, Namespace: r.NS, Kind: engine.Kind(r.Kind), Status: engine.Status(r.Status),
		Turn: r.Turn, Step: r.Step, Parent: r.Parent, Actor: r.Actor, At: fromMS(r.At), Hash: r.Hash,
	}
	var err error
	if e.Tasks, err = parseList(r.Tasks); err != nil {
		return e, fmt.Errorf("tasks: %w", err)
	}
	if e.Next, err = parseList(r.Next); err != nil {
		return e, fmt.Errorf("next: %w", err)
	}
	return e, nil
}

// parseList reads a JSON list of strings; an empty one is nil.
func parseList(s string) ([]string, error) {
	if s == "[]" {
		return nil, nil
	}
	var out []string
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return nil, err
	}
	return out, nil
}

// formatList writes a JSON list of strings.
func formatList(list []string) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	out := []byte{'['}
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = value.Append(out, s)
	}
	return string(append(out, ']')), nil
}

func toMS(t time.Time) int64 { return t.UnixMilli() }

func fromMS(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
