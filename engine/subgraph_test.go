package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// inner is a graph expensive -> gate -> finish that shares the channel log.
func (b *bundle) inner() *engine.Graph {
	d := b.chain("expensive", "gated", "finish")
	d.Name = "inner"
	d.InterruptBefore = []engine.Gate{{Node: "gated"}}
	return b.compile(d)
}

func (b *bundle) around(child *engine.Graph, names ...string) *engine.Graph {
	d := b.chain(names...)
	d.Name = "outer"
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: child}}
	return b.compile(d)
}

// Cases 81 and 83 of the seeds; langgraph#6792, #4796.
func TestAPauseInsideASubgraphResumesRightThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.around(b.around(b.inner(), "sub"), "first", "sub", "last")
	turn, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Len(t, turn.Questions, 1)
	require.Equal(t, "gated", turn.Questions[0].Payload.Node)
	require.Equal(t, []string{"first", "expensive"}, b.takeRuns())

	turn, err = engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"gated", "finish", "last"}, b.takeRuns(), "nothing that was done is done again")
	require.Equal(t, []any{"first", "expensive", "gated", "finish", "last"}, turn.State["log"], "only the child's own writes come back")
	b.verify()
}

func TestTwoSubgraphsPauseSideBySide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("first")
	for _, name := range []string{"x", "y"} {
		d.Nodes[name] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.inner()}}
		d.Edges = append(d.Edges, engine.Edge{From: "first", To: name})
	}
	d.Nodes["sibling"] = b.node()
	d.Edges = append(d.Edges, engine.Edge{From: "first", To: "sibling"})
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.Questions, 2)
	require.Equal(t, 1, b.count("sibling"))
	require.Equal(t, 2, b.count("expensive"))
	for _, i := range []int{1, 0} {
		yes := approve()
		yes.Question = turn.Questions[i].ID()
		next, err := e.Resume(t.Context(), "t", yes)
		require.NoError(t, err)
		if i == 1 {
			require.Equal(t, engine.Paused, next.Status)
			continue
		}
		require.Equal(t, engine.Done, next.Status)
		require.Equal(t, []any{"first", "sibling", "expensive", "gated", "finish", "expensive", "gated", "finish"}, next.State["log"])
	}
	require.Equal(t, 1, b.count("sibling"))
	require.Equal(t, 2, b.count("expensive"))
	b.verify()
}

// Case 82 of the seeds and fault 16 of the second: nothing is appended twice,
// and a second visit is a new one.
// Fault 16 of the second seed.
func TestASubgraphInALoopBeginsAnewOnEveryVisit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := b.compile(b.chain("work"))
	d := b.chain("sub")
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: child}}
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "sub", Route: func(s engine.State) ([]string, error) {
		if len(s["log"].([]any)) < 3 {
			return []string{"sub"}, nil
		}
		return []string{engine.End}, nil
	}}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{Values: engine.Values{"log": "start"}})
	require.NoError(t, err)
	require.Equal(t, []any{"start", "work", "work"}, turn.State["log"])
	seen := map[string]bool{}
	require.NoError(t, b.store.Entries(t.Context(), "t", 0, 0, func(e engine.Entry) error {
		seen[e.Namespace] = true
		return nil
	}))
	require.Len(t, seen, 3, "a namespace for each visit")
	b.verify()
}

// Case 84 of the seeds.
func TestSendsToASubgraphHaveNamespacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := b.compile(engine.Definition{
		Channels: map[string]engine.Channel{"x": {}, "y": {}},
		Nodes: map[string]engine.Node{"double": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			return engine.Set("y", 2*t.Get("x").(int64)), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "double"}},
	})
	d := b.mapReduce(20)
	d.Nodes["worker"] = engine.Node{Subgraph: &engine.Subgraph{Graph: child,
		Input: map[string]string{"x": "x"}, Output: map[string]string{"y": "results"}}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	want := []any{}
	for i := range 20 {
		want = append(want, int64(2*i))
	}
	require.Equal(t, want, turn.State["results"])
	b.verify()
}

// Case 59 of the seeds.
func TestANodeInASubgraphGoesToANodeOfTheParent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("in", "never")
	cd.Nodes["in"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{GotoParent: []string{"rescue"}}.Set("log", "in"), nil
	}}
	d := b.chain("sub", "next")
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
	d.Nodes["rescue"] = b.node()
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"in", "rescue"}, turn.State["log"])
	d.Nodes["sub"] = cd.Nodes["in"]
	_, err = b.engine(b.compile(d)).Start(t.Context(), "u", engine.Input{})
	require.ErrorContains(t, err, "no parent")
	b.verify()
}

func TestARejectionInsideASubgraphEndsItsBranch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.around(b.inner(), "first", "sub", "last"))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	require.Equal(t, []any{"first", "expensive"}, turn.State["log"])
	require.Equal(t, []string{"first", "expensive"}, b.takeRuns())
	b.verify()
}

func TestAFailureInsideASubgraphGoesOnAtTheNodeThatFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var fail atomic.Bool
	fail.Store(true)
	cd := b.chain("one", "two", "three")
	cd.Nodes["sibling"] = b.node()
	cd.Edges = append(cd.Edges, engine.Edge{From: "one", To: "sibling"})
	cd.Nodes["two"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("two")
		_, err := engine.Step(ctx, "pay", func(context.Context) (int, error) { b.ran("pay"); return 1, nil })
		if err != nil {
			return engine.Output{}, err
		}
		if fail.Load() {
			return engine.Output{}, errors.New("no luck")
		}
		return engine.Set("log", "two"), nil
	}}
	e := b.engine(b.around(b.compile(cd), "sub", "last"))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "failed at node sub: two: no luck")
	b.takeRuns()
	fail.Store(false)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []string{"two", "three", "last"}, b.takeRuns())
	require.Equal(t, []any{"one", "sibling", "two", "three", "last"}, turn.State["log"])
	b.verify()
}

func TestAQuestionInsideASubgraphIsAnsweredInItsNode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("ask")
	cd.Nodes["ask"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("ask")
		first, err := t.Ask(engine.Ask{Message: "one?"})
		if err != nil {
			return engine.Output{}, err
		}
		second, err := t.Ask(engine.Ask{Message: "two?"})
		return engine.Set("log", fmt.Sprint(first.Value, second.Value)), err
	}}
	e := b.engine(b.around(b.compile(cd), "sub"))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	for _, want := range []string{"one?", "two?"} {
		require.Equal(t, want, turn.Questions[0].Payload.Message)
		turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: strings.TrimSuffix(want, "?")})
		require.NoError(t, err)
	}
	require.Equal(t, []any{"onetwo"}, turn.State["log"])
	b.verify()
}

// Case 85 of the seeds.
func TestASubgraphThatDoesNotFitIsACompileError(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	child := b.compile(b.chain("a"))
	d := b.chain("sub")
	d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append}, "out": {}}
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: child,
		Input: map[string]string{"outt": "log"}, Output: map[string]string{"lgo": "out"}}}
	_, err := engine.Compile(d)
	require.ErrorContains(t, err, `/nodes/sub/input_map/outt: the parent has no channel "outt"; did you mean out?`)
	require.ErrorContains(t, err, `/nodes/sub/output_map/lgo: subgraph chain has no channel "lgo"; did you mean log?`)
}

func TestASubgraphNestedTooDeeplyFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.compile(b.chain("a"))
	for range engine.MaxDepth + 1 {
		g = b.around(g, "sub")
	}
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "nested deeper than 16")
}

func TestTheStepLimitInsideASubgraphIsToldAsSuch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("a")
	cd.Edges = append(cd.Edges, engine.Edge{From: "a", To: "a"})
	e := b.engine(b.around(b.compile(cd), "sub"))
	_, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 3})
	require.ErrorIs(t, err, engine.ErrStepLimit)
	require.ErrorContains(t, err, "failed at node sub")
}

func TestAQuestionInASubgraphBearsTheNumberOfItsOwnStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := b.chain("x", "y", "z")
	child.InterruptBefore = []engine.Gate{{Node: "z"}}
	d := b.chain("a", "sub")
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(child)}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(1), turn.Step, "of the graph itself")
	_, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	steps := map[engine.Kind][]int64{}
	require.NoError(t, b.store.Entries(t.Context(), "t", 0, 0, func(e engine.Entry) error {
		if e.Namespace != "" {
			steps[e.Kind] = append(steps[e.Kind], e.Step)
		}
		return nil
	}))
	require.Equal(t, map[engine.Kind][]int64{
		engine.KindInput: {0}, engine.KindStep: {1, 2, 3}, engine.KindPause: {2}, engine.KindAnswer: {2},
	}, steps)
	b.verify()
}
