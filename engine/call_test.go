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

// expert is a graph that thinks, asks about its question, and answers; both
// nodes use something of a model.
func (b *bundle) expert() *engine.Graph {
	return b.compile(engine.Definition{
		Name: "expert", Channels: map[string]engine.Channel{"question": {}, "thought": {}, "answer": {}},
		Nodes: map[string]engine.Node{
			"think": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				b.ran(fmt.Sprint("think ", t.Get("question")))
				t.Use(engine.Usage{InputTokens: 10})
				return engine.Set("thought", t.Get("question")), nil
			}},
			"ask": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				t.Use(engine.Usage{OutputTokens: 1})
				a, err := t.Ask(engine.Ask{Message: fmt.Sprintf("%v?", t.Get("thought"))})
				if err != nil {
					return engine.Output{}, err
				}
				return engine.Set("answer", a.Value).Set("log", "answered"), nil
			}},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "think"}, {From: "think", To: "ask"}},
	})
}

// caller is a node that dispatches tool calls of a graph, and one that is none.
func (b *bundle) caller(graphs map[string]*engine.Graph, calls ...engine.ToolCall) engine.Node {
	return engine.Node{Calls: graphs, Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		allow := func(context.Context, *engine.Task, engine.ToolCall) (engine.Verdict, error) {
			return engine.Verdict{Allow: true}, nil
		}
		outcomes, err := engine.DispatchTools(ctx, t, calls, []engine.ToolGate{allow}, func(ctx context.Context, call engine.ToolCall) (any, error) {
			if _, known := graphs[call.Name]; !known {
				b.ran(call.Name)
				return call.Name, nil
			}
			args, _ := call.Args.(map[string]any)
			state, err := t.Call(ctx, call.Name+" "+call.ID, call.Name, args)
			if err != nil {
				return nil, err
			}
			return state["answer"], nil
		})
		if err != nil {
			return engine.Output{}, err
		}
		var results []any
		for _, o := range outcomes {
			results = append(results, o.Result)
		}
		return engine.Set("log", results), nil
	}}
}

func ask(id, question string) engine.ToolCall {
	return engine.ToolCall{ID: id, Name: "expert", Args: map[string]any{"question": question}}
}

func TestTwoCalledGraphsAskAtOnceAndGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		b := setup(t)
		d := b.chain("call", "last")
		d.Nodes["call"] = b.caller(map[string]*engine.Graph{"expert": b.expert()}, ask("1", "red"), engine.ToolCall{ID: "2", Name: "plain"}, ask("3/x:[y]", "blue"))
		d.Nodes["last"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			return engine.Set("log", t.Usage().Tokens()), nil
		}}
		g := b.compile(d)
		turn, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status)
		require.Len(t, turn.Questions, 2)
		require.ElementsMatch(t, []string{"think red", "plain", "think blue"}, b.takeRuns())
		for i, at := range order {
			q := turn.Questions[at]
			// Another process takes the answer, and goes straight to who asked.
			next, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t", answerOf(&engine.Turn{Questions: []interrupt.Question{q}}, "of "+q.Payload.Message))
			require.NoError(t, err)
			if i == 0 {
				require.Equal(t, engine.Paused, next.Status)
				continue
			}
			require.Equal(t, engine.Done, next.Status)
			require.Equal(t, []any{"of red?", "plain", "of blue?", int64(22)}, next.State["log"], "with what both used, and nothing of theirs but their results")
		}
		require.Empty(t, b.takeRuns(), "nothing that was done is done again")
		b.verify()
	}
}

// A call has a namespace of its own for each visit of its node, each key, and
// each time that a key is used.
func TestEveryCallHasANamespaceOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := b.compile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum, Initial: 1}},
		Nodes: map[string]engine.Node{"add": {Run: func(_ context.Context, _ *engine.Task) (engine.Output, error) {
			return engine.Set("n", 1), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "add"}},
	})
	call := engine.Node{Calls: map[string]*engine.Graph{"child": child}, Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		sum := []any{}
		for i, key := range []string{"", "a", "a", "a#2", "2:a"} {
			state, err := t.Call(ctx, key, "child", engine.Values{"n": 10 * i})
			if err != nil {
				return engine.Output{}, err
			}
			sum = append(sum, state["n"])
		}
		return engine.Set("log", sum), nil
	}}
	for _, store := range []bool{true, false} {
		d := b.chain("x", "y")
		d.Nodes["x"], d.Nodes["y"] = call, call
		e := b.engine(b.compile(d))
		if !store {
			e = engine.New(b.compile(d), nil, engine.Options{})
		}
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		once := []any{int64(2), int64(12), int64(22), int64(32), int64(42)}
		require.Equal(t, append(once, once...), turn.State["log"])
	}
	seen := map[string]bool{}
	require.NoError(t, b.store.Entries(t.Context(), "t", 0, 0, func(e engine.Entry) error {
		seen[e.Namespace] = true
		return nil
	}))
	require.Len(t, seen, 11)
	b.verify()
}

func TestACalledGraphThatFailsOrIsRejectedIsAnAnswerAndNotRunAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cd := b.chain("first", "broken")
	cd.Nodes["broken"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("broken")
		return engine.Output{}, errors.New("no luck")
	}}
	gated := b.chain("deploy")
	gated.InterruptBefore = []engine.Gate{{Node: "deploy"}}
	leaves := b.chain("in")
	leaves.Nodes["in"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{GotoParent: []string{"last"}}, nil
	}}
	d := b.chain("call", "last")
	d.Nodes["call"] = b.caller(map[string]*engine.Graph{"broken": b.compile(cd), "gated": b.compile(gated), "leaves": b.compile(leaves)},
		engine.ToolCall{ID: "1", Name: "broken"}, engine.ToolCall{ID: "2", Name: "gated"}, engine.ToolCall{ID: "3", Name: "leaves"},
		engine.ToolCall{ID: "4", Name: "broken", Args: map[string]any{"lgo": 1}})
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "deploy", turn.Questions[0].Payload.Node)
	gate := turn.Questions[0].ID()
	require.ElementsMatch(t, []string{"first", "broken"}, b.takeRuns())
	turn, err = e.Resume(t.Context(), "t", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"last"}, b.takeRuns())
	log := turn.State["log"].([]any)
	failure := func(i int) any { return log[i].(map[string]any)["error"] }
	require.Equal(t, "broken: no luck", failure(0))
	require.Equal(t, "rejected: ada rejected the gate before deploy ("+gate+"): not today", failure(1))
	require.Contains(t, failure(2), "graph chain left for last")
	require.Contains(t, failure(3), `did you mean log?`)
	b.verify()
}

func TestTheStepLimitInsideACalledGraphFailsTheTurnAndResumeGrantsMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("call")
	d.Nodes["call"] = b.caller(map[string]*engine.Graph{"long": b.compile(b.chain("a", "b", "c"))}, engine.ToolCall{ID: "1", Name: "long"})
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 2})
	require.ErrorIs(t, err, engine.ErrStepLimit)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a", "b", "c"}, b.takeRuns())
	b.verify()
}

func TestACancelReachesCalledGraphs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var running, ended atomic.Int32
	both := make(chan struct{})
	cd := b.chain("hang")
	cd.Nodes["hang"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		if running.Add(1) == 2 {
			close(both)
		}
		<-ctx.Done()
		ended.Add(1)
		return engine.Output{}, ctx.Err()
	}}
	d := b.chain("call")
	d.Nodes["call"] = b.caller(map[string]*engine.Graph{"hang": b.compile(cd)}, engine.ToolCall{ID: "1", Name: "hang"}, engine.ToolCall{ID: "2", Name: "hang"})
	e := b.engine(b.compile(d))
	turned := make(chan *engine.Turn, 1)
	go func() {
		turn, _ := e.Start(t.Context(), "t", engine.Input{})
		turned <- turn
	}()
	<-both
	_, err := e.Cancel(t.Context(), "t", engine.By{Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, (<-turned).Status)
	require.EqualValues(t, 2, ended.Load())
	b.verify()
}

func TestANodeCallsOnlyWhatItSaysAndItsFingerprintCoversThat(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	graph := func(child engine.Definition) *engine.Graph {
		d := b.chain("call", "last")
		d.Nodes["pay"] = b.node()
		d.Nodes["call"] = engine.Node{Run: d.Nodes["call"].Run, Calls: map[string]*engine.Graph{"child": b.compile(child), "pay": nil}}
		return b.compile(d)
	}
	one := graph(b.chain("a"))
	require.Equal(t, one.Fingerprint(), graph(b.chain("a")).Fingerprint())
	require.NotEqual(t, one.Fingerprint(), graph(b.chain("b")).Fingerprint())
	require.Equal(t, "chain/pay", one.Called("call", "pay").Name())
	require.Nil(t, one.Called("call", "payy"))
	require.Nil(t, one.Called("cal", "pay"))
	picture := one.Mermaid()
	require.Contains(t, picture, `  n1 -.->|"calls"| n1c1[["child<br>graph chain"]]`)
	require.Contains(t, picture, `  n1 -.->|"calls"| n3`)

	d := b.chain("a", "b")
	d.Nodes["a"] = engine.Node{Run: d.Nodes["a"].Run, Calls: map[string]*engine.Graph{"c": nil, "b": nil}}
	d.Nodes["b"] = engine.Node{Run: d.Nodes["b"].Run, Calls: map[string]*engine.Graph{"b": nil}}
	_, err := engine.Compile(d)
	require.ErrorContains(t, err, `/nodes/a: node a calls node b, which calls nodes itself; put it into a graph of its own`)
	require.ErrorContains(t, err, `/nodes/a: node a calls node "c", which does not exist`)
	require.ErrorContains(t, err, `/nodes/b: node b calls node b, which calls nodes itself`)

	b = setup(t)
	d = b.chain("call")
	d.Nodes["call"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		_, err := t.Call(ctx, "k", "child", nil)
		return engine.Output{}, err
	}}
	_, err = b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `node call calls "child", which is not among its Calls`)
}
