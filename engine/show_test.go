package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// What a task shows is in the row of its step, once, and is told again from there.
func TestWhatATaskShowsIsKeptWithItsStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	was := "a"
	g := b.compile(engine.Definition{
		Name:     "show",
		Channels: map[string]engine.Channel{"messages": {Reducer: engine.Messages}, "v": {}},
		Nodes: map[string]engine.Node{"talk": {Run: func(ctx context.Context, task *engine.Task) (engine.Output, error) {
			task.Think("t1", "hm")
			task.Say("m1", "Hello ")
			task.Say("m1", "world")
			task.Say("m2", "not written")
			if err := task.Show("c1", engine.Call{Title: "edit", Kind: "edit", Status: engine.CallRuns, Input: map[string]any{"n": 1}}); err != nil {
				return engine.Output{}, err
			}
			err := task.Show("c1", engine.Call{
				Title: "edit", Kind: "edit", Status: engine.CallCompleted, Output: "ok",
				Diffs: []engine.FileDiff{{Path: "/a", Old: &was, New: "b"}, {Path: "/n", New: "new"}},
			})
			task.Use(engine.Usage{InputTokens: 10, OutputTokens: 5, Cost: 0.25, Currency: "USD", Context: 15, Window: 100})
			return engine.Set("messages", map[string]any{"id": "m1", "role": "assistant", "content": "Hello world"}), err
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "talk"}},
	})
	var events []engine.Event
	e := engine.New(g, b.store, engine.Options{Events: func(ev engine.Event) {
		if ev.Type == engine.EventShown || ev.Type == engine.EventUsage {
			events = append(events, ev)
		}
	}})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)

	require.Len(t, events, 7)
	require.Equal(t, engine.Shown{Kind: engine.ShownMessage, ID: "m1", Text: "world"}, *events[2].Shown)
	require.Equal(t, len("Hello "), events[2].Offset)
	require.Equal(t, int64(15), events[6].Usage.Tokens())

	var step engine.Entry
	require.NoError(t, e.History(t.Context(), "t", func(en engine.Entry) error {
		if en.Kind == engine.KindStep {
			step = en
		}
		return nil
	}))
	shown := step.Payload.Shown["talk"]
	require.Len(t, shown, 4)
	require.Empty(t, shown[1].Text, "the text stands in the message that was written")
	texts := map[string]string{}
	for _, s := range shown {
		texts[s.ID] = step.ShownText("talk", s)
	}
	require.Equal(t, map[string]string{"t1": "hm", "m1": "Hello world", "m2": "not written", "c1": ""}, texts)
	require.Equal(t, &engine.Call{
		Title: "edit", Kind: "edit", Status: engine.CallCompleted, Output: "ok",
		Diffs: []engine.FileDiff{{Path: "/a", Old: &was, New: "b"}, {Path: "/n", New: "new"}},
	}, shown[3].Call)
	require.Equal(t, &engine.Usage{InputTokens: 10, OutputTokens: 5, Cost: 0.25, Currency: "USD", Context: 15, Window: 100}, step.Payload.Usage)
	b.verify()
}

// A finished task is not run again, so what it showed and used comes from its
// stored result; what a turn has used goes through subgraphs and is new with
// the next turn.
func TestWhatWasShownAndUsedSurvivesAFailedSibling(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fails := true
	spend := func(n int64) engine.Node {
		return engine.Node{Run: func(_ context.Context, task *engine.Task) (engine.Output, error) {
			before := task.Usage().Tokens()
			task.Say("m", fmt.Sprintf("%s sees %d", task.Node(), before))
			task.Use(engine.Usage{InputTokens: n})
			return engine.Output{}, nil
		}}
	}
	child := engine.Definition{
		Name: "child", Channels: map[string]engine.Channel{"v": {}},
		Nodes: map[string]engine.Node{"one": spend(1), "two": spend(2)},
		Edges: []engine.Edge{{From: engine.Start, To: "one"}, {From: "one", To: "two"}},
	}
	g := b.compile(engine.Definition{
		Name: "parent", Channels: map[string]engine.Channel{"v": {}},
		Nodes: map[string]engine.Node{
			"first": spend(100),
			"sub":   {Subgraph: &engine.Subgraph{Graph: b.compile(child)}},
			"other": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
				if fails {
					return engine.Output{}, errors.New("not yet")
				}
				return engine.Output{}, nil
			}},
			"last": spend(1000),
		},
		Edges: []engine.Edge{
			{From: engine.Start, To: "first"}, {From: "first", To: "sub"}, {From: "first", To: "other"}, {From: "sub", To: "last"},
		},
	})
	e := b.engine(g)
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.Error(t, err)
	fails = false
	_, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)

	said, used := map[string]string{}, int64(0)
	history := func() {
		require.NoError(t, e.History(t.Context(), "t", func(en engine.Entry) error {
			for task, list := range en.Payload.Shown {
				said[task] = en.ShownText(task, list[0])
			}
			if en.Kind == engine.KindStep && en.Namespace == "" {
				used = en.Payload.Usage.Tokens()
			}
			return nil
		}))
	}
	history()
	require.Equal(t, map[string]string{"first": "first sees 0", "one": "one sees 100", "two": "two sees 101", "last": "last sees 103"}, said)
	require.Equal(t, int64(1103), used)

	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	history()
	require.Equal(t, "first sees 0", said["first"])
	require.Equal(t, int64(1103), used)
	b.verify()
}

func TestABudgetThatIsSpentEndsTheTurnWithItsOwnCode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	child := engine.Definition{
		Name: "child", Channels: map[string]engine.Channel{"v": {}},
		Nodes: map[string]engine.Node{"a": {Retry: &engine.Retry{MaxRetries: 3}, Run: func(context.Context, *engine.Task) (engine.Output, error) {
			b.ran("a")
			return engine.Output{}, fmt.Errorf("1,200 of 1,000 tokens: %w", engine.ErrBudget)
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "a"}},
	}
	g := b.compile(engine.Definition{
		Name: "parent", Channels: map[string]engine.Channel{"v": {}},
		Nodes: map[string]engine.Node{"sub": {Subgraph: &engine.Subgraph{Graph: b.compile(child)}}},
		Edges: []engine.Edge{{From: engine.Start, To: "sub"}},
	})
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrBudget)
	var failed *engine.TurnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "budget", failed.Code)
	require.Equal(t, 1, b.count("a"), "another try would cost more and help nothing")
}

func TestAFailureSaysHowLongToWaitAndWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     engine.RetryError
		retries int
	}{
		"wait":  {engine.RetryError{Err: errors.New("busy"), After: 30 * time.Millisecond}, 1},
		"never": {engine.RetryError{Err: errors.New("bad key"), Never: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var delays []time.Duration
			g := b.compile(engine.Definition{
				Name: "g", Channels: map[string]engine.Channel{"v": {}},
				Nodes: map[string]engine.Node{"a": {
					Retry: &engine.Retry{MaxRetries: 1, InitialDelay: 1},
					Run: func(context.Context, *engine.Task) (engine.Output, error) {
						return engine.Output{}, fmt.Errorf("call: %w", &tc.err)
					},
				}},
				Edges: []engine.Edge{{From: engine.Start, To: "a"}},
			})
			_, err := engine.New(g, b.store, engine.Options{Events: func(ev engine.Event) {
				if ev.Type == engine.EventRetry {
					delays = append(delays, ev.Elapsed)
				}
			}}).Start(t.Context(), "t", engine.Input{})
			require.ErrorContains(t, err, tc.err.Error())
			require.Len(t, delays, tc.retries)
			for _, d := range delays {
				require.GreaterOrEqual(t, d, tc.err.After)
			}
		})
	}
}
