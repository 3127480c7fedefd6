package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// outcome is how one task of a step went. Exactly one of ops (with routes to
// come), question, err and aborted tells.
type outcome struct {
	task     *Task
	output   Output // normalized
	ops      []Op
	question *interrupt.Question
	err      error
	aborted  bool // killed by a cancel or a stop, or not started: nothing is known
	stored   bool // its result is in the results table
}

// step runs the tasks of one step and commits it. A nil result means that the
// turn goes on.
func (r *run) step(p plan) (*Turn, error) {
	if !r.held && r.log != nil {
		return r.result(), fmt.Errorf("thread %s is not held by this run", r.thread.ID) // a mistake in this package
	}
	r.watch()
	outcomes := make([]*outcome, len(p.tasks))
	var missing []*outcome
	for i, id := range p.tasks {
		o := &outcome{task: r.newTask(id, r.base().Seq, &p)}
		outcomes[i] = o
		if !r.restore(o) {
			missing = append(missing, o)
		}
	}
	r.runTasks(missing)
	return r.finishStep(outcomes)
}

// runTasks runs tasks side by side, at most MaxConcurrency at once. A single
// one runs on the caller's goroutine. After a failure those that wait for a
// place do not start.
func (r *run) runTasks(tasks []*outcome) {
	if len(tasks) == 1 {
		r.runTask(tasks[0])
		return
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed bool
		left   = len(tasks)
		places = make(chan struct{}, r.e.o.MaxConcurrency)
	)
	for _, o := range tasks {
		places <- struct{}{}
		mu.Lock()
		stop := failed
		mu.Unlock()
		if stop || r.ctx.Err() != nil {
			o.aborted = true
			<-places
			mu.Lock()
			left--
			mu.Unlock()
			continue
		}
		wg.Add(1)
		go func() {
			defer func() { <-places; wg.Done() }()
			r.runTask(o)
			mu.Lock()
			left--
			last := left == 0
			failed = failed || o.err != nil
			mu.Unlock()
			// The last one rides in the step's own commit.
			if o.ops != nil && !last {
				r.storeOutcome(o)
			}
		}()
	}
	wg.Wait()
}

// storeOutcome stores the result of a task whose siblings still run, so that
// it is not run again whatever becomes of them.
func (r *run) storeOutcome(o *outcome) {
	if err := r.put(r.ctx, o.result()); err != nil {
		o.err = storeError{err}
		return
	}
	o.stored = true
}

func (r *run) put(ctx context.Context, res Result) error {
	if r.log == nil {
		return nil
	}
	if res.At.IsZero() {
		res.At = r.e.now()
	}
	if err := r.log.Put(context.WithoutCancel(ctx), res); err != nil {
		return storeError{err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	return nil
}

// storedOutput is a finished task's output as the results table holds it.
type storedOutput struct {
	Writes []storedWrite `json:"writes,omitempty"`
	Goto   []string      `json:"goto,omitempty"`
}

type storedWrite struct {
	Channel   string `json:"channel"`
	Value     any    `json:"value"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

func (o *outcome) result() Result {
	writes := make([]any, len(o.output.Writes))
	for i, w := range o.output.Writes {
		write := map[string]any{"channel": w.Channel, "value": w.Value}
		if w.Overwrite {
			write["overwrite"] = true
		}
		writes[i] = write
	}
	targets := make([]any, len(o.output.Goto))
	for i, to := range o.output.Goto {
		targets[i] = to
	}
	doc := map[string]any{"writes": writes}
	if o.output.Goto != nil {
		doc["goto"] = targets
	}
	return Result{Task: o.task.id, N: 0, Kind: ResultTask, Value: value.Append(nil, doc)}
}

// restore takes the stored result of a task that finished before.
func (r *run) restore(o *outcome) bool {
	for _, res := range r.results {
		if res.Task != o.task.id || res.Kind != ResultTask {
			continue
		}
		output, err := decodeOutput(res.Value)
		if err == nil {
			err = o.check(r.graph, output)
		}
		if err != nil {
			o.err = fmt.Errorf("its stored result cannot be used: %w", err)
		}
		o.stored = true
		return true
	}
	return false
}

func decodeOutput(raw []byte) (Output, error) {
	v, err := value.Decode(raw)
	if err != nil {
		return Output{}, err
	}
	var stored storedOutput
	if err := into(v, &stored); err != nil {
		return Output{}, err
	}
	doc, _ := v.(map[string]any)
	writes, _ := doc["writes"].([]any)
	output := Output{Goto: stored.Goto}
	for i, w := range stored.Writes {
		if i < len(writes) {
			if m, ok := writes[i].(map[string]any); ok {
				w.Value = m["value"] // as decoded here, where integers stay integers
			}
		}
		output.Writes = append(output.Writes, Write(w))
	}
	return output, nil
}

// check validates an output and makes its operations.
func (o *outcome) check(g *Graph, output Output) error {
	ops := make([]Op, 0, len(output.Writes))
	for i, w := range output.Writes {
		op, replaced, err := g.opOf(o.task.id, w)
		if err != nil {
			return err
		}
		if replaced {
			o.task.notes = append(o.task.notes, fmt.Sprintf("task %s wrote text that is not UTF-8 to channel %s: such bytes were replaced", o.task.id, w.Channel))
		}
		output.Writes[i].Value = op.Value
		ops = append(ops, op)
	}
	for _, to := range output.Goto {
		if to != End && g.nodes[to] == nil {
			return fmt.Errorf("goto %q: there is no such node; there are %s", to, strings.Join(g.Nodes(), ", "))
		}
	}
	o.output, o.ops = output, ops
	return nil
}

func (r *run) newTask(id string, base int64, p *plan) *Task {
	t := &Task{
		id: id, node: r.graph.nodes[nodeOf(id)], thread: r.thread, base: base,
		turn: r.thread.Turn, step: r.head.Step + 1, state: State(r.state),
		store: r, emit: r.emit,
	}
	if p != nil {
		t.gate = p.gates[id]
	}
	for _, res := range r.results {
		if res.Task == id && res.Kind != ResultTask {
			t.results = append(t.results, res)
		}
	}
	if len(r.tail) > 1 && r.tail[0].Seq == base {
		for _, q := range r.asked() {
			if q.question.Task == id {
				t.asked = append(t.asked, q)
			}
		}
	}
	return t
}

// runTask runs a node once and sorts out how it went.
func (r *run) runTask(o *outcome) {
	t := o.task
	if t.node == nil {
		o.err = fmt.Errorf("there is no node %q in graph %s", nodeOf(t.id), r.graph.name)
		return
	}
	began := r.e.o.Clock.Now()
	output, err := r.runNode(t)
	elapsed := func() time.Duration { return r.e.o.Clock.Now().Sub(began) }
	var storeErr storeError
	t.mu.Lock()
	question, failure := t.question, t.failure
	t.mu.Unlock()
	switch {
	case errors.As(err, &storeErr) || errors.As(failure, &storeErr):
		o.err = storeErr
		return
	case failure != nil:
		err = failure
	case question != nil:
		o.question = question
		return
	case err == nil && output.Ask != nil:
		if o.question, err = t.returned(*output.Ask); err == nil {
			return
		}
	case err == nil:
		err = o.check(r.graph, output)
	}
	switch {
	case err == nil:
		r.emit(Event{Type: EventTaskFinished, Step: t.step, Task: t.id, Node: t.node.name, Elapsed: elapsed()})
	case r.ctx.Err() != nil:
		o.aborted, o.ops = true, nil
	default:
		o.err = err
		r.emit(Event{Type: EventTaskFailed, Step: t.step, Task: t.id, Node: t.node.name, Err: err, Elapsed: elapsed()})
	}
}

// returned is the question of a node that returned it: the one after those
// that it was answered already.
func (t *Task) returned(a Ask) (*interrupt.Question, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ordinal := t.asks
	for _, q := range t.asked {
		if !q.question.IsGate() && !q.question.IsDoubt() && q.answer != nil && q.question.Ordinal >= ordinal {
			ordinal = q.question.Ordinal + 1
		}
	}
	_, err := t.ask(a, ordinal)
	if t.question != nil {
		return t.question, nil
	}
	return nil, err
}

// runNode resolves, guards and runs a node. A panic is a failed task.
func (r *run) runNode(t *Task) (output Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.emit(Event{Type: EventNote, Task: t.id, Node: t.node.name, Text: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())})
			err = fmt.Errorf("panic: %v", p)
			if brokeErr := t.broke(r.ctx, "", t.node.OnCrash, err); brokeErr != nil {
				err = brokeErr
			}
		}
	}()
	if t.node.Resolve != nil {
		if t.resolved, err = r.resolve(t.id, t.base, t.gate); err != nil {
			return Output{}, err
		}
		for _, q := range t.asked {
			if q.question.Payload.Kind == interrupt.Before && !value.Equal(q.question.Shows, t.resolved) {
				return Output{}, fmt.Errorf("what would run now is not what was approved in %s: approved was %s, now it is %s",
					q.question.ID(), jsonText(q.question.Shows), jsonText(t.resolved))
			}
		}
	}
	ctx := context.WithValue(r.ctx, taskKey{}, t)
	if t.node.OnCrash.guards() {
		t.mu.Lock()
		done, err := t.settle(ctx, "", t.node.OnCrash, t.resolved)
		if err == nil && done == nil {
			err = t.put(ctx, ResultIntent, "", []byte("null"))
		}
		t.mu.Unlock()
		switch {
		case err != nil:
			return Output{}, err
		case done != nil:
			return t.settled(done.Value)
		}
	}
	r.emit(Event{Type: EventTaskStarted, Step: t.step, Task: t.id, Node: t.node.name, Resolved: t.resolved})
	// If the process dies while the node runs, a node that guards its work
	// left an intent without a result; any other runs again.
	if err := failpoint.HitIn("engine.node.before", r.thread.ID); err != nil {
		return Output{}, err
	}
	output, err = t.node.Run(ctx, t)
	if err != nil {
		return output, t.broke(r.ctx, "", t.node.OnCrash, err)
	}
	return output, failpoint.HitIn("engine.node.after", r.thread.ID)
}

// settled is the output of a node of which a person said that it is done.
func (t *Task) settled(v any) (Output, error) {
	if t.node.Settle != nil {
		return t.node.Settle(v)
	}
	if v == nil {
		return Output{}, nil
	}
	writes, ok := v.(map[string]any)
	if !ok {
		return Output{}, fmt.Errorf("the result given for node %s is %s; it must be an object of channels and values", t.node.name, kindOf(v))
	}
	var output Output
	for _, name := range sortedKeys(writes) {
		output = output.Set(name, writes[name])
	}
	return output, nil
}

// finishStep looks at how the tasks went: a store error ends this run, a kill
// ends the work, a failure ends the turn, a question pauses it; else the step
// is committed.
func (r *run) finishStep(outcomes []*outcome) (*Turn, error) {
	var results []Result
	var questions []*interrupt.Question
	var failed []*outcome
	aborted := false
	for _, o := range outcomes {
		var storeErr storeError
		switch {
		case errors.As(o.err, &storeErr):
			return r.broken(storeErr)
		case o.err != nil:
			failed = append(failed, o)
		case o.aborted:
			aborted = true
		case o.question != nil:
			questions = append(questions, o.question)
		case !o.stored:
			results = append(results, o.result())
		}
	}
	if cause := context.Cause(r.ctx); cause != nil && (aborted || len(failed) > 0 || len(questions) > 0) {
		return r.killed(cause, results)
	}
	switch {
	case len(failed) > 0:
		r.stopWatching()
		return r.fail(failed, results)
	case len(questions) > 0:
		r.stopWatching()
		if err := r.pause(questions, results); err != nil {
			return r.broken(err)
		}
		return nil, nil
	}
	return r.commitStep(outcomes)
}

// killed stores what finished, so that it is not done again, and ends.
func (r *run) killed(cause error, results []Result) (*Turn, error) {
	if len(results) > 0 && r.log != nil && !errors.Is(cause, errCancel) && !errors.Is(cause, ErrConflict) {
		for _, res := range results {
			if err := r.put(r.ctx, res); err != nil {
				return r.broken(err)
			}
		}
	}
	return r.broken(cause)
}

// fail ends the turn because tasks failed.
func (r *run) fail(failed []*outcome, results []Result) (*Turn, error) {
	first := failed[0]
	end := &EndRecord{Cause: first.err.Error(), Node: nodeOf(first.task.id), Task: first.task.id, Code: "task"}
	for _, o := range failed[1:] {
		end.Cause += fmt.Sprintf("; and %s: %v", o.task.id, o.err)
	}
	entry := r.endEntry(Failed, end, "")
	for _, o := range failed {
		entry.Tasks = append(entry.Tasks, o.task.id)
		o.task.noteRan(&entry.Payload)
	}
	return r.endWith(entry, results)
}

// commitStep applies the writes in task order, evaluates the routes over the
// merged state and commits the step.
func (r *run) commitStep(outcomes []*outcome) (*Turn, error) {
	var ops []Op
	for _, o := range outcomes {
		ops = append(ops, o.ops...)
	}
	if err := r.twoWriters(ops); err != nil {
		return r.stepFailed(outcomes, "channel", "", err)
	}
	changed, err := r.reduce(ops)
	if err != nil {
		return r.stepFailed(outcomes, "channel", "", err)
	}
	undo := r.apply(changed)
	entry := &Entry{Kind: KindStep, Status: Running, Step: r.head.Step + 1, Payload: Payload{Ops: ops}}
	if node, err := r.route(entry, outcomes); err != nil {
		undo()
		return r.stepFailed(outcomes, "router", node, err)
	}
	entries, leave := r.withGates(entry)
	if leave != LeaseMoving {
		r.stopWatching()
	}
	// If the process dies before this commit the results that are stored stay,
	// and only the others run again; after it the step is done.
	if err := failpoint.HitIn("engine.step.before", r.thread.ID); err != nil {
		undo()
		return r.broken(storeError{err})
	}
	if err := r.commit(leave, entries, nil, Commit{}); err != nil {
		undo()
		return r.broken(err)
	}
	if err := failpoint.HitIn("engine.step.after", r.thread.ID); err != nil {
		return r.broken(storeError{err})
	}
	if r.log != nil && r.log.SnapshotDue() {
		if err := r.log.Snapshot(context.WithoutCancel(r.ctx), r.state); err != nil {
			r.emit(Event{Type: EventNote, Text: fmt.Sprintf("no snapshot was written, so that loading takes longer: %v", err), Err: err})
		}
	}
	for _, note := range entry.Payload.Notes {
		r.emit(Event{Type: EventNote, Text: note})
	}
	r.emit(Event{Type: EventStep, Seq: entry.Seq, Step: entry.Step, Status: r.thread.Status})
	r.questionEvents(entries)
	return nil, nil
}

// stepFailed ends the turn because of a step whose tasks all finished: their
// results stay, so that only the merge and the routes are done again.
func (r *run) stepFailed(outcomes []*outcome, code, node string, cause error) (*Turn, error) {
	r.stopWatching()
	var results []Result
	for _, o := range outcomes {
		if !o.stored {
			results = append(results, o.result())
		}
	}
	return r.end(Failed, &EndRecord{Cause: cause.Error(), Code: code, Node: node}, "", results)
}

// twoWriters finds an overwrite channel that two tasks of one step write.
func (r *run) twoWriters(ops []Op) error {
	writer := map[string]string{}
	for _, op := range ops {
		if ch := r.graph.channels[op.Channel]; ch.Reduce != nil || ch.Reducer != Overwrite {
			continue
		}
		if first, ok := writer[op.Channel]; ok && first != op.Task {
			return fmt.Errorf("tasks %s and %s both write channel %s in one step: its reducer is overwrite, which takes one writer; use append or another reducer", first, op.Task, op.Channel)
		}
		writer[op.Channel] = op.Task
	}
	return nil
}

// reduce gives the channels that operations change, with their new values. A
// Go reducer runs here: its operation becomes a set of the result.
func (r *run) reduce(ops []Op) (changed map[string]any, err error) {
	changed = make(map[string]any, len(ops))
	for i := range ops {
		op := &ops[i]
		current, ok := changed[op.Channel]
		if !ok {
			current = r.state[op.Channel]
		}
		if op.Op == "" {
			v, err := r.graph.channels[op.Channel].reduceInGo(current, op.Value)
			if err != nil {
				return nil, fmt.Errorf("channel %s: its reducer: %w", op.Channel, err)
			}
			op.Op, op.Value = OpSet, v
		}
		v, err := op.Apply(current)
		if err != nil {
			if op.Task != "" {
				return nil, fmt.Errorf("write of task %s: %w", op.Task, err)
			}
			return nil, err
		}
		changed[op.Channel] = v
	}
	return changed, nil
}

func (c *channel) reduceInGo(current, write any) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if out, err = c.Reduce(current, write); err != nil {
		return nil, err
	}
	out, _, err = value.Normalize(out)
	return out, err
}

// apply changes the state and gives a way back.
func (r *run) apply(changed map[string]any) (undo func()) {
	before := make(map[string]any, len(changed))
	for name, v := range changed {
		if old, had := r.state[name]; had {
			before[name] = old
		}
		r.state[name] = v
	}
	return func() {
		for name := range changed {
			if old, had := before[name]; had {
				r.state[name] = old
			} else {
				delete(r.state, name)
			}
		}
	}
}

// route evaluates where the finished tasks lead, over the merged state.
func (r *run) route(entry *Entry, outcomes []*outcome) (node string, err error) {
	gated := false
	routes := make(map[string][]string, len(outcomes))
	next := map[string]bool{}
	for _, o := range outcomes {
		entry.Tasks = append(entry.Tasks, o.task.id)
		entry.Payload.Notes = append(entry.Payload.Notes, o.task.notes...)
		targets, err := r.leads(o)
		if err != nil {
			return o.task.node.name, err
		}
		routes[o.task.id] = targets
		o.task.noteRan(&entry.Payload)
		if _, ok := r.graph.after[o.task.node.name]; ok {
			gated = true
		}
		for _, to := range targets {
			if to != End {
				next[to] = true
			}
		}
	}
	entry.Next = sortedKeys(next)
	if gated {
		entry.Payload.Routes = routes
	}
	return "", nil
}

// noteRan says in the log what a task resolved to, where its gate's question
// does not say it already.
func (t *Task) noteRan(p *Payload) {
	if t.resolved == nil || findGate(t.asked, interrupt.Before, t.id) != nil {
		return
	}
	if p.Ran == nil {
		p.Ran = map[string]any{}
	}
	p.Ran[t.id] = t.resolved
}

// leads is where one finished task leads: its goto, else its conditional edge,
// else all its plain edges, else the end.
func (r *run) leads(o *outcome) ([]string, error) {
	n := o.task.node
	switch {
	case o.output.Goto != nil:
		return o.output.Goto, nil
	case n.route != nil:
		return n.route.targets(r.graph, State(r.state))
	case len(n.plain) > 0:
		return n.plain, nil
	}
	return []string{End}, nil
}

func (e *ConditionalEdge) targets(g *Graph, s State) (targets []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route of node %s: panic: %v", e.From, p)
		}
	}()
	keys, err := e.Route(s)
	if err != nil {
		return nil, fmt.Errorf("route of node %s: %w", e.From, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("route of node %s gave no key; give %s to end", e.From, End)
	}
	for _, key := range keys {
		to, known := e.Routes[key]
		if !known && e.Routes == nil {
			to, known = key, key == End || g.nodes[key] != nil
		}
		if !known {
			to, known = e.Routes[DefaultRoute]
		}
		if !known {
			names := sortedKeys(e.Routes)
			if e.Routes == nil {
				names = append(g.Nodes(), End)
			}
			sort.Strings(names)
			return nil, fmt.Errorf("route of node %s gave the key %q, which leads nowhere; known keys are %s", e.From, key, strings.Join(names, ", "))
		}
		if !slices.Contains(targets, to) {
			targets = append(targets, to)
		}
	}
	return targets, nil
}
