package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// newTask makes what a node sees. Base is where the task stands: the entry
// that made it ready.
func (r *run) newTask(id string, base *Entry, p *plan) *Task {
	t := new(Task)
	r.fillTask(t, id, base, p, r.stored(base.Seq, id))
	return t
}

func (r *run) fillTask(t *Task, id string, base *Entry, p *plan, stored []Result) {
	t.id, t.node, t.run = id, r.graph.nodes[nodeOf(id)], r
	t.base, t.turn, t.step = base.Seq, base.Turn, base.Step+1
	t.state = State(r.state)
	if input, sent := base.Payload.Sends[id]; sent {
		t.state = maps.Clone(t.state)
		maps.Copy(t.state, input)
	}
	if p != nil {
		t.gate = p.gates[id]
		if r.graph.timeouts {
			t.short = r.graph.short(id, p.frontier)
		}
	}
	for _, task := range failuresOf(base) {
		f := base.Payload.Failures[task]
		if r.graph.nodes[f.Node] != nil && r.graph.nodes[f.Node].OnError == id {
			t.handles = &f
			break
		}
	}
	for _, res := range stored {
		if res.Kind != ResultTask {
			t.results = append(t.results, res)
		}
	}
	if len(r.tail) > 1 && r.tail[0].Seq == base.Seq {
		for _, q := range r.asked() {
			if q.question.Task == id {
				t.asked = append(t.asked, q)
			}
		}
	}
}

// runTask runs a node once and sorts out how it went.
func (r *run) runTask(o *outcome) {
	t := &o.task
	if t.node == nil {
		o.err = fmt.Errorf("there is no node %q in graph %s", nodeOf(t.id), r.graph.name)
		return
	}
	defer t.end()
	if t.short != nil {
		o.err = t.short
		r.emit(Event{Type: EventTaskFailed, Step: t.step, Task: t.id, Node: t.node.name, Err: o.err})
		return
	}
	var began time.Time
	if r.heard() {
		began = r.e.o.Clock.Now()
	}
	output, err := r.attempt(t)
	elapsed := func() time.Duration { return r.e.o.Clock.Now().Sub(began) }
	t.mu.Lock()
	question, failure := t.question, t.failure
	t.mu.Unlock()
	for _, err := range [...]error{err, failure} {
		if lost, ok := errors.AsType[storeError](err); ok {
			o.err = lost
			return
		}
	}
	switch {
	case failure != nil:
		err = failure
	case question != nil:
		o.questions = append(r.own([]*interrupt.Question{question}), t.inner...)
		return
	case len(t.inner) > 0:
		o.questions = t.inner
		return
	case err == nil && output.Ask != nil:
		if question, err = t.returned(*output.Ask); err == nil {
			o.questions = r.own([]*interrupt.Question{question})
			return
		}
	case err == nil:
		t.mu.Lock()
		t.used = t.spent()
		t.mu.Unlock()
		err = o.check(r.graph, output)
	}
	o.refused = t.refused
	switch {
	case err == nil:
		if r.heard() {
			r.emit(Event{Type: EventTaskFinished, Step: t.step, Task: t.id, Node: t.node.name, Writes: o.output.Writes, Elapsed: elapsed()})
		}
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
func (r *run) runNode(ctx context.Context, t *Task) (output Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.emit(Event{Type: EventNote, Task: t.id, Node: t.node.name, Text: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())})
			err = fmt.Errorf("panic: %v", p)
			if brokeErr := t.broke(r.ctx, "", t.node.OnCrash, t.resolved, err); brokeErr != nil {
				err = brokeErr
			}
		}
	}()
	if t.node.Resolve != nil {
		if t.resolved, err = r.resolve(t.id, r.base(), t.gate); err != nil {
			return Output{}, err
		}
		for _, q := range t.asked {
			if q.question.Payload.Kind == interrupt.Before && !value.Equal(q.question.Shows, t.resolved) {
				return Output{}, fmt.Errorf("what would run now is not what was approved in %s: approved was %s, now it is %s",
					q.question.ID(), jsonText(q.question.Shows), jsonText(t.resolved))
			}
		}
	}
	t.ctx = taskContext{ctx, t}
	ctx = &t.ctx
	if t.node.OnCrash.guards() {
		t.mu.Lock()
		done, err := t.settle(ctx, "", t.node.OnCrash, t.resolved, nil)
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
	if r.heard() {
		r.emit(Event{Type: EventTaskStarted, Step: t.step, Task: t.id, Node: t.node.name, Resolved: t.resolved})
	}
	// If the process dies while the node runs, a node that guards its work
	// left an intent without a result; any other runs again.
	if err := failpoint.HitIn("engine.node.before", r.thread.ID); err != nil {
		return Output{}, err
	}
	if t.node.Subgraph != nil {
		output, err = r.runSubgraph(ctx, t)
	} else {
		output, err = t.node.Run(ctx, t)
	}
	if err != nil {
		if t.node.OnCrash.guards() && errors.Is(context.Cause(ctx), ErrTimeout) {
			err = fmt.Errorf("%w: %w", err, ErrInDoubt)
		}
		return output, t.broke(r.ctx, "", t.node.OnCrash, t.resolved, err)
	}
	if err := t.rests(ctx, "", output.Ask != nil); err != nil {
		return output, err
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
