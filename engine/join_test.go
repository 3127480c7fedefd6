package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

// timed is a -> j beside s1 -> s2 -> j, where j waits for an hour at most. What
// a node of run does takes the place of what it would do.
func (b *bundle) timed(run map[string]engine.Func) engine.Definition {
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}, Timeout: time.Hour})
	for name, f := range run {
		n := d.Nodes[name]
		n.Run = f
		d.Nodes[name] = n
	}
	return d
}

func strays(context.Context, *engine.Task) (engine.Output, error) {
	return engine.Set("log", "s1 strays").GoTo(engine.End), nil
}

func TestAJoinWithATimeoutRunsWithThoseWhoArrivedLateAndOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	g := b.compile(b.timed(map[string]engine.Func{"s1": strays}))
	e := engine.New(g, b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status, "only the timer is left")
	require.Empty(t, turn.Questions)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), *view.Thread.WakeAt)
	require.Len(t, view.Waits(), 1)
	require.Equal(t, "j", view.Waits()[0].AskingNode)
	require.Equal(t, "s2 to reach join j", view.Waits()[0].Payload.Message)

	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status, "too early")
	fake.Advance(5 * time.Hour)
	other := engine.New(g, b.open(), engine.Options{Clock: fake}) // another process, later
	turn, err = other.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "s1 strays", "j"}, turn.State["log"])
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("j"))
	require.Equal(t, []string{"input running", "step running", "pause sleeping", "answer running", "step done"}, b.kinds("t"))
	b.verify()
}

func TestACallThatSleepsAlongRunsAJoinInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.compile(b.timed(map[string]engine.Func{"s1": strays})), b.store, engine.Options{Clock: fake, Sleep: true})
	done := make(chan error, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		if err == nil && turn.Status != engine.Done {
			err = engine.ErrPaused
		}
		done <- err
	}()
	require.NoError(t, fake.WaitForTimers(t.Context(), 1))
	fake.Advance(time.Hour)
	require.NoError(t, <-done)
	require.Equal(t, 1, b.count("j"))
	b.verify()
}

func TestNobodyArrivesAtAJoinThatNeverBeganToWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turn, err := b.engine(b.compile(b.timed(map[string]engine.Func{"s1": strays, "a": strays}))).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status, "its time runs from the first arrival on")
	require.Zero(t, b.count("j"))
	b.verify()
}

func TestAJoinRunsAtItsTimeoutWhileOtherBranchesRunAndTheLateOneSettlesItsDebt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.timed(map[string]engine.Func{"s1": func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("log", "s1"), nil
	}, "s2": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Set("log", "s2"), nil
	}})
	// s1 -> slow -> s2: the time passes while slow runs.
	d.Nodes["slow"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		fake.Advance(2 * time.Hour)
		return engine.Set("log", "slow"), nil
	}}
	d.Edges = []engine.Edge{
		{From: engine.Start, To: "a"}, {From: engine.Start, To: "s1"}, {From: "s1", To: "slow"}, {From: "slow", To: "s2"},
		{From: "a", To: "j"}, {From: "s2", To: "j"},
	}
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "s1", "slow", "j", "s2"}, turn.State["log"], "j and s2 run in one step")
	require.Equal(t, 1, b.count("j"))
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Base().Payload.Debts)
	require.Empty(t, view.Base().Payload.Arrivals)
	view, err = e.State(t.Context(), "t", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"j", "s2"}, view.Base().Next)
	require.Equal(t, map[string][]string{"j": {"s2"}}, view.Base().Payload.Debts)
	b.verify()
}

// Case 51 of the seeds.
func TestAQuorumThatTheTimeoutFindsShortIsAnErrorThatSaysWhoArrived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	three := func(straying ...string) engine.Definition {
		d := engine.Definition{Nodes: map[string]engine.Node{}}
		for _, name := range []string{"a", "b", "c"} {
			d.Nodes[name] = b.node()
			d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: name}, engine.Edge{From: name, To: "j"})
		}
		for _, name := range straying {
			d.Nodes[name] = engine.Node{Run: strays}
		}
		j := b.node()
		j.Barrier = &engine.Barrier{WaitFor: []string{"a", "b", "c"}, Min: 2, Timeout: time.Hour}
		d.Nodes["j"] = j
		return d
	}
	e := engine.New(b.compile(three("c")), b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "two", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status, "two of three go on at once")
	require.Equal(t, 1, b.count("j"))

	e = engine.New(b.compile(three("b", "c")), b.store, engine.Options{Clock: fake})
	turn, err = e.Start(t.Context(), "one", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	fake.Advance(time.Hour)
	for range 2 {
		turn, err = e.Resume(t.Context(), "one")
		require.ErrorContains(t, err, "join j timed out after 1h0m0s: it has 1 of 3 (a), needs 2, and waits for b, c")
		require.Equal(t, engine.Failed, turn.Status)
	}
	var failed *engine.TurnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "j", failed.Node)

	// A time-out can be routed (sapiom-js PR468).
	d := three("b", "c")
	j := d.Nodes["j"]
	j.OnError = "alone"
	d.Nodes["j"] = j
	d.Nodes["alone"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Set("log", t.Failure().Node+" was short"), nil
	}}
	e = engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	_, err = e.Start(t.Context(), "routed", engine.Input{})
	require.NoError(t, err)
	fake.Advance(time.Hour)
	turn, err = e.Resume(t.Context(), "routed")
	require.NoError(t, err)
	require.Contains(t, turn.State["log"], "j was short")
	require.Equal(t, 1, b.count("j"))
	b.verify()
}

func TestAQuestionAndTheTimerOfAJoinWaitAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		passes time.Duration
		want   []any
	}{
		"answered in time":    {time.Minute, []any{"a", "s1", "s2", "j"}},
		"answered after that": {2 * time.Hour, []any{"a", "s1", "j", "s2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			fake := clock.NewFake(noon)
			asks := func(_ context.Context, t *engine.Task) (engine.Output, error) {
				b.ran("s2")
				_, err := t.Ask(engine.Ask{Message: "well?"})
				return engine.Set("log", "s2"), err
			}
			d := b.timed(map[string]engine.Func{"s2": asks})
			e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
			turn, err := e.Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			require.Equal(t, engine.Paused, turn.Status)
			fake.Advance(tc.passes)
			turn, err = e.Resume(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, engine.Paused, turn.Status, "a step that asks is not cut short")
			require.Zero(t, b.count("j"))
			turn, err = e.Resume(t.Context(), "t", answerOf(turn, "yes"))
			require.NoError(t, err)
			require.Equal(t, engine.Done, turn.Status)
			require.Equal(t, tc.want, turn.State["log"])
			require.Equal(t, 1, b.count("j"))
			require.Equal(t, 2, b.count("s2"))
			b.verify()
		})
	}
}

func TestAnArrivalBehindAGateCountsFromItsApproval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.timed(map[string]engine.Func{"s1": strays})
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	fake.Advance(3 * time.Hour)
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, noon.Add(4*time.Hour), *view.Thread.WakeAt)
	fake.Advance(time.Hour)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "s1 strays", "j"}, turn.State["log"])
	b.verify()
}

func TestAJoinInASubgraphHasATimeoutToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	inner := b.compile(b.timed(map[string]engine.Func{"s1": strays}))
	d := b.chain("before", "sub", "after")
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: inner}}
	g := b.compile(d)
	e := engine.New(g, b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	fake.Advance(2 * time.Hour)
	turn, err = engine.New(g, b.open(), engine.Options{Clock: fake}).Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"before", "a", "s1 strays", "j", "after"}, turn.State["log"])
	require.Equal(t, 1, b.count("a"))
	require.Equal(t, 1, b.count("j"))
	b.verify()
}

func TestAForkGivesAJoinItsWholeTimeAgainAndAnUpdateDoesNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.compile(b.timed(map[string]engine.Func{"s1": strays})), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	fake.Advance(30 * time.Minute)
	_, err = e.Fork(t.Context(), "t@2", "fork", engine.By{})
	require.NoError(t, err)
	_, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "by hand"}}})
	require.NoError(t, err)
	for thread, wakes := range map[string]time.Time{"t": noon.Add(time.Hour), "fork": noon.Add(90 * time.Minute)} {
		turn, err := e.Resume(t.Context(), thread)
		require.NoError(t, err)
		require.Equal(t, engine.Sleeping, turn.Status, thread)
		view, err := e.State(t.Context(), thread, 0)
		require.NoError(t, err)
		require.Equal(t, wakes, *view.Thread.WakeAt, thread)
	}
	fake.Advance(30 * time.Minute)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "s1 strays", "by hand", "j"}, turn.State["log"])
	// Who was missing arrives after all, by hand, and the fork runs its join at once.
	edited, err := e.Update(t.Context(), "fork", engine.Edit{Node: "s2"})
	require.NoError(t, err)
	require.Empty(t, edited.Dropped)
	turn, err = e.Resume(t.Context(), "fork")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "s1 strays", "j"}, turn.State["log"])
	b.verify()
}

func TestTwoJoinsRunEachAtItsOwnTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.timed(map[string]engine.Func{"s1": strays})
	k := b.node()
	k.Barrier = &engine.Barrier{WaitFor: []string{"a", "s2"}, Timeout: 2 * time.Hour}
	d.Nodes["k"] = k
	d.Edges = append(d.Edges, engine.Edge{From: "a", To: "k"}, engine.Edge{From: "s2", To: "k"})
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	fake.Advance(time.Hour)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	require.Equal(t, 1, b.count("j"))
	require.Zero(t, b.count("k"))
	fake.Advance(time.Hour)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("k"))
	b.verify()
}

func TestATimeoutOfAJoinIsCheckedAndPartOfTheGraph(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.timed(nil)
	g := b.compile(d)
	require.Contains(t, string(g.Canonical()), `"timeout":"1h0m0s"`)
	d.Nodes["j"] = engine.Node{Run: strays, Barrier: &engine.Barrier{WaitFor: []string{"a", "s2"}, Timeout: -1}}
	_, err := engine.Compile(d)
	require.ErrorContains(t, err, "/nodes/j/barrier/timeout: join j waits for -1ns")
	d.Nodes["j"] = engine.Node{Run: strays, Barrier: &engine.Barrier{WaitFor: []string{"a", "s2"}, Timeout: 1, Min: 1}}
	d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append}}
	g, err = engine.Compile(d)
	require.NoError(t, err)
	require.Contains(t, g.Warnings()[0].Message, "join j never waits for its timeout")
}
