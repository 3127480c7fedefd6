package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

// Delete removes a thread: its log, snapshots, results, questions and signals,
// in one transaction. A row with its id and the status deleted stays, so that
// neither a late write nor a new thread of that name brings it back. ErrBusy if
// a living process moves it; ErrNotFound if there is none; deleting it again is
// fine. Graph definitions stay: other threads may share them.
func (s *Store) Delete(ctx context.Context, thread string) error {
	err := s.write.do(ctx, &job{
		apply: func(ctx context.Context, c *conn) error {
			var no int64
			err := c.row(ctx, `SELECT no FROM threads WHERE thread_id = ?`, []any{thread}, &no)
			if errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("thread %s: %w", thread, engine.ErrNotFound)
			}
			if err != nil {
				return err
			}
			row, err := readThread(ctx, c, no)
			if err != nil {
				return err
			}
			if engine.Status(row.Status) == engine.Deleted {
				return nil
			}
			if err := s.mayTake(nil, row); err != nil {
				return err
			}
			if _, err := c.exec(ctx, rememberGone); err != nil {
				return err
			}
			for _, table := range []string{"results", "signals", "interrupts", "snapshots", "checkpoints"} {
				if _, err := c.exec(ctx, `DELETE FROM `+table+` WHERE no = ?`, no); err != nil {
					return err
				}
			}
			if _, err := c.exec(ctx, forgetGone); err != nil {
				return err
			}
			// The fence goes up, so that an owner that was only thought dead is
			// refused like any other.
			_, err = c.exec(ctx, `UPDATE threads SET status = 'deleted', graph = '', graph_name = '', turn = 0, owner = '', lease = 'free',
				fence = fence + 1, crashes = 0, crash_base = 0, wake_at = NULL, cancel_requested = '', cwd = '', roots = '[]', title = '',
				mode = '', options = '{}', updated_at = ? WHERE no = ?`, toMS(s.opts.Clock.Now()), no)
			return err
		},
		landed: func(ctx context.Context, c *conn) (bool, error) {
			var status string
			err := c.row(ctx, `SELECT status FROM threads WHERE thread_id = ?`, []any{thread}, &status)
			if errors.Is(err, sql.ErrNoRows) {
				return false, nil
			}
			return engine.Status(status) == engine.Deleted, err
		},
	})
	if err != nil && !refusal(err) {
		return fmt.Errorf("delete thread %s: %w", thread, err)
	}
	return err
}
