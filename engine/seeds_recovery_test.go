package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Cases 33 and 34 of the seeds.
func TestResultsAreStoredUnderTheirTaskAndGoneWithTheStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(3)
	var fail atomic.Bool
	fail.Store(true)
	var attempts sync.Map
	d.Nodes["worker"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		key, again := attempts.LoadOrStore(t.ID(), t.IdempotencyKey("pay"))
		if again && key != t.IdempotencyKey("pay") {
			return engine.Output{}, errors.New("another key than before")
		}
		if t.ID() == "worker[1]" && fail.Load() {
			return engine.Output{}, errors.New("no luck")
		}
		return engine.Set("results", t.Get("x")), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	var tasks []string
	for _, r := range view.Results {
		require.Equal(t, engine.ResultTask, r.Kind)
		tasks = append(tasks, r.Task)
	}
	require.Equal(t, []string{"worker[0]", "worker[2]"}, tasks)
	fail.Store(false)
	_, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	view, err = b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Results)
	b.verify()
}

// Case 36 of the seeds.
func TestABadSendFailsTheSameOnResumeAndRecordsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(0)
	d.Nodes["planner"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}.Send("worker", engine.Values{"x": 1}).Send("missing", nil), nil
	}}
	e := b.engine(b.compile(d))
	_, first := e.Start(t.Context(), "t", engine.Input{})
	require.Error(t, first)
	_, again := e.Resume(t.Context(), "t")
	require.EqualError(t, again, first.Error())
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Results)
	require.Empty(t, b.takeRuns())
	b.verify()
}

// Cases 38 and 39 of the seeds.
func TestEffectsAreDoneOnceWhetherTheNodeFailsOrAsks(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks %v", asks), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a")
			d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
				var out engine.Output
				for i := range 3 {
					_, err := engine.Step(ctx, fmt.Sprint("child ", i), func(context.Context) (int, error) {
						b.ran("child")
						if i == 2 && b.count("child") == 3 {
							return 0, errors.New("no luck")
						}
						return i, nil
					})
					if err != nil {
						return out, err
					}
					if asks && i == 0 {
						if _, err := t.Ask(engine.Ask{Message: "go on?"}); err != nil {
							return out, err
						}
					}
				}
				return out, nil
			}}
			e := b.engine(b.compile(d))
			turn, err := e.Start(t.Context(), "t", engine.Input{})
			if asks {
				require.NoError(t, err)
				require.Equal(t, 1, b.count("child"))
				turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: true})
			}
			require.ErrorContains(t, err, "effect child 2: no luck")
			require.Equal(t, engine.Failed, turn.Status)
			_, err = e.Resume(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, 4, b.count("child"), "the one that failed is not recorded")
			b.verify()
		})
	}
}

// Case 42 of the seeds: what cannot be stored has not happened.
func TestAStepThatCannotBeStoredIsReportedByNoEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var types []engine.EventType
	e := engine.New(b.compile(b.chain("a", "b")), b.store, engine.Options{Events: func(ev engine.Event) { types = append(types, ev.Type) }})
	failpoint.SetIn(t, "store.commit.before", b.path, "2+*error")
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, failpoint.ErrInjected)
	require.NotContains(t, types, engine.EventStep)
	require.NotContains(t, types, engine.EventTurnEnded)
	require.Equal(t, []string{"a"}, b.takeRuns())
}

// Case 43 of the seeds; deer-flow#3115: what was cut short is shown as such,
// and goes on.
func TestATurnThatWasCutShortIsRunningWithNobodyAndGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	d := b.chain("a", "b")
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		stop()
		return engine.Set("log", "a"), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(ctx, "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrStopped)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, engine.Running, view.Thread.Status)
	require.Nil(t, view.Thread.Owner)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b"}, turn.State["log"])
	require.Equal(t, []string{"a", "b"}, b.takeRuns())
	b.verify()
}

// Case 49 of the seeds.
func TestAJoinThatRanNeedsAllItsMembersAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.Nodes["round"] = b.node()
	for _, to := range []string{"a", "s1"} {
		d.Edges = append(d.Edges, engine.Edge{From: "round", To: to})
	}
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "j", Route: func(s engine.State) ([]string, error) {
		if len(s["log"].([]any)) < 8 {
			return []string{"round"}, nil
		}
		return []string{engine.End}, nil
	}, Routes: map[string]string{"round": "round", engine.End: engine.End}}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"a", "s1", "s2", "j", "round", "a", "s1", "s2", "j"}, turn.State["log"])
	b.verify()
}

// Case 50 of the seeds: an update keeps what arrived.
func TestAnUpdateKeepsArrivals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.InterruptBefore = []engine.Gate{{Node: "s2"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "edited"}}})
	require.NoError(t, err)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"j": {"a"}}, view.Base().Payload.Arrivals)
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{"a", "s1", "edited", "s2", "j"}, turn.State["log"])
	b.verify()
}

// Case 52 of the seeds.
func TestBranchesAreCollectedAndMergedByTheirChannels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("fork")
	d.Channels = map[string]engine.Channel{"list": {Reducer: engine.Append}, "map": {Reducer: engine.Merge}, "first": {Reducer: engine.Min}}
	for i, name := range []string{"a", "b"} {
		d.Nodes[name] = writes(engine.Set("list", i+1).Set("map", map[string]any{name: i + 1}).Set("first", i+1))
		d.Edges = append(d.Edges, engine.Edge{From: "fork", To: name})
	}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(2)}, turn.State["list"])
	require.Equal(t, map[string]any{"a": int64(1), "b": int64(2)}, turn.State["map"])
	require.Equal(t, int64(1), turn.State["first"])
	b.verify()
}

// Cases 55 and 56 of the seeds.
func TestLoopsRunAsOftenAsTheirConditionSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("looper", "ping", "pong")
	d.Nodes["done"] = b.node()
	count := func(s engine.State, node string) (n int) {
		for _, v := range s["log"].([]any) {
			if v == node {
				n++
			}
		}
		return n
	}
	d.Edges = []engine.Edge{{From: engine.Start, To: "looper"}, {From: "pong", To: "ping"}}
	d.ConditionalEdges = []engine.ConditionalEdge{
		{From: "looper", Route: func(s engine.State) ([]string, error) {
			return []string{[]string{"again", "again", "again", "end"}[count(s, "looper")-1]}, nil
		}, Routes: map[string]string{"again": "looper", "end": "ping"}},
		{From: "ping", Route: func(s engine.State) ([]string, error) {
			if count(s, "ping") < 3 {
				return []string{"pong"}, nil
			}
			return []string{"done"}, nil
		}},
	}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []string{"looper", "looper", "looper", "looper", "ping", "pong", "ping", "pong", "ping", "done"}, b.takeRuns())
	b.verify()
}

// Cases 65 and 66 of the seeds.
func TestAWriteToNoChannelFailsItsTaskAndNamesTheChannels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = writes(engine.Set("lgo", 1))
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `failed at node a: there is no channel "lgo"; declared are log; did you mean log?`)
	require.Equal(t, engine.Failed, turn.Status)
	require.NotContains(t, turn.State, "lgo")
	b.verify()
}

// Case 86 of the seeds: a cancel reaches siblings and subgraphs of subgraphs,
// starts nothing more and is never retried.
func TestACancelReachesSiblingsAndTheirSubgraphs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var arrived sync.WaitGroup
	arrived.Add(9)
	waits := engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.Node())
		arrived.Done()
		<-ctx.Done()
		return engine.Output{}, context.Cause(ctx)
	}}
	inner := b.chain("deep", "never")
	inner.Nodes["deep"] = waits
	d := b.chain("next")
	d.Edges = nil
	d.Retry = &engine.Retry{MaxRetries: 5, InitialDelay: time.Nanosecond}
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.around(b.compile(inner), "sub")}}
	for i := range 8 {
		d.Nodes[fmt.Sprint("w", i)] = waits
	}
	for name := range d.Nodes {
		if name != "next" {
			d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: name}, engine.Edge{From: name, To: "next"})
		}
	}
	e := b.engine(b.compile(d))
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		arrived.Wait()
		cancel(&engine.CancelError{By: engine.By{Actor: "ada"}})
	}()
	turn, err := e.Start(ctx, "t", engine.Input{})
	<-stopped
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	require.Len(t, b.takeRuns(), 9)
	b.verify()
}
