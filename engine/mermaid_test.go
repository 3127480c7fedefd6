package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
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
