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

// option finds a config option by its id, nil if it is not there.
func option(options any, id string) map[string]any {
	list, _ := options.([]any)
	for _, o := range list {
		if o := o.(map[string]any); o["id"] == id {
			return o
		}
	}
	return nil
}

// answers gives the answers in a thread's log.
func (d *desk) answers(thread string) (out []interrupt.Answer) {
	d.t.Helper()
	require.NoError(d.t, d.store.Entries(context.Background(), thread, 0, 0, func(e engine.Entry) error {
		if a := e.Payload.Answer; a != nil {
			out = append(out, *a)
		}
		return nil
	}))
	return out
}

// never fails the test when it is asked.
func never(t *testing.T) func(editor.Message) (any, bool) {
	return func(m editor.Message) (any, bool) {
		t.Errorf("asked: %s", m.Line)
		return editor.Dismissed(), true
	}
}

// count is how many updates of a kind there were.
func count(log []editor.Message, kind string) (n int) {
	for _, m := range log {
		if m.Is(kind) {
			n++
		}
	}
	return n
}

func mode(session, id string) editor.Object {
	return editor.Object{"sessionId": session, "modeId": id}
}

func config(session, id string, v any) editor.Object {
	o := editor.Object{"sessionId": session, "configId": id, "value": v}
	if _, boolean := v.(bool); boolean {
		o["type"] = "boolean"
	}
	return o
}

func TestAModeIsAnnouncedBothWaysAndSurvivesTheProcess(t *testing.T) { // acp-cases 64
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	opened := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}})
	s := opened["sessionId"].(string)
	require.Equal(t, "ask", opened["modes"].(map[string]any)["currentModeId"])
	require.Len(t, opened["modes"].(map[string]any)["availableModes"], 2)
	o := option(opened["configOptions"], "mode")
	require.Equal(t, []any{"ask", "mode", "select"}, []any{o["currentValue"], o["category"], o["type"]})

	before := len(c.Log)
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, 1, count(c.Log[before:], "current_mode_update"))
	require.Equal(t, 1, count(c.Log[before:], "config_option_update"))
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, 1, count(c.Log[before:], "current_mode_update"), "nothing has changed")

	before = len(c.Log)
	list := c.Call("session/set_config_option", config(s, "mode", "ask"))["configOptions"]
	require.Equal(t, "ask", option(list, "mode")["currentValue"])
	require.Equal(t, 1, count(c.Log[before:], "current_mode_update"))
	require.Equal(t, 1, count(c.Log[before:], "config_option_update"))
	c.Call("session/set_config_option", config(s, "mode", "auto-approve"))
	c.leave()

	for _, method := range []string{"session/load", "session/resume"} {
		c = d.client(nil)
		opened = c.Call(method, editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
		require.Equal(t, "auto-approve", opened["modes"].(map[string]any)["currentModeId"], method)
		require.Equal(t, "auto-approve", option(opened["configOptions"], "mode")["currentValue"], method)
		c.leave()
	}
	c = d.client(nil) // not loaded: a prompt opens it, and tells the mode
	c.Ask = never(t)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 1, count(c.Log, "current_mode_update"))
	require.Equal(t, "ran\n", editor.Text(c.Log, "agent_message_chunk"))

	for _, bad := range []struct {
		method string
		params editor.Object
		code   int
	}{
		{"session/set_mode", mode(s, "yolo"), -32602},
		{"session/set_mode", editor.Object{"sessionId": s}, -32602},
		{"session/set_mode", mode("sess_none", "ask"), -32002},
		{"session/set_mode", mode("sess_none", "yolo"), -32002},
		{"session/set_config_option", config(s, "mode", "yolo"), -32602},
		{"session/set_config_option", config(s, "mode", true), -32602},
		{"session/set_config_option", config(s, "always/x", "off"), -32602},
		{"session/set_config_option", config("sess_none", "mode", "ask"), -32002},
	} {
		require.Equal(t, bad.code, c.Refused(bad.method, bad.params).Code, "%v", bad)
	}
}

func TestTheAuditSaysThatTheModeApprovedAndWhoSetIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = never(t)
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, "end_turn", c.Says(s, "x"))
	a := d.answers(s)[0]
	require.Equal(t, []string{"approve", "mode", engine.OSUser(), "editor 7", ""}, []string{a.Choice, a.Via, a.Actor, a.Client, a.Origin})
	require.Contains(t, a.Reason, "mode auto-approve, set 20")
	calls, order := editor.ToolCalls(t, c.Log)
	require.Len(t, order, 1)
	require.Equal(t, "completed", calls[order[0]]["status"])
	require.Contains(t, fmt.Sprint(calls[order[0]]["content"]), "via mode")
	replay, again := editor.ToolCalls(t, d.client(nil).Load(s))
	require.Equal(t, order, again)
	require.Equal(t, calls[order[0]]["content"], replay[order[0]]["content"])
}

// several asks everything there is, one after the other: a gate before, a choice, a
// typed question, a gate after, and a doubt.
func several(t *testing.T) (*engine.Graph, *int) {
	t.Helper()
	attempts := new(int)
	ask := func(a engine.Ask) engine.Func {
		return func(_ context.Context, t *engine.Task) (engine.Output, error) {
			answer, err := t.Ask(a)
			return engine.Set("answer", answer.Value), err
		}
	}
	return engine.MustCompile(engine.Definition{
		Name: "several", Channels: channels("answer"),
		Nodes: map[string]engine.Node{
			"choose": {Run: ask(engine.Ask{Message: "Where?", Choices: []interrupt.Choice{{ID: "approve"}, {ID: "reject"}}})},
			"say":    {Run: ask(engine.Ask{Message: "Sure?", Type: "boolean"})},
			"work": {OnCrash: engine.CrashAsk, Run: func(context.Context, *engine.Task) (engine.Output, error) {
				if *attempts++; *attempts == 1 {
					return engine.Output{}, fmt.Errorf("the line broke: %w", engine.ErrInDoubt)
				}
				return engine.Set("response", "worked"), nil
			}},
		},
		Edges:           []engine.Edge{{From: engine.Start, To: "choose"}, {From: "choose", To: "say"}, {From: "say", To: "work"}},
		InterruptBefore: []engine.Gate{{Node: "choose"}, {Node: "work"}},
		InterruptAfter:  []engine.Gate{{Node: "say"}},
	}), attempts
}

func TestAutoApproveDecidesGatesAndNothingElse(t *testing.T) {
	t.Parallel()
	graph, attempts := several(t)
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(forms)
	s := c.NewSession()
	c.Call("session/set_mode", mode(s, "auto-approve"))
	var asked []string
	c.Ask = func(m editor.Message) (any, bool) {
		if m.Method == "elicitation/create" {
			asked = append(asked, "form")
			return accepted(true), true
		}
		title := m.Params["toolCall"].(map[string]any)["title"].(string)
		asked = append(asked, title)
		if title == "Where?" {
			return editor.Chosen("approve"), true
		}
		return editor.Chosen("run_again"), true
	}
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "worked\n", editor.Text(c.Log, "agent_message_chunk"))
	require.Len(t, asked, 3)
	require.Equal(t, []string{"Where?", "form"}, asked[:2])
	require.Equal(t, 2, *attempts)
	require.Equal(t, []string{"mode", "acp", "acp", "mode", "mode", "acp"}, viaOf(d.answers(s)))
}

func TestAModeThatChangesInATurnCountsForTheDialogsThatOpenLater(t *testing.T) {
	t.Parallel()
	graph := engine.MustCompile(engine.Definition{
		Name: "two", Channels: channels(),
		Nodes:           map[string]engine.Node{"a": {Run: set("response", "a")}, "b": {Run: set("response", "b")}, "c": {Run: set("response", "c")}},
		Edges:           []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "b"}, {From: "b", To: "c"}},
		InterruptBefore: []engine.Gate{{Node: "a"}, {Node: "b"}, {Node: "c"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
	open := c.Until("session/request_permission")
	before := len(c.Log)
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, 1, count(c.Log[before:], "current_mode_update"), "announced in the middle of a turn")
	require.Equal(t, engine.Paused, d.status(s), "the dialog that is open stays with the person")
	// Of two in a row the last holds, and a dialog sees all that came before it.
	c.Request("session/set_mode", mode(s, "ask"))
	c.Request("session/set_mode", mode(s, "auto-approve"))
	c.Ask = never(t)
	c.Respond(open, editor.Chosen("approve"))
	m, _ := c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	require.Equal(t, []string{"acp", "mode", "mode"}, viaOf(d.answers(s)))

	// Back to ask, and a prompt in the next line.
	c.Request("session/set_mode", mode(s, "ask"))
	prompt = c.Request("session/prompt", editor.Prompt(s, "y"))
	open = c.Until("session/request_permission")
	c.Respond(open, editor.Chosen("reject"))
	m, _ = c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	require.Equal(t, engine.Rejected, d.status(s))
}

func TestAQuestionThatIsOpenIsDecidedByTheModeWhenItsDialogOpensAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = always(editor.Dismissed())
	require.Equal(t, "end_turn", c.Says(s, "x"))
	c.Ask = never(t)
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, engine.Paused, d.status(s), "setting a mode answers nothing")
	// What the person says counts more than the mode.
	require.Equal(t, "end_turn", c.Says(s, "reject"))
	require.Equal(t, engine.Rejected, d.status(s))
	c.Call("session/set_mode", mode(s, "ask"))
	c.Ask = always(editor.Dismissed())
	c.Says(s, "x")
	c.Call("session/set_mode", mode(s, "auto-approve"))
	c.Ask = never(t)
	before := len(c.Log)
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, "ran\nran\n", editor.Text(c.Log[before:], "agent_message_chunk"))
}

func TestAModeThatAnotherProcessSetIsObeyedAndTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c, other := d.client(nil), d.client(nil)
	s := c.NewSession()
	other.Call("session/set_mode", mode(s, "auto-approve"))
	c.Ask = never(t)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 1, count(c.Log, "current_mode_update"))
	other.Call("session/set_mode", mode(s, "ask"))
	asked := 0
	c.Ask = func(editor.Message) (any, bool) { asked++; return editor.Chosen("approve"), true }
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 1, asked)

	// A mode of a later version is none.
	_, err := d.store.ChangeFacts(context.Background(), s, func(t *engine.Thread) error { t.Mode = "later"; return nil })
	require.NoError(t, err)
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 2, asked)
	require.NotContains(t, strings.Join(viaOf(d.answers(s)), " "), "later")
}

func viaOf(answers []interrupt.Answer) (out []string) {
	for _, a := range answers {
		out = append(out, a.Via)
	}
	return out
}
