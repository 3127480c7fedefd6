package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

// watch looks, while tasks run, for a cancel from outside and for another
// process that took the thread over. It ends with stopWatching.
func (r *run) watch() {
	if r.unwatch != nil || (r.log == nil && r.deadline == nil) {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	var done sync.WaitGroup
	r.unwatch = func() { stop(); done.Wait() }
	if at := r.deadline; at != nil {
		done.Go(func() {
			if clock.SleepUntil(ctx, r.e.o.Clock, *at) == nil {
				r.kill(fmt.Errorf("%w: it was %s", ErrDeadline, at.Format(time.RFC3339)))
			}
		})
	}
	if r.log == nil {
		return
	}
	fence := r.thread.Fence
	done.Go(func() {
		for {
			t, err := r.log.Wait(ctx)
			switch {
			case err != nil:
				return
			case t.Fence != fence:
				r.kill(ErrConflict)
				return
			case t.CancelRequested:
				r.kill(&CancelError{By: t.CancelBy})
				return
			}
		}
	})
}

// CancelError is the cause of a context that a cancel ends: whoever ends the
// context of a call with it cancels the turn in somebody's name.
type CancelError struct{ By By }

func (e *CancelError) Error() string {
	return "the turn was cancelled by " + or(e.By.Actor, "somebody")
}

// Is makes errors.Is(err, ErrCancelled) true.
func (e *CancelError) Is(target error) bool { return target == ErrCancelled }

// cancelledBy is whose cancel an error is.
func (r *run) cancelledBy(err error) By {
	var cancel *CancelError
	if errors.As(err, &cancel) {
		return cancel.By
	}
	if errors.Is(err, ErrCancelRequested) {
		// The flag was met by a commit: the file says whose it is.
		if r.log.Reload(context.WithoutCancel(r.ctx)) == nil {
			return r.log.View().Thread.CancelBy
		}
	}
	return By{Actor: osUser()}
}

func (r *run) stopWatching() {
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
}
