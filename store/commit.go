package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

// insertEntry is rule 3: the key is the compare-and-set, and the fence is part
// of the same statement. ON CONFLICT DO NOTHING makes a lost race 0 rows and
// not an error.
const insertEntry = `INSERT INTO checkpoints (no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload)
	SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM threads
	WHERE no = ? AND fence = ? AND (cancel_requested = '' OR ?) AND NOT EXISTS (` + selectGone + `)
	ON CONFLICT DO NOTHING`

// insert gives the number of rows that it added: 0 if the commit is lost.
func (r *entryRow) insert(ctx context.Context, c *conn, no, fence int64, cancels bool) (int64, error) {
	args := []any{no, r.Seq, r.Base, r.NS, r.Kind, r.Status, r.Turn, r.Step, r.Parent, r.Tasks, r.Next, r.Actor,
		r.At, r.PayloadHash, r.Hash, r.Payload, no, fence, cancels}
	n, err := c.exec(ctx, insertEntry, args...)
	if err != nil || n > 0 {
		return n, err
	}
	if n, err = c.exec(ctx, insertAfterGone, args...); err != nil || n == 0 {
		return n, err
	}
	// If the process dies here, the next commit goes this way once more.
	_, err = c.exec(ctx, forgetGone)
	return n, err
}

// plan is a commit that was thought out against what the handle knows: what is
// to be written, and what must still hold when it is.
type plan struct {
	l     *Log
	s     *Store
	c     *engine.Commit
	known threadRow // what the handle knows
	new   bool      // the thread does not exist yet
	mine  bool
	base  int64 // before it
	have  int   // results of that base

	rows    []entryRow
	bases   map[string]int64
	cancels bool    // an entry ends the turn as cancelled
	settles bool    // an entry moves the base
	left    []int64 // bases of subgraphs that an entry moves on from
	turn    turnFacts
	bytes   int64

	after threadRow // set by apply: the thread after it
}

// Commit is one transaction on the thread; see engine.Log.
func (l *Log) Commit(ctx context.Context, c *engine.Commit) error {
	l.order.Lock()
	defer l.order.Unlock()
	if l.closed {
		return errClosedLog(l.row.ThreadID)
	}
	if c.RequestCancel != nil {
		return l.requestCancel(ctx, c)
	}
	p, err := l.plan(c)
	if err != nil {
		return fmt.Errorf("commit to thread %s: %w", l.row.ThreadID, err)
	}
	if c.Take != engine.TakeNone {
		if err := l.s.owner.ensure(); err != nil {
			return err
		}
	}
	j := &job{apply: p.apply, landed: p.landed}
	if p.step() {
		j.single, j.apply = true, p.applyStep
	}
	if err := l.s.write.do(ctx, j); err != nil {
		if refusal(err) {
			return err // it says what it is about
		}
		return fmt.Errorf("commit to thread %s: %w", l.row.ThreadID, err)
	}
	return l.committed(p)
}

// step reports whether the commit is one step of the holder that changes
// nothing else: one statement is enough then, and 64 threads at once pay for
// one page each and not for three.
func (p *plan) step() bool {
	return p.mine && p.c.Take == engine.TakeNone && p.c.Leave == engine.LeaseMoving && p.known.Lease == engine.LeaseMoving.String() &&
		len(p.rows) == 1 && p.rows[0].Kind == string(engine.KindStep) && p.rows[0].NS == "" &&
		p.rows[0].Status == p.known.Status && p.rows[0].Turn == p.known.Turn &&
		p.have == 0 && len(p.c.Results) == 0 && p.c.Graph == nil && p.c.Title == "" && len(p.c.Consume) == 0
}

func (p *plan) applyStep(ctx context.Context, c *conn) error {
	p.after = p.known
	p.after.Head = p.rows[0].Seq
	n, err := p.rows[0].insert(ctx, c, p.known.No, p.known.Fence, false)
	if err != nil || n == 1 {
		return err
	}
	now, err := readThread(ctx, c, p.known.No)
	if err != nil {
		return err
	}
	if err := p.guard(now); err != nil {
		return err
	}
	return conflict(p.known.ThreadID, "the entry could not be appended")
}

// apply writes the commit inside of a transaction.
func (p *plan) apply(ctx context.Context, c *conn) error {
	now, err := p.thread(ctx, c)
	if err != nil {
		return err
	}
	if err := p.guard(now); err != nil {
		return err
	}
	if p.c.Take != engine.TakeNone && !p.new {
		// Results may have come since the handle read them, from an owner that
		// died meanwhile. A finished task must not run again (rule 5).
		var have int
		if err := c.row(ctx, `SELECT count(*) FROM results WHERE no = ? AND base >= ?`, []any{now.No, p.base}, &have); err != nil {
			return err
		}
		if have != p.have {
			return conflict(now.ThreadID, "results were stored since it was read")
		}
	}
	after := *now
	if err := p.lease(&after); err != nil {
		return err
	}
	for i := range p.rows {
		n, err := p.rows[i].insert(ctx, c, now.No, now.Fence, p.cancels)
		if err != nil {
			return err
		}
		if n == 0 {
			return conflict(now.ThreadID, "entry %d is somebody else's", p.rows[i].Seq)
		}
		if err := p.questions(ctx, c, now, i); err != nil {
			return err
		}
	}
	if err := p.results(ctx, c, now.No); err != nil {
		return err
	}
	if g := p.c.Graph; g != nil {
		// The same fingerprint is the same definition, whoever stored it.
		_, err := c.exec(ctx, `INSERT INTO graphs (fingerprint, name, definition, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			g.Fingerprint, g.Name, g.Definition, toMS(p.s.opts.Clock.Now()))
		if err != nil {
			return err
		}
	}
	if err := p.signals(ctx, c, now.No); err != nil {
		return err
	}
	if err := p.follow(&after); err != nil {
		return err
	}
	if err := p.wake(ctx, c, &after); err != nil {
		return err
	}
	if after != *now {
		if err := after.update(ctx, c); err != nil {
			return err
		}
	}
	if n := len(p.rows); n > 0 {
		after.Head = p.rows[n-1].Seq
	}
	p.after = after
	return nil
}

// thread gives the row as it is in the file now; a new thread is inserted.
func (p *plan) thread(ctx context.Context, c *conn) (*threadRow, error) {
	if !p.new {
		return readThread(ctx, c, p.known.No)
	}
	row := p.known
	err := c.row(ctx, `INSERT INTO threads (thread_id, graph, graph_name, status, turn, cwd, roots, title, mode, options, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread_id) DO NOTHING RETURNING no`,
		[]any{row.ThreadID, row.Graph, row.GraphName, row.Status, row.Turn, row.Cwd, row.Roots, row.Title, row.Mode, row.Options, row.CreatedAt, row.UpdatedAt},
		&row.No)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, taken(ctx, c, row.ThreadID)
	}
	return &row, err
}

// taken says why a thread could not be created.
func taken(ctx context.Context, c *conn, thread string) error {
	var status string
	if err := c.row(ctx, `SELECT status FROM threads WHERE thread_id = ?`, []any{thread}, &status); err != nil {
		return err
	}
	if engine.Status(status) == engine.Deleted {
		return fmt.Errorf("thread %s: %w; its id cannot be used again", thread, engine.ErrDeleted)
	}
	return fmt.Errorf("thread %s: %w", thread, engine.ErrExists)
}

// guard says what does not hold any more of what the handle knows.
func (p *plan) guard(now *threadRow) error {
	if p.new {
		return nil
	}
	id := now.ThreadID
	if engine.Status(now.Status) == engine.Deleted {
		return fmt.Errorf("thread %s: %w", id, engine.ErrDeleted)
	}
	switch {
	case p.c.Take == engine.TakeFree:
		if err := p.s.mayTake(p.l, now); err != nil {
			return err
		}
	case p.c.Take == engine.TakeNone && p.mine:
		if now.Fence != p.known.Fence || now.Owner != p.s.owner.id {
			return conflict(id, "another process took the thread over")
		}
	case p.c.Take == engine.TakeNone:
		if err := p.s.atRest(now); err != nil {
			return err
		}
	}
	// Giving the lease back needs no more than the lease.
	if p.mine && p.c.Leave == engine.LeaseFree && p.onlyLease() {
		return nil
	}
	if now.Head != p.known.Head {
		return conflict(id, "the newest entry is %d, not %d any more", now.Head, p.known.Head)
	}
	if p.c.Take != engine.TakeNone && now.Fence != p.known.Fence {
		return conflict(id, "another process has had the thread meanwhile")
	}
	if now.CancelRequested != "" && len(p.rows) > 0 && !p.cancels {
		return fmt.Errorf("thread %s: %w", id, engine.ErrCancelRequested)
	}
	return nil
}

func (p *plan) onlyLease() bool {
	return len(p.rows) == 0 && p.c.Take == engine.TakeNone && len(p.c.Results) == 0 && p.c.Graph == nil && p.c.Title == "" && p.c.Status == ""
}

// lease changes row as the commit's Take and Leave do.
func (p *plan) lease(row *threadRow) error {
	if p.c.Take == engine.TakeNone && !p.mine {
		return nil // at rest the lease stays what it is
	}
	if p.c.Take != engine.TakeNone {
		if err := p.s.take(row, p.base); err != nil {
			return err
		}
	}
	row.Lease = p.c.Leave.String()
	if p.c.Leave == engine.LeaseFree {
		row.Owner = ""
	}
	return nil
}

// follow makes the row follow the entries.
func (p *plan) follow(row *threadRow) error {
	before := *row
	for i := range p.rows {
		r, e := &p.rows[i], p.c.Entries[i]
		row.Status, row.Turn = r.Status, r.Turn
		if in := e.Payload.Input; in != nil && e.Namespace == "" {
			row.Graph, row.GraphName = in.Graph, in.Name
		}
	}
	if len(p.rows) == 0 && p.c.Status != "" {
		row.Status = string(p.c.Status)
	}
	if n := len(p.rows); n > 0 && (p.new || row.Status != before.Status || row.Turn != before.Turn || row.Graph != before.Graph) {
		row.UpdatedAt = p.rows[n-1].At
	}
	if p.cancels {
		row.CancelRequested = ""
	}
	if row.Title == "" {
		row.Title = p.c.Title
	}
	return nil
}

func (t *threadRow) update(ctx context.Context, c *conn) error {
	_, err := c.exec(ctx, `UPDATE threads SET graph = ?, graph_name = ?, status = ?, turn = ?, owner = ?, lease = ?, fence = ?,
		crashes = ?, crash_base = ?, wake_at = ?, cancel_requested = ?, cwd = ?, roots = ?, title = ?, mode = ?, options = ?, updated_at = ? WHERE no = ?`,
		t.Graph, t.GraphName, t.Status, t.Turn, t.Owner, t.Lease, t.Fence, t.Crashes, t.CrashBase, t.WakeAt, t.CancelRequested,
		t.Cwd, t.Roots, t.Title, t.Mode, t.Options, t.UpdatedAt, t.No)
	return err
}

// signals takes away those that the entries used, and at the end of a turn
// those that nobody waited for.
func (p *plan) signals(ctx context.Context, c *conn, no int64) error {
	for _, id := range p.c.Consume {
		n, err := c.exec(ctx, `DELETE FROM signals WHERE no = ? AND id = ?`, no, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return conflict(p.known.ThreadID, "signal %d was taken by another wait", id)
		}
	}
	if n := len(p.rows); n > 0 && !p.new && (engine.Status(p.rows[n-1].Status).Over() || p.rows[0].Kind == string(engine.KindInput)) {
		_, err := c.exec(ctx, `DELETE FROM signals WHERE no = ?`, no)
		return err
	}
	return nil
}

// wake keeps the time at which a thread at rest has something to do by itself:
// the first deadline or timer of its open questions.
func (p *plan) wake(ctx context.Context, c *conn, row *threadRow) error {
	before := row.WakeAt
	row.WakeAt = sql.NullInt64{}
	switch engine.Status(row.Status) {
	case engine.Paused, engine.Sleeping:
	default:
		return nil
	}
	if len(p.rows) == 0 {
		row.WakeAt = before
		return nil
	}
	return c.row(ctx, `SELECT min(deadline) FROM interrupts WHERE no = ? AND state = 'pending'`, []any{row.No}, &row.WakeAt)
}

// results stores those of the commit, or settles all there are.
func (p *plan) results(ctx context.Context, c *conn, no int64) error {
	if p.settles {
		// What rode in this commit is settled with the rest.
		_, err := c.exec(ctx, `DELETE FROM results WHERE no = ?`, no)
		return err
	}
	for _, base := range p.left {
		if _, err := c.exec(ctx, `DELETE FROM results WHERE no = ? AND base = ?`, no, base); err != nil {
			return err
		}
	}
	for i := range p.c.Results {
		r := &p.c.Results[i]
		n, err := c.exec(ctx, `INSERT INTO results (no, base, task, n, kind, key, value, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			no, r.Base, r.Task, r.N, string(r.Kind), r.Key, r.Value, toMS(r.At))
		if err != nil {
			return err
		}
		if n == 0 {
			return conflict(p.known.ThreadID, "result %d of task %s is stored already", r.N, r.Task)
		}
	}
	return nil
}

// landed is rule 4: whose row is it?
func (p *plan) landed(ctx context.Context, c *conn) (bool, error) {
	var no int64
	var status string
	err := c.row(ctx, `SELECT no, status FROM threads WHERE thread_id = ?`, []any{p.known.ThreadID}, &no, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(p.rows) == 0 {
		now, err := readThread(ctx, c, no)
		if err != nil {
			return false, err
		}
		want := p.after
		want.No = no
		// A take is known by its fence, of which there is one; all else that a
		// commit without entries does can be done again.
		return *now == want, nil
	}
	last := &p.rows[len(p.rows)-1]
	var hash []byte
	err = c.row(ctx, `SELECT hash FROM checkpoints WHERE no = ? AND seq = ?`, []any{no, last.Seq}, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(hash, last.Hash):
		return false, conflict(p.known.ThreadID, "entry %d is somebody else's", last.Seq)
	}
	p.after.No = no
	return true, nil
}

// requestCancel asks the living holder to cancel.
func (l *Log) requestCancel(ctx context.Context, c *engine.Commit) error {
	if c.Take != engine.TakeNone || len(c.Entries) > 0 || len(c.Results) > 0 || c.Graph != nil || c.Title != "" || c.Status != "" {
		return fmt.Errorf("%w: a commit that requests a cancel does nothing else", engine.ErrInvalid)
	}
	by, err := json.Marshal(c.RequestCancel)
	if err != nil {
		return err
	}
	no := l.row.No
	return l.s.write.do(ctx, &job{single: true, apply: func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, `UPDATE threads SET cancel_requested = ? WHERE no = ? AND owner <> '' AND status IN ('running', 'paused', 'sleeping')`, string(by), no)
		if err != nil || n > 0 {
			return err
		}
		// Nobody is there to take the flag in, and it must not hit the next turn.
		return conflict(l.row.ThreadID, "nobody holds it any more, or its turn is over")
	}})
}
