package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// job is one commit, as a value: something that is written in one transaction,
// alone or with others.
type job struct {
	// apply writes. It may run several times, each in a transaction of its
	// own, and must then do the same again. A refusal (see there) is an answer;
	// any other error a failure.
	apply func(ctx context.Context, c *conn) error
	// single says that apply writes with one statement and no more, so that
	// alone it needs no transaction around it.
	single bool
	// landed reads back whether what apply wrote is in the file; a refusal
	// says that somebody else's is. Nil: doing it again does no harm.
	landed func(ctx context.Context, c *conn) (bool, error)

	err  error
	done chan struct{} // closed when err is final
	lead chan struct{} // closed when the job's own goroutine must go on as leader
}

// writer owns the one connection that writes.
//
// When nobody else writes, the caller's own goroutine does: handing a commit to
// another one costs more than a tenth of it. Whoever comes meanwhile waits in
// the queue; the first of those leads next, and takes up to maxGroup waiting
// jobs into one transaction.
type writer struct {
	path    string
	db      *sqlx.DB
	timeout time.Duration // of one job, from submit to its end

	mu     sync.Mutex
	busy   bool // somebody leads
	closed bool
	queue  []*job
	idle   chan struct{} // closed when closed and the last job has ended

	conn *conn // only for who leads; nil if it was dropped

	wrote   func()         // told after every group
	grouped func(jobs int) // told of every group before it is written; nil but in benchmarks
}

const (
	maxGroup = 256
	maxTries = 3
)

// conn is the writing connection with its prepared statements.
type conn struct {
	sql   *sql.Conn
	stmts map[string]*sql.Stmt
}

func (c *conn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.sql.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs a prepared statement and gives the number of rows that it changed.
func (c *conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row runs a prepared query for one row.
func (c *conn) row(ctx context.Context, query string, args []any, into ...any) error {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(ctx, args...).Scan(into...)
}

// connect gives the connection, a new one if the last was dropped.
func (w *writer) connect(ctx context.Context) (*conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}
	c, err := w.db.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w.conn = &conn{sql: c, stmts: make(map[string]*sql.Stmt)}
	return w.conn, nil
}

// drop closes the connection, and with it whatever was begun on it.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	c := w.conn
	w.conn = nil
	for _, s := range c.stmts {
		_ = s.Close() // the connection goes with it
	}
	// ErrBadConn makes database/sql close the connection instead of keeping it.
	_ = c.sql.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.sql.Close()
}

// do runs a job to its end: nil, a refusal, a failure of which nothing was
// stored, or ErrUnknown. The caller cannot cancel it (rule 8): a commit that is
// given up in the middle would be one whose outcome nobody knows.
func (w *writer) do(ctx context.Context, j *job) error {
	if w.db == nil {
		return &FileError{Path: w.path, Kind: ErrAccess, Advice: "it was opened for a look only, so nothing of this was stored"}
	}
	ctx = context.WithoutCancel(ctx)
	deadline := clock.Real.Now().Add(w.timeout)

	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	if !w.busy {
		w.busy = true
		w.mu.Unlock()
		w.run(ctx, []*job{j}, deadline)
		w.next()
		return j.err
	}
	j.done, j.lead = make(chan struct{}), make(chan struct{})
	w.queue = append(w.queue, j)
	w.mu.Unlock()

	late, stop := clock.Real.After(w.timeout)
	defer stop()
	select {
	case <-j.done:
		return j.err
	case <-j.lead:
	case <-late:
		if w.withdraw(j) {
			return &FileError{Path: w.path, Kind: ErrLocked,
				Advice: fmt.Sprintf("nothing of it was stored: other commits of this process took longer than %v", w.timeout)}
		}
		// Somebody has just taken it, and will end it or hand it the lead.
		select {
		case <-j.done:
			return j.err
		case <-j.lead:
		}
	}
	group := w.take(j)
	w.run(ctx, group, clock.Real.Now().Add(w.timeout))
	w.next()
	return j.err
}

// take gives the group that j leads: j itself, and those that wait behind it.
func (w *writer) take(j *job) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxGroup-1)
	group := append([]*job{j}, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

func (w *writer) withdraw(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// next hands the lead on.
func (w *writer) next() {
	w.wrote()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.queue) > 0:
		j := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		close(j.lead)
	case w.closed:
		close(w.idle) // and stays busy, for good
	default:
		w.busy = false
	}
}

// close waits for the jobs that were submitted, then closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	if !w.busy {
		close(w.idle)
		w.busy = true
	}
	w.mu.Unlock()
	<-w.idle
	w.drop()
	if w.db == nil {
		return nil // see Look
	}
	return w.db.Close()
}

// run ends every job of a group. The leader's own is the first.
func (w *writer) run(ctx context.Context, group []*job, deadline time.Time) {
	if w.grouped != nil {
		w.grouped(len(group))
	}
	if len(group) > 1 && w.together(ctx, group) {
		return
	}
	for i, j := range group {
		j.err = w.alone(ctx, j, deadline)
		if i > 0 {
			close(j.done)
		}
	}
}

// together commits a group in one transaction. False: nothing of it is known
// to be stored, and each job must be tried by itself.
func (w *writer) together(ctx context.Context, group []*job) bool {
	c, err := w.connect(ctx)
	if err != nil {
		return false
	}
	errs := make([]error, len(group))
	unknown, err := w.transact(ctx, c, func() error {
		for i, j := range group {
			if !j.single {
				if _, err := c.exec(ctx, "SAVEPOINT one"); err != nil {
					return err
				}
			}
			err := j.apply(ctx, c)
			if err != nil && !refusal(err) {
				return err
			}
			errs[i] = err
			if j.single {
				continue // refused, it has written nothing
			}
			// A guard that fails spoils only its own commit.
			if err != nil {
				if _, err := c.exec(ctx, "ROLLBACK TO one"); err != nil {
					return err
				}
			}
			if _, err := c.exec(ctx, "RELEASE one"); err != nil {
				return err
			}
		}
		return nil
	})
	if code := sqliteCode(err); !unknown && (code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED) {
		// Each of them would wait for the same lock as long again.
		for i := range errs {
			errs[i] = fileError(w.path, err)
		}
		err = nil
	}
	if err != nil {
		// Rule 4 holds for each of them by itself: alone looks first whether
		// the job is in the file, because its first try may have been this.
		w.drop()
		for i, j := range group {
			j.err = w.resolve(ctx, j)
			if i > 0 {
				close(j.done)
			}
		}
		return true
	}
	for i, j := range group {
		j.err = errs[i]
		if i > 0 {
			close(j.done)
		}
	}
	return true
}

// alone runs one job until its outcome is known, or tries and time are used up.
func (w *writer) alone(ctx context.Context, j *job, deadline time.Time) error {
	for try := 1; ; try++ {
		err, unknown := w.attempt(ctx, j)
		if err == nil || refusal(err) {
			return err
		}
		w.drop()
		if unknown {
			// Rule 4: what a failed COMMIT left behind is read back on a new
			// connection, never guessed.
			stored, rerr := w.readBack(ctx, j)
			switch {
			case rerr != nil && refusal(rerr):
				return rerr
			case rerr != nil:
				return &FileError{Path: w.path, Kind: ErrUnknown, Cause: errors.Join(err, fileError(w.path, rerr)),
					Advice: "whether the last commit was stored will be seen when the file can be read again"}
			case stored:
				return nil
			}
		}
		if !worthAnotherTry(err) || try == maxTries || clock.Real.Now().After(deadline) {
			return fileError(w.path, err)
		}
	}
}

// resolve is alone for a job that may be in the file already.
func (w *writer) resolve(ctx context.Context, j *job) error {
	stored, err := w.readBack(ctx, j)
	switch {
	case err != nil && !refusal(err):
		w.drop()
		return &FileError{Path: w.path, Kind: ErrUnknown, Cause: fileError(w.path, err),
			Advice: "whether the last commit was stored will be seen when the file can be read again"}
	case err != nil || stored:
		return err
	}
	return w.alone(ctx, j, clock.Real.Now().Add(w.timeout))
}

func (w *writer) readBack(ctx context.Context, j *job) (stored bool, err error) {
	defer recovered(&err, &stored)
	if j.landed == nil {
		return false, nil
	}
	c, err := w.connect(ctx)
	if err != nil {
		return false, err
	}
	return j.landed(ctx, c)
}

// worthAnotherTry tells a passing failure from one that will come again.
func worthAnotherTry(err error) bool {
	if errors.As(err, new(*panicked)) {
		return false
	}
	for _, kind := range []error{ErrFull, ErrAccess, ErrCorrupt, ErrNotDatabase, ErrLocked} {
		if errors.Is(fileError("", err), kind) {
			return false
		}
	}
	return true
}

// panicked is a panic in a job. It becomes an error of that job: else its leader
// would be gone, and everybody behind it would wait for good.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic in a commit: %v", p.value) }

// recovered makes an error of a panic. What the job did until then is unknown,
// as after a failed COMMIT.
func recovered(err *error, unknown *bool) {
	if v := recover(); v != nil {
		*err, *unknown = &panicked{v}, true
	}
}

// attempt tries a job once. unknown: it may have been stored in spite of err.
func (w *writer) attempt(ctx context.Context, j *job) (err error, unknown bool) {
	defer recovered(&err, &unknown)
	c, err := w.connect(ctx)
	if err != nil {
		return err, false
	}
	if !j.single {
		unknown, err = w.transact(ctx, c, func() error { return j.apply(ctx, c) })
		return err, unknown
	}
	// One statement, which commits itself: begin and before are the same
	// window here, as nothing is written before the statement is.
	if err := w.begin(); err != nil {
		return err, false
	}
	if err := w.before(); err != nil {
		return err, true
	}
	if err := j.apply(ctx, c); err != nil {
		return err, !refusal(err)
	}
	return w.after(), true
}

// transact runs f in a transaction.
func (w *writer) transact(ctx context.Context, c *conn, f func() error) (unknown bool, err error) {
	defer recovered(&err, &unknown)
	if err := w.begin(); err != nil {
		return false, err
	}
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	if err := f(); err != nil {
		if _, rerr := c.exec(ctx, "ROLLBACK"); rerr != nil {
			w.drop() // which rolls back too
		}
		return false, err
	}
	if err := w.before(); err != nil {
		return true, err
	}
	if _, err := c.exec(ctx, "COMMIT"); err != nil {
		return true, err
	}
	if err := w.after(); err != nil {
		return true, err
	}
	return false, nil
}

// begin is a crash window: nothing is written. Whoever comes next finds the
// thread as it was before this commit.
func (w *writer) begin() error { return failpoint.HitIn("store.commit.begin", w.path) }

// before is a crash window: all is written and nothing is committed. SQLite
// throws the transaction away when the file is opened next; as above.
func (w *writer) before() error { return failpoint.HitIn("store.commit.before", w.path) }

// after is a crash window: the commit is in the file, and nobody was told. The
// next process finds it and goes on behind it, so that what was stored is not
// done again. An error here is a COMMIT that failed and was applied all the
// same, as happens when the disk reports late (rule 4).
func (w *writer) after() error { return failpoint.HitIn("store.commit.after", w.path) }
