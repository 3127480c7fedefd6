package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// run moves one thread within one call. Everything but the tasks of a step
// happens on the caller's goroutine. A subgraph has a run of its own, on the
// goroutine of its task, which appends to the log of its root.
type run struct {
	e      *Engine
	log    Log // nil: in memory only
	graph  *Graph
	thread Thread
	ns     string // of a subgraph
	root   *run   // of the thread; itself, if this is no subgraph
	depth  int
	head   Entry          // the newest of this namespace
	tail   []Entry        // of this namespace, from its base to its head
	state  map[string]any // of this namespace
	before Usage          // of a subgraph: what the turn used before its visit

	// Room that one step after the other uses.
	changed  changes
	sizes    map[string]int      // of channels that grow, at least what they are; see grow
	index    map[string][]Result // while a step's tasks are made
	one      [1]*outcome
	entry    Entry
	oneEntry [1]*Entry

	// Of the root alone; mu guards them while tasks run.
	mu       sync.Mutex
	seq      int64              // of the newest entry of the log
	results  []Result           // stored, of all bases since the root's
	signals  []Signal           // that no wait has taken yet
	children map[string][]Entry // entries of subgraphs since the root's base

	deadline *time.Time // of the turn
	outside  int64      // step number at the last event from outside
	limit    int        // steps since then
	take     Take       // how the lease will be taken by the next commit
	held     bool       // this run has the lease
	lease    Lease

	ctx     context.Context // ends when work must be killed
	kill    context.CancelCauseFunc
	unwatch func()
	events  sync.Mutex // events come one at a time, also from parallel tasks
	deaf    error      // Options.Events panicked, and is not called any more
}

// storeError marks an error that is the store's, not a node's.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

func (e *Engine) newRun(log Log) *run {
	r := &run{e: e, log: log}
	r.root = r
	r.read()
	return r
}

// read takes over what the log's view says.
func (r *run) read() {
	v := r.log.View()
	r.thread, r.seq = v.Thread, v.Thread.Head
	// Copies: the log appends to its own lists while tasks append to these.
	r.results, r.signals = slices.Clone(v.Results), slices.Clone(v.Signals)
	r.standAt(v)
	r.sizes = nil
	r.state, r.outside, r.limit = v.State, v.OutsideStep, v.MaxSteps
	if r.state == nil {
		r.state = map[string]any{}
	}
	r.refresh()
}

// standAt puts the run where a view's newest entry stands.
func (r *run) standAt(v *View) {
	r.seq, r.head = v.Head.Seq, Entry{}
	r.tail, r.children = byNamespace(v.Tail)
	if n := len(r.tail); n > 0 {
		r.head = r.tail[n-1]
	}
}

func (r *run) close() error {
	r.stopWatching()
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}

// heard reports whether anybody listens to events. Those of every step are not
// even made if nobody does.
func (r *run) heard() bool { return r.e.o.Events != nil }

func (r *run) emit(ev Event) {
	if !r.heard() {
		return
	}
	root := r.root
	root.events.Lock()
	defer root.events.Unlock()
	if root.deaf != nil {
		return
	}
	ev.Thread, ev.Turn, ev.Namespace = r.thread.ID, r.thread.Turn, r.ns
	if len(r.tail) > 0 {
		ev.Base = r.base().Seq
	}
	if ev.Step == 0 {
		ev.Step = r.head.Step
	}
	if root.kill != nil {
		defer root.catch()
	}
	r.e.emit(ev)
}

// result is the thread as this run knows it.
func (r *run) result() *Turn {
	return &Turn{
		Thread: r.thread.ID, Status: r.thread.Status, Number: r.thread.Turn, Step: r.head.Step,
		Head: r.seq, State: maps.Clone(r.state), Questions: r.open(),
	}
}

func (r *run) base() *Entry { return &r.tail[0] }

// commit appends entries and stores results in one transaction, and takes what
// follows from them into the run. Subgraphs that run side by side take turns.
func (r *run) commit(leave Lease, entries []*Entry, results []Result, c Commit) error {
	root := r.root
	root.mu.Lock()
	defer root.mu.Unlock()
	turn := root.thread.Turn
	for _, entry := range entries {
		if entry.Kind == KindInput && r == root {
			turn++ // the gates behind the input are of its turn too
		}
		entry.Turn = turn
		if entry.Namespace == "" {
			entry.Namespace = r.ns
		}
		if entry.At.IsZero() {
			entry.At = r.time()
		}
	}
	for i := range results {
		if results[i].At.IsZero() {
			results[i].At = r.e.now()
		}
	}
	if root.log == nil {
		root.number(entries)
		if leave != LeaseMoving && r == root {
			root.refresh()
		}
	} else {
		c.Leave, c.Entries, c.Results = leave, entries, results
		if err := r.store(c); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		r.appended(entry)
	}
	root.results = append(root.results, results...)
	root.signals = slices.DeleteFunc(root.signals, func(s Signal) bool { return slices.Contains(c.Consume, s.ID) })
	return nil
}

// store makes a commit in the store. The caller holds root.mu.
func (r *run) store(c Commit) error {
	root := r.root
	if !root.held {
		c.Take = root.take
	}
	if err := root.log.Commit(context.WithoutCancel(root.context()), &c); err != nil {
		return storeError{err}
	}
	if c.Leave != LeaseMoving {
		root.refresh()
	}
	if c.Take != TakeNone || root.held {
		root.held, root.lease = c.Leave != LeaseFree, c.Leave
	}
	if r == root {
		root.thread = root.log.View().Thread
		root.seq = root.thread.Head
	} else {
		root.seq = c.Entries[len(c.Entries)-1].Seq
	}
	return nil
}

// number does for a run without a store what the store does.
func (r *run) number(entries []*Entry) {
	for _, entry := range entries {
		seq := r.seq + 1
		entry.Seq, entry.Parent, entry.Base = seq, seq-1, r.head.Base
		if entry.Kind.MovesBase() {
			entry.Base = seq
		}
		r.seq = seq
		if entry.Namespace == "" {
			r.thread.Status, r.thread.Turn, r.thread.Head = entry.Status, entry.Turn, seq
		}
	}
}

// appended takes an entry into the run that it belongs to.
func (r *run) appended(entry *Entry) {
	if entry.Namespace != r.ns { // a question of, or an answer to, a subgraph
		r.children[entry.Namespace] = append(r.children[entry.Namespace], *entry)
	} else {
		left := int64(-1)
		if len(r.tail) > 0 {
			left = r.base().Seq
		}
		r.head = *entry
		if entry.Kind.MovesBase() {
			r.tail = append(r.tail[:0], *entry)
			if r == r.root {
				r.results = nil
				clear(r.children)
			} else {
				r.root.results = slices.DeleteFunc(r.root.results, func(res Result) bool { return res.Base == left })
			}
		} else {
			r.tail = append(r.tail, *entry)
		}
		if r != r.root {
			r.root.children[r.ns] = append(r.root.children[r.ns], *entry)
		}
	}
	switch entry.Kind {
	case KindStep, KindPause:
	default:
		r.outside = r.head.Step
	}
}

func (r *run) context() context.Context {
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}

// begin gives the run the context that its tasks live in.
func (r *run) begin(ctx context.Context) {
	if r.ctx == nil {
		r.ctx, r.kill = context.WithCancelCause(ctx)
	}
}

// start stores the input and runs the turn.
func (r *run) start(ctx context.Context, in Input) (*Turn, error) {
	r.begin(ctx)
	defer r.kill(nil)
	r.refresh()
	var changed changes
	ops, notes, err := r.e.graph.inputOps(r.state, in)
	if err == nil {
		changed, err = r.reduce(ops)
	}
	if err != nil {
		return r.result(), fmt.Errorf("input of thread %s: %w (%w)", r.thread.ID, err, ErrInvalid)
	}
	if in.MaxSteps <= 0 {
		in.MaxSteps = DefaultMaxSteps
	}
	if in.Via == "" {
		in.Via = "go"
	}
	if in.Actor == "" {
		in.Actor = osUser()
	}
	r.take = TakeFree
	entry := &Entry{
		Kind: KindInput, Status: Running, Next: r.graph.entries, Actor: in.Actor,
		Payload: Payload{Ops: r.graph.stored(ops), Notes: notes, Input: &InputRecord{
			Graph: r.graph.fingerprint, Name: r.graph.name, Text: in.Text,
			MaxSteps: in.MaxSteps, Deadline: deadline(in), Via: in.Via, OSUser: osUser(), Client: in.Client,
		}},
	}
	r.apply(changed)
	entries, leave := r.withGates(entry)
	r.thread.Graph, r.thread.GraphName = r.graph.fingerprint, r.graph.name
	c := Commit{Title: in.Title, Graph: &GraphRecord{Fingerprint: r.graph.fingerprint, Name: r.graph.name, Definition: r.graph.canonical}}
	if err := r.commit(leave, entries, nil, c); err != nil {
		r.undo(changed)
		// ErrExists: another process made the thread since it was not found.
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrExists) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("store the input of thread %s: %w", r.thread.ID, err)
	}
	r.limit, r.outside, r.deadline = in.MaxSteps, 0, deadline(in)
	// If the process dies here the input is stored: Resume runs it.
	if err := failpoint.HitIn("engine.input.after", r.thread.ID); err != nil {
		return r.result(), err
	}
	r.emit(Event{Type: EventTurnStarted, Status: Running, Seq: entry.Seq, Entry: entry})
	r.questionEvents(entries)
	return r.moved(r.loop())
}

// busy is the error if a living process moves the thread.
func (r *run) busy(take Take) error {
	owner := r.thread.Owner
	if owner == nil || !owner.Alive || r.thread.Lease != LeaseMoving || take == TakeOver {
		return nil
	}
	return &BusyError{Thread: r.thread.ID, Owner: *owner}
}

// resume stores answers and goes on.
func (r *run) resume(ctx context.Context, answers []interrupt.Answer, take Take) (*Turn, error) {
	r.begin(ctx)
	defer r.kill(nil)
	r.take = take
	if err := r.busy(take); err != nil {
		return r.result(), err
	}
	d, err := r.decide(answers)
	if err != nil {
		return r.result(), err
	}
	entries, status := d.entries, r.thread.Status
	if n := len(entries); n > 0 {
		status = entries[n-1].Status
	}
	waits := status == Paused || status == Sleeping
	elsewhere := r.thread.Owner != nil && r.thread.Owner.Alive && r.thread.Lease == LeaseWaiting && take != TakeOver
	switch {
	case waits && !r.stays(status), elsewhere, d.late != nil:
		// Others must answer, or another process waits with its dialog: what
		// there is to store is stored at rest, and nobody is moved.
		return r.storeAtRest(d, elsewhere)
	case status.Over() && status != Failed:
		return r.result(), nil
	}
	if r.graph, err = r.e.graphOf(ctx, r.thread); err != nil {
		// The answers are good all the same: whoever has the graph goes on.
		if len(entries) > 0 {
			if res, storeErr := r.storeAtRest(d, false); storeErr != nil {
				return res, storeErr
			}
			return r.result(), fmt.Errorf("the answer is stored, but this process cannot go on: %w", err)
		}
		return r.result(), err
	}
	if r.deadline, err = r.turnDeadline(ctx); err != nil {
		return r.result(), err
	}
	if status == Running && r.thread.Crashes >= MaxCrashes && len(entries) == 0 {
		return r.park()
	}
	leave, c := LeaseMoving, Commit{Consume: d.consume}
	if waits {
		leave = LeaseWaiting
	} else if len(entries) == 0 {
		c.Status = Running
	}
	if err := r.commit(leave, entries, nil, c); err != nil {
		if errors.Is(err, ErrConflict) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("resume thread %s: %w", r.thread.ID, err)
	}
	if c.Status != "" {
		r.thread.Status = c.Status
	}
	r.outside = r.head.Step // to go on is an event from outside, which leaves no entry
	// If the process dies here the answers are stored and consumed by nobody
	// yet: the next Resume finds them in the log.
	if err := failpoint.HitIn("engine.resume.after", r.thread.ID); err != nil {
		return r.result(), err
	}
	r.answerEvents(entries)
	r.emit(Event{Type: EventTurnStarted, Status: r.thread.Status, Seq: r.head.Seq})
	return r.moved(r.loop())
}

// park ends a turn whose owners died too often on the same base.
func (r *run) park() (*Turn, error) {
	end := &EndRecord{
		Code: "crashes",
		Cause: fmt.Sprintf("%d processes died while they moved this turn past checkpoint %s, at %v: look at what kills them, then resume for one more try",
			r.thread.Crashes, CheckpointID(r.thread.ID, r.base().Seq), r.base().Next),
	}
	return r.end(Failed, end, "", nil)
}
