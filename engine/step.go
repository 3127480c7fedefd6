package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-agent/holdfast/interrupt"
)

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
		o := &outcome{task: r.newTask(id, r.base(), &p)}
		outcomes[i] = o
		if !r.restore(o) {
			missing = append(missing, o)
		}
	}
	r.runTasks(missing)
	return r.finishStep(p, outcomes)
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
	if err := r.put(r.ctx, o.result(r.graph)); err != nil {
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

// finishStep looks at how the tasks went: a store error ends this run, a kill
// ends the work, a failure ends the turn, a question pauses it; else the step
// is committed.
func (r *run) finishStep(p plan, outcomes []*outcome) (*Turn, error) {
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
			results = append(results, o.result(r.graph))
		}
	}
	if cause := context.Cause(r.ctx); cause != nil && (aborted || len(failed) > 0 || len(questions) > 0) {
		return r.killed(cause, results)
	}
	failed = r.handled(failed)
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
	return r.commitStep(p, outcomes)
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
