package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestAGraphIsATool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Channels = map[string]engine.Channel{"n": {Reducer: engine.Sum}, "who": {Initial: "nobody"}, "log": {Reducer: engine.Append}}
	g := b.compile(d)
	schema, err := g.InputSchema("n", "who")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
		"n": map[string]any{"type": "number"}, "who": map[string]any{"type": "string"},
	}}, schema)
	_, err = g.InputSchema("nn")
	require.ErrorContains(t, err, "did you mean n?")

	out, err := b.engine(g).CallTool(t.Context(), "t", engine.Values{"n": 3}, "n")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"status": "done", "thread_id": "t", "output": map[string]any{"n": int64(3)}}, out)
	out, err = b.engine(g).CallTool(t.Context(), "u", engine.Values{"m": 3})
	require.NoError(t, err)
	require.Equal(t, "failed", out["status"])

	d.InterruptBefore = []engine.Gate{{Node: "a"}}
	e := b.engine(b.compile(d))
	out, err = e.CallTool(t.Context(), "v", nil)
	require.NoError(t, err)
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"interrupted","thread_id":"v","interrupt":{"kind":"before","node":"a","thread_id":"v","checkpoint_id":"v@2"}}`, string(raw))
	turn, err := e.Resume(t.Context(), "v", approve())
	require.NoError(t, err)
	require.Equal(t, "done", engine.ToolResult(turn)["status"])
}

// Case 87 of the seeds: the whole batch is decided before any call runs.
func TestAToolBatchIsDecidedBeforeAnyCallRuns(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{interrupt.Approve, interrupt.Reject} {
		b := setup(t)
		d := b.chain("tools")
		gate := func(_ context.Context, _ *engine.Task, call engine.ToolCall) (engine.Verdict, error) {
			switch call.Name {
			case "shell":
				return engine.Verdict{Ask: engine.AskAboutTool(call)}, nil
			case "forbidden":
				return engine.Verdict{Reason: "not here"}, nil
			case "rewrite":
				return engine.Verdict{Allow: true, Args: "safe"}, nil
			}
			return engine.Verdict{Allow: true}, nil
		}
		fail := true
		d.Nodes["tools"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
			calls := []engine.ToolCall{{ID: "1", Name: "read"}, {ID: "2", Name: "shell", Args: "ls"}, {ID: "3", Name: "rewrite", Args: "rm"},
				{ID: "4", Name: "forbidden"}, {ID: "5", Name: "broken"}, {ID: "6", Name: "panics"}}
			outcomes, err := engine.DispatchTools(ctx, t, calls, []engine.ToolGate{gate}, func(_ context.Context, call engine.ToolCall) (any, error) {
				b.ran(call.Name)
				switch call.Name {
				case "broken":
					return nil, errors.New("no such file")
				case "panics":
					panic("oh")
				}
				return []any{call.Name, call.Args}, nil
			})
			if err != nil {
				return engine.Output{}, err
			}
			if fail {
				return engine.Output{}, errors.New("after the tools")
			}
			var out []any
			for _, o := range outcomes {
				out = append(out, o.Result)
			}
			return engine.Set("log", out), nil
		}}
		e := b.engine(b.compile(d))
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, "Run tool shell?", turn.Questions[0].Payload.Message)
		require.Empty(t, b.takeRuns())
		_, err = e.Resume(t.Context(), "t", interrupt.Answer{Choice: choice, Reason: "too risky"})
		require.ErrorContains(t, err, "after the tools")
		want := []string{"read", "rewrite", "broken", "panics"}
		shell := any(map[string]any{"error": "denied: too risky"})
		if choice == interrupt.Approve {
			want = append(want, "shell")
			shell = []any{"shell", "ls"}
		}
		require.ElementsMatch(t, want, b.takeRuns())
		fail = false
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Empty(t, b.takeRuns(), "what has run is not run again")
		require.Equal(t, []any{
			[]any{"read", nil}, shell, []any{"rewrite", "safe"},
			map[string]any{"error": "denied: not here"}, map[string]any{"error": "no such file"}, map[string]any{"error": "panic: oh"},
		}, turn.State["log"])
		b.verify()
	}
}

func TestANodeIsATool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "pay", "j")
	d.Channels = map[string]engine.Channel{"amount": {Reducer: engine.Sum}, "paid": {Initial: false}, "other": {}}
	d.Nodes["pay"] = engine.Node{
		Effects: &engine.Effects{Reads: []string{"amount"}, Writes: []string{"paid"}}, OnError: "a",
		Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			amount, err := engine.Get[int](t, "amount")
			if err != nil || amount > 999 {
				return engine.Output{}, errors.New("too much")
			}
			if _, err := t.Ask(engine.Ask{Message: "from which account?"}); err != nil {
				return engine.Output{}, err
			}
			return engine.Set("paid", true).GoTo("j").Send("a", nil), nil
		},
	}
	d.InterruptBefore = []engine.Gate{{Node: "pay", OnReject: "j"}, {Node: "j"}}
	g := b.compile(d)
	pay, err := g.NodeGraph("pay")
	require.NoError(t, err)
	schema, err := pay.InputSchema()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
		"amount": map[string]any{"type": "number"}, "paid": map[string]any{"type": "boolean"},
	}}, schema)
	require.Equal(t, "chain/pay", pay.Name())
	e := b.engine(pay)
	out, err := e.CallTool(t.Context(), "t", engine.Values{"amount": 250}, "paid")
	require.NoError(t, err)
	require.Equal(t, "interrupted", out["status"], "its gate is its own")
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	out = engine.ToolResult(turn, "paid")
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"interrupted","thread_id":"t","interrupt":{"kind":"dynamic","message":"from which account?","thread_id":"t","checkpoint_id":"t@4"}}`, string(raw))
	turn, err = e.Resume(t.Context(), "t", answerOf(turn, "savings"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"status": "done", "thread_id": "t", "output": map[string]any{"paid": true}}, engine.ToolResult(turn, "paid"))
	require.Empty(t, b.takeRuns(), "where it leads does not count")

	out, err = e.CallTool(t.Context(), "u", engine.Values{"amount": 1000})
	require.NoError(t, err)
	require.Equal(t, "interrupted", out["status"])
	turn, err = e.Resume(t.Context(), "u", approve())
	require.ErrorContains(t, err, "too much", "nobody is there to take a failure over")
	require.Equal(t, "failed", engine.ToolResult(turn)["status"])
	turn, err = e.Start(t.Context(), "v", engine.Input{})
	require.NoError(t, err)
	turn, err = e.Resume(t.Context(), turn.Thread, reject())
	require.NoError(t, err)
	require.Equal(t, "rejected", engine.ToolResult(turn)["status"])

	whole, err := g.NodeGraph("a") // what it reads and writes is not known
	require.NoError(t, err)
	require.Equal(t, []string{"amount", "log", "other", "paid"}, whole.Channels())
	_, err = g.NodeGraph("pya")
	require.ErrorIs(t, err, engine.ErrInvalid)
	b.verify()
}
