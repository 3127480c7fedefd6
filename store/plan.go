package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-agent/holdfast/engine"
)

// plan thinks a commit out: its rows, their places and their hashes. Nothing
// of it needs the file, so that commits of many threads are encoded side by
// side and only their writing is one after the other.
func (l *Log) plan(c *engine.Commit) (*plan, error) {
	p := &plan{
		l: l, s: l.s, c: c, known: l.row, new: l.create != nil, mine: l.mine,
		base: l.bases[""], have: len(l.view.Results), bases: l.bases, turn: l.turn,
	}
	if p.new {
		p.known.CreatedAt = toMS(l.s.opts.Clock.Now())
		if t := l.create.CreatedAt; !t.IsZero() {
			p.known.CreatedAt = toMS(t)
		}
		p.known.UpdatedAt = p.known.CreatedAt
	}
	if g := c.Graph; g != nil {
		// Whoever goes on with the turn trusts this definition.
		if sum := sha256.Sum256(g.Definition); hex.EncodeToString(sum[:]) != g.Fingerprint {
			return nil, fmt.Errorf("%w: graph %s: fingerprint %s is not the SHA-256 of its definition", engine.ErrInvalid, g.Name, g.Fingerprint)
		}
	}
	for i := range c.Results {
		r := &c.Results[i]
		if r.At.IsZero() {
			r.At = l.s.opts.Clock.Now()
		}
		r.At = fromMS(toMS(r.At))
		if r.Value == nil {
			r.Value = []byte("null")
		}
		if r.Base == 0 {
			r.Base = p.base
		}
	}
	if len(c.Entries) == 0 {
		return p, nil
	}
	p.bases = maps.Clone(l.bases)
	p.rows = make([]entryRow, len(c.Entries))
	seq, prev := l.view.Head.Seq, l.view.Head.Hash
	if seq == 0 {
		prev = genesis(l.row.ThreadID)
	}
	for i, e := range c.Entries {
		seq++
		if err := p.row(&p.rows[i], e, seq, prev); err != nil {
			return nil, fmt.Errorf("entry %d (%s): %w", seq, e.Kind, err)
		}
		prev = p.rows[i].Hash
	}
	return p, nil
}

// row makes the row of entry e.
func (p *plan) row(r *entryRow, e *engine.Entry, seq int64, prev []byte) error {
	if err := checkEntry(e); err != nil {
		return err
	}
	at := e.At
	if at.IsZero() {
		at = p.s.opts.Clock.Now()
	}
	*r = entryRow{
		Seq: seq, NS: e.Namespace, Kind: string(e.Kind), Status: string(e.Status), Turn: e.Turn, Step: e.Step,
		Parent: e.Parent, Actor: e.Actor, At: toMS(at),
	}
	if r.Parent == 0 {
		r.Parent = seq - 1
	}
	if e.Kind.MovesBase() {
		if e.Namespace == "" {
			// The step of the graph itself is committed: what its subgraphs
			// did for it is history.
			clear(p.bases)
			p.settles = true
		} else if old, ok := p.bases[e.Namespace]; ok {
			p.left = append(p.left, old)
		}
		p.bases[e.Namespace] = seq
	}
	base, ok := p.bases[e.Namespace]
	if !ok {
		base = p.bases[""]
	}
	r.Base = base
	var err error
	if r.Tasks, err = formatList(e.Tasks); err != nil {
		return err
	}
	if r.Next, err = formatList(e.Next); err != nil {
		return err
	}
	if r.Payload, err = appendPayload(newSalt(), &e.Payload); err != nil {
		return err
	}
	r.PayloadHash = payloadHash(r.Payload)
	r.Hash = rowHash(prev, r)
	p.bytes += int64(len(r.Payload))
	p.cancels = p.cancels || e.Status == engine.Cancelled
	p.turn.note(e, seq)
	return nil
}

func checkEntry(e *engine.Entry) error {
	switch e.Kind {
	case engine.KindInput, engine.KindStep, engine.KindUpdate, engine.KindFork, engine.KindGraph, engine.KindEnd, engine.KindPrune:
	case engine.KindPause:
		if e.Payload.Question == nil || e.Payload.Interrupt == nil {
			return fmt.Errorf("%w: a pause asks a question", engine.ErrInvalid)
		}
	case engine.KindAnswer:
		if e.Payload.Answer == nil {
			return fmt.Errorf("%w: an answer has an answer", engine.ErrInvalid)
		}
	default:
		return fmt.Errorf("%w: kind %q is unknown", engine.ErrInvalid, e.Kind)
	}
	switch e.Status {
	case engine.Running, engine.Paused, engine.Sleeping, engine.Done, engine.Rejected, engine.Failed, engine.Cancelled:
		return nil
	}
	return fmt.Errorf("%w: status %q is none that a thread may have after an entry", engine.ErrInvalid, e.Status)
}

// committed makes the handle know what it has stored.
func (l *Log) committed(p *plan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range p.c.Entries {
		r := &p.rows[i]
		e.Seq, e.Base, e.Parent, e.Hash, e.At = r.Seq, r.Base, r.Parent, r.Hash, fromMS(r.At)
	}
	l.row, l.bases, l.turn, l.create = p.after, p.bases, p.turn, nil
	// A signal that came meanwhile is in the row, but the handle has not read it:
	// Wait must still tell of it.
	l.row.Signals = p.known.Signals
	l.since += p.bytes
	l.entries += int64(len(p.rows))
	if n := len(p.c.Entries); n > 0 {
		l.view.Head = *p.c.Entries[n-1]
	}
	l.view.OutsideStep, l.view.MaxSteps, l.view.InputSeq = p.turn.outsideStep, p.turn.maxSteps, p.turn.inputSeq
	if p.settles {
		l.view.Results = nil
	} else {
		if len(p.left) > 0 {
			l.view.Results = slices.DeleteFunc(slices.Clone(l.view.Results), func(r engine.Result) bool { return slices.Contains(p.left, r.Base) })
		}
		l.view.Results = append(l.view.Results, p.c.Results...)
	}
	if p.c.Take != engine.TakeNone || p.mine {
		l.mine = p.c.Leave != engine.LeaseFree
		l.s.hold(l.row.No, l, l.mine)
	}
	if p.rowsOnly() {
		// The hot path: of the thread nothing has changed but its head.
		l.view.Thread.Head = p.after.Head
		l.view.Thread.Crashes = 0
		return nil
	}
	thread, err := l.s.thread(&p.after, l.bases[""])
	if err != nil {
		// It is stored, and Reload will say what is wrong with it.
		l.s.opts.Logger.Warn("thread cannot be read back", "thread", l.row.ThreadID, "reason", err)
		thread = l.view.Thread
	}
	l.view.Thread = thread
	return nil
}

func (p *plan) rowsOnly() bool {
	after := p.known
	after.Head = p.after.Head
	return p.after == after && p.settles
}

// questions keeps the index of questions in step with entry i of the commit.
// All of it is compare-and-set on the state, so that of two answers to one
// question the second finds no row.
func (p *plan) questions(ctx context.Context, c *conn, now *threadRow, i int) error {
	r, e := &p.rows[i], p.c.Entries[i]
	if e.Kind.MovesBase() && !p.new {
		// A question belongs to its base: nobody waits for its answer any more.
		query, args := `UPDATE interrupts SET state = 'void' WHERE no = ? AND state = 'pending'`, []any{now.No}
		if r.NS != "" {
			query, args = query+` AND base = ?`, append(args, p.l.bases[r.NS])
		}
		if _, err := c.exec(ctx, query, args...); err != nil {
			return err
		}
	}
	switch e.Kind {
	case engine.KindPause:
		q, err := newInterruptRow(now.No, r.Seq, r.Base, now.ThreadID, e)
		if err != nil {
			return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
		}
		if err := q.insert(ctx, c); err != nil {
			return err
		}
		if voids := e.Payload.Question.Voids; voids != "" {
			thread, seq, err := engine.ParseCheckpointID(voids)
			if err != nil || thread != now.ThreadID {
				return fmt.Errorf("%w: question %s cannot be made void by one of thread %s", engine.ErrInvalid, voids, now.ThreadID)
			}
			if _, err := c.exec(ctx, `UPDATE interrupts SET state = 'void' WHERE no = ? AND seq = ?`, now.No, seq); err != nil {
				return err
			}
		}
	case engine.KindAnswer:
		if err := p.answer(ctx, c, now, r, e); err != nil {
			return err
		}
	}
	if e.Status.Over() && !p.new {
		// Open questions end with the turn, whichever way it ends.
		if _, err := c.exec(ctx, `UPDATE interrupts SET state = 'cancelled' WHERE no = ? AND state = 'pending'`, now.No); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) answer(ctx context.Context, c *conn, now *threadRow, r *entryRow, e *engine.Entry) error {
	a := e.Payload.Answer
	thread, seq, err := engine.ParseCheckpointID(a.Question)
	if err != nil || thread != now.ThreadID || seq == 0 {
		return fmt.Errorf("%w: %q is no question of thread %s", engine.ErrInvalid, a.Question, now.ThreadID)
	}
	text, err := answerJSON(a)
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
	}
	n, err := c.exec(ctx, `UPDATE interrupts SET state = 'answered', answer_seq = ?, answer = ?, actor = ?, via = ?, answered_at = ?
		WHERE no = ? AND seq = ? AND state = 'pending'`, r.Seq, text, a.Actor, a.Via, toMS(a.At), now.No, seq)
	if err != nil {
		return err
	}
	if n == 0 {
		return conflict(now.ThreadID, "question %s is not open any more", a.Question)
	}
	return nil
}
