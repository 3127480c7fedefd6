package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// Thread is a thread's row: what it is, and its facts. It reads nothing of the
// log. ErrNotFound, ErrDeleted.
func (s *Store) Thread(ctx context.Context, thread string) (engine.Thread, error) {
	var t engine.Thread
	err := s.inTx(ctx, func(tx *sqlx.Tx) error {
		row, err := s.findThread(ctx, tx, thread)
		if err != nil {
			return err
		}
		t, err = s.thread(&row, row.CrashBase)
		return err
	})
	return t, err
}

// ChangeFacts changes the facts of a thread (Cwd, Roots, Title, Mode, Options)
// and gives the thread as it is then. They are no part of the log, so it does
// not matter who moves the thread; and it reads, changes and writes in one
// transaction, so that of two changes at once none is lost. change may be called
// more than once, and must do the same again; its error ends it, and nothing is
// changed.
func (s *Store) ChangeFacts(ctx context.Context, thread string, change func(*engine.Thread) error) (engine.Thread, error) {
	var after threadRow
	// Without landed: the same change again does no harm.
	err := s.write.do(ctx, &job{
		apply: func(ctx context.Context, c *conn) error {
			row, err := s.row(ctx, c, thread)
			if err != nil {
				return err
			}
			facts, err := row.thread(s.path)
			if err != nil {
				return err
			}
			if err := change(&facts); err != nil {
				return fmt.Errorf("%w (%w)", err, engine.ErrInvalid)
			}
			after = *row
			if err := after.setFacts(&facts); err != nil {
				return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
			}
			if after == *row {
				return nil
			}
			return after.update(ctx, c)
		},
	})
	if err != nil {
		return engine.Thread{}, fmt.Errorf("change the facts of thread %s: %w", thread, err)
	}
	return s.thread(&after, after.CrashBase)
}

// row reads a thread inside of a transaction.
func (s *Store) row(ctx context.Context, c *conn, thread string) (*threadRow, error) {
	var no int64
	err := c.row(ctx, `SELECT no FROM threads WHERE thread_id = ?`, []any{thread}, &no)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("thread %s: %w", thread, engine.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	row, err := readThread(ctx, c, no)
	if err == nil && engine.Status(row.Status) == engine.Deleted {
		err = fmt.Errorf("thread %s: %w", thread, engine.ErrDeleted)
	}
	return row, err
}
