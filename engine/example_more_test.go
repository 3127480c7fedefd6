package engine_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// says is a node that writes its words to the list "log".
func says(words any) engine.Node {
	return engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("log", words), nil
	}}
}

// logged are the channels of the examples.
var logged = map[string]engine.Channel{"log": {Reducer: engine.Append}}

// A node may ask in the middle of its work, and several times: when the answer
// is in, it runs again from its top, and each Ask gives its own answer.
func ExampleTask_Ask() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes: map[string]engine.Node{"order": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			size, err := t.Ask(engine.Ask{Message: "What size?", Choices: []interrupt.Choice{{ID: "small"}, {ID: "large"}}})
			if err != nil {
				return engine.Output{}, err
			}
			count, err := t.Ask(engine.Ask{Message: "How many?", Type: "integer"})
			if err != nil {
				return engine.Output{}, err
			}
			return engine.Set("log", fmt.Sprint(count.Value, " ", size.Choice)), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "order"}},
	})
	e := engine.New(graph, file, engine.Options{})
	turn, _ := e.Start(ctx, "t", engine.Input{})
	fmt.Println(turn.Questions[0].Payload.Message)
	turn, _ = e.Resume(ctx, "t", interrupt.Answer{Choice: "large"})
	fmt.Println(turn.Questions[0].Payload.Message)
	turn, _ = e.Resume(ctx, "t", interrupt.Answer{Value: 3})
	fmt.Println(turn.State["log"])
	// Output:
	// What size?
	// How many?
	// [3 large]
}

// A task that sleeps is a row of the log. Whoever has the thread when the time
// has come goes on; if nobody has it, whoever opens it next.
func ExampleTask_Sleep() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes: map[string]engine.Node{"remind": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			if err := t.Sleep(24 * time.Hour); err != nil {
				return engine.Output{}, err // the first time: the task sleeps
			}
			return engine.Set("log", "a day later"), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "remind"}},
	})
	day := clock.NewFake(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	e := engine.New(graph, file, engine.Options{Clock: day})
	turn, _ := e.Start(ctx, "t", engine.Input{})
	fmt.Println(turn.Status)
	day.Advance(48 * time.Hour)
	turn, _ = e.Resume(ctx, "t")
	fmt.Println(turn.Status, turn.State["log"])
	// Output:
	// sleeping
	// done [a day later]
}

// A signal wakes a node that waits for it, and may come before it does.
func ExampleEngine_Signal() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes: map[string]engine.Node{"wait": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			v, _, err := t.AwaitSignal("paid", 0)
			return engine.Set("log", v), err
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "wait"}},
	})
	e := engine.New(graph, file, engine.Options{})
	turn, _ := e.Start(ctx, "order-1", engine.Input{})
	fmt.Println(turn.Status)
	_ = e.Signal(ctx, "order-1", "paid", 250, engine.By{Actor: "bank"})
	turn, _ = e.Resume(ctx, "order-1")
	fmt.Println(turn.Status, turn.State["log"])
	// Output:
	// sleeping
	// done [250]
}

// A join runs once, after all that it waits for, however long their branches
// are. With a Timeout it goes on without those who do not come.
func ExampleBarrier() {
	ctx := context.Background()
	join := says("joined")
	join.Barrier = &engine.Barrier{WaitFor: []string{"short", "longer"}, Timeout: time.Hour}
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes:    map[string]engine.Node{"short": says("short"), "long": says("long"), "longer": says("longer"), "join": join},
		Edges: []engine.Edge{
			{From: engine.Start, To: "short"}, {From: engine.Start, To: "long"}, {From: "long", To: "longer"},
			{From: "short", To: "join"}, {From: "longer", To: "join"},
		},
	})
	turn, err := engine.New(graph, nil, engine.Options{}).Start(ctx, "t", engine.Input{})
	fmt.Println(turn.State["log"], err)
	// Output: [long short longer joined] <nil>
}

// An error handler takes a failed branch over, after its retries.
func ExampleTask_Failure() {
	ctx := context.Background()
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes: map[string]engine.Node{
			"book": {OnError: "refund", Run: func(context.Context, *engine.Task) (engine.Output, error) {
				return engine.Output{}, errors.New("no seats left")
			}},
			"refund": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				return engine.Set("log", "refunded, as "+t.Failure().Node+" failed: "+t.Failure().Cause), nil
			}},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "book"}},
	})
	turn, err := engine.New(graph, nil, engine.Options{}).Start(ctx, "t", engine.Input{})
	fmt.Println(turn.State["log"], err)
	// Output: [refunded, as book failed: no seats left] <nil>
}

// A graph may be a node. Channels of one name are shared, or mapped.
func ExampleSubgraph() {
	ctx := context.Background()
	greet := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"name": {}, "text": {}},
		Nodes: map[string]engine.Node{"greet": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			return engine.Set("text", fmt.Sprint("Hello, ", t.Get("name"))), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "greet"}},
	})
	graph := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"customer": {Initial: "Ada"}, "log": {Reducer: engine.Append}},
		Nodes: map[string]engine.Node{"welcome": {Subgraph: &engine.Subgraph{
			Graph: greet, Input: map[string]string{"customer": "name"}, Output: map[string]string{"text": "log"},
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "welcome"}},
	})
	turn, err := engine.New(graph, nil, engine.Options{}).Start(ctx, "t", engine.Input{})
	fmt.Println(turn.State["log"], err)
	// Output: [Hello, Ada] <nil>
}

// A stream gives the events of a turn to a consumer that may be slow.
func ExampleStream() {
	ctx := context.Background()
	graph := engine.MustCompile(engine.Definition{
		Channels: logged,
		Nodes:    map[string]engine.Node{"a": says("a"), "b": says("b")},
		Edges:    []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "b"}},
	})
	stream := engine.NewStream(0, func(ev engine.Event) bool { return ev.Type == engine.EventTaskFinished })
	e := engine.New(graph, nil, engine.Options{Events: stream.Send})
	go func() {
		defer stream.Close()
		_, _ = e.Start(ctx, "t", engine.Input{})
	}()
	for ev := range stream.Events(ctx) {
		fmt.Println(ev.Type)
	}
	// Output:
	// task_finished
	// task_finished
	// turn_ended
}

// An edit appends to the log: it goes through the reducers, or past them, and
// may count as what a node wrote.
func ExampleEngine_Update() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	graph := engine.MustCompile(engine.Definition{
		Channels:        logged,
		Nodes:           map[string]engine.Node{"test": says("tested"), "ship": says("shipped")},
		Edges:           []engine.Edge{{From: engine.Start, To: "test"}, {From: "test", To: "ship"}},
		InterruptBefore: []engine.Gate{{Node: "test"}},
	})
	e := engine.New(graph, file, engine.Options{})
	_, _ = e.Start(ctx, "t", engine.Input{})
	edited, _ := e.Update(ctx, "t", engine.Edit{
		Node:   "test",
		Writes: []engine.Write{{Channel: "log", Value: []any{"tested by hand"}, Overwrite: true}},
		By:     engine.By{Actor: "ada", Reason: "the machine is down"},
	})
	fmt.Println("dropped:", edited.Dropped)
	turn, _ := e.Resume(ctx, "t")
	fmt.Println(turn.Status, turn.State["log"])
	// Output:
	// dropped: [test]
	// done [tested by hand shipped]
}

// A graph, or one node of it, is a tool for a model: with a schema of what it
// takes, and a pause that comes back as a result.
func ExampleEngine_CallTool() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	graph := engine.MustCompile(engine.Definition{
		Name:     "bank",
		Channels: map[string]engine.Channel{"amount": {Reducer: engine.Sum}, "paid": {Initial: false}},
		Nodes: map[string]engine.Node{"pay": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Set("paid", true), nil
		}}},
		Edges:           []engine.Edge{{From: engine.Start, To: "pay"}},
		InterruptBefore: []engine.Gate{{Node: "pay", Message: "Pay?"}},
	})
	tool, _ := graph.NodeGraph("pay")
	schema, _ := tool.InputSchema("amount")
	fmt.Println(schema["properties"])
	e := engine.New(tool, file, engine.Options{})
	out, _ := e.CallTool(ctx, "t", engine.Values{"amount": 250}, "paid")
	fmt.Println(out["status"], out["interrupt"].(interrupt.GraphInterruptPayload).Message)
	turn, _ := e.Resume(ctx, "t", interrupt.Answer{Choice: interrupt.Approve})
	fmt.Println(engine.ToolResult(turn, "paid")["output"])
	// Output:
	// map[amount:map[type:number]]
	// interrupted Pay?
	// map[paid:true]
}

// A turn goes on with the graph that it began with. A program whose graph is
// another is told what changed, and somebody may accept it.
func ExampleEngine_AcceptGraph() {
	ctx := context.Background()
	file, remove := exampleStore(ctx)
	defer remove()
	d := engine.Definition{
		Name: "release", Channels: logged,
		Nodes:           map[string]engine.Node{"build": says("built"), "ship": says("shipped")},
		Edges:           []engine.Edge{{From: engine.Start, To: "build"}, {From: "build", To: "ship"}},
		InterruptBefore: []engine.Gate{{Node: "ship"}},
	}
	_, _ = engine.New(engine.MustCompile(d), file, engine.Options{}).Start(ctx, "t", engine.Input{})

	// The next version of the program.
	d.Nodes["tell"] = says("told")
	d.Edges = append(d.Edges, engine.Edge{From: "ship", To: "tell"})
	e := engine.New(engine.MustCompile(d), file, engine.Options{})
	var changed *engine.GraphChangedError
	if _, err := e.Resume(ctx, "t", interrupt.Answer{Choice: interrupt.Approve}); errors.As(err, &changed) {
		fmt.Println(changed.Changes)
	}
	_, err := e.AcceptGraph(ctx, "t", engine.By{Actor: "ada", Reason: "only additions"})
	fmt.Println(err)
	turn, _ := e.Resume(ctx, "t")
	fmt.Println(turn.Status, turn.State["log"])
	// Output:
	// [node tell was added edge ship -> tell was added]
	// <nil>
	// done [built shipped told]
}
