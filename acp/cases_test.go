package acp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// requests counts what the agent asked of the client.
func requests(log []editor.Message, method string) (n int) {
	for _, m := range log {
		if m.Method == method && m.ID != nil {
			n++
		}
	}
	return n
}

// quietAfter makes sure that nothing of a turn comes behind its response.
func quietAfter(t *testing.T, c *visitor) {
	t.Helper()
	before := len(c.Log)
	c.Call("session/list", editor.Object{"cwd": "/nowhere"})
	require.Len(t, c.Log, before+1, "something came behind the response of the prompt")
}

func TestACancelledPromptSaysSoAndNothingElse(t *testing.T) { // acp-cases 1, 2
	t.Parallel()
	running := make(chan string, 1)
	d := newDesk(t, acp.Adapter{}, single("wait", blocked(running)))
	c := d.client(nil)
	s := c.NewSession()
	offered(c)
	prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
	<-running
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	m, _ := c.Response(prompt)
	require.Equal(t, map[string]any{"stopReason": "cancelled"}, m.Result)
	require.Equal(t, 0, count(c.Log, "agent_message_chunk")+count(c.Log, "usage_update"))
	quietAfter(t, c)
	require.Equal(t, engine.Cancelled, d.status(s))
}

func TestEachQuestionIsAskedOnceWhileTheTurnRuns(t *testing.T) { // acp-cases 20, 21, 25, 55
	t.Parallel()
	ask := func(t *engine.Task) (engine.Output, error) {
		answer, err := t.Ask(engine.Ask{Message: "From " + t.Node(), Choices: []interrupt.Choice{{ID: "go"}, {ID: "stay"}}})
		return engine.Set("answer", fmt.Sprint(answer.Value)), err
	}
	run := func(_ context.Context, t *engine.Task) (engine.Output, error) { return ask(t) }
	graph := engine.MustCompile(engine.Definition{
		Name: "many", Channels: map[string]engine.Channel{"prompt": {}, "response": {}, "answer": {Reducer: engine.Append}},
		Nodes:           map[string]engine.Node{"a": {Run: run}, "b": {Run: run}, "end": {Run: set("response", "over")}},
		Edges:           []engine.Edge{{From: engine.Start, To: "a"}, {From: engine.Start, To: "b"}, {From: "a", To: "end"}, {From: "b", To: "end"}},
		InterruptBefore: []engine.Gate{{Node: "end"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	offered(c)
	open := map[string]bool{}
	c.Ask = func(m editor.Message) (any, bool) {
		id := m.Params["toolCall"].(map[string]any)["toolCallId"].(string)
		require.False(t, open[id], "asked twice: %s", m.Line)
		open[id] = true
		calls, _ := editor.ToolCalls(t, c.Log)
		require.Equal(t, "pending", calls[id]["status"], "announced first")
		if strings.Contains(m.Line, `"go"`) {
			return editor.Chosen("go"), true
		}
		return editor.Chosen("approve"), true
	}
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 3, requests(c.Log, "session/request_permission"))
	require.Len(t, open, 3)
	calls, order := editor.ToolCalls(t, c.Log) // which fails if one was announced twice
	require.Len(t, order, 3)
	for _, id := range order {
		require.Equal(t, "completed", calls[id]["status"])
	}
	require.Equal(t, []any{"go", "go"}, d.channel(s, "answer"))
	quietAfter(t, c)
}

// acp-cases 22: what was asked before the end of a process is asked again under the
// same id, and what was answered then is acted on once.
func TestAnOpenQuestionAndAStoredAnswerSurviveTheProcess(t *testing.T) {
	t.Parallel()
	runs := 0
	d := newDesk(t, acp.Adapter{}, gated(func(context.Context, *engine.Task) (engine.Output, error) {
		runs++
		return engine.Set("response", fmt.Sprint("run ", runs)), nil
	}))
	c := d.client(nil)
	s := c.NewSession()
	c.Request("session/prompt", editor.Prompt(s, "x"))
	first := c.Until("session/request_permission").Params["toolCall"].(map[string]any)
	c.leave()
	require.Equal(t, engine.Paused, d.status(s))

	c = d.client(nil)
	calls, order := editor.ToolCalls(t, c.Load(s))
	require.Equal(t, []string{first["toolCallId"].(string)}, order)
	require.Equal(t, "pending", calls[order[0]]["status"])
	c.Request("session/prompt", editor.Prompt(s, "y"))
	again := c.Until("session/request_permission").Params["toolCall"].(map[string]any)
	for _, field := range []string{"toolCallId", "title", "kind", "rawInput", "content", "_meta"} {
		require.Equal(t, first[field], again[field], field)
	}
	c.leave()

	// Answered by somebody who runs nothing.
	_, err := engine.New(nil, d.store, engine.Options{}).Answer(t.Context(), s, interrupt.Answer{Choice: "approve", Actor: "ada", Via: "cli"})
	require.NoError(t, err)
	require.Zero(t, runs)
	c = d.client(nil)
	c.Load(s)
	require.Zero(t, runs, "a load runs nothing")
	c.Ask = always(editor.Chosen("reject")) // of the next turn
	require.Equal(t, "end_turn", c.Says(s, "z"))
	require.Equal(t, 1, runs)
	require.Equal(t, 1, requests(c.Log, "session/request_permission"), "the answer that is stored is not asked for")
	require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "run 1\n")
}

func TestAllOfALargeTurnComesInOrderBeforeItsResponse(t *testing.T) { // acp-cases 28, 30
	t.Parallel()
	var want strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	adapter := acp.Adapter{AgentText: func(acp.TurnOutput) (string, error) { return want.String(), nil }}
	d := newDesk(t, adapter, gated(func(_ context.Context, t *engine.Task) (engine.Output, error) {
		for i := range 2000 {
			t.Print(fmt.Sprintf("printed %d\n", i))
		}
		return engine.Set("response", "much"), nil
	}))
	c := d.client(nil)
	s := c.NewSession()
	offered(c)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	var got strings.Builder
	ids := map[any]bool{}
	for _, m := range c.Log {
		if m.Is("agent_message_chunk") {
			content, _ := m.Update()["content"].(map[string]any)
			got.WriteString(content["text"].(string))
			ids[m.Update()["messageId"]] = true
		}
	}
	require.True(t, want.String() == got.String(), "%d bytes of %d", got.Len(), want.Len())
	require.Len(t, ids, 1, "one message")
	calls, order := editor.ToolCalls(t, c.Log)
	require.Equal(t, "completed", calls[order[0]]["status"])
	quietAfter(t, c)
}
