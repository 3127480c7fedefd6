package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestCompileReportsEveryMistakeAtOnceWithItsPlace(t *testing.T) {
	t.Parallel()
	run := engine.Node{Type: "test", Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, nil }}
	route := func(engine.State) ([]string, error) { return nil, nil }
	trap := run
	_, err := engine.Compile(engine.Definition{
		Name:     "bad",
		Channels: map[string]engine.Channel{"log": {Reducer: "apend"}, "sum": {Reducer: engine.Sum, Initial: "x"}},
		Nodes: map[string]engine.Node{
			"a": run, "b": {Type: "test"}, "trap": trap, "lonely": run, "c[1]": run,
			"crash": {Type: "test", Run: run.Run, OnCrash: "aks"},
		},
		Edges: []engine.Edge{
			{From: engine.Start, To: "a"}, {From: "a", To: "bb"}, {From: "a", To: "b"}, {From: "a", To: "b"},
			{From: "x", To: "a"}, {From: "a", To: engine.Start}, {From: engine.End, To: "a"},
			{From: "a", To: "trap"}, {From: "trap", To: "trap"}, {From: "a", To: "crash"}, {From: "a", To: "c[1]"},
		},
		ConditionalEdges: []engine.ConditionalEdge{{From: "b", Route: route, Routes: map[string]string{"k/1": "nowhere"}}, {From: "zz"}},
		InterruptBefore:  []engine.Gate{{Node: "deploy"}, {Node: "a", OnReject: "a"}},
	})
	var compileErr *engine.CompileError
	require.ErrorAs(t, err, &compileErr)
	require.ErrorIs(t, err, engine.ErrInvalid)
	var places []string
	for _, p := range compileErr.Problems {
		places = append(places, p.Pointer)
	}
	require.Equal(t, []string{
		"/channels/log/reducer", "/channels/sum/initial",
		"/nodes/b", "/nodes/c[1]", "/nodes/crash/on_crash",
		"/edges/1/to", "/edges/3", "/edges/4/from", "/edges/5/to", "/edges/6/from",
		"/conditional_edges/0/routes/k~11", "/conditional_edges/1/from", "/conditional_edges/1/condition",
		"/interrupt_before/0", "/interrupt_before/1/on_reject",
		"/nodes/lonely", "/nodes/trap",
	}, places)
	require.ErrorContains(t, err, "did you mean append?")
	require.ErrorContains(t, err, "did you mean ask?")
}

func TestTheFingerprintFollowsTheGraphAndNothingElse(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	same := b.compile(b.chain("a", "b")).Fingerprint()
	require.Equal(t, same, b.compile(b.chain("a", "b")).Fingerprint())
	changed := []func(*engine.Definition){
		func(d *engine.Definition) { d.InterruptBefore = []engine.Gate{{Node: "a"}} },
		func(d *engine.Definition) { d.InterruptAfter = []engine.Gate{{Node: "a", Message: "well?"}} },
		func(d *engine.Definition) {
			d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append, Initial: []any{1}}}
		},
		func(d *engine.Definition) { n := d.Nodes["a"]; n.Version = 2; d.Nodes["a"] = n },
		func(d *engine.Definition) { n := d.Nodes["a"]; n.OnCrash = engine.CrashAsk; d.Nodes["a"] = n },
		func(d *engine.Definition) { d.Edges = append(d.Edges, engine.Edge{From: "b", To: engine.End}) },
		func(d *engine.Definition) { d.Name = "other" },
	}
	seen := map[string]bool{same: true}
	for i, change := range changed {
		d := b.chain("a", "b")
		change(&d)
		print := b.compile(d).Fingerprint()
		require.False(t, seen[print], "change %d", i)
		seen[print] = true
	}
}
