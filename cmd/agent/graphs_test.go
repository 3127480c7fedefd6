package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// programWithTestGraphs is the program, which also knows graphs that are
// written in Go, as go:NAME: they do what it must show, and no file can say.
func programWithTestGraphs() {
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	files := a.graphs
	a.graphs.file = func(path string) (*engine.Graph, error) {
		if name, ours := strings.CutPrefix(path, "go:"); ours {
			return testGraph(name)
		}
		return files.file(path)
	}
	a.graphs.load = func(name string, definition []byte) (*engine.Graph, error) {
		if _, ours := testNodes[name]; ours {
			return testGraph(name)
		}
		return files.load(name, definition)
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

type nodeFunc = func(context.Context, *engine.Task) (engine.Output, error)

// testNodes are the graphs by name: what their one node does.
var testNodes = map[string]nodeFunc{
	"nap":      nap(300 * time.Millisecond),
	"long-nap": nap(100 * time.Hour),
	"wait": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, _, err := t.AwaitSignal("go", 0)
		return engine.Set("response", v), err
	},
	"wait-in-time": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, _, err := t.AwaitSignal("go", 100*time.Hour)
		return engine.Set("response", v), err
	},
	"gated-wait": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, _, err := t.AwaitSignal("go", 0)
		return engine.Set("response", v), err
	},
	"flaky": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		if _, err := os.Stat("tried"); err == nil {
			return engine.Set("response", "worked"), nil
		}
		return engine.Output{}, errors.Join(errors.New("not yet"), os.WriteFile("tried", nil, 0o600))
	},
	"broken": func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}, errors.New("it broke")
	},
	"inner-ask": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		t.Print("asking\n")
		a, err := t.Ask(engine.Ask{Message: "Which?", Type: "string"})
		return engine.Set("response", a.Value), err
	},
	"inner-wait": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		_, _, err := t.AwaitSignal("go", 0)
		return engine.Set("response", "came"), err
	},
	"in-time": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		a, err := t.Ask(engine.Ask{Message: "How many?", Type: "integer", Deadline: 100 * time.Hour, Default: 7})
		return engine.Set("response", a.Value), err
	},
	"at-once": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		a, err := t.Ask(engine.Ask{Message: "How many?", Type: "integer", Deadline: 500 * time.Millisecond, Default: 7})
		return engine.Set("response", a.Value), err
	},
	"late-gate": func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("response", "deployed"), nil
	},
	"nap-and-ask": func(_ context.Context, t *engine.Task) (engine.Output, error) {
		a, err := t.Ask(engine.Ask{Message: "Which?", Choices: []interrupt.Choice{{ID: "red"}, {ID: "blue"}}})
		return engine.Set("response", a.Value), err
	},
}

func nap(d time.Duration) nodeFunc {
	return func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Set("response", "slept"), t.Sleep(d)
	}
}

func testGraph(name string) (*engine.Graph, error) {
	run, ok := testNodes[name]
	if !ok {
		return nil, fmt.Errorf("there is no test graph %s", name)
	}
	d := engine.Definition{
		Name:     name,
		Channels: map[string]engine.Channel{"response": {}, "prompt": {}},
		Nodes:    map[string]engine.Node{"work": {Run: run}},
		Edges:    []engine.Edge{{From: engine.Start, To: "work"}},
	}
	switch name {
	case "gated-wait":
		d.InterruptBefore = []engine.Gate{{Node: "work"}}
	case "late-gate":
		d.InterruptBefore = []engine.Gate{{Node: "work", Deadline: 100 * time.Hour}}
	case "flaky":
		d.Nodes["work"] = engine.Node{Run: run, Retry: &engine.Retry{MaxRetries: 1, InitialDelay: time.Millisecond}}
	case "broken":
		d.Nodes["work"] = engine.Node{Run: run, OnError: "repair"}
		d.Nodes["repair"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Set("response", "repaired"), nil
		}}
	case "nap-and-ask":
		d.Nodes["sleep"] = engine.Node{Run: nap(100 * time.Hour)}
		d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "sleep"})
		d.Channels["response"] = engine.Channel{Reducer: engine.Append}
	case "inner-ask", "inner-wait":
		child, err := engine.Compile(d)
		if err != nil {
			return nil, err
		}
		d.Nodes = map[string]engine.Node{"outer": {Subgraph: &engine.Subgraph{Graph: child}}}
		d.Edges = []engine.Edge{{From: engine.Start, To: "outer"}}
	}
	return engine.Compile(d)
}
