package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// commitStep applies the writes in task order, evaluates the routes over the
// merged state and commits the step. If that fails it gives what to do.
func (r *run) commitStep(p plan, outcomes []*outcome) (failed func() (*Turn, error)) {
	broken := func(err error) func() (*Turn, error) {
		if r != r.root {
			// Only the graph itself ends a turn or gives the lease back.
			return func() (*Turn, error) { return nil, err }
		}
		return func() (*Turn, error) { return r.broken(err) }
	}
	ops := outcomes[0].ops
	if len(outcomes) > 1 {
		n := 0
		for _, o := range outcomes {
			n += len(o.ops)
		}
		ops = make([]Op, 0, n)
		for _, o := range outcomes {
			ops = append(ops, o.ops...)
		}
	}
	if len(outcomes) > 1 {
		if err := r.twoWriters(ops); err != nil {
			return r.stepFailed(outcomes, "channel", "", err)
		}
	}
	changed, err := r.reduce(ops)
	if err != nil {
		return r.stepFailed(outcomes, "channel", "", err)
	}
	r.apply(changed)
	entry := r.stepEntry()
	*entry = Entry{Kind: KindStep, Status: Running, Step: r.head.Step + 1, Tasks: p.tasks, At: r.time(), Payload: Payload{Ops: r.graph.stored(ops)}}
	r.addShown(entry, outcomes)
	if node, err := r.route(entry, p.frontier, outcomes); err != nil {
		r.undo(changed)
		return r.stepFailed(outcomes, "router", node, err)
	}
	entries, leave := r.withGates(entry)
	if leave != LeaseMoving {
		r.stopWatching()
	}
	// If the process dies before this commit the results that are stored stay,
	// and only the others run again; after it the step is done.
	if err := failpoint.HitIn("engine.step.before", r.thread.ID); err != nil {
		r.undo(changed)
		return broken(storeError{err})
	}
	if err := r.commit(leave, entries, nil, Commit{}); err != nil {
		r.undo(changed)
		return broken(err)
	}
	if err := failpoint.HitIn("engine.step.after", r.thread.ID); err != nil {
		return broken(storeError{err})
	}
	if r == r.root && r.log != nil && r.log.SnapshotDue() {
		if err := r.log.Snapshot(context.WithoutCancel(r.ctx), r.durable()); err != nil {
			r.emit(Event{Type: EventNote, Text: fmt.Sprintf("no snapshot was written, so that loading takes longer: %v", err), Err: err})
		}
	}
	for _, note := range entry.Payload.Notes {
		r.emit(Event{Type: EventNote, Text: note})
	}
	if r.heard() {
		r.emit(Event{Type: EventStep, Seq: entry.Seq, Entry: entry, Step: entry.Step, Status: r.thread.Status})
		r.questionEvents(entries)
	}
	return nil
}

// stepEntry is room for the entry of a step. The run and the store copy an entry;
// who listens may keep it, and then each needs room of its own.
func (r *run) stepEntry() *Entry {
	if r.heard() {
		return new(Entry)
	}
	return &r.entry
}

// time is when an entry is made: now, if anybody will ever see it.
func (r *run) time() (at time.Time) {
	if r.log != nil || r.heard() || r.graph.timeouts {
		at = r.e.now()
	}
	return at
}

// stepFailed ends the turn because of a step whose tasks all finished: their
// results stay, so that only the merge and the routes are done again.
func (r *run) stepFailed(outcomes []*outcome, code, node string, cause error) func() (*Turn, error) {
	var finished []*outcome
	for _, o := range outcomes {
		if !o.stored {
			finished = append(finished, o)
		}
	}
	results := r.resultsOf(finished)
	if r != r.root {
		return func() (*Turn, error) {
			for _, res := range results {
				if err := r.put(r.ctx, res); err != nil {
					return nil, err
				}
			}
			return nil, cause
		}
	}
	return func() (*Turn, error) {
		r.stopWatching()
		return r.end(Failed, &EndRecord{Cause: cause.Error(), Code: code, Node: node}, "", results)
	}
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

// change is what becomes of one channel.
type change struct {
	channel  string
	old, now any
	had      bool
}

// changes is what becomes of the channels that a step writes. There are few of
// them, so that looking through a list is quicker than a map.
type changes []change

func (c changes) find(channel string) *change {
	for i := range c {
		if c[i].channel == channel {
			return &c[i]
		}
	}
	return nil
}

// reduce gives the channels that operations change, with their new values. A
// Go reducer runs here: its operation becomes a set of the result.
func (r *run) reduce(ops []Op) (changed changes, err error) {
	changed = r.changed[:0]
	for i := range ops {
		op := &ops[i]
		c := changed.find(op.Channel)
		if c == nil {
			old, had := r.state[op.Channel]
			changed = append(changed, change{channel: op.Channel, old: old, now: old, had: had})
			c = &changed[len(changed)-1]
		}
		if op.Op == "" {
			v, err := r.graph.channels[op.Channel].reduceInGo(c.now, op.Value)
			if err != nil {
				return nil, fmt.Errorf("channel %s: its reducer: %w", op.Channel, err)
			}
			if r != r.root {
				op.Raw = []any{op.Value}
			}
			op.Op, op.Value = OpSet, v
		}
		v, err := op.Apply(c.now)
		if err != nil {
			if op.Task != "" {
				return nil, fmt.Errorf("write of task %s: %w", op.Task, err)
			}
			return nil, err
		}
		c.now = v
		if err := r.grow(c, op); err != nil {
			return nil, err
		}
	}
	r.changed = changed
	return changed, nil
}

// apply changes the state; undo changes it back.
func (r *run) apply(changed changes) {
	for i := range changed {
		r.state[changed[i].channel] = changed[i].now
	}
}

func (r *run) undo(changed changes) {
	for _, c := range changed {
		delete(r.sizes, c.channel)
		if c.had {
			r.state[c.channel] = c.old
		} else {
			delete(r.state, c.channel)
		}
	}
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
