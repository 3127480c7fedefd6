package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// step runs the tasks of one step and commits it. A nil turn means that it
// goes on.
func (r *run) step(p plan) (*Turn, error) {
	if !r.held && r.log != nil {
		return r.result(), fmt.Errorf("thread %s is not held by this run", r.thread.ID) // a mistake in this package
	}
	r.watch()
	return r.finishStep(p, r.tasks(p))
}

// tasks runs the tasks of a step that have no stored result.
func (r *run) tasks(p plan) []*outcome {
	outcomes := r.one[:0] // a step of one task, which is most of them, uses the room in r
	if len(p.tasks) > 1 {
		outcomes = make([]*outcome, 0, len(p.tasks))
		r.index = r.byTask()
	}
	rooms := make([]outcome, len(p.tasks))
	restored := false
	for i, id := range p.tasks {
		o := &rooms[i]
		stored := r.stored(r.base().Seq, id)
		r.fillTask(&o.task, id, r.base(), &p, stored)
		restored = r.restore(o, stored) || restored
		outcomes = append(outcomes, o)
	}
	r.index = nil
	missing := outcomes
	if restored {
		missing = slices.DeleteFunc(slices.Clone(outcomes), func(o *outcome) bool { return o.stored })
	}
	r.runTasks(missing)
	return outcomes
}

// byTask sorts the stored results of the base by their tasks, so that a step
// of many tasks need not look through all of them for each.
func (r *run) byTask() map[string][]Result {
	r.root.mu.Lock()
	defer r.root.mu.Unlock()
	if len(r.root.results) == 0 {
		return nil
	}
	index := map[string][]Result{}
	for _, res := range r.root.results {
		if res.Base == r.base().Seq {
			index[res.Task] = append(index[res.Task], res)
		}
	}
	return index
}

// stored gives the stored results of a task on a base.
func (r *run) stored(base int64, task string) []Result {
	if r.index != nil {
		return r.index[task]
	}
	r.root.mu.Lock()
	defer r.root.mu.Unlock()
	var out []Result
	for _, res := range r.root.results {
		if res.Base == base && res.Task == task {
			out = append(out, res)
		}
	}
	return out
}

// storeOutcome stores the result of a task whose siblings still run, so that
// it is not run again whatever becomes of them.
func (r *run) storeOutcome(o *outcome) {
	if r.log == nil {
		return
	}
	if err := r.put(r.ctx, o.result(r.graph)); err != nil {
		o.err = storeError{err}
		return
	}
	o.stored = true
}

func (r *run) put(ctx context.Context, res Result) error {
	root := r.root
	if root.log == nil {
		return nil
	}
	if res.At.IsZero() {
		res.At = r.e.now()
	}
	res.Base = r.base().Seq
	if err := root.log.Put(context.WithoutCancel(ctx), res); err != nil {
		return storeError{err}
	}
	root.mu.Lock()
	defer root.mu.Unlock()
	root.results = append(root.results, res)
	return nil
}

// sorted is how the tasks of a step went, by what follows from it.
type sorted struct {
	storeErr  error      // the store failed: this run is over
	failed    []*outcome // and no error handler takes over
	aborted   bool       // some were killed or not started
	questions []pending
	finished  []*outcome // and their results are not stored yet
}

// pending is a question that is not asked yet: it is written when the thread
// has come to rest.
type pending struct {
	question *interrupt.Question
	ns       string
	step     int64 // of the graph that asks
}

func (r *run) sort(outcomes []*outcome) (s sorted) {
	for _, o := range outcomes {
		switch {
		case o.err != nil && errors.As(o.err, new(storeError)):
			s.storeErr = o.err
		case o.err != nil:
			s.failed = append(s.failed, o)
		case o.aborted:
			s.aborted = true
		case len(o.questions) > 0:
			s.questions = append(s.questions, o.questions...)
		}
	}
	if !s.broke() {
		return s // the step will be committed, and nobody needs the results
	}
	for _, o := range outcomes {
		if o.finished() && !o.stored {
			s.finished = append(s.finished, o)
		}
	}
	return s
}

// resultsOf are the results of finished tasks, to be stored.
func (r *run) resultsOf(finished []*outcome) []Result {
	var out []Result
	for _, o := range finished {
		res := o.result(r.graph)
		res.Base = r.base().Seq
		out = append(out, res)
	}
	return out
}

// broke reports whether the work was killed before it could end by itself.
func (s sorted) broke() bool { return s.aborted || len(s.failed) > 0 || len(s.questions) > 0 }

// finishStep looks at how the tasks went: a store error ends this run, a kill
// ends the work, a failure ends the turn, a question pauses it; else the step
// is committed.
func (r *run) finishStep(p plan, outcomes []*outcome) (*Turn, error) {
	s := r.sort(outcomes)
	if s.storeErr != nil {
		return r.broken(s.storeErr)
	}
	if cause := context.Cause(r.ctx); cause != nil && s.broke() {
		return r.killed(cause, r.resultsOf(s.finished))
	}
	r.handle(&s)
	switch {
	case len(s.failed) > 0:
		r.stopWatching()
		return r.fail(s.failed, r.resultsOf(s.finished))
	case len(s.questions) > 0:
		r.stopWatching()
		if err := r.pause(s.questions, r.resultsOf(s.finished)); err != nil {
			return r.broken(err)
		}
		return nil, nil
	}
	if failed := r.commitStep(p, outcomes); failed != nil {
		return failed()
	}
	return nil, nil
}

// killed stores what finished, so that it is not done again, and ends.
func (r *run) killed(cause error, results []Result) (*Turn, error) {
	if len(results) > 0 && r.log != nil && !errors.Is(cause, ErrCancelled) && !errors.Is(cause, ErrConflict) {
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
	end := &EndRecord{Cause: first.err.Error(), Node: nodeOf(first.task.id), Task: first.task.id, Code: codeOf(first.err)}
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
