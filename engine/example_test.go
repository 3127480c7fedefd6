package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// exampleStore opens a store in a folder that is removed afterwards.
func exampleStore(ctx context.Context) (*store.Store, func()) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		panic(err)
	}
	s, err := store.Open(ctx, filepath.Join(dir, "agent.db"), store.Options{})
	if err != nil {
		panic(err)
	}
	return s, func() { _ = s.Close(); _ = os.RemoveAll(dir) }
}

// A turn pauses in front of a gated node and goes on when a person approves,
// here or in any other process that has the file.
func Example() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()

	graph := engine.MustCompile(engine.Definition{
		Name:     "greet",
		Channels: map[string]engine.Channel{"name": {}, "greeting": {}},
		Nodes: map[string]engine.Node{"greet": {
			Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				return engine.Set("greeting", fmt.Sprintf("Hello, %v!", t.Get("name"))), nil
			},
		}},
		Edges:           []engine.Edge{{From: engine.Start, To: "greet"}},
		InterruptBefore: []engine.Gate{{Node: "greet"}},
	})
	e := engine.New(graph, file, engine.Options{})

	turn, err := e.Start(ctx, "t1", engine.Input{Values: engine.Values{"name": "Ada"}})
	fmt.Println(turn.Status, err, turn.Questions[0].ID(), turn.Questions[0].Payload.Reason())

	turn, err = e.Resume(ctx, "t1", interrupt.Answer{Choice: interrupt.Approve, Actor: "grace"})
	fmt.Println(turn.Status, err, turn.State["greeting"])
	// Output:
	// paused <nil> t1@2 Interrupt before node: greet
	// done <nil> Hello, Ada!
}

// A node that must not repeat its work keeps it in a Step: when the node runs
// again, the stored result is there.
func ExampleStep() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()

	graph := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"receipt": {}},
		Nodes: map[string]engine.Node{"pay": {
			Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
				receipt, err := engine.Step(ctx, "charge", func(context.Context) (string, error) {
					fmt.Println("charging, with key", len(t.IdempotencyKey("charge")), "characters long")
					return "receipt 7", nil
				}, engine.CrashAsk)
				if err != nil {
					return engine.Output{}, err
				}
				if _, err := t.Ask(engine.Ask{Message: "Send " + receipt + "?"}); err != nil {
					return engine.Output{}, err // the first time: the task pauses
				}
				return engine.Set("receipt", receipt), nil
			},
		}},
		Edges: []engine.Edge{{From: engine.Start, To: "pay"}},
	})
	e := engine.New(graph, file, engine.Options{})
	turn, _ := e.Start(ctx, "order-1", engine.Input{})
	fmt.Println(turn.Questions[0].Payload.Message)
	turn, _ = e.Resume(ctx, "order-1", interrupt.Answer{Value: "yes"})
	fmt.Println(turn.Status, turn.State["receipt"])
	// Output:
	// charging, with key 32 characters long
	// Send receipt 7?
	// done receipt 7
}

// Sends fan out over data; a reducer merges what they write, in the order of
// the sends.
func ExampleOutput_Send() {
	ctx := context.Background()
	graph := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {}, "squares": {Reducer: engine.Append}},
		Nodes: map[string]engine.Node{
			"plan": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
				var out engine.Output
				for n := range 4 {
					out = out.Send("square", engine.Values{"n": n})
				}
				return out, nil
			}},
			"square": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				n, err := engine.Get[int](t, "n")
				return engine.Set("squares", n*n), err
			}},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "plan"}},
	})
	turn, err := engine.New(graph, nil, engine.Options{}).Start(ctx, "t", engine.Input{})
	fmt.Println(turn.State["squares"], err)
	// Output: [0 1 4 9] <nil>
}

// A fork goes on from any checkpoint and leaves its source alone.
func ExampleEngine_Fork() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	add := func(n int) engine.Node {
		return engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Set("n", n), nil }}
	}
	graph := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}},
		Nodes:    map[string]engine.Node{"one": add(1), "ten": add(10)},
		Edges:    []engine.Edge{{From: engine.Start, To: "one"}, {From: "one", To: "ten"}},
	})
	e := engine.New(graph, file, engine.Options{})
	_, _ = e.Start(ctx, "main", engine.Input{})
	_, _ = e.Fork(ctx, "main@2", "what-if", engine.By{Actor: "ada"}) // after node one
	_, _ = e.Update(ctx, "what-if", engine.Edit{Writes: []engine.Write{{Channel: "n", Value: 100}}})
	turn, _ := e.Resume(ctx, "what-if")
	fmt.Println(turn.Status, turn.State["n"])
	// Output: done 111
}
