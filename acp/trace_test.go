package acp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

func traced(session, text string, meta editor.Object) editor.Object {
	p := editor.Prompt(session, text)
	p["_meta"] = meta
	return p
}

func TestTheTraceOfAPromptIsOnAllThatComesOfIt(t *testing.T) {
	t.Parallel()
	seen := make(chan map[string]string, 10)
	graph := engine.MustCompile(engine.Definition{
		Name: "traced", Channels: channels("answer"),
		Nodes: map[string]engine.Node{"work": {Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
			answer, err := t.Ask(engine.Ask{Message: "Sure?", Type: "boolean"})
			if err == nil {
				seen <- acp.TraceContext(ctx)
			}
			return engine.Set("answer", answer.Value).Set("response", "done"), err
		}}},
		Edges:           []engine.Edge{{From: engine.Start, To: "work"}},
		InterruptBefore: []engine.Gate{{Node: "work"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(forms)
	s := c.NewSession()
	offered(c)
	asked := 0
	c.Ask = func(m editor.Message) (any, bool) {
		asked++
		require.Equal(t, "00-1-2-01", m.Params["_meta"].(map[string]any)["traceparent"], m.Line)
		require.Contains(t, m.Params["_meta"], "adk.graph.interrupt")
		if m.Method == "elicitation/create" {
			return accepted(true), true
		}
		return editor.Chosen("approve"), true
	}
	before := len(c.Log)
	result := c.Call("session/prompt", traced(s, "x", editor.Object{"traceparent": "00-1-2-01", "tracestate": "a=b", "other": 1}))
	want := map[string]any{"traceparent": "00-1-2-01", "tracestate": "a=b"}
	require.Equal(t, want, result["_meta"])
	require.Equal(t, 2, asked)
	require.Equal(t, map[string]string{"traceparent": "00-1-2-01", "tracestate": "a=b"}, <-seen)
	updates := 0
	for _, m := range c.Log[before:] {
		if m.Update() != nil {
			updates++
			require.Equal(t, want, m.Params["_meta"], m.Line)
		}
	}
	require.Positive(t, updates)

	// A trace belongs to its prompt, and what is no text is none.
	c.Ask = func(m editor.Message) (any, bool) {
		if m.Method == "elicitation/create" {
			return accepted(true), true
		}
		return editor.Chosen("approve"), true
	}
	for _, meta := range []editor.Object{nil, {"traceparent": 7, "tracestate": nil, "baggage": strings.Repeat("x", 9000)}} {
		before = len(c.Log)
		result = c.Call("session/prompt", traced(s, "y", meta))
		require.NotContains(t, result, "_meta")
		require.Empty(t, <-seen)
		for _, m := range c.Log[before:] {
			if m.Update() != nil {
				require.NotContains(t, m.Params, "_meta")
			}
		}
	}
}

func TestWhatATurnUsesIsToldWhereTheWindowIsKnown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("model", func(_ context.Context, t *engine.Task) (engine.Output, error) {
		t.Use(engine.Usage{InputTokens: 10, OutputTokens: 5})
		t.Use(engine.Usage{InputTokens: 10, Context: 20, Window: 1000, Cost: 0.25, Currency: "EUR"})
		return engine.Set("response", "done"), nil
	}))
	c := d.client(nil)
	s := c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 1, count(c.Log, "usage_update"))
	for _, m := range c.Log {
		if m.Is("usage_update") {
			require.Equal(t, map[string]any{"sessionUpdate": "usage_update", "used": 20.0, "size": 1000.0,
				"cost": map[string]any{"amount": 0.25, "currency": "EUR"}}, m.Update())
		}
	}
}
