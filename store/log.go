package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// Log is a handle on one thread. What it knows is what it read, kept up by its
// own commits; every guard in the file compares against that.
//
// Lock order: order, then mu. order keeps Puts, which may run side by side, and
// commits apart: a commit that moves the base must find every result that was
// put before it. mu guards what the handle knows.
type Log struct {
	s     *Store
	order sync.RWMutex

	mu     sync.Mutex
	row    threadRow
	view   engine.View
	bases  map[string]int64
	turn   turnFacts
	mine   bool // it holds the lease, as far as it knows
	closed bool
	create *engine.Thread // what New was given, until the first commit
	tally
}

var _ engine.Log = (*Log)(nil)

// Open reads what is needed to go on with a thread.
func (s *Store) Open(ctx context.Context, thread string) (engine.Log, error) {
	l := &Log{s: s, row: threadRow{ThreadID: thread}}
	if err := l.Reload(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// New is a log for a thread that does not exist yet.
func (s *Store) New(ctx context.Context, t engine.Thread) (engine.Log, error) {
	return s.newLog(ctx, t)
}

func (s *Store) newLog(ctx context.Context, t engine.Thread) (*Log, error) {
	if err := engine.CheckThreadID(t.ID); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrInvalid, err)
	}
	err := s.inTx(ctx, func(tx *sqlx.Tx) error {
		_, err := s.findThread(ctx, tx, t.ID)
		return err
	})
	// That it exists is for the commit to say, which knows it for certain.
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	if t.Status == "" {
		t.Status = engine.Done
	}
	t.Head, t.Fence, t.Crashes, t.Owner, t.Lease, t.CancelRequested = 0, 0, 0, nil, engine.LeaseFree, false
	l := &Log{s: s, create: &t, bases: make(map[string]int64)}
	l.row = threadRow{
		ThreadID: t.ID, Graph: t.Graph, GraphName: t.GraphName, Status: string(t.Status), Turn: t.Turn,
		Lease: engine.LeaseFree.String(),
	}
	if err := l.row.setFacts(&t); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrInvalid, err)
	}
	l.view = engine.View{Thread: t, State: make(map[string]any)}
	return l, nil
}

// Create makes a thread that has no turn yet. ErrExists, ErrDeleted.
func (s *Store) Create(ctx context.Context, t engine.Thread) error {
	t.Status, t.Turn = engine.Done, 0
	l, err := s.newLog(ctx, t)
	if err != nil {
		return err
	}
	return errors.Join(l.Commit(ctx, &engine.Commit{Leave: engine.LeaseFree}), l.Close())
}

// View is the thread as this handle knows it: a copy, which later commits and
// results do not change.
func (l *Log) View() *engine.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view
	return &v
}

// Reload reads the thread anew. A lease that this handle holds stays as it is;
// if somebody took the thread over meanwhile, it is known to be lost.
func (l *Log) Reload(ctx context.Context) error {
	l.order.Lock()
	defer l.order.Unlock()
	if l.closed {
		return errClosedLog(l.row.ThreadID)
	}
	var read *loaded
	err := l.s.inTx(ctx, func(tx *sqlx.Tx) (err error) {
		read, err = l.s.load(ctx, tx, l.row.ThreadID, 0)
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine && (read.row.Fence != l.row.Fence || read.row.Owner != l.s.owner.id) {
		l.mine = false
		l.s.hold(read.row.No, l, false)
	}
	l.row, l.view, l.bases, l.turn, l.tally = read.row, read.view, read.bases, read.turn, read.tally
	l.create = nil
	return nil
}

func errClosedLog(thread string) error {
	return fmt.Errorf("thread %s: this handle is closed: %w", thread, ErrClosed)
}

const insertResult = `INSERT INTO results (no, base, task, n, kind, key, value, at)
	SELECT ?, ?, ?, ?, ?, ?, ?, ? FROM threads WHERE no = ? AND fence = ? AND owner = ?
	ON CONFLICT DO NOTHING`

// Put stores a result of the current base. It may run beside other Puts.
func (l *Log) Put(ctx context.Context, r engine.Result) error {
	l.order.RLock()
	defer l.order.RUnlock()
	l.mu.Lock()
	thread, no, fence, base, mine := l.row.ThreadID, l.row.No, l.row.Fence, l.bases[""], l.mine
	l.mu.Unlock()
	if r.Base == 0 {
		r.Base = base
	}
	if !mine {
		return conflict(thread, "this handle does not hold the lease, so it cannot store results")
	}
	if r.At.IsZero() {
		r.At = l.s.opts.Clock.Now()
	}
	r.At = fromMS(toMS(r.At))
	if r.Value == nil {
		r.Value = []byte("null")
	}
	scope := l.s.path
	err := l.s.write.do(ctx, &job{
		single: true,
		apply: func(ctx context.Context, c *conn) error {
			// If the process dies here, the task has finished and nobody knows:
			// it runs again, unless it had written an intent.
			if err := failpoint.HitIn("store.put.before", scope); err != nil {
				return err
			}
			n, err := c.exec(ctx, insertResult, no, r.Base, r.Task, r.N, string(r.Kind), r.Key, r.Value, toMS(r.At), no, fence, l.s.owner.id)
			if err != nil {
				return err
			}
			if n == 0 {
				return l.refusedPut(ctx, c, no, fence, &r)
			}
			// If the process dies here, the result is stored: whoever takes the
			// thread finds it and does not run the task again (rule 5).
			return failpoint.HitIn("store.put.after", scope)
		},
		landed: func(ctx context.Context, c *conn) (bool, error) {
			// The key cannot be another's while the fence is ours, but a second
			// Put of the same key has to be told from the first.
			var n int
			err := c.row(ctx, `SELECT count(*) FROM results WHERE no = ? AND base = ? AND task = ? AND n = ? AND kind = ? AND key = ? AND value = ? AND at = ?`,
				[]any{no, r.Base, r.Task, r.N, string(r.Kind), r.Key, r.Value, toMS(r.At)}, &n)
			return n > 0, err
		},
	})
	if err != nil {
		return fmt.Errorf("store result %d of task %s: %w", r.N, r.Task, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view.Results = append(l.view.Results, r) // who has the old view does not see it
	return nil
}

func (l *Log) refusedPut(ctx context.Context, c *conn, no, fence int64, r *engine.Result) error {
	now, err := readThread(ctx, c, no)
	if err != nil {
		return err
	}
	if now.Fence != fence || now.Owner != l.s.owner.id {
		return conflict(now.ThreadID, "another process took the thread over")
	}
	return conflict(now.ThreadID, "result %d of task %s is stored already", r.N, r.Task)
}

// readThread reads a row by its number inside of a commit.
func readThread(ctx context.Context, c *conn, no int64) (*threadRow, error) {
	s, err := c.stmt(ctx, selectThreadByNo)
	if err != nil {
		return nil, err
	}
	row := new(threadRow)
	if err := row.scan(s.QueryRowContext(ctx, no)); err != nil {
		return nil, err
	}
	return row, nil
}

// Close gives the handle back, and the lease if it still holds it. Closing it
// in the middle of a turn is no crash: the turn can be resumed.
func (l *Log) Close() error {
	l.order.Lock()
	defer l.order.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if !l.mine {
		return nil
	}
	l.mine = false
	l.s.hold(l.row.No, l, false)
	// If the process dies before this is committed, it died holding the lease,
	// and that is what the next owner finds.
	err := l.s.write.do(context.Background(), &job{single: true, apply: func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, `UPDATE threads SET owner = '', lease = 'free' WHERE no = ? AND fence = ? AND owner = ?`,
			l.row.No, l.row.Fence, l.s.owner.id)
		return err
	}})
	if err != nil {
		return fmt.Errorf("release thread %s: %w", l.row.ThreadID, err)
	}
	return nil
}
