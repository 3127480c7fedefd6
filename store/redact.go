package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// Redact removes the payload of one entry, THREAD@SEQ, for good. The row and its
// hashes stay, and an entry of the log says who removed it and why. The state at
// the head stays what it was, and is kept in that entry if it needed the
// payload; states between the two cannot be read any more. So what must not be
// in the state either has to be overwritten first.
//
// Redacting it again is fine, and adds nothing. ErrInvalid if the turn under way
// needs the entry; ErrBusy if a process holds the thread.
func (s *Store) Redact(ctx context.Context, checkpoint string, by engine.By) (Pruned, error) {
	for attempt := 0; ; attempt++ {
		pruned, err := s.redact(ctx, checkpoint, by)
		if errors.Is(err, engine.ErrConflict) && attempt < maxTries {
			continue // somebody appended meanwhile
		}
		if err != nil && !refusal(err) {
			err = fmt.Errorf("redact %s: %w", checkpoint, err)
		}
		return pruned, err
	}
}

func (s *Store) redact(ctx context.Context, checkpoint string, by engine.By) (Pruned, error) {
	thread, seq, err := engine.ParseCheckpointID(checkpoint)
	if err == nil && seq == 0 {
		err = fmt.Errorf("%q is a thread, and no entry of one", checkpoint)
	}
	if err != nil {
		return Pruned{}, fmt.Errorf("redact: %w: %w", engine.ErrInvalid, err)
	}
	out := Pruned{Thread: thread, UpTo: seq}
	e := &engine.Entry{Payload: engine.Payload{Redacts: []string{checkpoint}}}
	var target engine.Entry
	var head int64
	err = s.inTx(ctx, func(tx *sqlx.Tx) error {
		row, err := s.findThread(ctx, tx, thread)
		if err != nil {
			return err
		}
		if seq > row.Head {
			return fmt.Errorf("checkpoint %s: %w; the newest is %s", checkpoint, engine.ErrNotFound, engine.CheckpointID(thread, row.Head))
		}
		if err := s.free(&row); err != nil {
			return err
		}
		head = row.Head
		if target, err = s.oneEntry(ctx, tx, &row, seq); err != nil || target.Removed {
			return err
		}
		l, err := s.load(ctx, tx, thread, 0)
		if err != nil {
			return err
		}
		status := l.view.Thread.Status
		if needed := seq >= l.bases[""] || seq == l.turn.inputSeq; needed && (!status.Over() || status == engine.Failed) {
			return fmt.Errorf("redact %s: %w: the turn under way (%s) needs it; end that first, with a cancel or a new input", checkpoint, engine.ErrInvalid, status)
		}
		// A prune entry says more than which state it keeps, and its word for
		// what is gone has to be kept.
		if target.Kind == engine.KindPrune {
			e.Payload.Redacts = append(e.Payload.Redacts, target.Payload.Redacts...)
			e.Payload.Pruned = target.Payload.Pruned
		}
		whole, err := s.wholeWithout(ctx, tx, &row, seq)
		if err != nil {
			return err
		}
		if stateful := target.Kind.ChangesState() && target.Namespace == "" || target.Payload.State != nil; stateful && whole < seq {
			e.Payload.State, e.Payload.From = l.view.State, engine.CheckpointID(thread, head)
		}
		out.Entries = 1
		if out.Bytes, err = payloadSize(ctx, tx, row.No, seq); err != nil {
			return err
		}
		payload, err := appendPayload(newSalt(), &e.Payload)
		out.Kept = int64(len(payload))
		return err
	})
	if err != nil || out.Entries == 0 {
		return out, err
	}
	err = s.recordPrune(ctx, thread, head, by, &engine.Commit{Entries: []*engine.Entry{e}}, func(ctx context.Context, c *conn, no int64) error {
		return scrub(ctx, c, no, &target)
	})
	if err == nil {
		// So that nothing that was removed is left in the write-ahead log. If a
		// reader or a writer is in the way, this is done when the file is idle.
		_, _ = s.emptyWAL(context.WithoutCancel(ctx))
	}
	return out, err
}

// wholeWithout is the newest entry whose state the log holds without the
// payload of entry seq.
func (s *Store) wholeWithout(ctx context.Context, tx *sqlx.Tx, row *threadRow, seq int64) (int64, error) {
	newest := int64(0)
	prunes, err := s.prunes(ctx, tx, row)
	for i := range prunes {
		if p := &prunes[i]; p.state != nil && p.entry.Seq != seq {
			newest = max(newest, p.cut)
		}
	}
	if err != nil {
		return 0, err
	}
	var fork int64
	err = tx.GetContext(ctx, &fork, `SELECT coalesce(max(seq), 0)`+wholeRows+` AND kind = 'fork' AND seq <> ? AND payload IS NOT NULL`, row.No, seq)
	return max(newest, fork-1), err
}

// scrub removes a payload and every copy of it, and has SQLite overwrite the
// bytes instead of only forgetting where they are.
func scrub(ctx context.Context, c *conn, no int64, e *engine.Entry) error {
	if _, err := c.sql.ExecContext(ctx, `PRAGMA secure_delete = ON`); err != nil {
		return err
	}
	defer func() {
		// Only speed depends on it.
		_, _ = c.sql.ExecContext(ctx, `PRAGMA secure_delete = OFF`)
	}()
	if err := removePayloads(ctx, c, no, []removable{{Seq: e.Seq}}); err != nil {
		return err
	}
	for _, copied := range []string{
		`DELETE FROM snapshots WHERE no = ? AND seq >= ?`, // of states that may hold it
		`DELETE FROM interrupts WHERE no = ? AND seq = ?`,
		`UPDATE interrupts SET answer = NULL WHERE no = ? AND answer_seq = ?`,
	} {
		if _, err := c.exec(ctx, copied, no, e.Seq); err != nil {
			return err
		}
	}
	if e.Kind != engine.KindInput {
		return nil
	}
	var title string
	if err := c.row(ctx, `SELECT title FROM threads WHERE no = ?`, []any{no}, &title); err != nil {
		return err
	}
	if !titled(e, title) {
		return nil
	}
	_, err := c.exec(ctx, `UPDATE threads SET title = '' WHERE no = ?`, no)
	return err
}

// titled reports whether the title of a thread may be words of an input. It is
// made of the first one, usually.
func titled(e *engine.Entry, title string) bool {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	begin := words(strings.TrimRight(title, ".…"))
	return begin != "" && (e.Turn == 1 || e.Payload.Input != nil && strings.Contains(words(e.Payload.Input.Text), begin))
}
