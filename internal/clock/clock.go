// Package clock is where the program gets its time from, so that a test can
// have time of its own: [Real] for the program, [Fake] for tests.
//
// Rules:
//
//   - Nothing but this package calls time.Now, time.Sleep or time.NewTimer for
//     something that a test may want to see happen.
//   - A timer that is not needed any more is stopped: call the stop function
//     that came with it, always, also after it fired. No timer has a goroutine.
//   - A point in time that is stored (a deadline, a wake time) is waited for
//     with At, never with After and a difference: the system's timers stand
//     still while a laptop sleeps, and the wall clock does not.
package clock

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time and wakes up whoever waits for it. Its methods may be
// called from several goroutines at once.
type Clock interface {
	// Now is the time by this clock.
	Now() time.Time

	// After gives a channel that receives the time once, when d has passed (at
	// once if d is not positive). After stop has returned nothing arrives any
	// more; stop may be called more than once.
	After(d time.Duration) (fired <-chan time.Time, stop func())

	// At is like After, for a point in time by the wall clock: it fires when
	// Now is not before t, also if the machine slept or its clock was set
	// meanwhile.
	At(t time.Time) (fired <-chan time.Time, stop func())
}

// Sleep waits until d has passed or ctx is done, whose cause it then returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fired, stop := c.After(d)
	defer stop()
	return wait(ctx, fired)
}

// SleepUntil waits until it is t or ctx is done, whose cause it then returns.
func SleepUntil(ctx context.Context, c Clock, t time.Time) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fired, stop := c.At(t)
	defer stop()
	return wait(ctx, fired)
}

func wait(ctx context.Context, fired <-chan time.Time) error {
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Real is the system's clock.
var Real Clock = realClock{}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) After(d time.Duration) (<-chan time.Time, func()) {
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

func (realClock) At(t time.Time) (<-chan time.Time, func()) {
	return newWallTimer(t, longestNap, time.Now)
}

// longestNap is how long a timer for a point in time trusts the system's
// timer before it looks at the wall clock again, and so the longest time by
// which it can be late after the machine slept.
const longestNap = 30 * time.Second

// wallTimer fires when the wall clock shows a time. It has no goroutine: each
// nap ends in a callback that takes the next one.
type wallTimer struct {
	at      time.Time // without a monotonic reading, which would hide the sleep
	longest time.Duration
	now     func() time.Time
	fired   chan time.Time

	mu    sync.Mutex
	timer *time.Timer
	over  bool // fired or stopped
}

func newWallTimer(at time.Time, longest time.Duration, now func() time.Time) (<-chan time.Time, func()) {
	w := &wallTimer{at: at.Round(0), longest: longest, now: now, fired: make(chan time.Time, 1)}
	w.nap()
	return w.fired, w.stop
}

func (w *wallTimer) nap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now := w.now()
	left := w.at.Sub(now.Round(0))
	if left <= 0 {
		w.over = true
		w.fired <- now
		return
	}
	left = min(left, w.longest)
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.nap)
	} else {
		w.timer.Reset(left)
	}
}

func (w *wallTimer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	select {
	case <-w.fired: // nothing arrives after stop
	default:
	}
}
