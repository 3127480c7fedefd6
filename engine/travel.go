package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Edit is a change of state by hand.
type Edit struct {
	Writes []Write // through the reducers, in this order
	// Node, if set, makes the edit count as that node's output: what is ready
	// next is where the node leads. Without it what is ready stays.
	Node string
	By   By
}

// Edited is what an edit did.
type Edited struct {
	Turn *Turn
	// Dropped are the tasks that were ready and are not any more, because the
	// edit counts as a node's output.
	Dropped []string
}

// Update changes the state of a thread at rest and appends it to its log. Open
// questions become void: gates are asked again, on the new state; a node that
// asked, or slept, runs again from its top. Results and effects of the step that was under
// way do not count any more.
func (e *Engine) Update(ctx context.Context, thread string, edit Edit) (*Edited, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	for attempt := 0; ; attempt++ {
		log, err := e.store.Open(ctx, thread)
		if err != nil {
			return nil, fmt.Errorf("update thread %s: %w", thread, err)
		}
		r := e.newRun(log)
		edited, err := closing(r, func() (*Edited, error) { return r.update(ctx, edit) })
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return edited, err
	}
}

func (r *run) update(ctx context.Context, edit Edit) (*Edited, error) {
	if err := r.busy(TakeFree); err != nil {
		return nil, err
	}
	if len(r.tail) == 0 {
		return nil, fmt.Errorf("thread %s had no turn yet, so there is no state to edit: %w", r.thread.ID, ErrInvalid)
	}
	var err error
	if r.graph, err = r.e.graphOf(ctx, r.thread); err != nil {
		return nil, err
	}
	r.refresh()
	var ops []Op
	for _, w := range edit.Writes {
		op, _, err := r.graph.opOf("", w)
		if err != nil {
			return nil, fmt.Errorf("update thread %s: %w (%w)", r.thread.ID, err, ErrInvalid)
		}
		ops = append(ops, op)
	}
	changed, err := r.reduce(ops)
	if err != nil {
		return nil, fmt.Errorf("update thread %s: %w (%w)", r.thread.ID, err, ErrInvalid)
	}
	r.apply(changed)
	entry := r.standing(KindUpdate)
	entry.Payload.Ops = r.graph.stored(ops)
	entry.Actor, entry.Payload.Edit = or(edit.By.Actor, osUser()), edit.By.Record()
	edited := &Edited{}
	if edit.Node != "" {
		if edited.Dropped, err = r.asNode(entry, edit.Node); err != nil {
			return nil, fmt.Errorf("update thread %s as node %s: %w (%w)", r.thread.ID, edit.Node, err, ErrInvalid)
		}
	}
	status := r.thread.Status
	if status == Paused || status == Sleeping || (edit.Node != "" && len(entry.Next) > 0) {
		status = Running
	}
	entries := r.atRest(entry, status)
	if owner := r.thread.Owner; owner != nil && !owner.Alive {
		r.take = TakeFree
	}
	if err := r.commit(LeaseFree, entries, nil, Commit{}); err != nil {
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrBusy) {
			return nil, errAgain{err}
		}
		return nil, fmt.Errorf("update thread %s: %w", r.thread.ID, err)
	}
	edited.Turn = r.result()
	edited.Turn.Elsewhere = r.waitsElsewhere()
	r.questionEvents(entries)
	return edited, nil
}

// standing makes an entry that keeps where the thread stands: what is ready,
// and what joins wait for. Gates behind nodes that are not decided yet stay so.
func (r *run) standing(kind Kind) *Entry {
	base := r.base()
	entry := &Entry{Kind: kind, Step: r.head.Step, Next: base.Next, At: r.e.now(), Payload: Payload{
		Sends: base.Payload.Sends, Arrivals: base.Payload.Arrivals, Debts: base.Payload.Debts,
		Timers: base.Payload.Timers, Rejected: base.Payload.Rejected, Refused: base.Payload.Refused, Failures: base.Payload.Failures,
		Usage: base.Payload.Usage,
	}}
	if base.Payload.Routes == nil {
		return entry
	}
	var p plan
	var known []asked // a fork copies no answers
	if kind == KindUpdate {
		known = slices.DeleteFunc(r.asked(), func(q asked) bool { return q.answer == nil || q.void })
	}
	after := r.afterGates(base, known, &p)
	if len(p.ask) > 0 {
		entry.Tasks, entry.Payload.Routes = base.Tasks, base.Payload.Routes
		return entry
	}
	entry.Next, entry.Payload.Arrivals, entry.Payload.Debts, entry.Payload.Timers = after.ready, after.arrivals, after.debts, after.timers
	entry.Payload.Rejected = after.rejected
	if p.refused && entry.Payload.Refused == "" {
		entry.Payload.Refused = p.why
	}
	return entry
}

// asNode lets an entry lead where a node leads, over the edited state.
func (r *run) asNode(entry *Entry, name string) (dropped []string, err error) {
	n := r.graph.nodes[name]
	if n == nil {
		return nil, fmt.Errorf("there is no such node; there are %s", strings.Join(r.graph.Nodes(), ", "))
	}
	before := frontier{arrivals: entry.Payload.Arrivals, debts: entry.Payload.Debts, timers: entry.Payload.Timers, rejected: entry.Payload.Rejected}
	was := entry.Next
	entry.Tasks = []string{name}
	entry.Payload.Routes, entry.Payload.Sends, entry.Payload.Failures = nil, nil, nil
	if _, err := r.route(entry, before, []*outcome{{task: Task{id: name, node: n}}}); err != nil {
		return nil, err
	}
	for _, task := range was {
		if !slices.Contains(entry.Next, task) {
			dropped = append(dropped, task)
		}
	}
	return dropped, nil
}

// atRest puts the gates behind an entry that leaves the thread at rest, and
// gives the entry its status.
func (r *run) atRest(entry *Entry, status Status) []*Entry {
	entry.Status = status
	if status.Over() {
		return []*Entry{entry}
	}
	entries, _ := r.withGates(entry)
	return entries
}

// Fork makes a thread that goes on from a checkpoint (THREAD@SEQ) of another,
// or lets a thread itself go back to one of its checkpoints (into is the
// thread's own id). It takes the state, what is ready and what joins wait for.
// Answers are not copied, nor are the mode and the options of the other thread:
// gates at that point are asked anew. Nothing runs: Resume goes on.
func (e *Engine) Fork(ctx context.Context, from, into string, by By) (*Turn, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	source, seq, err := ParseCheckpointID(from)
	if err == nil {
		err = CheckThreadID(into)
	}
	if err != nil {
		return nil, fmt.Errorf("fork: %w (%w)", err, ErrInvalid)
	}
	for attempt := 0; ; attempt++ {
		turn, err := e.fork(ctx, source, seq, into, by)
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return turn, err
	}
}

func (e *Engine) fork(ctx context.Context, source string, seq int64, into string, by By) (turn *Turn, err error) {
	view, err := e.store.At(ctx, source, seq)
	if err != nil {
		return nil, fmt.Errorf("fork %s: %w", CheckpointID(source, seq), err)
	}
	if view.Head.Seq == 0 {
		return nil, fmt.Errorf("fork %s: the thread had no turn yet: %w", source, ErrInvalid)
	}
	input, err := e.inputAt(ctx, source, view.InputSeq)
	if err != nil {
		return nil, fmt.Errorf("fork %s: %w", CheckpointID(source, view.Head.Seq), err)
	}
	// What the checkpoint stands for, as a run of its own.
	at := &run{e: e, thread: view.Thread, state: view.State}
	at.root = at
	at.standAt(view)
	at.thread.Graph, at.thread.GraphName = input.Graph, input.Name
	if at.graph, err = e.graphOf(ctx, at.thread); err != nil {
		return nil, fmt.Errorf("fork %s: %w", CheckpointID(source, view.Head.Seq), err)
	}
	entry := at.standing(KindFork)
	entry.Payload.Timers = maps.Clone(entry.Payload.Timers)
	for join := range entry.Payload.Timers {
		// As with gates, which are asked anew: what was due before the fork is not
		// due in it.
		entry.Payload.Timers[join] = entry.At.Add(at.graph.nodes[join].Barrier.Timeout)
	}
	entry.Actor, entry.Payload.Edit = or(by.Actor, osUser()), by.Record()
	entry.Payload.From, entry.Payload.State, entry.Payload.Input = CheckpointID(source, view.Head.Seq), maps.Clone(view.State), input

	var log Log
	if into == source {
		if log, err = e.store.Open(ctx, into); err != nil {
			return nil, fmt.Errorf("fork in place %s: %w", into, err)
		}
		entry.Parent = view.Head.Seq
	} else {
		// Its mode and its options are what somebody allowed to that thread, not
		// to this one.
		facts := view.Thread
		log, err = e.store.New(ctx, Thread{ID: into, Cwd: facts.Cwd, Roots: facts.Roots, Title: facts.Title, Status: Done})
		if err != nil {
			return nil, fmt.Errorf("fork into %s: %w", into, err)
		}
	}
	r := e.newRun(log)
	defer func() { err = closeErr(err, r.close()) }()
	if err := r.busy(TakeFree); err != nil {
		return r.result(), err
	}
	r.graph, r.state, r.sizes = at.graph, view.State, nil
	r.refresh()
	if into != source {
		r.thread.Turn = 1
	}
	entries := r.atRest(entry, Running)
	if owner := r.thread.Owner; into != source || (owner != nil && !owner.Alive) {
		r.take = TakeFree
	}
	c := Commit{Graph: &GraphRecord{Fingerprint: r.graph.fingerprint, Name: r.graph.name, Definition: r.graph.canonical}}
	if err := r.commit(LeaseFree, entries, nil, c); err != nil {
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrBusy) {
			return nil, errAgain{err}
		}
		return nil, fmt.Errorf("fork into %s: %w", into, err)
	}
	r.questionEvents(entries)
	turn = r.result()
	turn.Elsewhere = r.waitsElsewhere()
	return turn, nil
}

// waitsElsewhere reports whether a living process waits with the thread, which
// takes in what was appended at rest and goes on.
func (r *run) waitsElsewhere() bool {
	owner := r.thread.Owner
	return owner != nil && owner.Alive
}

// inputAt is the record of how the turn of a checkpoint began.
func (e *Engine) inputAt(ctx context.Context, thread string, seq int64) (*InputRecord, error) {
	var input *InputRecord
	err := e.store.Entries(ctx, thread, seq-1, 1, func(entry Entry) error {
		input = entry.Payload.Input
		return nil
	})
	if err == nil && input == nil {
		err = fmt.Errorf("the entry that began its turn, %s, was removed: %w", CheckpointID(thread, seq), ErrNotFound)
	}
	return input, err
}
