package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// What the two systems get wrong, where no other test is about it.

// Faults 10 of the first and 12 of the second; langgraphjs PR2854, langgraph#6869,
// langchain-azure#1057: a clock that stands still or goes back hides nothing.
func TestAClockThatGoesBackHidesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.compile(b.chain("a", "b"))
	at := func(when time.Time) *engine.Engine {
		return engine.New(g, b.store, engine.Options{Clock: clock.NewFake(when)})
	}
	_, err := at(noon).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	edit := func(text string) engine.Edit {
		return engine.Edit{Writes: []engine.Write{{Channel: "log", Value: []any{text}, Overwrite: true}}}
	}
	_, err = at(noon).Update(t.Context(), "t", edit("in the same millisecond"))
	require.NoError(t, err)
	_, err = at(noon.Add(-time.Hour)).Update(t.Context(), "t", edit("an hour earlier"))
	require.NoError(t, err)
	view, err := engine.New(g, b.open(), engine.Options{}).State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, []any{"an hour earlier"}, view.State["log"])
	turn, err := at(noon.Add(-2*time.Hour)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"an hour earlier", "a", "b"}, turn.State["log"])
	b.verify()
}

// Fault 3 of the first: what another branch or another turn wrote is not read.
func TestEveryTurnAndEveryBranchReadsItsOwnValues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Channels = map[string]engine.Channel{"x": {}}
	var value atomic.Int64
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("x", value.Load()), nil
	}}
	e := b.engine(b.compile(d))
	reads := func(want int64, seq int64) {
		t.Helper()
		view, err := b.open().At(t.Context(), "t", seq)
		require.NoError(t, err)
		require.Equal(t, want, view.State["x"])
	}
	for n := range int64(2) {
		value.Store(n + 1)
		_, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		reads(n+1, 0)
	}
	_, err := e.Fork(t.Context(), "t@1", "t", engine.By{})
	require.NoError(t, err)
	value.Store(20)
	_, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	reads(20, 0)
	reads(1, 2)
	reads(2, 5)
	b.verify()
}

// Faults 4 of the first and 8 of the second: neither to go on after a failure,
// nor to call again, nor another process, nor an input is an approval.
func TestNothingButAnAnswerPassesAGate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Nodes["a"] = b.failing(1)
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	g := b.compile(d)
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	for range 3 {
		e := engine.New(g, b.open(), engine.Options{})
		turn, err := e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status)
		require.Len(t, turn.Questions, 1)
		_, err = e.Start(t.Context(), "t", engine.Input{})
		require.ErrorIs(t, err, engine.ErrPaused)
		_, err = e.Update(t.Context(), "t", engine.Edit{})
		require.NoError(t, err)
	}
	require.Zero(t, b.count("b"))
	turn, err := b.engine(g).Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("b"))
	b.verify()
}

// Fault 5 of the first: a gate behind a node keeps where the node leads, be it
// a goto or a join.
func TestAGateBehindANodeKeepsItsGotoAndItsArrival(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.Nodes["right"] = b.node()
	d.Nodes["s1"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("log", "s1").GoTo("right", "s2"), nil
	}}
	d.InterruptAfter = []engine.Gate{{Node: "a"}, {Node: "s1"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.Questions, 2)
	for _, q := range turn.Questions {
		yes := approve()
		yes.Question = q.ID()
		turn, err = e.Resume(t.Context(), "t", yes)
		require.NoError(t, err)
	}
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "s1", "right", "s2", "j"}, turn.State["log"], "j ran once, after both")
	b.verify()
}

// Faults 11 of the first and 9 of the second.
func TestAThreadThatPausedInASubgraphGoesOnAfterAnUpdateAndInAFork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.around(b.inner(), "first", "sub", "last"))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Fork(t.Context(), "t@2", "fork", engine.By{})
	require.NoError(t, err)
	_, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "by hand"}}})
	require.NoError(t, err)
	for thread, want := range map[string][]any{
		"t":    {"first", "by hand", "expensive", "gated", "finish", "last"},
		"fork": {"first", "expensive", "gated", "finish", "last"},
	} {
		turn, err := e.Resume(t.Context(), thread)
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status, "the gate inside is asked on the new base")
		turn, err = e.Resume(t.Context(), thread, approve())
		require.NoError(t, err)
		require.Equal(t, engine.Done, turn.Status)
		require.Equal(t, want, turn.State["log"])
	}
	b.verify()
}

// Fault 15 of the second.
func TestASubgraphAndAnEffectWorkUnderATimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	limit := &engine.Timeout{Run: time.Hour, Idle: time.Hour}
	inner := b.chain("effect")
	inner.Nodes["effect"] = engine.Node{Timeout: limit, Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		if engine.TaskFrom(ctx) != t {
			return engine.Output{}, errors.New("the context has another task")
		}
		v, err := engine.Step(ctx, "e", func(context.Context) (string, error) { b.ran("done"); return "done", nil })
		if err == nil {
			_, err = t.Ask(engine.Ask{Message: "?"})
		}
		return engine.Set("log", v), err
	}}
	d := b.chain("sub")
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(inner)}, Timeout: limit}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err = e.Resume(t.Context(), "t", answerOf(turn, true))
	require.NoError(t, err)
	require.Equal(t, []any{"done"}, turn.State["log"])
	require.Equal(t, 1, b.count("done"))
	b.verify()
}

// Faults 17 and 19 of the second: what was stored for one visit, or for one
// use of a key, is not given to another.
func TestAnEffectInALoopIsDoneOnEveryVisit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		var out []any
		for i := range 2 {
			v, err := engine.Step(ctx, "e", func(context.Context) (string, error) {
				b.ran("e")
				return fmt.Sprint("step ", t.Step(), " use ", i), nil
			})
			if err != nil {
				return engine.Output{}, err
			}
			out = append(out, v)
		}
		o := engine.Set("log", out)
		if t.Step() < 3 {
			o = o.GoTo("a")
		}
		return o, nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"step 1 use 0", "step 1 use 1", "step 2 use 0", "step 2 use 1", "step 3 use 0", "step 3 use 1"}, turn.State["log"])
	require.Equal(t, 6, b.count("e"))
	b.verify()
}

// Fault 20 of the second, also behind a gate.
func TestARouteIsEvaluatedOnceAStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["next"] = b.node()
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "a", Route: func(engine.State) ([]string, error) {
		b.ran("route")
		return []string{"next"}, nil
	}}}
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	g := b.compile(d)
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("route"))
	require.Equal(t, 1, b.count("next"))
	b.verify()
}

// Case 35 of the seeds: a result that is taken from the file is what it was.
func TestAStoredResultKeepsItsOverwrites(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("seed")
	d.Nodes["seed"] = writes(engine.Set("log", []any{1, 2}))
	d.Nodes["overwrites"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("overwrites")
		return engine.Output{Writes: []engine.Write{{Channel: "log", Value: []any{9}, Overwrite: true}}}, nil
	}}
	d.Nodes["fails"] = b.failing(1)
	d.Edges = append(d.Edges, engine.Edge{From: "seed", To: "overwrites"}, engine.Edge{From: "seed", To: "fails"})
	g := b.compile(d)
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	turn, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{int64(9)}, turn.State["log"], "in task order: fails, then overwrites")
	require.Equal(t, 1, b.count("overwrites"))
	b.verify()
}

// Case 74 of the seeds; fault 18 of the first and 21 of the second: a step
// stores what it wrote, however large the state is.
func TestAnUnchangedChannelCostsNothingAndAListWhatIsAdded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Channels = map[string]engine.Channel{}
	large := strings.Repeat("x", 10_000)
	for i := range 6 {
		d.Channels[fmt.Sprint("c", i)] = engine.Channel{Initial: large}
	}
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		o := engine.Set(fmt.Sprint("c", t.Step()), "small").Set("log", strings.Repeat("y", 200))
		if t.Step() < 5 {
			o = o.GoTo("a")
		}
		return o, nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.NoError(t, e.History(t.Context(), "t", func(entry engine.Entry) error {
		if entry.Kind == engine.KindStep {
			ops, err := json.Marshal(entry.Payload.Ops)
			require.NoError(t, err)
			require.Less(t, len(ops), 400, "%s", ops)
		}
		return nil
	}))
	view, err := b.open().At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, large, view.State["c0"])
	require.Len(t, view.State["log"], 5)
	b.verify()
}

// strands-agents#3067, langgraph#6956: a branch that was not taken does not
// matter for a resume, and next names the node that paused.
func TestAResumeGoesOnAtThePausedNodeBesideABranchThatWasNotTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["taken"], d.Nodes["skipped"], d.Nodes["end"] = b.asks(), b.node(), b.node()
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "a", Route: func(engine.State) ([]string, error) { return []string{"taken"}, nil }}}
	d.Edges = append(d.Edges, engine.Edge{From: "taken", To: "end"}, engine.Edge{From: "skipped", To: "end"})
	g := b.compile(d)
	turn, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"taken"}, view.Base().Next)
	b.takeRuns()
	turn, err = engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t", interrupt.Answer{Question: turn.Questions[0].ID(), Value: "yes"})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"taken", "end"}, b.takeRuns())
	b.verify()
}

// dapr#5978: timers side by side all fire, each in its time and once.
func TestTimersSideBySideAllFire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := engine.Definition{Nodes: map[string]engine.Node{}}
	for hours := range 5 {
		name := fmt.Sprint("sleep", hours)
		d.Nodes[name] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			return engine.Set("log", t.Node()), t.Sleep(time.Duration(1+hours%3) * time.Hour)
		}}
		d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: name})
	}
	g := b.compile(d)
	fake := clock.NewFake(noon)
	e := engine.New(g, b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	for left := 3; left > 0; left-- {
		require.Equal(t, engine.Sleeping, turn.Status, left)
		fake.Advance(time.Hour)
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
	}
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"sleep0", "sleep1", "sleep2", "sleep3", "sleep4"}, turn.State["log"])
	b.verify()
}

func TestASignOfLifeRestartsTheIdleTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Timeout: &engine.Timeout{Idle: time.Minute}, Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		for i := range 6 {
			if err := fake.WaitForTimers(ctx, 1); err != nil {
				return engine.Output{}, context.Cause(ctx)
			}
			if i%2 == 0 {
				t.Alive()
			} else {
				t.Print("still here")
			}
			fake.Advance(50 * time.Second)
		}
		return engine.Set("log", "done"), nil
	}}
	turn, err := engine.New(b.compile(d), b.store, engine.Options{Clock: fake}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"done"}, turn.State["log"], "five minutes, and never one of silence")
	b.verify()
}

func TestEventsTellHowLongATaskTook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("a", "b")
	takes := func(d time.Duration, err error) engine.Node {
		return engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
			fake.Advance(d)
			return engine.Output{}, err
		}}
	}
	d.Nodes["a"], d.Nodes["b"] = takes(time.Hour, nil), takes(time.Minute, errors.New("no luck"))
	took := map[engine.EventType]time.Duration{}
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake, Events: func(ev engine.Event) {
		if ev.Elapsed > 0 {
			took[ev.Type] = ev.Elapsed
		}
	}})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	require.Equal(t, map[engine.EventType]time.Duration{engine.EventTaskFinished: time.Hour, engine.EventTaskFailed: time.Minute}, took)
}
