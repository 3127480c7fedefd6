package acp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
)

// How a model ended a turn is in the reason of the prompt's response, and in the
// log as ever.
func TestAModelThatStoppedIsTheReasonOfThePrompt(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{"max_tokens": engine.ErrBudget, "refusal": engine.ErrRefusal} {
		d := newDesk(t, acp.Adapter{}, single("model", func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Output{}, fmt.Errorf("because: %w", cause)
		}))
		c := d.client(nil)
		s := c.NewSession()
		require.Equal(t, want, c.Says(s, "go"))
		require.Equal(t, engine.Failed, d.status(s))
		require.Contains(t, fmt.Sprint(c.Log), "because: ")
	}
	answer := map[string]any{"role": "assistant", "content": "Half an ans", "stop_reason": "max_tokens"}
	g := engine.MustCompile(engine.Definition{
		Name: "cut", Channels: map[string]engine.Channel{"messages": {Reducer: engine.Messages}},
		Nodes: map[string]engine.Node{"model": {Run: set("messages", answer)}},
		Edges: []engine.Edge{{From: engine.Start, To: "model"}},
	})
	c := newDesk(t, acp.Adapter{}, g).client(nil)
	require.Equal(t, "max_tokens", c.Says(c.NewSession(), "go"))
}

// A turn that adds no message does not tell again how an earlier one ended.
func TestACutAnswerIsToldOnceInTheReason(t *testing.T) {
	t.Parallel()
	answer := map[string]any{"role": "assistant", "content": "Half an ans", "stop_reason": "max_tokens"}
	g := engine.MustCompile(engine.Definition{
		Name: "cut", Channels: map[string]engine.Channel{"prompt": {}, "messages": {Reducer: engine.Messages}},
		Nodes: map[string]engine.Node{"model": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			if t.Get("prompt") == "be quiet" {
				return engine.Output{}, nil
			}
			return engine.Set("messages", answer), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "model"}},
	})
	c := newDesk(t, acp.Adapter{}, g).client(nil)
	s := c.NewSession()
	require.Equal(t, "max_tokens", c.Says(s, "go"))
	require.Equal(t, "end_turn", c.Says(s, "be quiet"))
	require.Equal(t, "max_tokens", c.Says(s, "go"))
}
