package engine

import "context"

// watch looks, while tasks run, for a cancel from outside and for another
// process that took the thread over. It ends with stopWatching.
func (r *run) watch() {
	if r.log == nil || r.unwatch != nil {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	done := make(chan struct{})
	fence := r.thread.Fence
	go func() {
		defer close(done)
		for {
			t, err := r.log.Wait(ctx)
			switch {
			case err != nil:
				return
			case t.Fence != fence:
				r.kill(ErrConflict)
				return
			case t.CancelRequested:
				r.kill(ErrCancelled)
				return
			}
		}
	}()
	r.unwatch = func() { stop(); <-done }
}

func (r *run) stopWatching() {
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
}
