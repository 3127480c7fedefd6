package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// delay is the time before the attempt that follows the n-th failed one.
func (p Retry) delay(n int) time.Duration {
	p = p.filled()
	d := math.Min(float64(p.InitialDelay)*math.Pow(p.Multiplier, float64(n-1)), float64(p.MaxDelay))
	if p.Jitter > 0 {
		d *= 1 + min(p.Jitter, 1)*(2*rand.Float64()-1)
	}
	return time.Duration(d)
}

// attempt runs a node until it finishes, asks, or has failed for good.
func (r *run) attempt(t *Task) (Output, error) {
	policy := t.node.Retry
	if t.node.OnCrash.guards() {
		policy = nil // what must not blindly be repeated is not
	}
	for {
		t.asks, t.keys = 0, nil
		t.shown, t.used = nil, Usage{}
		output, err := r.timed(t)
		if err == nil || policy == nil || !retryableFailure(t, err) {
			return output, err
		}
		if r.ctx.Err() != nil {
			return output, err
		}
		// If the process dies before this is stored the attempt was not
		// counted, and there is one more.
		t.mu.Lock()
		stored := t.put(context.WithoutCancel(r.ctx), ResultAttempt, "", value.Append(nil, err.Error()))
		t.mu.Unlock()
		if stored != nil {
			return output, stored
		}
		failed := t.failedAttempts()
		if failed > policy.MaxRetries {
			return output, fmt.Errorf("%w (attempt %d, the last)", err, failed)
		}
		d := policy.delay(failed)
		if hint := (*RetryError)(nil); errors.As(err, &hint) {
			d = max(d, hint.After)
		}
		r.emit(Event{Type: EventRetry, Step: t.step, Task: t.id, Node: t.node.name, Attempt: failed, Err: err, Elapsed: d})
		if clock.Sleep(r.ctx, r.e.o.Clock, d) != nil {
			return output, err
		}
	}
}

func (t *Task) failedAttempts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, res := range t.results {
		if res.Kind == ResultAttempt && res.Key == "" {
			n++
		}
	}
	return n
}

// RetryError is a failure of a node that knows when another attempt may help,
// such as one that a server asked to wait. Whether there is another attempt is
// the node's Retry.
type RetryError struct {
	Err   error
	After time.Duration // wait so long at least
	Never bool          // no other attempt can help
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap gives the failure.
func (e *RetryError) Unwrap() error { return e.Err }

// retryableFailure reports whether another attempt may help.
func retryableFailure(t *Task, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var storeErr storeError
	var hint *RetryError
	switch {
	case errors.Is(err, ErrBudget), errors.Is(err, ErrRefusal), errors.As(err, &hint) && hint.Never:
		return false
	case t.failure != nil, t.question != nil, len(t.inner) > 0, errors.As(err, &storeErr), errors.Is(err, ErrInDoubt), errors.Is(err, ErrStepLimit):
		return false
	case errors.Is(err, ErrTimeout):
		return t.node.Timeout != nil && t.node.Timeout.On == TimeoutRetry
	}
	return true
}

// timed runs a node once, within its timeout.
func (r *run) timed(t *Task) (Output, error) {
	limit := t.node.Timeout
	if limit == nil {
		return r.runNode(r.ctx, t)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	watch := &timeoutWatch{clock: r.e.o.Clock, limit: *limit, cancel: cancel, alive: make(chan struct{}, 1)}
	t.mu.Lock()
	t.alive = watch.alive
	t.mu.Unlock()
	var done sync.WaitGroup
	done.Go(func() { watch.run(ctx) })
	output, err := r.runNode(ctx, t)
	timedOut := context.Cause(ctx)
	cancel(nil)
	done.Wait()
	if err == nil || !errors.Is(timedOut, ErrTimeout) || r.ctx.Err() != nil {
		return output, err // finished in time, or just so
	}
	if limit.On == TimeoutSkip && !t.node.OnCrash.guards() {
		r.emit(Event{Type: EventNote, Step: t.step, Task: t.id, Node: t.node.name, Text: fmt.Sprintf("task %s %v and is skipped", t.id, timedOut)})
		return Output{}, nil
	}
	return output, errors.Join(timedOut, err)
}

// timeoutWatch ends a node's context when its time is over.
type timeoutWatch struct {
	clock  clock.Clock
	limit  Timeout
	cancel context.CancelCauseFunc
	alive  chan struct{}
}

func (w *timeoutWatch) run(ctx context.Context) {
	var total, idle <-chan time.Time
	stopTotal, stopIdle := func() {}, func() {}
	if w.limit.Run > 0 {
		total, stopTotal = w.clock.After(w.limit.Run)
	}
	if w.limit.Idle > 0 {
		idle, stopIdle = w.clock.After(w.limit.Idle)
	}
	defer func() { stopTotal(); stopIdle() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-total:
			w.cancel(fmt.Errorf("%w after %s", ErrTimeout, w.limit.Run))
			return
		case <-idle:
			select {
			case <-w.alive: // it came in time, and is seen late
				idle, stopIdle = w.clock.After(w.limit.Idle)
				continue
			default:
			}
			w.cancel(fmt.Errorf("%w: no sign of life for %s", ErrTimeout, w.limit.Idle))
			return
		case <-w.alive:
			if w.limit.Idle > 0 {
				stopIdle()
				idle, stopIdle = w.clock.After(w.limit.Idle)
			}
		}
	}
}

// Alive is a sign of life: it restarts the node's idle timeout.
func (t *Task) Alive() {
	t.mu.Lock()
	alive := t.alive
	t.mu.Unlock()
	select {
	case alive <- struct{}{}:
	default:
	}
}

// Failure is the failure that led to this task by on_error; nil if none did.
func (t *Task) Failure() *Failure { return t.handles }

func (o *outcome) hasHandler() bool { return o.task.node != nil && o.task.node.OnError != "" }

// handle turns failures whose node has an error handler into finished tasks
// that lead there, which are not run again while others fail or ask.
func (r *run) handle(s *sorted) {
	var rest []*outcome
	for _, o := range s.failed {
		if !o.hasHandler() {
			rest = append(rest, o)
			continue
		}
		o.failure = &Failure{Node: o.task.node.name, Task: o.task.id, Cause: o.err.Error()}
		o.output, o.ops, o.err = Output{Goto: []string{o.task.node.OnError}}, []Op{}, nil
		s.finished = append(s.finished, o)
	}
	s.failed = rest
}

// failuresOf are the tasks of a base that failed and were handed on, sorted.
func failuresOf(base *Entry) []string {
	if len(base.Payload.Failures) == 0 {
		return nil
	}
	return sortedKeys(base.Payload.Failures)
}
