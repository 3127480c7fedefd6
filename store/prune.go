package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// Retention says which turns of a thread may lose the payloads of their inputs,
// steps and edits. What is over one limit goes, whatever the other says. The
// newest turn always stays as it is, and so do rows and hashes, questions,
// answers and ends: who approved what can be told for good.
type Retention struct {
	Turns int           // how many of the newest turns stay; 0: no limit
	Age   time.Duration // how long a turn stays after its end; 0: no limit
}

// Limits reports whether anything may go at all.
func (r Retention) Limits() bool { return r.Turns > 0 || r.Age > 0 }

// Pruned is what a prune removed of one thread.
type Pruned struct {
	Thread  string `json:"thread_id"`
	UpTo    int64  `json:"up_to"`   // seq of the newest entry that it is about
	Entries int64  `json:"entries"` // whose payload was removed
	Bytes   int64  `json:"bytes"`   // of these payloads
	Kept    int64  `json:"kept"`    // bytes of the state that was kept for them
}

// The payloads of one transaction: few enough that nobody who commits waits
// for long.
const (
	pruneRows  = 64
	pruneBytes = 1 << 20
)

// Prune removes the payloads of old turns of a thread. The state behind them is
// kept in an entry of the log, so that the thread goes on as before and every
// later state can still be read. It removes nothing where that would keep more
// bytes than it removes. ErrBusy if a process holds the thread, or one that died
// moved it: there a turn is under way.
//
// With dry it says what it would remove, and removes nothing.
func (s *Store) Prune(ctx context.Context, thread string, keep Retention, by engine.By, dry bool) (Pruned, error) {
	for attempt := 0; ; attempt++ {
		pruned, err := s.prune(ctx, thread, keep, by, dry)
		if errors.Is(err, engine.ErrConflict) && attempt < maxTries {
			continue // somebody appended meanwhile
		}
		if err != nil && !refusal(err) {
			err = fmt.Errorf("prune thread %s: %w", thread, err)
		}
		return pruned, err
	}
}

// PruneAll prunes one thread after the other, and gives each from which
// something was removed to fn. A thread that somebody holds, or that cannot be
// read, is passed over: its turn comes the next time, or doctor tells of it.
func (s *Store) PruneAll(ctx context.Context, keep Retention, by engine.By, dry bool, fn func(Pruned) error) error {
	for after := int64(0); ; {
		var rows []struct {
			No       int64  `db:"no"`
			ThreadID string `db:"thread_id"`
		}
		err := s.read.SelectContext(ctx, &rows, `SELECT no, thread_id FROM threads WHERE no > ? AND status <> 'deleted' ORDER BY no LIMIT 100`, after)
		if err != nil {
			return fmt.Errorf("prune: %w", s.readError(err))
		}
		if len(rows) == 0 {
			return nil
		}
		for _, row := range rows {
			after = row.No
			pruned, err := s.Prune(ctx, row.ThreadID, keep, by, dry)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil && (refusal(err) || errors.Is(err, ErrRemoved)):
				s.opts.Logger.InfoContext(ctx, "thread not pruned", "thread", row.ThreadID, "reason", err)
				continue
			case err != nil:
				return err
			case pruned.Entries == 0:
				continue
			}
			if err := fn(pruned); err != nil {
				return err
			}
		}
	}
}

// removable is a payload that goes.
type removable struct {
	Seq   int64 `db:"seq"`
	Bytes int64 `db:"bytes"`
}

func (s *Store) prune(ctx context.Context, thread string, keep Retention, by engine.By, dry bool) (Pruned, error) {
	out := Pruned{Thread: thread}
	var (
		gone   []removable // with an entry that says so, or by one that did
		old    []removable // prune entries that the new one makes superfluous
		head   int64
		commit *engine.Commit
	)
	err := s.inTx(ctx, func(tx *sqlx.Tx) error {
		row, err := s.findThread(ctx, tx, thread)
		if err != nil {
			return err
		}
		if err := s.free(&row); err != nil {
			return err
		}
		head = row.Head
		prunes, err := s.prunes(ctx, tx, &row)
		if err != nil {
			return err
		}
		before := int64(0)
		for i := range prunes {
			before = max(before, prunes[i].entry.Payload.Pruned)
		}
		cut, err := s.cut(ctx, tx, &row, keep)
		if err != nil {
			return err
		}
		if cut > before {
			gone, err = s.payloads(ctx, tx, row.No, cut)
			if err != nil {
				return err
			}
			l, err := s.load(ctx, tx, thread, cut)
			if err != nil {
				return err
			}
			e := &engine.Entry{Payload: engine.Payload{State: l.view.State, From: engine.CheckpointID(thread, cut), Pruned: cut}}
			payload, err := appendPayload(newSalt(), &e.Payload)
			if err != nil {
				return err
			}
			if out.Kept = int64(len(payload)); sum(gone) > out.Kept {
				out.UpTo, commit = cut, &engine.Commit{Entries: []*engine.Entry{e}}
				for i := range prunes {
					if p := &prunes[i]; p.entry.Payload.Redacts == nil {
						n, err := payloadSize(ctx, tx, row.No, p.entry.Seq)
						if err != nil {
							return err
						}
						old = append(old, removable{p.entry.Seq, n})
					}
				}
				return nil
			}
			out.Kept = 0
		}
		// What a prune that was cut short left behind.
		out.UpTo = before
		gone, err = s.payloads(ctx, tx, row.No, before)
		return err
	})
	if err != nil {
		return out, err
	}
	all := append(old, gone...)
	out.Entries, out.Bytes = int64(len(all)), sum(all)
	if dry || len(all) == 0 {
		return out, nil
	}
	if commit != nil {
		if err := s.recordPrune(ctx, thread, head, by, commit, func(ctx context.Context, c *conn, no int64) error {
			if err := removePayloads(ctx, c, no, old); err != nil {
				return err
			}
			// A snapshot before the cut would need payloads behind it to be of
			// use, and holds what is to go.
			_, err := c.exec(ctx, `DELETE FROM snapshots WHERE no = ? AND seq < ?`, no, out.UpTo)
			return err
		}); err != nil {
			return out, err
		}
	}
	// If the process dies here, the log says that these payloads are gone, and
	// some of them are still there. They are in nobody's way, and the next prune
	// removes them.
	if err := failpoint.HitIn("store.prune.rest", s.path); err != nil {
		return out, err
	}
	for len(gone) > 0 {
		n, bytes := 0, int64(0)
		for n < len(gone) && n < pruneRows && (n == 0 || bytes+gone[n].Bytes <= pruneBytes) {
			bytes += gone[n].Bytes
			n++
		}
		batch := gone[:n]
		err := s.write.do(ctx, &job{apply: func(ctx context.Context, c *conn) error {
			var no int64
			if err := c.row(ctx, `SELECT no FROM threads WHERE thread_id = ?`, []any{thread}, &no); err != nil {
				return err
			}
			return removePayloads(ctx, c, no, batch)
		}})
		if err != nil {
			return out, err
		}
		if gone = gone[n:]; ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
	}
	return out, nil
}

// free says who holds a thread that is to be left alone while somebody works
// with it: also who waits, whose dialog would be withdrawn.
func (s *Store) free(row *threadRow) error {
	if err := s.atRest(row); err != nil {
		return err
	}
	if row.Owner == "" {
		return nil
	}
	o, err := s.owner.look(row.Owner)
	if err == nil && o.Alive {
		err = &engine.BusyError{Thread: row.ThreadID, Owner: o}
	}
	return err
}

// cut is the last entry of the last turn that is over a limit; 0 if none is.
// A turn begins with an input or a fork.
func (s *Store) cut(ctx context.Context, tx *sqlx.Tx, row *threadRow, keep Retention) (int64, error) {
	var begins []struct {
		Seq   int64 `db:"seq"`
		Ended int64 `db:"ended"` // time of the entry before it
	}
	err := tx.SelectContext(ctx, &begins, `SELECT seq,
		coalesce((SELECT at FROM checkpoints AS before WHERE before.no = checkpoints.no AND before.seq = checkpoints.seq - 1), 0) AS ended`+
		wholeRows+` AND kind IN ('input', 'fork') ORDER BY seq`, row.No)
	if err != nil {
		return 0, fmt.Errorf("read thread %s: %w", row.ThreadID, err)
	}
	first := 0 // the turn that stays
	if keep.Turns > 0 {
		first = max(0, len(begins)-keep.Turns)
	}
	if keep.Age > 0 {
		// Order is the number and never the clock: a turn that seems to be old
		// behind one that is not stays.
		limit := toMS(s.opts.Clock.Now().Add(-keep.Age))
		for i := 1; i < len(begins) && begins[i].Ended < limit; i++ {
			first = max(first, i)
		}
	}
	if first == 0 {
		return 0, nil
	}
	return begins[first].Seq - 1, nil
}

// payloads are those up to an entry that a prune removes, and that are there.
func (s *Store) payloads(ctx context.Context, tx *sqlx.Tx, no, upTo int64) (out []removable, err error) {
	err = tx.SelectContext(ctx, &out, `SELECT seq, length(payload) AS bytes FROM checkpoints
		WHERE no = ? AND seq <= ? AND payload IS NOT NULL AND kind IN ('input', 'step', 'update', 'fork', 'graph') ORDER BY seq`, no, upTo)
	return out, err
}

func payloadSize(ctx context.Context, tx *sqlx.Tx, no, seq int64) (n int64, err error) {
	err = tx.GetContext(ctx, &n, `SELECT length(payload) FROM checkpoints WHERE no = ? AND seq = ?`, no, seq)
	return n, err
}

func sum(list []removable) (bytes int64) {
	for _, r := range list {
		bytes += r.Bytes
	}
	return bytes
}

func removePayloads(ctx context.Context, c *conn, no int64, list []removable) error {
	for _, r := range list {
		if _, err := c.exec(ctx, `UPDATE checkpoints SET payload = NULL WHERE no = ? AND seq = ?`, no, r.Seq); err != nil {
			return err
		}
	}
	return nil
}

// recordPrune appends the prune entry of a commit behind head, and in the same
// transaction does what it says.
func (s *Store) recordPrune(ctx context.Context, thread string, head int64, by engine.By, commit *engine.Commit, also func(ctx context.Context, c *conn, no int64) error) error {
	opened, err := s.Open(ctx, thread)
	if err != nil {
		return err
	}
	l := opened.(*Log)
	defer func() { _ = l.Close() }() // it holds no lease, and so gives none back
	view := l.View()
	if view.Thread.Head != head {
		return conflict(thread, "the newest entry is %d, not %d any more", view.Thread.Head, head)
	}
	e := commit.Entries[0]
	e.Kind, e.Status, e.Turn, e.Next = engine.KindPrune, view.Thread.Status, view.Thread.Turn, view.Head.Next
	e.Payload.Edit = by.Record()
	if e.Actor = by.Actor; e.Actor == "" {
		e.Actor = e.Payload.Edit.OSUser
	}
	for i := range view.Tail {
		// Where the thread stands is asked of its newest entry.
		if at := &view.Tail[i]; at.Namespace == "" {
			e.Step = at.Step
			e.Payload.End = nil
			if at.Status == view.Thread.Status {
				e.Payload.End = at.Payload.End
			}
		}
	}
	p, err := l.plan(commit)
	if err != nil {
		return err
	}
	return s.write.do(ctx, &job{landed: p.landed, apply: func(ctx context.Context, c *conn) error {
		now, err := readThread(ctx, c, p.known.No)
		if err != nil {
			return err
		}
		if engine.Status(now.Status) != engine.Deleted {
			if err := s.free(now); err != nil {
				return err
			}
		}
		if err := p.apply(ctx, c); err != nil {
			return err
		}
		return also(ctx, c, p.known.No)
	}})
}
