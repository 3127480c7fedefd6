package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// runTasks runs tasks side by side, at most MaxConcurrency at once, and of one
// node at most its own. The caller's goroutine is one of those that run them: a
// single task needs no other.
func (r *run) runTasks(tasks []*outcome) {
	if len(tasks) == 1 {
		r.runTask(tasks[0])
		return
	}
	b := &batch{run: r, tasks: tasks}
	b.left.Store(int64(len(tasks)))
	if slices.ContainsFunc(tasks, func(o *outcome) bool { return o.bound() > 0 }) {
		b.queue()
	}
	b.places = min(len(b.tasks), r.e.o.MaxConcurrency)
	for range b.places - 1 {
		b.wait.Go(b.work)
	}
	b.work()
	b.wait.Wait()
}

// batch is tasks that run side by side. It has as many goroutines as places, so
// that a task waits for no other as long as there is a place; each goes from one
// task to the next.
type batch struct {
	run    *run
	tasks  []*outcome // that wait for a place and nothing else
	places int
	wait   sync.WaitGroup
	next   atomic.Int64 // index of the task that is to start next
	left   atomic.Int64 // tasks that did not end yet
	failed atomic.Bool

	mu     sync.Mutex
	behind map[*node][]*outcome // that wait for another of their node to end
}

// bound is how many tasks of the task's node may run at once; 0 is any number.
func (o *outcome) bound() int {
	if o.task.node == nil {
		return 0
	}
	return o.task.node.MaxConcurrency
}

// queue puts tasks behind others of their node when no more may run at once.
func (b *batch) queue() {
	b.behind = map[*node][]*outcome{}
	first := map[*node]int{}
	b.tasks = slices.DeleteFunc(slices.Clone(b.tasks), func(o *outcome) bool {
		n := o.task.node
		if o.bound() == 0 || first[n] < o.bound() {
			first[n]++
			return false
		}
		b.behind[n] = append(b.behind[n], o)
		return true
	})
}

// after takes the first task that waits behind o.
func (b *batch) after(o *outcome) *outcome {
	if b.behind == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.behind[o.task.node]
	if len(list) == 0 {
		return nil
	}
	b.behind[o.task.node] = list[1:]
	return list[0]
}

func (b *batch) work() {
	for i := int(b.next.Add(1)) - 1; i < len(b.tasks); i = int(b.next.Add(1)) - 1 {
		// After a failure those that waited for a place do not start. Those that
		// found one at once do, however fast a sibling fails: which ones run is no
		// matter of luck.
		waited := i >= b.places
		for o := b.tasks[i]; o != nil; o = b.after(o) {
			b.one(o, waited)
			waited = true
		}
	}
}

func (b *batch) one(o *outcome, waited bool) {
	if waited && b.failed.Load() || b.run.ctx.Err() != nil {
		o.aborted = true
		b.left.Add(-1)
		return
	}
	b.run.runTask(o)
	// The last one rides in the step's own commit.
	if last := b.left.Add(-1) == 0; o.ops != nil && !last {
		b.run.storeOutcome(o)
	}
	// What an error handler takes over is no failure of the step.
	if o.err != nil && (!o.hasHandler() || errors.As(o.err, new(storeError))) {
		b.failed.Store(true)
	}
}
