package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

// BenchmarkStepInMemory is the cost of a one-node step without a store: a
// counter node that loops to itself b.N times. Its yardstick is BenchmarkBareLoop.
func BenchmarkStepInMemory(b *testing.B) {
	n := 0
	g := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {}},
		Nodes: map[string]engine.Node{"count": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
			n++
			return engine.Set("n", int64(n)), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "count"}},
		ConditionalEdges: []engine.ConditionalEdge{{From: "count", Route: func(s engine.State) ([]string, error) {
			if s["n"].(int64) >= int64(b.N) {
				return []string{engine.End}, nil
			}
			return []string{"count"}, nil
		}}},
	})
	b.ReportAllocs()
	b.ResetTimer()
	turn, err := engine.New(g, nil, engine.Options{}).Start(b.Context(), "t", engine.Input{MaxSteps: b.N + 1})
	if err != nil || turn.Status != engine.Done {
		b.Fatal(turn.Status, err)
	}
}

// BenchmarkBareLoop is a Go loop over a map of functions: the yardstick of
// BenchmarkStepInMemory.
func BenchmarkBareLoop(b *testing.B) {
	state := map[string]any{}
	nodes := map[string]func(map[string]any) (map[string]any, string){
		"count": func(s map[string]any) (map[string]any, string) {
			n, _ := s["n"].(int64)
			if n+1 >= int64(b.N) {
				return map[string]any{"n": n + 1}, "end"
			}
			return map[string]any{"n": n + 1}, "count"
		},
	}
	b.ReportAllocs()
	for next := "count"; next != "end"; {
		var writes map[string]any
		writes, next = nodes[next](state)
		for k, v := range writes {
			state[k] = v
		}
	}
}

// BenchmarkFanOutInMemory is a fan-out of 5 and the node that they all lead to.
func BenchmarkFanOutInMemory(b *testing.B) {
	d := engine.Definition{
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}, "rounds": {Reducer: engine.Sum}},
		Nodes:    map[string]engine.Node{},
		Edges:    []engine.Edge{{From: engine.Start, To: "join"}},
	}
	d.Nodes["join"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("rounds", 1), nil
	}}
	var workers []string
	for i := range 5 {
		name := fmt.Sprintf("worker%d", i)
		workers = append(workers, name)
		d.Nodes[name] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Set("n", 1), nil
		}}
		d.Edges = append(d.Edges, engine.Edge{From: name, To: "join"})
	}
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "join", Route: func(s engine.State) ([]string, error) {
		if s["rounds"].(int64) > int64(b.N) {
			return []string{engine.End}, nil
		}
		return workers, nil
	}}}
	g := engine.MustCompile(d)
	b.ReportAllocs()
	b.ResetTimer()
	turn, err := engine.New(g, nil, engine.Options{}).Start(b.Context(), "t", engine.Input{MaxSteps: 2*b.N + 2})
	if err != nil || turn.Status != engine.Done {
		b.Fatal(turn.Status, err)
	}
}
