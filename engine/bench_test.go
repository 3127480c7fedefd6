package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// counter is a graph of one node that counts in channel n and leads to itself
// until it has run so often. Its state has a fixed size.
func counter(steps int, work func(n int64) engine.Output) *engine.Graph {
	n := int64(0)
	return engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {}, "text": {}},
		Nodes: map[string]engine.Node{"count": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
			n++
			return work(n), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "count"}},
		ConditionalEdges: []engine.ConditionalEdge{{From: "count", Route: func(s engine.State) ([]string, error) {
			if s["n"].(int64) >= int64(steps) {
				return []string{engine.End}, nil
			}
			return []string{"count"}, nil
		}}},
	})
}

func runCounter(tb testing.TB, s engine.Store, steps int, work func(n int64) engine.Output) {
	turn, err := engine.New(counter(steps, work), s, engine.Options{}).Start(tb.Context(), "t", engine.Input{MaxSteps: steps + 1})
	if err != nil || turn.Status != engine.Done || turn.Step != int64(steps) {
		tb.Fatal(turn, err)
	}
}

func count(n int64) engine.Output { return engine.Set("n", n) }

// BenchmarkStepInMemory is the cost of a one-node step without a store. Its
// yardstick is BenchmarkBareLoop.
func BenchmarkStepInMemory(b *testing.B) {
	b.ReportAllocs()
	runCounter(b, nil, b.N, count)
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

// BenchmarkStepStored is the cost of a one-node step that writes 200 bytes, with
// its commit. Its yardsticks are BenchmarkBareInsert and, for what the engine adds
// to the store, BenchmarkStep in package store.
func BenchmarkStepStored(b *testing.B) {
	text := strings.Repeat("x", 200)
	for _, sync := range []string{"FULL", "NORMAL"} {
		b.Run(sync, func(b *testing.B) {
			s := benchStore(b, sync)
			b.ReportAllocs()
			b.ResetTimer()
			runCounter(b, s, b.N, func(n int64) engine.Output { return engine.Set("n", n).Set("text", text) })
		})
	}
}

func benchStore(b *testing.B, sync string) engine.Store {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), store.Options{Synchronous: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkFanOutInMemory is a fan-out of 5 and the node that they all lead to:
// two steps. Its yardstick is BenchmarkBareFanOut.
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

// BenchmarkBareFanOut is 5 goroutines and a join: the yardstick of
// BenchmarkFanOutInMemory.
func BenchmarkBareFanOut(b *testing.B) {
	b.ReportAllocs()
	sum := 0
	for b.Loop() {
		var wg sync.WaitGroup
		results := make([]int, 5)
		for i := range results {
			wg.Go(func() { results[i] = 1 })
		}
		wg.Wait()
		for _, n := range results {
			sum += n
		}
	}
	if sum != 5*b.N {
		b.Fatal(sum)
	}
}

// BenchmarkFlatness runs turns of 100,000 steps and reports what a step costs at
// their end, as a ratio to what it costs from step 1,000 on: its time (the median
// of 4,000 steps), its allocations, and the heap that is in use.
func BenchmarkFlatness(b *testing.B) {
	text := strings.Repeat("x", 200)
	measure := func(b *testing.B, s engine.Store) {
		const steps, window = 100_000, 4_000
		var begin, end sample
		for b.Loop() {
			begin.steps, end.steps = make([]time.Duration, 0, window), make([]time.Duration, 0, window)
			runCounter(b, s, steps, func(n int64) engine.Output {
				switch {
				case n >= 1_000 && n <= 1_000+window:
					begin.take(n == 1_000, n == 1_000+window)
				case n >= steps-window:
					end.take(n == steps-window, n == steps)
				}
				return engine.Set("n", n).Set("text", text)
			})
		}
		b.ReportMetric(float64(end.median())/float64(begin.median()), "time-ratio")
		b.ReportMetric(float64(end.allocs)/float64(begin.allocs), "allocs-ratio")
		b.ReportMetric(float64(end.bytes)/float64(begin.bytes), "bytes-ratio")
		b.ReportMetric(float64(end.heap)/float64(begin.heap), "heap-ratio")
		b.ReportMetric(float64(end.median()), "ns/step")
	}
	b.Run("memory", func(b *testing.B) { measure(b, nil) })
	b.Run("store", func(b *testing.B) { measure(b, benchStore(b, "NORMAL")) })
}

// sample is what the steps of a window cost.
type sample struct {
	last                time.Time
	steps               []time.Duration
	before              runtime.MemStats
	allocs, bytes, heap uint64
}

func (s *sample) take(first, last bool) {
	if !first {
		s.steps = append(s.steps, time.Since(s.last))
	}
	var now runtime.MemStats
	switch {
	case first:
		runtime.GC()
		runtime.ReadMemStats(&s.before)
	case last:
		runtime.ReadMemStats(&now)
		s.allocs, s.bytes = now.Mallocs-s.before.Mallocs, now.TotalAlloc-s.before.TotalAlloc
		runtime.GC()
		runtime.ReadMemStats(&now)
		s.heap = now.HeapAlloc
	}
	s.last = time.Now()
}

func (s *sample) median() time.Duration {
	slices.Sort(s.steps)
	return s.steps[len(s.steps)/2]
}
