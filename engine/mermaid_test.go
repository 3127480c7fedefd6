package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestThePictureShowsGatesKeysAndBothEnds(t *testing.T) {
	t.Parallel()
	node := engine.Node{Type: "test", Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, nil }}
	g := engine.MustCompile(engine.Definition{
		Name:  "picture",
		Nodes: map[string]engine.Node{"test": node, "de\"ploy": node, "a|b <i>": node, "end": node},
		Edges: []engine.Edge{
			{From: engine.Start, To: "test"}, {From: "de\"ploy", To: "end"}, {From: "a|b <i>", To: "end"},
		},
		ConditionalEdges: []engine.ConditionalEdge{{
			From: "test", Condition: "c", Route: func(engine.State) ([]string, error) { return nil, nil },
			Routes: map[string]string{"true": "de\"ploy", "": "a|b <i>", "default": engine.End},
		}},
		InterruptBefore: []engine.Gate{{Node: "de\"ploy", Message: "Really?\nSay so.", OnReject: "a|b <i>"}},
		InterruptAfter:  []engine.Gate{{Node: "test"}},
	})
	require.Equal(t, `flowchart TD
  start(["__start__"])
  n1["a#124;b #60;i#62;<br>test"]
  n2["de#34;ploy<br>test"]
  n2b{"before de#34;ploy<br>Really?<br>Say so."}
  n3["end<br>test"]
  n4["test<br>test"]
  n4a{"after test"}
  finish(["__end__"])
  start --> n4
  n1 --> n3
  n2b -->|"approve"| n2
  n2b -->|"reject"| n1
  n2 --> n3
  n3 --> finish
  n4 --> n4a
  n4a -->|"reject"| finish
  n4a -->|"#34;#34;"| n1
  n4a -->|"default"| finish
  n4a -->|"true"| n2b
`, g.Mermaid())
}

func TestThePictureOfAThreadShowsWhatWasAndIsAndComes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	d := b.chain("a", "b", "sub", "c")
	ask := engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		_, err := t.Ask(engine.Ask{Message: "well?"})
		return engine.Output{}, err
	}}
	child := engine.MustCompile(engine.Definition{
		Nodes: map[string]engine.Node{"asks": ask}, Edges: []engine.Edge{{From: engine.Start, To: "asks"}},
	})
	d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: child}}
	d.InterruptBefore, d.InterruptAfter = []engine.Gate{{Node: "b"}}, []engine.Gate{{Node: "b"}}
	g := b.compile(d)
	e := b.engine(g)
	_, err := e.Start(ctx, "t", engine.Input{})
	require.NoError(t, err)
	// The nodes are n1 a, n2 b, n3 c, n4 sub.
	classes := func(want ...string) {
		t.Helper()
		view, err := b.store.At(ctx, "t", 0)
		require.NoError(t, err)
		turn, err := b.store.History(ctx, "t", 0, 0)
		require.NoError(t, err)
		var got []string
		for _, line := range strings.Split(g.MermaidAt(view, turn), "\n") {
			if strings.HasPrefix(line, "  class ") {
				got = append(got, strings.TrimPrefix(line, "  class "))
			}
		}
		require.Equal(t, want, got)
	}
	answer := func(v any) {
		t.Helper()
		view, err := b.store.At(ctx, "t", 0)
		require.NoError(t, err)
		_, err = e.Resume(ctx, "t", interrupt.Answer{Question: view.Open()[0].ID(), Value: v})
		require.NoError(t, err)
	}
	classes("n1 was", "n2b now", "n2 next")
	answer(interrupt.Approve)
	classes("n1,n2 was", "n2a now", "n4 next")
	answer(interrupt.Approve)
	classes("n1,n2 was", "n4 now")
	answer("well")
	classes("n1,n2,n3,n4 was", "finish now")
	require.NotContains(t, g.Mermaid(), "class")
}
