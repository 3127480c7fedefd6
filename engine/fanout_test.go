package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// planner sends n tasks to worker, which squares x; reduce sees what they wrote.
func (b *bundle) mapReduce(n int) engine.Definition {
	return engine.Definition{
		Name:     "map",
		Channels: map[string]engine.Channel{"x": {}, "results": {Reducer: engine.Append}, "sum": {}},
		Nodes: map[string]engine.Node{
			"planner": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
				var out engine.Output
				for i := range n {
					out = out.Send("worker", engine.Values{"x": i})
				}
				return out, nil
			}},
			"worker": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				b.ran(t.ID())
				x := t.Get("x").(int64)
				return engine.Set("results", x*x), nil
			}},
			"reduce": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				b.ran("reduce")
				sum := int64(0)
				for _, v := range t.Get("results").([]any) {
					sum += v.(int64)
				}
				return engine.Set("sum", sum), nil
			}},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "planner"}, {From: "worker", To: "reduce"}},
	}
}

func TestSendsRunSideBySideAndMergeInTheOrderOfSending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turn, err := b.engine(b.compile(b.mapReduce(12))).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	want := []any{}
	for i := range 12 {
		want = append(want, int64(i*i))
	}
	require.Equal(t, want, turn.State["results"], "worker[10] comes after worker[9]")
	require.Equal(t, int64(506), turn.State["sum"])
	require.Nil(t, turn.State["x"], "an input is seen by its task alone")
	require.Equal(t, 1, b.count("reduce"))
	b.verify()
}

// Case 61 of the seeds.
func TestASendToAMissingNodeRunsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(0)
	d.Nodes["planner"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}.Send("worker", engine.Values{"x": 1}).Send("missing", nil), nil
	}}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `node planner: send 1: there is no node "missing"`)
	require.Empty(t, b.takeRuns())
	d.Nodes["planner"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}.Send("worker", engine.Values{"y": 1}), nil
	}}
	_, err = b.engine(b.compile(d)).Start(t.Context(), "u", engine.Input{})
	require.ErrorContains(t, err, `send 0: input for node worker: there is no channel "y"`)
}

// Case 9 of the seeds, as the design has it: the gate after the planner
// pauses before any worker.
func TestAGateBehindThePlannerPausesBeforeAnyWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(3)
	d.InterruptAfter = []engine.Gate{{Node: "planner"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Empty(t, b.takeRuns())
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{int64(0), int64(1), int64(4)}, turn.State["results"])
	_, err = e.Start(t.Context(), "u", engine.Input{})
	require.NoError(t, err)
	turn, err = e.Resume(t.Context(), "u", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	b.verify()
}

// Fault 6 of the first seed.
func TestSendsAskSinglyAndOnlyThePausedOnesRunAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(4)
	d.Nodes["worker"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.ID())
		x := t.Get("x").(int64)
		if x%2 == 0 {
			return engine.Set("results", x), nil
		}
		a, err := t.Ask(engine.Ask{Message: fmt.Sprintf("%d?", x)})
		return engine.Set("results", a.Value), err
	}}
	d.Nodes["reduce"] = b.node()
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.Questions, 2)
	b.takeRuns()
	// In any order, by id (mastra#19083).
	for _, i := range []int{1, 0} {
		q := turn.Questions[i]
		_, err = e.Answer(t.Context(), "t", interrupt.Answer{Question: q.ID(), Value: "to " + q.Payload.Message})
		require.NoError(t, err)
	}
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{int64(0), "to 1?", int64(2), "to 3?"}, turn.State["results"])
	require.ElementsMatch(t, []string{"worker[1]", "worker[3]", "reduce"}, b.takeRuns())
	b.verify()
}

func TestNoMoreTasksThanAllowedRunAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("of an engine", func(t *testing.T) { noMoreThanFour(t, 4, 0) })
	t.Run("of a node", func(t *testing.T) { noMoreThanFour(t, 64, 4) })
	t.Run("of both", func(t *testing.T) { noMoreThanFour(t, 4, 5) })
}

func noMoreThanFour(t *testing.T, ofEngine, ofNode int) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(20)
	var now, peak atomic.Int64
	full := make(chan struct{})
	d.Nodes["worker"] = engine.Node{MaxConcurrency: ofNode, Run: func(context.Context, *engine.Task) (engine.Output, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			old := peak.Load()
			if n <= old || peak.CompareAndSwap(old, n) {
				break
			}
		}
		if n == 4 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		<-full // the first four really run side by side
		return engine.Output{}, nil
	}}
	e := engine.New(b.compile(d), b.store, engine.Options{MaxConcurrency: ofEngine})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, int64(4), peak.Load())
}

func TestQueuedTasksDoNotStartAfterAFailure(t *testing.T) {
	t.Parallel()
	t.Run("behind the bound of an engine", func(t *testing.T) { queuedTasksDoNotStart(t, 1, 0) })
	t.Run("behind the bound of a node", func(t *testing.T) { queuedTasksDoNotStart(t, 64, 1) })
}

func queuedTasksDoNotStart(t *testing.T, ofEngine, ofNode int) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(10)
	var fail atomic.Bool
	fail.Store(true)
	d.Nodes["worker"] = engine.Node{MaxConcurrency: ofNode, Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.ID())
		if t.ID() == "worker[2]" && fail.Load() {
			return engine.Output{}, errors.New("no")
		}
		return engine.Set("results", t.Get("x")), nil
	}}
	e := engine.New(b.compile(d), b.store, engine.Options{MaxConcurrency: ofEngine})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "failed at node worker")
	require.Equal(t, []string{"worker[0]", "worker[1]", "worker[2]"}, b.takeRuns())
	fail.Store(false)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, turn.State["results"], 10)
	require.Equal(t, "worker[2]", b.takeRuns()[0])
	b.verify()
}

// joined is a -> j and s1 -> s2 -> j.
func (b *bundle) joined(barrier *engine.Barrier) engine.Definition {
	d := b.chain("s1", "s2", "j")
	d.Nodes["a"] = b.node()
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "a"}, engine.Edge{From: "a", To: "j"})
	j := b.node()
	j.Barrier = barrier
	d.Nodes["j"] = j
	return d
}

// Cases 44 and 45 of the seeds.
func TestAJoinRunsOnceAfterTheLastOfItsMembers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	without := b.compile(b.joined(nil))
	require.Len(t, without.Warnings(), 1)
	require.Contains(t, without.Warnings()[0].Message, "unequal length")
	_, err := b.engine(without).Start(t.Context(), "without", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, 2, b.count("j"))
	b.takeRuns()

	with := b.compile(b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}}))
	require.Empty(t, with.Warnings())
	turn, err := b.engine(with).Start(t.Context(), "with", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "s1", "s2", "j"}, turn.State["log"])

	equal := b.chain("a", "j")
	equal.Nodes["b"] = b.node()
	equal.Edges = append(equal.Edges, engine.Edge{From: engine.Start, To: "b"}, engine.Edge{From: "b", To: "j"})
	b.takeRuns()
	_, err = b.engine(b.compile(equal)).Start(t.Context(), "equal", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, 1, b.count("j"))
	b.verify()
}

// Fault 3 of the second seed.
func TestArrivalsSurviveAPauseBetweenThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.InterruptBefore = []engine.Gate{{Node: "s2"}}
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	g := b.compile(d)
	e := b.engine(g)
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	for range 2 {
		turn, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t", approve())
		require.NoError(t, err)
		if turn.Status == engine.Done {
			require.Equal(t, []any{"a", "s1", "s2", "j"}, turn.State["log"])
			b.verify()
			return
		}
		require.Equal(t, engine.Paused, turn.Status)
	}
	t.Fatal("the join never ran")
}

// langgraphjs#2666 and fault 3 of the second seed.
func TestAStarvedJoinIsAnErrorThatNamesWhoIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.Nodes["s1"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}.GoTo(engine.End), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "join j has a and waits for s2")
	require.Equal(t, engine.Failed, turn.Status)
	b.verify()
}

func TestAJoinThatWaitsForARejectedBranchRejectsTheTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.InterruptBefore = []engine.Gate{{Node: "s1"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	require.Equal(t, []string{"a"}, b.takeRuns())
	b.verify()
}

func TestAQuorumGoesOnAndTheLateOneSettlesItsDebt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Rounds: a and s2 arrive at j; one is enough. a arrives first, s2 a step
	// later and too late; j leads to next, which ends after two rounds.
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}, Min: 1})
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("j"), "the late arrival does not run the join again")
	b.verify()
}

// Case 53 of the seeds.
func TestABarrierThatCanNeverFillIsACompileError(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	for _, tc := range []struct {
		barrier engine.Barrier
		want    string
	}{
		{engine.Barrier{WaitFor: []string{"j", "a", "s2"}}, "/nodes/j/barrier/wait_for/0: join j waits for itself"},
		{engine.Barrier{WaitFor: []string{"a", "s2", "zz"}}, `/nodes/j/barrier/wait_for/2: there is no node "zz"`},
		{engine.Barrier{WaitFor: []string{"a"}}, "an edge leads from s2 into join j, which does not wait for it"},
		{engine.Barrier{WaitFor: []string{"a", "s2"}, Min: 3}, "needs 3 of 2"},
		{engine.Barrier{}, "waits for nobody"},
	} {
		d := b.joined(&tc.barrier)
		d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append}}
		for name, n := range d.Nodes {
			n.Type = "test"
			d.Nodes[name] = n
		}
		_, err := engine.Compile(d)
		require.ErrorContains(t, err, tc.want)
	}
}
