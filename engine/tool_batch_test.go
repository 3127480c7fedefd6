package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestACallThatMakesNoSenseIsAnsweredAndNobodyIsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("tools")
	d.Nodes["tools"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		gate := func(_ context.Context, _ *engine.Task, call engine.ToolCall) (engine.Verdict, error) {
			if call.Name == "nonsense" {
				return engine.Verdict{Invalid: "there is no such tool", Ask: engine.AskAboutTool(call)}, nil
			}
			return engine.Verdict{Allow: true}, nil
		}
		outcomes, err := engine.DispatchTools(ctx, t, []engine.ToolCall{{ID: "1", Name: "nonsense"}, {ID: "2", Name: "fine"}}, []engine.ToolGate{gate},
			func(_ context.Context, call engine.ToolCall) (any, error) { b.ran(call.Name); return "ok", nil })
		if err != nil {
			return engine.Output{}, err
		}
		return engine.Set("log", []any{outcomes[0].Failed, outcomes[0].Denied, outcomes[0].Result, outcomes[1].Result}), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{true, false, map[string]any{"error": "there is no such tool"}, "ok"}, turn.State["log"])
	require.Equal(t, []string{"fine"}, b.takeRuns())
}

// What changes something runs in the order of the calls; what only looks may run
// beside its neighbors.
func TestACallThatRunsAloneKeepsItsPlaceInTheBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("tools")
	d.Nodes["tools"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		calls := []engine.ToolCall{
			{ID: "1", Name: "read 1"}, {ID: "2", Name: "read 1"},
			{ID: "3", Name: "write", Alone: true}, {ID: "4", Name: "write", Alone: true},
			{ID: "5", Name: "read 2"},
		}
		allow := func(context.Context, *engine.Task, engine.ToolCall) (engine.Verdict, error) {
			return engine.Verdict{Allow: true}, nil
		}
		met := make(chan struct{})
		var reads, running atomic.Int32
		_, err := engine.DispatchTools(ctx, t, calls, []engine.ToolGate{allow}, func(_ context.Context, call engine.ToolCall) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			if call.Name == "read 1" { // both are there at once
				if reads.Add(1) == 2 {
					close(met)
				}
				<-met
			}
			if call.Alone && running.Load() != 1 {
				return nil, errors.New("it is not alone")
			}
			b.ran(call.Name)
			return nil, nil
		})
		return engine.Output{}, err
	}}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []string{"read 1", "read 1", "write", "write", "read 2"}, b.takeRuns())
}

// Each call has its own answer to the question what to do if it is in doubt, and
// the question says which call it is.
func TestADoubtAboutACallSaysWhatItWas(t *testing.T) {
	t.Parallel()
	for _, answer := range []interrupt.Answer{{Choice: interrupt.RunAgain}, {Choice: interrupt.DoneIt}, {Choice: interrupt.DoneIt, Value: "by hand"}} {
		b := setup(t)
		ctx, stop := context.WithCancel(t.Context())
		d := b.chain("tools")
		d.Nodes["tools"] = engine.Node{Run: func(ctx context.Context, task *engine.Task) (engine.Output, error) {
			allow := func(context.Context, *engine.Task, engine.ToolCall) (engine.Verdict, error) {
				return engine.Verdict{Allow: true}, nil
			}
			calls := []engine.ToolCall{{ID: "1", Name: "read"}, {ID: "2", Name: "deploy", Args: map[string]any{"to": "prod"}, OnCrash: engine.CrashAsk, Alone: true}}
			outcomes, err := engine.DispatchTools(ctx, task, calls, []engine.ToolGate{allow}, func(ctx context.Context, call engine.ToolCall) (any, error) {
				b.ran(call.Name)
				if call.Name == "deploy" && b.count("deploy") == 1 {
					stop() // the process ends while it runs
					return nil, ctx.Err()
				}
				return "ran", nil
			})
			if err != nil {
				return engine.Output{}, err
			}
			return engine.Set("log", []any{[]any{outcomes[0].Result, outcomes[1].Result}}), nil
		}}
		e := b.engine(b.compile(d))
		_, err := e.Start(ctx, "t", engine.Input{})
		require.ErrorIs(t, err, engine.ErrStopped)
		turn, err := e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Len(t, turn.Questions, 1)
		q := turn.Questions[0]
		require.True(t, q.IsDoubt())
		require.Equal(t, map[string]any{"tool": "deploy", "arguments": map[string]any{"to": "prod"}}, q.Doubt.Effect)
		turn, err = e.Resume(t.Context(), "t", answer)
		require.NoError(t, err)
		want := map[string]any{interrupt.RunAgain: "ran", interrupt.DoneIt: answer.Value}[answer.Choice]
		require.Equal(t, []any{[]any{"ran", want}}, turn.State["log"])
		require.Equal(t, 1, b.count("read"))
		b.verify()
	}
}
