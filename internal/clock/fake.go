package clock

import (
	"context"
	"sync"
	"time"
)

// Fake is a clock that a test moves by hand. It stands still until then.
// Timers whose time comes fire in the order of their times, and of being set
// where those are the same.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*fakeTimer  // in the order in which they were set
	changed chan struct{} // closed, and replaced, when a timer is set or gone
}

var _ Clock = (*Fake)(nil)

type fakeTimer struct {
	at    time.Time
	fired chan time.Time
}

// NewFake gives a clock that shows start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: start.Round(0), changed: make(chan struct{})}
}

// Now is the time that the clock was moved to last.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// After implements [Clock].
func (f *Fake) After(d time.Duration) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set(f.now.Add(d))
}

// At implements [Clock].
func (f *Fake) At(t time.Time) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set(t.Round(0))
}

// Advance moves the clock by d and fires every timer whose time comes. A
// negative d is a system clock that was set back: nothing fires.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.now.Add(d)
	for {
		i := f.earliest()
		if i < 0 || f.timers[i].at.After(target) {
			break
		}
		f.fire(i)
	}
	f.now = target
}

// Next moves the clock to the next timer and fires it, and every other one for
// the same time. It reports the time that it is now, and whether there was a
// timer at all; if not, the clock stands where it stood.
func (f *Fake) Next() (now time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.earliest()
	if first < 0 {
		return f.now, false
	}
	target := f.timers[first].at
	for i := first; i >= 0 && !f.timers[i].at.After(target); i = f.earliest() {
		f.fire(i)
	}
	return f.now, true
}

// Timers is how many timers are set and have neither fired nor been stopped.
func (f *Fake) Timers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.timers)
}

// WaitForTimers blocks until at least n timers are set, so that a test moves
// the clock only when what it tests has begun to wait. It returns the cause of
// ctx if that is done first: pass t.Context(), or one with a deadline.
func (f *Fake) WaitForTimers(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		count, changed := len(f.timers), f.changed
		f.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *Fake) set(at time.Time) (<-chan time.Time, func()) {
	timer := &fakeTimer{at: at, fired: make(chan time.Time, 1)}
	if !at.After(f.now) {
		timer.fired <- f.now
	} else {
		f.timers = append(f.timers, timer)
		f.wake()
	}
	return timer.fired, func() { f.stop(timer) }
}

func (f *Fake) stop(timer *fakeTimer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.timers {
		if f.timers[i] == timer {
			f.remove(i)
			break
		}
	}
	select {
	case <-timer.fired: // nothing arrives after stop
	default:
	}
}

// earliest is the index of the timer that fires next, -1 if none is set.
func (f *Fake) earliest() int {
	first := -1
	for i := range f.timers {
		if first < 0 || f.timers[i].at.Before(f.timers[first].at) {
			first = i
		}
	}
	return first
}

func (f *Fake) fire(i int) {
	timer := f.timers[i]
	// A clock that was set back and forth may have passed it already.
	if timer.at.After(f.now) {
		f.now = timer.at
	}
	f.remove(i)
	timer.fired <- f.now
}

func (f *Fake) remove(i int) {
	f.timers = append(f.timers[:i], f.timers[i+1:]...)
	f.wake()
}

func (f *Fake) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}
