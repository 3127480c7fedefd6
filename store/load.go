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
	tally
}

// tally is what a load has to read, by which it is seen when a snapshot is due.
type tally struct {
	since   int64 // bytes of payloads after the newest snapshot
	entries int64 // after it
	size    int64 // of that snapshot
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
	err := row.scan(tx.QueryRowContext(context.WithoutCancel(ctx), selectThreadByID, thread))
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
//
// Its queries do not watch ctx, which would cost as much as they do; that it
// has ended is seen between two rows.
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
		if row.Signals > 0 {
			if l.view.Signals, err = readSignals(ctx, tx, row.No); err != nil {
				return nil, fmt.Errorf("signals of thread %s: %w", thread, err)
			}
		}
	}
	l.view.OutsideStep, l.view.MaxSteps, l.view.InputSeq = l.turn.outsideStep, l.turn.maxSteps, l.turn.inputSeq
	l.view.Thread, err = s.thread(&row, l.bases[""])
	return l, err
}

// fold computes state and tail at entry seq.
func (s *Store) fold(ctx context.Context, tx *sqlx.Tx, l *loaded, seq int64) error {
	folded, err := s.foldStart(ctx, tx, l, seq)
	if err != nil {
		return err
	}
	if folded < seq {
		// The base is nearly always among the rows that are read anyway.
		if moved, err := s.walk(ctx, tx, l, folded+1, folded, seq); err != nil || moved {
			return err
		}
	}
	base, err := baseAt(ctx, tx, l.row.No, seq)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", l.row.ThreadID, err)
	}
	clear(l.bases)
	l.view.Tail = nil
	_, err = s.walk(ctx, tx, l, base, seq, seq)
	return err
}

// walk reads the rows from first to seq, folds those after folded into the
// state and makes the tail of them. moved: one of them moved the base of the
// graph itself, so that the tail is whole.
func (s *Store) walk(ctx context.Context, tx *sqlx.Tx, l *loaded, first, folded, seq int64) (moved bool, err error) {
	walk := rowWalk{s: s, tx: tx, no: l.row.No, thread: l.row.ThreadID, payloads: true}
	err = walk.each(ctx, first, seq, func(r *entryRow) error {
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
			clear(l.view.Tail) // what it held would live as long as its room does
			l.view.Tail, moved = l.view.Tail[:0], true
		}
		if e.Kind.MovesBase() || e.Namespace == "" {
			l.bases[e.Namespace] = e.Base
		}
		l.view.Tail = append(l.view.Tail, e)
		l.view.Head = e
		return nil
	})
	return moved, err
}

func (l *loaded) fold(r *entryRow, e *engine.Entry) error {
	l.since += int64(len(r.Payload))
	l.entries++
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
// moves the base.
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

// once stands before a parameter that is compared with the number of a thread.
// Without it SQLite plans a sorted query anew where the value is 0 or 1, which
// costs more than the query.
const once = "+"

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
	columns := smallColumns
	if w.payloads {
		// Of the row before the first only the hash is wanted.
		columns += `, CASE WHEN seq < ?2 THEN NULL ELSE payload END`
	}
	rows, err := w.tx.QueryxContext(context.WithoutCancel(ctx), `SELECT `+columns+` FROM checkpoints WHERE no = `+once+`?1 AND seq >= ?2 - 1 AND seq <= ?3 ORDER BY seq`, w.no, first, last)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", w.thread, err)
	}
	defer rows.Close()
	prev := genesis(w.thread)
	want := max(1, first-1)
	for rows.Next() {
		var r entryRow
		into := []any{&r.ID, &r.No, &r.Seq, &r.Base, &r.NS, &r.Kind, &r.Status, &r.Turn, &r.Step, &r.Parent,
			&r.Tasks, &r.Next, &r.Actor, &r.At, &r.PayloadHash, &r.Hash, &r.Payload} // as in entryColumns
		if !w.payloads {
			into = into[:len(into)-1]
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read %s: %w", engine.CheckpointID(w.thread, want), err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read thread %s: %w", w.thread, err)
		}
		if r.Seq != want {
			return w.corrupt(want, "", "the row is missing")
		}
		if want >= first {
			if err := r.fits(prev); err != nil {
				return w.corrupt(want, "", err.Error())
			}
		}
		prev = r.Hash
		if want++; want <= first {
			continue
		}
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
	err := tx.SelectContext(context.WithoutCancel(ctx), &rows, `SELECT base, task, n, kind, key, value, at FROM results WHERE no = ? AND base >= ? ORDER BY base, task, n`, no, base)
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
