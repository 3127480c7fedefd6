package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func (b *bundle) failing(times int) engine.Node {
	return engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		if b.count("a") <= times {
			return engine.Output{}, errors.New("no luck")
		}
		return engine.Set("log", "a"), nil
	}}
}

// startWithClock runs a turn and gives the delays that it waits for, each
// passed by jumping the clock.
func (b *bundle) startWithClock(g *engine.Graph, thread string, resume bool) (*engine.Turn, []time.Duration, error) {
	b.Helper()
	fake := clock.NewFake(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	var delays []time.Duration
	retries := make(chan struct{}, 100)
	e := engine.New(g, b.store, engine.Options{Clock: fake, Events: func(ev engine.Event) {
		if ev.Type == engine.EventRetry {
			delays = append(delays, ev.Elapsed)
			retries <- struct{}{}
		}
	}})
	ctx, done := context.WithCancel(b.Context())
	jumped := make(chan struct{})
	go func() {
		defer close(jumped)
		for {
			select {
			case <-retries:
				if fake.WaitForTimers(ctx, 1) != nil {
					return
				}
				fake.Next()
			case <-ctx.Done():
				return
			}
		}
	}()
	var turn *engine.Turn
	var err error
	if resume {
		turn, err = e.Resume(b.Context(), thread)
	} else {
		turn, err = e.Start(b.Context(), thread, engine.Input{})
	}
	done()
	<-jumped
	return turn, delays, err
}

func TestAFailedNodeIsRetriedWithGrowingDelays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Nodes["a"] = b.failing(3)
	d.Retry = &engine.Retry{MaxRetries: 4, MaxDelay: 300 * time.Millisecond}
	turn, delays, err := b.startWithClock(b.compile(d), "t", false)
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}, delays)
	b.verify()
}

// Case 41 of the seeds; fault 21 of the first.
func TestRetriesAreCountedAcrossRestarts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = b.failing(100)
	d.Retry = &engine.Retry{MaxRetries: 2}
	g := b.compile(d)
	_, _, err := b.startWithClock(g, "t", false)
	require.ErrorContains(t, err, "no luck (attempt 3, the last)")
	require.Len(t, b.takeRuns(), 3)
	_, delays, err := b.startWithClock(g, "t", true)
	require.ErrorContains(t, err, "attempt 4")
	require.Len(t, b.takeRuns(), 1, "a spent budget gets one more attempt")
	require.Empty(t, delays)
}

// Cases 15 and 16 of the seeds; and what guards its work is not repeated.
func TestQuestionsAndGuardedWorkAreNotRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Retry = &engine.Retry{MaxRetries: 5}
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("a")
		_, err := t.Ask(engine.Ask{Message: "?"})
		return engine.Output{}, err
	}}
	n := b.failing(100)
	n.OnCrash = engine.CrashAsk
	d.Nodes["b"] = n
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, b.takeRuns(), 1)
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: 1})
	require.ErrorContains(t, err, "no luck")
	require.Len(t, b.takeRuns(), 2)
}

func TestATimeoutFailsRetriesOrSkips(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		on      engine.OnTimeout
		idle    bool
		want    engine.Status
		attempt int
	}{
		{engine.TimeoutFail, false, engine.Failed, 1},
		{engine.TimeoutFail, true, engine.Failed, 1},
		{engine.TimeoutRetry, false, engine.Failed, 3},
		{engine.TimeoutSkip, false, engine.Done, 1},
	} {
		t.Run(string(tc.on), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			fake := clock.NewFake(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			d := b.chain("a", "b")
			limit := &engine.Timeout{Run: time.Minute, On: tc.on}
			if tc.idle {
				limit = &engine.Timeout{Idle: time.Minute, On: tc.on}
			}
			d.Nodes["a"] = engine.Node{Timeout: limit, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
				b.ran("a")
				<-ctx.Done()
				return engine.Output{}, context.Cause(ctx)
			}}
			d.Retry = &engine.Retry{MaxRetries: 2}
			ctx, done := context.WithCancel(t.Context())
			jumped := make(chan struct{})
			go func() {
				defer close(jumped)
				for fake.WaitForTimers(ctx, 1) == nil {
					fake.Next()
				}
			}()
			turn, err := engine.New(b.compile(d), b.store, engine.Options{Clock: fake}).Start(t.Context(), "t", engine.Input{})
			done()
			<-jumped
			require.Equal(t, tc.want, turn.Status)
			require.Equal(t, tc.attempt, b.count("a"))
			if tc.want == engine.Failed {
				require.ErrorAs(t, err, new(*engine.TurnError))
				require.ErrorContains(t, err, "timed out")
			} else {
				require.NoError(t, err)
				require.Equal(t, []any{"b"}, turn.State["log"])
			}
			b.verify()
		})
	}
}

func TestAnErrorHandlerTakesOverAFailedBranch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "after_a")
	n := b.failing(100)
	n.OnError = "handler"
	d.Nodes["a"] = n
	d.Nodes["sibling"] = b.node()
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "sibling"})
	var seen *engine.Failure
	d.Nodes["handler"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		seen = t.Failure()
		return engine.Set("log", "handled"), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"sibling", "handled"}, turn.State["log"])
	require.Equal(t, &engine.Failure{Node: "a", Task: "a", Cause: "no luck"}, seen)
	b.verify()
}

func TestAnErrorHandlerTakesOverWorkThatACrashCutShort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{OnCrash: engine.CrashFail, OnError: "handler", Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		b.ran("a")
		stop()
		return engine.Output{}, ctx.Err()
	}}
	d.Nodes["handler"] = b.node()
	e := b.engine(b.compile(d))
	_, err := e.Start(ctx, "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrStopped)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a", "handler"}, b.takeRuns())
	b.verify()
}
