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
	"github.com/holdfast-agent/holdfast/store"
)

func TestUnknownSessionsAreNotFound(t *testing.T) { // acp-cases 32, 43
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("a", echo), single("b", echo))
	c := d.client(nil)
	open := editor.Object{"sessionId": "sess_none", "cwd": d.dir, "mcpServers": []any{}}
	for method, params := range map[string]editor.Object{
		"session/load": open, "session/resume": open, "session/prompt": editor.Prompt("sess_none", "x"),
		"session/set_config_option": {"sessionId": "sess_none", "configId": "graph", "value": "a"},
	} {
		e := c.Refused(method, params)
		require.Equal(t, -32002, e.Code, method)
		require.Equal(t, "sess_none", e.Data["sessionId"], method)
	}
	c.Call("session/close", editor.Object{"sessionId": "sess_none"})
	c.Call("session/delete", editor.Object{"sessionId": "sess_none"})
	require.Equal(t, []any{}, c.Call("session/list", nil)["sessions"])
}

func TestASessionIsStoredBeforeItIsPromised(t *testing.T) { // acp-cases 38, 27
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	s := c.NewSession()
	require.Len(t, c.Log, 2, "nothing but the two answers")
	c.leave()
	c = d.client(nil)
	require.Len(t, c.Load(s), 1, "nothing to replay")
	require.Equal(t, -32602, c.Refused("session/load", editor.Object{"sessionId": s, "cwd": "/elsewhere", "mcpServers": []any{}}).Code)
	require.Equal(t, -32602, c.Refused("session/resume", editor.Object{"sessionId": s, "cwd": "/elsewhere"}).Code)
	require.Equal(t, -32602, c.Refused("session/new", editor.Object{"cwd": "relative", "mcpServers": []any{}}).Code)
	require.Equal(t, -32602, c.Refused("session/new", editor.Object{"cwd": d.dir}).Code)
	require.Equal(t, -32602, c.Refused("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}, "additionalDirectories": []any{"x"}}).Code)
	require.Equal(t, "end_turn", c.Says(s, "hello"))
}

func TestAPromptOpensAStoredSession(t *testing.T) { // acp-cases 35
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = always(editor.Dismissed())
	c.Says(s, "first")
	c.leave()
	c = d.client(nil)
	require.Equal(t, "end_turn", c.Says(s, "second"))
	_, order := editor.ToolCalls(t, c.Log)
	require.Equal(t, []string{"call-1-work", "call-5-work"}, order)
	require.Equal(t, "ran\nran\n", editor.Text(c.Log, "agent_message_chunk"))

	c.leave()
	c = d.client(nil)
	before := len(c.Log)
	c.Call("session/resume", editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
	require.Len(t, c.Log, before+1)
}

func TestALoadThatIsFollowedByAPromptAtOnceComesFirst(t *testing.T) { // acp-cases 33
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	s := c.NewSession()
	c.Says(s, "one")
	c.leave()
	c = d.client(nil)
	load := c.Request("session/load", editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
	prompt := c.Request("session/prompt", editor.Prompt(s, "two"))
	m, _ := c.Response(load)
	require.Nil(t, m.Error)
	require.Equal(t, "you said: one\n", editor.Text(c.Log, "agent_message_chunk"))
	m, _ = c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
}

func TestTheListIsFilteredPagedAndStable(t *testing.T) { // acp-cases 36
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	want := map[string]bool{}
	for i := range 120 {
		id := fmt.Sprintf("t%03d", i)
		cwd := d.dir
		if i%10 == 0 {
			cwd = "/other"
		} else {
			want[id] = true
		}
		require.NoError(t, d.store.Create(context.Background(), engine.Thread{ID: id, Cwd: cwd}))
	}
	require.NoError(t, d.store.Create(context.Background(), engine.Thread{ID: "no-folder"}))
	c := d.client(nil)
	params := editor.Object{"cwd": d.dir + "/"}
	pages := 0
	for {
		page := c.Call("session/list", params)
		pages++
		for _, item := range page["sessions"].([]any) {
			info := item.(map[string]any)
			id := info["sessionId"].(string)
			require.True(t, want[id], "%s twice, or of another folder", id)
			require.Equal(t, map[string]any{"holdfast/status": "done"}, info["_meta"])
			delete(want, id)
		}
		if page["nextCursor"] == nil {
			break
		}
		params["cursor"] = page["nextCursor"]
	}
	require.Empty(t, want)
	require.Equal(t, 3, pages)
	require.Equal(t, -32602, c.Refused("session/list", editor.Object{"cursor": "x"}).Code)
	require.Equal(t, -32602, c.Refused("session/list", editor.Object{"cwd": "relative"}).Code)
}

func TestCloseAndDeleteEndWhatRuns(t *testing.T) { // acp-cases 40, 42
	t.Parallel()
	for _, method := range []string{"session/close", "session/delete"} {
		running := make(chan string, 1)
		d := newDesk(t, acp.Adapter{}, single("wait", blocked(running)))
		c := d.client(nil)
		s := c.NewSession()
		prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
		<-running
		end := c.Request(method, editor.Object{"sessionId": s})
		m, _ := c.Response(prompt)
		require.Equal(t, "cancelled", m.Result["stopReason"], "the prompt is answered first")
		m, _ = c.Response(end)
		require.Nil(t, m.Error)
		if method == "session/close" {
			require.Equal(t, engine.Cancelled, d.status(s))
			c.Load(s)
			continue
		}
		require.Equal(t, -32002, c.Refused("session/prompt", editor.Prompt(s, "x")).Code)
		require.Equal(t, -32002, c.Refused("session/load", editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}}).Code)
		require.Equal(t, []any{}, c.Call("session/list", editor.Object{})["sessions"])
		c.Call(method, editor.Object{"sessionId": s})
	}
}

func TestASessionChoosesItsGraph(t *testing.T) { // acp-cases 64
	t.Parallel()
	running := make(chan string, 1)
	d := newDesk(t, acp.Adapter{}, single("one", set("response", "one")), single("two", set("response", "two")), single("wait", blocked(running)))
	c := d.client(nil)
	opened := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}})
	s := opened["sessionId"].(string)
	value := func(options any) any { return option(options, "graph")["currentValue"] }
	require.Equal(t, "one", value(opened["configOptions"]))
	choose := func(v any) editor.Object { return editor.Object{"sessionId": s, "configId": "graph", "value": v} }
	require.Equal(t, "two", value(c.Call("session/set_config_option", choose("two"))["configOptions"]))
	updates := 0
	for _, m := range c.Log {
		if m.Is("config_option_update") {
			updates++
		}
	}
	require.Equal(t, 1, updates)
	c.Says(s, "x")
	require.Equal(t, "two\n", editor.Text(c.Log, "agent_message_chunk"))
	require.Equal(t, -32602, c.Refused("session/set_config_option", choose("three")).Code)
	require.Equal(t, -32602, c.Refused("session/set_config_option", editor.Object{"sessionId": s, "configId": "model", "value": "two"}).Code)
	c.leave()
	c = d.client(nil)
	loaded := c.Call("session/load", editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
	require.Equal(t, "two", value(loaded["configOptions"]))

	// In the middle of a turn it is the graph of the next one.
	c.Call("session/set_config_option", choose("wait"))
	prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
	<-running
	c.Call("session/set_config_option", choose("one"))
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	c.Response(prompt)
	c.leave()
	c = d.client(nil)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "one\n", editor.Text(c.Log, "agent_message_chunk"))
}

func TestEveryMethodThatIsAdvertisedAnswersAndNoOther(t *testing.T) { // acp-cases 37, 53, 17
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	for _, version := range []int{0, 1, 2, 65535} {
		require.EqualValues(t, 1, c.Call("initialize", editor.Object{"protocolVersion": version})["protocolVersion"])
	}
	s := c.NewSession()
	for _, method := range []string{
		"session/fork", "session/cancel", "logout", "_x/y", "nothing", "session/update",
	} {
		require.Equal(t, -32601, c.Refused(method, editor.Object{"sessionId": s, "modeId": "m", "configId": "c", "value": "v"}).Code, method)
	}
	require.Equal(t, -32602, c.Refused("authenticate", editor.Object{"methodId": "x"}).Code)
	c.Notify("_x/z", editor.Object{})
	image := editor.Object{"sessionId": s, "prompt": []any{editor.Object{"type": "image", "data": "AA==", "mimeType": "image/png"}}}
	require.Equal(t, -32602, c.Refused("session/prompt", image).Code)
	link := editor.Object{"sessionId": s, "prompt": []any{ // acp-cases 48
		editor.Object{"type": "resource_link", "uri": "file:///a", "name": "a"},
		editor.Object{"type": "resource", "resource": editor.Object{"uri": "file:///b", "text": "inside"}},
	}}
	require.Equal(t, "end_turn", c.Call("session/prompt", link)["stopReason"])
	require.Equal(t, "[a](file:///a) inside\n", editor.Text(c.Load(s), "user_message_chunk"))
}

func TestAPlanFollowsTheNodes(t *testing.T) {
	t.Parallel()
	graph := engine.MustCompile(engine.Definition{
		Name: "plan", Channels: channels("answer"),
		Nodes: map[string]engine.Node{"z": {Run: set("answer", 1)}, "b": {Run: set("response", "done")}, "c": {Run: set("answer", 2)}},
		Edges: []engine.Edge{{From: engine.Start, To: "z"}, {From: "z", To: "b"}, {From: "b", To: "c"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	c.Says(s, "x")
	plans := func(log []editor.Message) (out []string) {
		for _, m := range log {
			if !m.Is("plan") {
				continue
			}
			line := ""
			for _, entry := range m.Update()["entries"].([]any) {
				e := entry.(map[string]any)
				line += e["content"].(string) + ":" + e["status"].(string) + " "
			}
			out = append(out, line)
		}
		return out
	}
	live := plans(c.Log)
	require.Equal(t, "z:pending b:pending c:pending ", live[0])
	require.Contains(t, live, "z:completed b:in_progress c:pending ")
	require.Equal(t, "z:completed b:completed c:completed ", live[len(live)-1])
	require.Equal(t, live[len(live)-1:], plans(c.Load(s)))
}

func TestAPrunedSessionIsReplayedWithTheStateThatWasKept(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 5000)
	all := channels("big")
	all["log"] = engine.Channel{Reducer: "append"}
	graph := engine.MustCompile(engine.Definition{
		Name: "g", Channels: all, Edges: []engine.Edge{{From: engine.Start, To: "a"}},
		Nodes: map[string]engine.Node{"a": {Run: func(_ context.Context, task *engine.Task) (engine.Output, error) {
			return engine.Output{Writes: []engine.Write{{Channel: "big", Value: big}, {Channel: "log", Value: task.Get("prompt")}}}, nil
		}}},
	})
	d := newDesk(t, acp.Adapter{AgentText: func(o acp.TurnOutput) (string, error) { return "so far " + fmt.Sprint(o.Values["log"]), nil }}, graph)
	c := d.client(nil)
	s := c.NewSession()
	for _, text := range []string{"one", "two", "three", "four"} {
		c.Says(s, text)
	}
	c.leave()
	pruned, err := d.store.Prune(t.Context(), s, store.Retention{Turns: 2}, engine.By{}, false)
	require.NoError(t, err)
	require.Positive(t, pruned.Entries)
	c = d.client(nil)
	told := fmt.Sprint(c.Load(s))
	require.Contains(t, told, "[one two three]")
	require.Contains(t, told, "[one two three four]")
	require.Equal(t, 2*strings.Count(told, "so far [one two three four]"), strings.Count(told, "so far"), "a turn that was pruned has no reply")
	require.NotContains(t, told, "text:two", "what was said in a turn that was pruned is gone")
	c.Says(s, "five")
	require.Contains(t, fmt.Sprint(c.Log), "[one two three four five]")
}
