package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestRoutersGiveTheirKeys(t *testing.T) {
	t.Parallel()
	call := map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "1"}}}
	for name, c := range map[string]struct {
		route engine.Router
		state engine.State
		want  []string
		err   string
	}{
		"a text":                 {engine.ByField("v"), engine.State{"v": "x"}, []string{"x"}, ""},
		"a number":               {engine.ByField("v"), engine.State{"v": int64(3)}, []string{"3"}, ""},
		"a list":                 {engine.ByField("v"), engine.State{"v": []any{"x", true, nil}}, []string{"x", "true", "null"}, ""},
		"nothing":                {engine.ByField("v"), nil, []string{"null"}, ""},
		"a field":                {engine.ByField("v", "a", "b"), engine.State{"v": map[string]any{"a": map[string]any{"b": "x"}}}, []string{"x"}, ""},
		"a missing field":        {engine.ByField("v", "a", "b"), engine.State{"v": map[string]any{}}, []string{"null"}, ""},
		"a field of a text":      {engine.ByField("v", "a"), engine.State{"v": "x"}, nil, "holds a string where a route reads the field a"},
		"true":                   {engine.ByBool("v"), engine.State{"v": true}, []string{"true"}, ""},
		"a missing boolean":      {engine.ByBool("v", "ok"), engine.State{"v": nil}, []string{"false"}, ""},
		"a text is no boolean":   {engine.ByBool("v"), engine.State{"v": "true"}, nil, "needs a boolean"},
		"tool calls":             {engine.HasToolCalls("m"), engine.State{"m": []any{map[string]any{}, call}}, []string{"true"}, ""},
		"tool calls before":      {engine.HasToolCalls("m"), engine.State{"m": []any{call, map[string]any{}}}, []string{"false"}, ""},
		"no messages":            {engine.HasToolCalls("m"), nil, []string{"false"}, ""},
		"below the limit":        {engine.MaxIterations("n", 3), engine.State{"n": int64(2)}, []string{"continue"}, ""},
		"at the limit":           {engine.MaxIterations("n", 3), engine.State{"n": int64(3)}, []string{"stop"}, ""},
		"a count with fractions": {engine.MaxIterations("n", 3), engine.State{"n": 2.5}, []string{"continue"}, ""},
		"nothing counted yet":    {engine.MaxIterations("n", 3), nil, []string{"continue"}, ""},
		"no number":              {engine.MaxIterations("n", 3), engine.State{"n": "2"}, nil, "where a route counts"},
		"an error":               {engine.OnError("e"), engine.State{"e": "it broke"}, []string{"error"}, ""},
		"an error object":        {engine.OnError("e"), engine.State{"e": map[string]any{"code": int64(1)}}, []string{"error"}, ""},
		"no error":               {engine.OnError("e"), engine.State{"e": nil}, []string{"ok"}, ""},
		"an empty error":         {engine.OnError("e"), engine.State{"e": []any{}}, []string{"ok"}, ""},
	} {
		keys, err := c.route(c.state)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, keys, name)
	}
}

func TestARouterBoundsALoop(t *testing.T) {
	t.Parallel()
	g, err := engine.Compile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}},
		Nodes:    map[string]engine.Node{"work": writes(engine.Set("n", 1))},
		Edges:    []engine.Edge{{From: engine.Start, To: "work"}},
		ConditionalEdges: []engine.ConditionalEdge{{
			From: "work", Route: engine.MaxIterations("n", 3),
			Routes: map[string]string{engine.RouteContinue: "work", engine.RouteStop: engine.End},
			Labels: []string{engine.RouteContinue, engine.RouteStop}, Reads: []string{"n"},
		}},
	})
	require.NoError(t, err)
	require.Empty(t, g.Warnings())
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(3), turn.State["n"])
}

func TestCompileComparesRoutesWithTheLabelsOfTheirCondition(t *testing.T) {
	t.Parallel()
	compile := func(lenient bool, routes map[string]string, labels ...string) (*engine.Graph, error) {
		return engine.Compile(engine.Definition{
			Lenient: lenient,
			Nodes:   map[string]engine.Node{"a": writes(engine.Output{}), "b": writes(engine.Output{})},
			Edges:   []engine.Edge{{From: engine.Start, To: "a"}},
			ConditionalEdges: []engine.ConditionalEdge{{
				From: "a", Route: engine.ByBool("x"), Labels: labels, Routes: routes,
			}},
		})
	}
	_, err := compile(false, map[string]string{"true": "b"}, "true", "false")
	require.ErrorContains(t, err, `/conditional_edges/0/routes: there is no route for "false"`)
	_, err = compile(false, map[string]string{"true": "b", "fasle": engine.End}, "true", "false")
	require.ErrorContains(t, err, `/conditional_edges/0/routes/fasle: the condition never gives "fasle"; it gives true or false; did you mean false?`)
	require.NotContains(t, err.Error(), "no route")
	_, err = compile(false, map[string]string{"true": "b", engine.DefaultRoute: engine.End}, "true", "false")
	require.NoError(t, err)
	_, err = compile(false, map[string]string{"true": "b"})
	require.NoError(t, err, "without labels any key is possible")
	g, err := compile(true, map[string]string{"true": "b"}, "true", "false")
	require.NoError(t, err)
	require.Len(t, g.Warnings(), 1)
}

func TestCompileLooksAtWhatNodesSayThatTheyReadAndWrite(t *testing.T) {
	t.Parallel()
	run := func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, nil }
	node := func(reads, writes []string) engine.Node {
		return engine.Node{Run: run, Effects: &engine.Effects{Reads: reads, Writes: writes}}
	}
	d := engine.Definition{
		Channels: map[string]engine.Channel{"a": {}, "b": {}, "unused": {}, "known": {}, "response": {}},
		Nodes: map[string]engine.Node{
			"x": node([]string{"a"}, []string{"b"}), "y": node([]string{"aa"}, []string{"b"}),
		},
		Edges:   []engine.Edge{{From: engine.Start, To: "x"}, {From: engine.Start, To: "y"}},
		Outside: []string{"known"},
	}
	g, err := engine.Compile(d)
	require.NoError(t, err)
	var said []string
	for _, w := range g.Warnings() {
		said = append(said, w.String())
	}
	require.Equal(t, []string{
		`/nodes/y: node y reads channel "aa", which is not declared; did you mean a?`,
		`/channels/b: x and y run in one step and write channel b, whose reducer overwrite takes one writer: the step fails; give it another reducer, such as append, or let one node follow the other`,
		`/channels/b: channel b is written, and nothing reads it`,
		`/channels/unused: channel unused is never used; leave it out`,
	}, said)

	// A node that says nothing may use any channel.
	d.Nodes["y"] = engine.Node{Run: run}
	g, err = engine.Compile(d)
	require.NoError(t, err)
	require.Empty(t, g.Warnings())

	d.Nodes["x"] = node(nil, []string{"bb"})
	_, err = engine.Compile(d)
	require.ErrorContains(t, err, `/nodes/x: node x writes channel "bb", which is not declared; did you mean b?`)

	// A subgraph reads and writes what its own nodes do, through its maps.
	child := engine.MustCompile(engine.Definition{
		Name: "child", Channels: map[string]engine.Channel{"in": {}, "out": {}},
		Nodes: map[string]engine.Node{"n": node([]string{"in"}, []string{"out"})}, Edges: []engine.Edge{{From: engine.Start, To: "n"}},
	})
	sub := engine.Node{Subgraph: &engine.Subgraph{Graph: child, Input: map[string]string{"a": "in"}, Output: map[string]string{"out": "b"}}}
	g, err = engine.Compile(engine.Definition{
		Channels: map[string]engine.Channel{"a": {}, "b": {}, "unused": {}},
		Nodes:    map[string]engine.Node{"s": sub, "t": sub},
		Edges:    []engine.Edge{{From: engine.Start, To: "s"}, {From: engine.Start, To: "t"}},
	})
	require.NoError(t, err)
	require.Len(t, g.Warnings(), 2)
	require.Contains(t, g.Warnings()[0].Message, "s and t run in one step and write channel b")
	require.Contains(t, g.Warnings()[1].Message, "unused is never used")
}

func TestCompileReportsACycleWithoutAWayOutOnce(t *testing.T) {
	t.Parallel()
	n := engine.Node{Type: "test", Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, nil }}
	d := engine.Definition{
		Nodes: map[string]engine.Node{"a": n, "b": n, "c": n},
		Edges: []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "b"}, {From: "b", To: "c"}, {From: "c", To: "b"}},
	}
	_, err := engine.Compile(d)
	require.ErrorContains(t, err, "has 1 mistake:\n  /nodes/b: no way leads from the cycle of nodes b, c to __end__")
	d.Lenient = true
	g, err := engine.Compile(d)
	require.NoError(t, err)
	require.Len(t, g.Warnings(), 1)
	d.Nodes["c"] = engine.Node{Run: n.Run} // in Go: it may leave with Goto
	d.Lenient = false
	g, err = engine.Compile(d)
	require.NoError(t, err)
	require.Contains(t, g.Warnings()[0].Message, "unless a node leaves with Goto")
}
