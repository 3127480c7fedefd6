package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// A spent step limit inside a subgraph is granted again by Resume.
func TestResumeGrantsStepsInsideASubgraphToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := b.compile(b.chain("c1", "c2", "c3", "c4", "c5"))
	e := b.engine(b.around(child, "sub"))
	_, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 3})
	require.ErrorContains(t, err, "step limit")
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

// The rows of a question bear the step of the parent, not of the subgraph.
func TestAnAnswerInsideASubgraphGrantsStepsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("c1", "c2", "c3", "c4", "c5")
	cd.InterruptBefore = []engine.Gate{{Node: "c4"}}
	e := b.engine(b.around(b.compile(cd), "sub"))
	_, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 4})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

// What a subgraph wrote before it went past a reducer does not come back.
func TestAnOverwriteInASubgraphDropsAllThatItWroteBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("one", "two", "three")
	cd.Nodes["three"] = writes(engine.Output{Writes: []engine.Write{{Channel: "log", Value: []any{"x"}, Overwrite: true}}})
	turn, err := b.engine(b.around(b.compile(cd), "first", "sub")).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"x"}, turn.State["log"])
}

// Only the graph itself ends a turn: its subgraph goes on no further.
func TestACancelThatMeetsTheCommitOfASubgraphsStepEndsTheTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("one", "two", "three")
	cd.Nodes["one"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		log, err := b.store.Open(ctx, "t")
		if err == nil {
			err = log.Commit(ctx, &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}})
		}
		return engine.Output{}, err
	}}
	e := b.engine(b.around(b.compile(cd), "first", "sub", "last"))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	require.Equal(t, []string{"first"}, b.takeRuns())
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Nil(t, view.Thread.Owner)
	require.Equal(t, engine.Cancelled, view.Thread.Status)
	b.verify()
}

// The parent's list has room behind it, which is nobody's.
func TestSubgraphsSideBySideDoNotAppendToOneList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("p1", "p2", "p3")
	var wg sync.WaitGroup
	wg.Add(2)
	for _, name := range []string{"x", "y"} {
		cd := b.chain("w", "look")
		cd.Nodes["w"] = writes(engine.Set("log", name))
		cd.Nodes["look"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			wg.Done()
			wg.Wait()
			list := t.Get("log").([]any)
			return engine.Set("log", fmt.Sprint("saw ", list[len(list)-1])), nil
		}}
		d.Nodes[name] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
		d.Edges = append(d.Edges, engine.Edge{From: "p3", To: name})
	}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"p1", "p2", "p3", "x", "saw x", "y", "saw y"}, turn.State["log"])
}

// Cases 15 and 16 of the seeds, in a subgraph.
func TestAQuestionInsideASubgraphIsNotRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("x", "y")
	cd.InterruptBefore = []engine.Gate{{Node: "y"}}
	d := b.chain("sub")
	d.Retry = &engine.Retry{MaxRetries: 2, InitialDelay: time.Millisecond}
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
	retries := 0
	e := engine.New(b.compile(d), b.store, engine.Options{Events: func(ev engine.Event) {
		if ev.Type == engine.EventRetry {
			retries++
		}
	}})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Zero(t, retries)
}

// whether or not a sibling has a gate behind it.
func TestNoGateIsAskedBehindASubgraphThatWasRejected(t *testing.T) {
	t.Parallel()
	for _, sibling := range []bool{false, true} {
		b := setup(t)
		d := b.chain("sub", "last")
		d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.gatedLast("in")}}
		d.InterruptAfter = []engine.Gate{{Node: "sub"}}
		if sibling {
			d.Nodes["sibling"] = b.node()
			d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "sibling"})
			d.InterruptAfter = append(d.InterruptAfter, engine.Gate{Node: "sibling"})
		}
		e := b.engine(b.compile(d))
		_, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		turn, err := e.Resume(t.Context(), "t", reject())
		require.NoError(t, err)
		if sibling {
			require.Len(t, turn.Questions, 1)
			require.Equal(t, "sibling", turn.Questions[0].Payload.Node)
			turn, err = e.Resume(t.Context(), "t", approve())
			require.NoError(t, err)
		}
		require.Equal(t, engine.Rejected, turn.Status)
		require.Zero(t, b.count("last"))
		b.verify()
	}
}

// Case 82 of the seeds: a Go reducer of the parent gets what the subgraph wrote,
// and not what that made of it; a write that went past it goes past it there too.
func TestAGoReducerSharedWithASubgraphGetsItsOwnWrites(t *testing.T) {
	t.Parallel()
	total := engine.Channel{Reducer: "total", Initial: 0, Reduce: func(current, write any) (any, error) {
		return current.(int64) + write.(int64), nil
	}}
	for overwrite, want := range map[bool]int64{false: 23, true: 3} {
		b := setup(t)
		cd := b.chain("in")
		cd.Channels = map[string]engine.Channel{"n": total}
		cd.Nodes["in"] = writes(engine.Output{Writes: []engine.Write{{Channel: "n", Value: 3, Overwrite: overwrite}}})
		d := b.chain("sub")
		d.Channels = map[string]engine.Channel{"n": total}
		d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
		turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{Values: engine.Values{"n": 20}})
		require.NoError(t, err)
		require.Equal(t, want, turn.State["n"])

		// The same when the subgraph is read from the log in between.
		cd.Nodes["out"] = b.node()
		cd.Edges = append(cd.Edges, engine.Edge{From: "in", To: "out"})
		cd.InterruptBefore = []engine.Gate{{Node: "out"}}
		d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd), Output: map[string]string{"n": "n"}}}
		_, err = b.engine(b.compile(d)).Start(t.Context(), "u", engine.Input{Values: engine.Values{"n": 20}})
		require.NoError(t, err)
		turn, err = b.engine(b.compile(d)).Resume(t.Context(), "u", approve())
		require.NoError(t, err)
		require.Equal(t, want, turn.State["n"])
		b.verify()
	}
}
