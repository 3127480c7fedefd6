package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// Signal stores a signal for the turn under way. A wait takes it, now or
// later; the end of the turn drops it. ErrInvalid if no turn is under way.
func (s *Store) Signal(ctx context.Context, thread string, sig engine.Signal) error {
	text, err := value.Marshal(sig.Value)
	if err != nil {
		return fmt.Errorf("signal %s: %w: %w", sig.Name, engine.ErrInvalid, err)
	}
	if sig.At.IsZero() {
		sig.At = s.opts.Clock.Now()
	}
	err = s.write.do(ctx, &job{single: true,
		apply: func(ctx context.Context, c *conn) error {
			n, err := c.exec(ctx, `INSERT INTO signals (no, name, value, actor, via, at)
				SELECT no, ?, ?, ?, ?, ? FROM threads WHERE thread_id = ? AND status IN ('running', 'paused', 'sleeping')`,
				sig.Name, string(text), sig.Actor, sig.Via, toMS(sig.At), thread)
			if err != nil || n == 1 {
				return err
			}
			var status string
			if err := c.row(ctx, `SELECT status FROM threads WHERE thread_id = ?`, []any{thread}, &status); err != nil {
				if errors.Is(err, sql.ErrNoRows) {
					return fmt.Errorf("thread %s: %w", thread, engine.ErrNotFound)
				}
				return err
			}
			if engine.Status(status) == engine.Deleted {
				return fmt.Errorf("thread %s: %w", thread, engine.ErrDeleted)
			}
			return fmt.Errorf("thread %s has no turn under way (%s), so nobody will wait for a signal: %w", thread, status, engine.ErrInvalid)
		},
		landed: func(ctx context.Context, c *conn) (bool, error) {
			// Two equal signals of one millisecond cannot be told apart, and one
			// of them being stored twice is what must not happen.
			var n int
			err := c.row(ctx, `SELECT count(*) FROM signals JOIN threads USING (no) WHERE thread_id = ? AND name = ? AND value = ? AND signals.actor = ? AND at = ?`,
				[]any{thread, sig.Name, string(text), sig.Actor, toMS(sig.At)}, &n)
			return n > 0, err
		},
	})
	if err != nil {
		return fmt.Errorf("store signal %s: %w", sig.Name, err)
	}
	return nil
}

func readSignals(ctx context.Context, tx *sqlx.Tx, no int64) ([]engine.Signal, error) {
	var rows []struct {
		ID    int64  `db:"id"`
		Name  string `db:"name"`
		Value string `db:"value"`
		Actor string `db:"actor"`
		Via   string `db:"via"`
		At    int64  `db:"at"`
	}
	if err := tx.SelectContext(ctx, &rows, `SELECT id, name, value, actor, via, at FROM signals WHERE no = ? ORDER BY id`, no); err != nil {
		return nil, err
	}
	var out []engine.Signal
	for _, r := range rows {
		v, err := value.Decode([]byte(r.Value))
		if err != nil {
			return nil, fmt.Errorf("signal %d: %w", r.ID, err)
		}
		out = append(out, engine.Signal{ID: r.ID, Name: r.Name, Value: v, Actor: r.Actor, Via: r.Via, At: fromMS(r.At)})
	}
	return out, nil
}
