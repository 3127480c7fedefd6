package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// steps is a graph of one node that runs n times and writes 200 bytes each time.
func steps(n int, reducer string) *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name:     "steps",
		Channels: map[string]engine.Channel{"text": {Reducer: reducer}},
		Nodes: map[string]engine.Node{"work": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			out := engine.Set("text", text)
			if t.Step() >= int64(n) {
				out.Goto = []string{engine.End}
			} else {
				out.Goto = []string{"work"}
			}
			return out, nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "work"}, {From: "work", To: engine.End}},
	})
}

func openStore(ctx context.Context, r room) (*store.Store, error) {
	return store.Open(ctx, r.file(), store.Options{Synchronous: r.sync})
}

func turn(ctx context.Context, g *engine.Graph, s engine.Store, thread string, n int) error {
	_, err := engine.New(g, s, engine.Options{}).Start(ctx, thread, engine.Input{MaxSteps: n + 1})
	return err
}

func holdfastSteps(ctx context.Context, r room) (float64, error) {
	s, err := openStore(ctx, r)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	began := time.Now()
	err = turn(ctx, steps(r.n, engine.Overwrite), s, "t", r.n)
	return each(began, r.n), err
}

func holdfastSize(ctx context.Context, r room) (float64, error) {
	s, err := openStore(ctx, r)
	if err != nil {
		return 0, err
	}
	if err := turn(ctx, steps(r.n, engine.Append), s, "t", r.n); err != nil {
		return 0, err
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	size, err := fileSize(r.file())
	return size / float64(r.n*len(text)), err
}

func holdfastThreads(ctx context.Context, r room) (float64, error) {
	s, err := openStore(ctx, r)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	g := steps(r.n, engine.Overwrite)
	return sideBySide(r.n, func(i int) error { return turn(ctx, g, s, fmt.Sprintf("t%d", i), r.n) })
}

// sideBySide does something on 64 threads at once, n steps each.
func sideBySide(n int, do func(i int) error) (float64, error) {
	errs := make([]error, threads)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range threads {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	us := each(began, n*threads)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return us, nil
}

func holdfastMemorySteps(ctx context.Context, r room) (float64, error) {
	g := steps(r.n, engine.Overwrite)
	began := time.Now()
	err := turn(ctx, g, nil, "t", r.n)
	return each(began, r.n), err
}

func holdfastFanOut(ctx context.Context, r room) (float64, error) {
	d := engine.Definition{
		Name:     "fan-out",
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}},
		Nodes:    map[string]engine.Node{},
		Edges:    []engine.Edge{{From: engine.Start, To: "join"}},
	}
	var workers []string
	for i := range 5 {
		name := fmt.Sprintf("worker%d", i)
		workers = append(workers, name)
		d.Nodes[name] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Set("n", 1), nil
		}}
		d.Edges = append(d.Edges, engine.Edge{From: name, To: "join"})
	}
	d.Nodes["join"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Output{}, nil
	}}
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "join", Route: func(s engine.State) ([]string, error) {
		if s["n"].(int64) >= int64(5*r.n) {
			return []string{engine.End}, nil
		}
		return workers, nil
	}}}
	g, err := engine.Compile(d)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = turn(ctx, g, nil, "t", 2*r.n+1)
	return each(began, r.n), err
}

// checkpoints is how many there are where a file is opened.
const checkpoints = 10_000

func holdfastOpen(ctx context.Context, r room) (float64, error) {
	fast := r
	fast.sync = "NORMAL" // only for making the file
	s, err := openStore(ctx, fast)
	if err != nil {
		return 0, err
	}
	if err := turn(ctx, steps(checkpoints, engine.Overwrite), s, "t", checkpoints); err != nil {
		return 0, err
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.n {
		s, err := openStore(ctx, r)
		if err != nil {
			return 0, err
		}
		v, err := s.At(ctx, "t", 0)
		if err != nil {
			return 0, err
		}
		if v.State["text"] != text {
			return 0, fmt.Errorf("the state is %v", v.State)
		}
		if err := s.Close(); err != nil {
			return 0, err
		}
	}
	return each(began, r.n), nil
}

func holdfastTurns(ctx context.Context, r room) (float64, error) {
	s, err := openStore(ctx, r)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	write := engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Set("text", text), nil }}
	g, err := engine.Compile(engine.Definition{
		Name:            "approve",
		Channels:        map[string]engine.Channel{"text": {}},
		Nodes:           map[string]engine.Node{"draft": write, "publish": write},
		Edges:           []engine.Edge{{From: engine.Start, To: "draft"}, {From: "draft", To: "publish"}},
		InterruptBefore: []engine.Gate{{Node: "publish"}},
	})
	if err != nil {
		return 0, err
	}
	e := engine.New(g, s, engine.Options{})
	began := time.Now()
	for range r.n {
		if _, err := e.Start(ctx, "t", engine.Input{}); err != nil {
			return 0, err
		}
		end, err := e.Resume(ctx, "t", interrupt.Answer{Choice: interrupt.Approve, Actor: "ada"})
		if err != nil {
			return 0, err
		}
		if end.Status != engine.Done {
			return 0, fmt.Errorf("the turn is %s", end.Status)
		}
	}
	return each(began, r.n), nil
}
