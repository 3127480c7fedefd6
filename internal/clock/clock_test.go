package clock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// arrived takes what is in the channel now.
func arrived(c <-chan time.Time) (time.Time, bool) {
	select {
	case at := <-c:
		return at, true
	default:
		return time.Time{}, false
	}
}

func TestFakeStandsStillUntilMoved(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	if !c.Now().Equal(start) {
		t.Errorf("got %v, want %v", c.Now(), start)
	}
	c.Advance(time.Hour)
	if want := start.Add(time.Hour); !c.Now().Equal(want) {
		t.Errorf("after Advance: got %v, want %v", c.Now(), want)
	}
}

func TestFakeTimersFireWhenTheirTimeComes(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	second, stopSecond := c.After(2 * time.Second)
	defer stopSecond()
	first, stopFirst := c.At(start.Add(time.Second))
	defer stopFirst()

	c.Advance(time.Second - 1)
	if _, ok := arrived(first); ok {
		t.Fatal("fired early")
	}
	c.Advance(1)
	if at, ok := arrived(first); !ok || !at.Equal(start.Add(time.Second)) {
		t.Errorf("first: got %v, %v", at, ok)
	}
	if _, ok := arrived(second); ok {
		t.Fatal("second fired early")
	}
	c.Advance(time.Hour)
	// It gets its own time, not where Advance ends.
	if at, ok := arrived(second); !ok || !at.Equal(start.Add(2*time.Second)) {
		t.Errorf("second: got %v, %v", at, ok)
	}
	if want := start.Add(time.Hour + time.Second); !c.Now().Equal(want) {
		t.Errorf("Now: got %v, want %v", c.Now(), want)
	}
	if c.Timers() != 0 {
		t.Errorf("%d timers are left", c.Timers())
	}
}

func TestTimersForNowOrThePastFireAtOnce(t *testing.T) {
	t.Parallel()
	fake := NewFake(start)
	for _, c := range []Clock{fake, Real} {
		now := c.Now()
		for _, at := range []time.Time{now, now.Add(-time.Hour)} {
			fired, stop := c.At(at)
			<-fired
			stop()
		}
		for _, d := range []time.Duration{0, -time.Second} {
			fired, stop := c.After(d)
			<-fired
			stop()
		}
	}
	if fake.Timers() != 0 {
		t.Errorf("%d timers are left", fake.Timers())
	}
}

func TestNextJumpsToTheNextTimerAndFiresAllOfThatTime(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	if now, ok := c.Next(); ok || !now.Equal(start) {
		t.Errorf("with no timer: got %v, %v", now, ok)
	}
	late, stopLate := c.After(time.Hour)
	defer stopLate()
	a, stopA := c.After(time.Minute)
	defer stopA()
	b, stopB := c.After(time.Minute)
	defer stopB()
	now, ok := c.Next()
	if !ok || !now.Equal(start.Add(time.Minute)) {
		t.Errorf("got %v, %v", now, ok)
	}
	for _, fired := range []<-chan time.Time{a, b} {
		if _, ok := arrived(fired); !ok {
			t.Error("a timer of that time did not fire")
		}
	}
	if _, ok := arrived(late); ok {
		t.Error("a later timer fired too")
	}
	if now, ok := c.Next(); !ok || !now.Equal(start.Add(time.Hour)) {
		t.Errorf("second jump: got %v, %v", now, ok)
	}
}

func TestNothingArrivesAfterStop(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	fired, stop := c.After(time.Second)
	stop()
	stop()
	c.Advance(time.Minute)
	if _, ok := arrived(fired); ok {
		t.Error("a stopped timer fired")
	}
	fired, stop = c.After(time.Second)
	c.Advance(time.Minute)
	stop()
	if _, ok := arrived(fired); ok {
		t.Error("a value was left after stop")
	}
	for _, set := range []func() (<-chan time.Time, func()){
		func() (<-chan time.Time, func()) { return Real.After(0) },
		func() (<-chan time.Time, func()) { return Real.At(time.Now()) },
		func() (<-chan time.Time, func()) { return Real.At(time.Now().Add(time.Hour)) },
	} {
		fired, stop := set()
		stop()
		stop()
		if _, ok := arrived(fired); ok {
			t.Error("a value was left after stop of a real timer")
		}
	}
}

func TestSettingTheFakeBackFiresNothing(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	fired, stop := c.At(start.Add(time.Minute))
	defer stop()
	c.Advance(-time.Hour)
	if _, ok := arrived(fired); ok {
		t.Error("fired when the clock was set back")
	}
	c.Advance(time.Hour)
	if _, ok := arrived(fired); ok {
		t.Error("fired early")
	}
	c.Advance(time.Minute)
	if _, ok := arrived(fired); !ok {
		t.Error("did not fire")
	}
}

func TestWaitForTimersReturnsWhenEnoughWait(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := Sleep(t.Context(), c, time.Duration(i+1)*time.Second); err != nil {
				t.Errorf("Sleep: %v", err)
			}
		})
	}
	if err := c.WaitForTimers(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, ok := c.Next(); !ok {
			t.Error("a timer is missing")
		}
	}
	all.Wait()
	if c.Timers() != 0 {
		t.Errorf("%d timers are left", c.Timers())
	}
}

func TestWaitsEndWithTheCauseOfTheirContext(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	why := errors.New("why")
	for name, wait := range map[string]func(context.Context) error{
		"Sleep":      func(ctx context.Context) error { return Sleep(ctx, c, time.Hour) },
		"SleepUntil": func(ctx context.Context) error { return SleepUntil(ctx, c, start.Add(time.Hour)) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		over := make(chan error, 1)
		go func() { over <- wait(ctx) }()
		if err := c.WaitForTimers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		cancel(why)
		if err := <-over; !errors.Is(err, why) {
			t.Errorf("%s: got %v, want the cause", name, err)
		}
		if c.Timers() != 0 {
			t.Errorf("%s left its timer behind", name)
		}
		if err := wait(ctx); !errors.Is(err, why) {
			t.Errorf("%s with a context that is done: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := c.WaitForTimers(ctx, 1); !errors.Is(err, why) {
		t.Errorf("WaitForTimers: got %v, want the cause", err)
	}
}

func TestSleepUntilReturnsWhenItIsTime(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	over := make(chan error, 1)
	go func() { over <- SleepUntil(t.Context(), c, start.Add(72*time.Hour)) }()
	if err := c.WaitForTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.Advance(72 * time.Hour)
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func TestRealTimersFire(t *testing.T) {
	t.Parallel()
	before := Real.Now()
	if err := Sleep(t.Context(), Real, time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := SleepUntil(t.Context(), Real, before.Add(3*time.Millisecond)); err != nil {
		t.Error(err)
	}
	if passed := Real.Now().Round(0).Sub(before.Round(0)); passed < 3*time.Millisecond {
		t.Errorf("only %v passed", passed)
	}
}

// A machine that slept: the wall clock is far ahead of what its timers counted.
func TestRealTimerForATimeSeesTheWallClockJump(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	wall, looks := start, 0
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if looks++; looks == 3 {
			wall = wall.Add(48 * time.Hour)
		}
		return wall
	}
	fired, stop := newWallTimer(start.Add(24*time.Hour), time.Millisecond, now)
	defer stop()
	if at := <-fired; !at.Equal(start.Add(48 * time.Hour)) {
		t.Errorf("fired at %v", at)
	}
}

func TestTimersAreSafeFromManyGoroutines(t *testing.T) {
	t.Parallel()
	c := NewFake(start)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 50 {
				fired, stop := c.After(time.Duration(i) * time.Millisecond)
				if i%3 == 0 {
					stop()
					continue
				}
				for done := false; !done; {
					select {
					case <-fired:
						done = true
					default:
						c.Next()
					}
				}
				stop()
			}
		})
	}
	all.Wait()
	if c.Timers() != 0 {
		t.Errorf("%d timers are left", c.Timers())
	}
}
