package acp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

var blocks = []acp.ContentBlock{
	acp.TextBlock("look at"),
	{Type: acp.ContentResourceLink, Name: "a.go", URI: "file:///w/a.go"},
	{Type: acp.ContentResource, Resource: &acp.ResourceContents{URI: "file:///w/b.txt", Text: "inside"}},
	{Type: acp.ContentResource, Resource: &acp.ResourceContents{URI: "file:///w/c.png", Blob: "AA==", IsBlob: true}},
	{Type: acp.ContentImage, Data: "AA==", MimeType: "image/png"},
}

func TestTheDefaultAdapter(t *testing.T) {
	t.Parallel()
	graph := single("echo", echo)
	a := acp.Adapter{}.For(graph)
	require.Equal(t, "prompt", a.InputChannel)
	require.Equal(t, "response", a.OutputChannel)
	text, err := a.UserText(blocks)
	require.NoError(t, err)
	require.Equal(t, "look at [a.go](file:///w/a.go) inside [c.png](file:///w/c.png)", text)
	values, err := a.InitialState(blocks, "s1")
	require.NoError(t, err)
	require.Equal(t, engine.Values{"prompt": text, "_acp_session_id": "s1"}, values)
	values, err = a.SessionState(blocks, acp.Session{ID: "s1", CWD: "/w"})
	require.NoError(t, err)
	require.Equal(t, engine.Values{
		"prompt": text, "_acp_session_id": "s1", "_acp_cwd": "/w", "_acp_additional_directories": []any{}, "_acp_mcp_tools": []any{},
	}, values)

	talk := engine.MustCompile(engine.Definition{
		Name: "talk", Channels: map[string]engine.Channel{"messages": {Reducer: engine.Messages}},
		Nodes: map[string]engine.Node{"a": {Run: set("messages", map[string]any{"role": "assistant", "content": "hi"})}},
		Edges: []engine.Edge{{From: engine.Start, To: "a"}},
	})
	values, err = acp.Adapter{}.For(talk).InitialState([]acp.ContentBlock{acp.TextBlock("hello")}, "s")
	require.NoError(t, err)
	require.Equal(t, []any{map[string]any{"role": "user", "content": "hello"}}, values["messages"])

	for _, test := range []struct {
		output acp.TurnOutput
		want   string
	}{
		{acp.TurnOutput{}, ""},
		{acp.TurnOutput{Values: engine.Values{"response": "r"}}, "r"},
		{acp.TurnOutput{Values: engine.Values{"response": map[string]any{"a": int64(1)}}}, `{"a":1}`},
		{acp.TurnOutput{Values: engine.Values{"response": ""}, Messages: []any{map[string]any{"role": "assistant", "content": "m"}}}, "m"},
		{acp.TurnOutput{Messages: []any{map[string]any{"role": "assistant", "content": "m"}, map[string]any{"role": "user", "content": "u"}}}, "m"},
		{acp.TurnOutput{Messages: []any{map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "b"}}}}}, "b"},
	} {
		got, err := a.AgentText(test.output)
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
}

func TestAGraphThatTakesNoTextIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	mute := engine.MustCompile(engine.Definition{
		Name: "mute", Channels: map[string]engine.Channel{"x": {}},
		Nodes: map[string]engine.Node{"a": {Run: set("x", 1)}}, Edges: []engine.Edge{{From: engine.Start, To: "a"}},
	})
	_, err := acp.NewServer(acp.Config{Store: (*store.Store)(nil), Graphs: []*engine.Graph{mute}})
	require.ErrorContains(t, err, "mute")
	_, err = acp.NewServer(acp.Config{Store: (*store.Store)(nil), Graphs: []*engine.Graph{single("a", echo), single("a", echo)}})
	require.ErrorContains(t, err, "two graphs")
}

// TestEveryFieldOfTheAdapterIsSeenByAllItsCallers overrides each field alone.
func TestEveryFieldOfTheAdapterIsSeenByAllItsCallers(t *testing.T) {
	t.Parallel()
	reply := func(adapter acp.Adapter, graph *engine.Graph, said string, check func(d *desk, c *visitor, s string)) {
		d := newDesk(t, adapter, graph)
		c := d.client(nil)
		s := c.NewSession()
		require.Equal(t, "end_turn", c.Says(s, said))
		check(d, c, s)
	}
	text := func(c *visitor) string { return editor.Text(c.Log, "agent_message_chunk") }

	reply(acp.Adapter{InputChannel: "answer"}, single("echo", echo), "x", func(d *desk, c *visitor, s string) {
		require.Equal(t, "x", d.channel(s, "answer"))
	})
	reply(acp.Adapter{OutputChannel: "answer"}, single("n", set("answer", "from answer")), "x", func(_ *desk, c *visitor, _ string) {
		require.Equal(t, "from answer\n", text(c))
	})
	upper := acp.Adapter{UserText: func(b []acp.ContentBlock) (string, error) { return strings.ToUpper(b[0].Text), nil }}
	reply(upper, single("echo", echo), "x", func(_ *desk, c *visitor, s string) {
		require.Equal(t, "you said: X\n", text(c), "InitialState, and SessionState above it, see the other UserText")
		require.Equal(t, "X\n", editor.Text(c.Load(s), "user_message_chunk"))
	})
	initial := acp.Adapter{InitialState: func(_ []acp.ContentBlock, id string) (engine.Values, error) {
		return engine.Values{"prompt": "in " + id}, nil
	}}
	reply(initial, single("echo", echo), "x", func(_ *desk, c *visitor, s string) { require.Equal(t, "you said: in "+s+"\n", text(c)) })
	state := acp.Adapter{SessionState: func(_ []acp.ContentBlock, s acp.Session) (engine.Values, error) {
		return engine.Values{"prompt": s.CWD}, nil
	}}
	reply(state, single("echo", echo), "x", func(d *desk, c *visitor, _ string) { require.Equal(t, "you said: "+d.dir+"\n", text(c)) })
	agent := acp.Adapter{AgentText: func(o acp.TurnOutput) (string, error) { return "<" + o.Values["response"].(string) + ">", nil }}
	reply(agent, single("echo", echo), "x", func(_ *desk, c *visitor, s string) {
		require.Equal(t, "<you said: x>\n", text(c))
		require.Equal(t, "<you said: x>\n", editor.Text(c.Load(s), "agent_message_chunk"))
	})
	permission := acp.Adapter{InterruptPermission: func(q interrupt.Question) (*acp.Permission, error) {
		return &acp.Permission{
			ToolCall: acp.ToolCall{Title: "mine: " + q.Payload.Node, Kind: acp.ToolEdit},
			Options:  []acp.PermissionOption{{OptionID: "approve", Name: "Go", Kind: acp.AllowOnce}},
		}, nil
	}}
	reply(permission, gated(set("response", "ran")), "x", func(_ *desk, c *visitor, _ string) {
		calls, order := editor.ToolCalls(t, c.Log)
		require.Equal(t, "mine: work", calls[order[0]]["title"])
		require.Equal(t, "edit", calls[order[0]]["kind"])
	})
	answer := acp.Adapter{InterruptAnswer: func(_ interrupt.Question, option string) (any, error) {
		return map[string]string{"approve": "reject", "reject": "approve"}[option], nil
	}}
	reply(answer, gated(set("response", "ran")), "x", func(d *desk, c *visitor, s string) {
		require.Equal(t, engine.Rejected, d.status(s), "what the option stands for is the adapter's")
	})
}

func TestWhatAGraphDoesNotDeclareIsLeftOut(t *testing.T) {
	t.Parallel()
	graph := engine.MustCompile(engine.Definition{
		Name: "g", Channels: channels("_acp_cwd", "_acp_session_id", "_acp_additional_directories"),
		Nodes: map[string]engine.Node{"a": {Run: set("response", "ok")}}, Edges: []engine.Edge{{From: engine.Start, To: "a"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s, _ := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}, "additionalDirectories": []any{"/other"}})["sessionId"].(string)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, d.dir, d.channel(s, "_acp_cwd"))
	require.Equal(t, s, d.channel(s, "_acp_session_id"))
	require.Equal(t, []any{"/other"}, d.channel(s, "_acp_additional_directories"))
}

func TestAnAdapterThatFailsFailsThePromptAlone(t *testing.T) {
	t.Parallel()
	broken := errors.New("the adapter is broken")
	for name, adapter := range map[string]acp.Adapter{
		"UserText":            {UserText: func([]acp.ContentBlock) (string, error) { return "", broken }},
		"panic":               {UserText: func([]acp.ContentBlock) (string, error) { panic(broken) }},
		"SessionState":        {SessionState: func([]acp.ContentBlock, acp.Session) (engine.Values, error) { return nil, broken }},
		"InterruptPermission": {InterruptPermission: func(interrupt.Question) (*acp.Permission, error) { panic(broken) }},
		"InterruptAnswer":     {InterruptAnswer: func(interrupt.Question, string) (any, error) { return nil, broken }},
		"a wrong answer":      {InterruptAnswer: func(interrupt.Question, string) (any, error) { return "maybe", nil }},
		"AgentText":           {AgentText: func(acp.TurnOutput) (string, error) { return "", broken }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, adapter, gated(set("response", "ran")))
			c := d.client(nil)
			s := c.NewSession()
			e := c.Refused("session/prompt", editor.Prompt(s, "x"))
			require.Equal(t, -32603, e.Code)
			if name != "a wrong answer" {
				require.Contains(t, e.Message, broken.Error())
			}
			calls, order := editor.ToolCalls(t, c.Log)
			for _, id := range order {
				require.Contains(t, []any{"completed", "failed"}, calls[id]["status"])
			}
			want := engine.Done // before the turn began, or after it ended
			if strings.HasPrefix(name, "Interrupt") || name == "a wrong answer" {
				want = engine.Paused
			}
			require.Equal(t, want, d.status(s))
		})
	}
}

func TestWhatAQuestionCarriesInItsMeta(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, asking(engine.Ask{
		Message: "Which?", Data: map[string]any{"n": 1}, Choices: []interrupt.Choice{{ID: "a", Name: "First"}, {ID: "b", Kind: "reject_once"}},
	}))
	c := d.client(nil)
	s := c.NewSession()
	var asked editor.Message
	c.Ask = func(m editor.Message) (any, bool) { asked = m; return editor.Chosen("b"), true }
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "answer: \"b\"\n", editor.Text(c.Log, "agent_message_chunk"))
	var announced editor.Object
	for _, m := range c.Log {
		if m.Is("tool_call") {
			announced = m.Update()
		}
	}
	call := asked.Params["toolCall"].(map[string]any)
	for _, where := range []editor.Object{announced, call} {
		require.Equal(t, "ask-2", where["toolCallId"])
		require.Equal(t, "Which?", where["title"])
		require.Equal(t, "other", where["kind"])
		require.Equal(t, "pending", where["status"])
		require.Equal(t, map[string]any{"n": 1.0}, where["rawInput"])
		meta := where["_meta"].(map[string]any)
		require.Equal(t, map[string]any{"node": "asker", "reason": "Which?", "payload": map[string]any{"n": 1.0}, "checkpointId": s + "@2"}, meta["neograph/interrupt"])
		require.Equal(t, map[string]any{
			"kind": "dynamic", "message": "Which?", "data": map[string]any{"n": 1.0}, "thread_id": s, "checkpoint_id": s + "@2",
		}, meta["adk.graph.interrupt"])
		question := meta["holdfast.question"].(map[string]any)
		require.Equal(t, "asker", question["asking_node"])
		require.Len(t, question["choices"], 2)
	}
	require.Equal(t, []any{
		map[string]any{"optionId": "a", "name": "First", "kind": "allow_once"},
		map[string]any{"optionId": "b", "name": "b", "kind": "reject_once"},
	}, asked.Params["options"])
	calls, _ := editor.ToolCalls(t, c.Log)
	require.Equal(t, "completed", calls["ask-2"]["status"])
	require.Equal(t, "b", calls["ask-2"]["rawOutput"])
}
