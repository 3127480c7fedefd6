package main

import (
	"context"
	"time"

	"github.com/cloudwego/eino/compose"
)

func einoSteps(ctx context.Context, r room) (float64, error) {
	g := compose.NewGraph[map[string]any, map[string]any]()
	n := 0
	err := g.AddLambdaNode("work", compose.InvokableLambda(func(context.Context, map[string]any) (map[string]any, error) {
		n++
		return map[string]any{"text": text}, nil
	}))
	if err != nil {
		return 0, err
	}
	if err := g.AddEdge(compose.START, "work"); err != nil {
		return 0, err
	}
	err = g.AddBranch("work", compose.NewGraphBranch(func(context.Context, map[string]any) (string, error) {
		if n >= r.n {
			return compose.END, nil
		}
		return "work", nil
	}, map[string]bool{"work": true, compose.END: true}))
	if err != nil {
		return 0, err
	}
	run, err := g.Compile(ctx, compose.WithMaxRunSteps(r.n+10))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = run.Invoke(ctx, map[string]any{})
	return each(began, r.n), err
}

// einoFanOut invokes the graph once a round: its fan-out with a join is no loop.
func einoFanOut(ctx context.Context, r room) (float64, error) {
	g := compose.NewGraph[map[string]any, map[string]any]()
	join := compose.InvokableLambda(func(_ context.Context, in map[string]any) (map[string]any, error) { return in, nil })
	if err := g.AddLambdaNode("join", join); err != nil {
		return 0, err
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		worker := compose.InvokableLambda(func(context.Context, map[string]any) (int, error) { return 1, nil })
		if err := g.AddLambdaNode(name, worker, compose.WithOutputKey(name)); err != nil {
			return 0, err
		}
		if err := g.AddEdge(compose.START, name); err != nil {
			return 0, err
		}
		if err := g.AddEdge(name, "join"); err != nil {
			return 0, err
		}
	}
	if err := g.AddEdge("join", compose.END); err != nil {
		return 0, err
	}
	run, err := g.Compile(ctx, compose.WithNodeTriggerMode(compose.AllPredecessor))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.n {
		if _, err := run.Invoke(ctx, map[string]any{}); err != nil {
			return 0, err
		}
	}
	return each(began, r.n), nil
}
