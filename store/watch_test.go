package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestWaitSeesWhatAnotherProcessDid(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(b *bundle, l engine.Log){
		"a cancel request": func(b *bundle, l engine.Log) { b.commit(l, &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}}) },
		"a take-over":      func(b *bundle, l engine.Log) { b.commit(l, &engine.Commit{Take: engine.TakeOver}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			l := b.begin("x")
			other := b.load(b.open(), "x")
			type result struct {
				th  engine.Thread
				err error
			}
			got := make(chan result, 1)
			go func() {
				th, err := l.Wait(t.Context())
				got <- result{th, err}
			}()
			if err := b.clock.WaitForTimers(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			// What it does itself is no news to it.
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
			b.clock.Advance(lookEvery)
			if err := b.clock.WaitForTimers(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if err := other.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			do(b, other)
			for {
				select {
				case r := <-got:
					if r.err != nil || (!r.th.CancelRequested && r.th.Fence != 2) {
						t.Errorf("got %+v, %v", r.th, r.err)
					}
					return
				default:
					b.clock.Next()
				}
			}
		})
	}
}

func TestWaitEndsWithItsContextAndWithTheStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := l.Wait(ctx)
		errs <- err
	}()
	if err := b.clock.WaitForTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	why := errors.New("why")
	cancel(why)
	want(t, <-errs, why)
	if n := b.clock.Timers(); n != 0 {
		t.Errorf("%d timers are left: the watcher goes on without anybody who waits", n)
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := l.Wait(t.Context())
			want(t, err, ErrClosed)
		})
	}
	waitUntil(t, func() bool {
		b.s.watch.mu.Lock()
		defer b.s.watch.mu.Unlock()
		return len(b.s.watch.waiters) == 5
	})
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := b.clock.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}
