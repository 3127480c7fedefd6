package acp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
)

var forms = editor.Object{"elicitation": editor.Object{"form": editor.Object{}}}

func accepted(v any) editor.Object {
	return editor.Object{"action": "accept", "content": editor.Object{"answer": v}}
}

func always(result any) func(editor.Message) (any, bool) {
	return func(editor.Message) (any, bool) { return result, true }
}

func TestAFreeQuestionIsAForm(t *testing.T) { // acp-cases 23
	t.Parallel()
	for _, test := range []struct {
		typ, schema string
		given       any
		want        string
	}{
		{"", "string", "blue", `answer: "blue"`},
		{"string", "string", "42", `answer: "42"`},
		{"integer", "integer", 42, "answer: 42"},
		{"number", "number", 1.5, "answer: 1.5"},
		{"boolean", "boolean", false, "answer: false"},
		{"list", "string", `["a"]`, "answer: [a]"},
		{"object", "string", `{"a":1}`, "answer: map[a:1]"},
	} {
		t.Run("type "+test.typ, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "What?", Type: test.typ}))
			c := d.client(forms)
			s := c.NewSession()
			var asked editor.Message
			c.Ask = func(m editor.Message) (any, bool) { asked = m; return accepted(test.given), true }
			require.Equal(t, "end_turn", c.Says(s, "x"))
			require.Equal(t, test.want+"\n", editor.Text(c.Log, "agent_message_chunk"))
			require.Equal(t, "elicitation/create", asked.Method)
			require.Equal(t, "What?", asked.Params["message"])
			property := asked.Params["requestedSchema"].(map[string]any)["properties"].(map[string]any)["answer"].(map[string]any)
			require.Equal(t, test.schema, property["type"])

			replay := d.client(nil).Load(s)
			require.Equal(t, "What?", firstLine(editor.Text(replay, "agent_message_chunk")))
			require.Contains(t, editor.Text(replay, "user_message_chunk"), "x\n")
		})
	}
}

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' {
			return s[:i]
		}
	}
	return s
}

func TestOnlyAnAcceptedFormIsAnAnswer(t *testing.T) { // acp-cases 44, 45
	t.Parallel()
	for name, result := range map[string]any{
		"declined":         editor.Object{"action": "decline"},
		"dismissed":        editor.Object{"action": "cancel"},
		"unknown":          editor.Object{"action": "later", "content": editor.Object{"answer": 1}},
		"without content":  editor.Object{"action": "accept"},
		"of another type":  accepted("many"),
		"of another field": editor.Object{"action": "accept", "content": editor.Object{"other": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "How many?", Type: "integer"}))
			c := d.client(forms)
			s := c.NewSession()
			c.Ask = always(result)
			require.Equal(t, "end_turn", c.Says(s, "x"))
			require.Equal(t, engine.Paused, d.status(s))
			require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "still open")
			require.NotContains(t, editor.Text(c.Log, "agent_message_chunk"), "not used", "the text began the turn")

			// The text of the next prompt is not the answer: no prompt said that it waits.
			c.Ask = always(accepted(7))
			require.Equal(t, "end_turn", c.Says(s, "8"))
			require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "answer: 7\n")
			require.NotContains(t, editor.Text(c.Log, "agent_message_chunk"), "answer: 8\n")
		})
	}
}

func TestWithoutFormsTheNextPromptIsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, capabilities := range map[string]editor.Object{"none": nil, "an empty object": {"elicitation": editor.Object{}}, "a client that fails at it": forms} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restart=%t", name, restart), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "What colour?"}))
				c := d.client(capabilities)
				s := c.NewSession()
				c.Ask = always(editor.Error{Code: -32601, Message: "no"})
				require.Equal(t, "end_turn", c.Says(s, "x"))
				require.Equal(t, "What colour?\n", editor.Text(c.Log, "agent_message_chunk"))
				require.Equal(t, engine.Paused, d.status(s))
				if restart {
					c.leave()
					c = d.client(capabilities)
				}
				require.Equal(t, "end_turn", c.Says(s, "approve all of it"))
				require.Equal(t, "approve all of it", d.channel(s, "answer"))
				require.Equal(t, engine.Done, d.status(s))
			})
		}
	}
}

func TestATypedAnswerAsTextIsChecked(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "How many?", Type: "integer"}))
	c := d.client(nil)
	s := c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "end_turn", c.Says(s, "many"))
	require.Equal(t, engine.Paused, d.status(s))
	require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "not used")
	require.Equal(t, "end_turn", c.Says(s, " 42 "))
	require.Equal(t, int64(42), d.channel(s, "answer"))
}

// acp-cases 26: what is not exactly an offered option decides nothing.
func TestWhatWasNotOfferedDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]any{
		"an unknown option":   editor.Chosen("allow"),
		"another case":        editor.Chosen("Approve"),
		"dismissed":           editor.Dismissed(),
		"an error":            editor.Error{Code: -32601, Message: "no dialogs here"},
		"malformed":           editor.Object{"outcome": "approve"},
		"without an option":   editor.Object{"outcome": editor.Object{"outcome": "selected"}},
		"an unknown outcome":  editor.Object{"outcome": editor.Object{"outcome": "approved", "optionId": "approve"}},
		"an option of a list": editor.Object{"outcome": editor.Object{"outcome": "selected", "optionId": []any{"approve"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
			c := d.client(nil)
			s := c.NewSession()
			c.Ask = always(result)
			require.Equal(t, "end_turn", c.Says(s, "x"))
			require.Equal(t, engine.Paused, d.status(s))
			require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "still open")
			calls, order := editor.ToolCalls(t, c.Log)
			require.Equal(t, "failed", calls[order[0]]["status"])

			// Offered again under the same id; decided, the text starts a turn.
			c.Ask = editor.Approve
			before := len(c.Log)
			require.Equal(t, "end_turn", c.Says(s, "y"))
			calls, again := editor.ToolCalls(t, c.Log)
			require.Equal(t, order[0], again[0])
			require.Len(t, again, 2)
			require.Equal(t, "completed", calls[order[0]]["status"])
			require.Equal(t, "ran\nran\n", editor.Text(c.Log[before:], "agent_message_chunk"))
		})
	}
}

func TestTheTextOfAPromptCanNameAnOption(t *testing.T) {
	t.Parallel()
	choices := []interrupt.Choice{{ID: "eu", Name: "Europe"}, {ID: "us", Name: "America"}}
	for text, want := range map[string]any{"eu": "eu", " AMERICA\n": "us"} {
		d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "Where?", Choices: choices}))
		c := d.client(nil)
		s := c.NewSession()
		c.Ask = always(editor.Dismissed())
		require.Equal(t, "end_turn", c.Says(s, "x"))
		require.Equal(t, "end_turn", c.Says(s, "eu and us"), "no option: asked again")
		require.Equal(t, engine.Paused, d.status(s))
		require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "not used")
		require.Equal(t, "end_turn", c.Says(s, text))
		require.Equal(t, want, d.channel(s, "answer"))
		calls, order := editor.ToolCalls(t, c.Log)
		require.Len(t, order, 1)
		require.Equal(t, "completed", calls[order[0]]["status"])
	}
}

func TestTextNeverAnswersADoubtAndARejectionGoesOnToTheText(t *testing.T) {
	t.Parallel()
	attempts := 0
	graph := engine.MustCompile(engine.Definition{
		Name: "doubtful", Channels: channels(),
		Nodes: map[string]engine.Node{"work": {OnCrash: engine.CrashAsk, Run: func(context.Context, *engine.Task) (engine.Output, error) {
			if attempts++; attempts == 1 {
				return engine.Output{}, fmt.Errorf("the line broke: %w", engine.ErrInDoubt)
			}
			return engine.Set("response", fmt.Sprintf("attempt %d", attempts)), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "work"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = always(editor.Dismissed())
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "end_turn", c.Says(s, "run_again"))
	require.Equal(t, engine.Paused, d.status(s))
	require.Equal(t, 1, attempts)
	var options any
	c.Ask = func(m editor.Message) (any, bool) {
		options = m.Params["options"]
		return editor.Chosen("run_again"), true
	}
	require.Equal(t, "end_turn", c.Says(s, "next"))
	require.Equal(t, "reject_once", options.([]any)[2].(map[string]any)["kind"])
	require.Equal(t, 3, attempts)
	calls, order := editor.ToolCalls(t, c.Log)
	require.Len(t, order, 1, "a task that was not asked about has no call")
	require.Equal(t, "completed", calls[order[0]]["status"])

	_, again := editor.ToolCalls(t, d.client(nil).Load(s))
	require.Equal(t, order, again)
}

func TestAGateBehindANodeIsACallOfItsOwn(t *testing.T) {
	t.Parallel()
	graph := engine.MustCompile(engine.Definition{
		Name: "after", Channels: channels(),
		Nodes:          map[string]engine.Node{"draft": {Run: set("response", "a draft")}, "send": {Run: set("response", "sent")}},
		Edges:          []engine.Edge{{From: engine.Start, To: "draft"}, {From: "draft", To: "send"}},
		InterruptAfter: []engine.Gate{{Node: "draft"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	calls, order := editor.ToolCalls(t, c.Log)
	require.Equal(t, []string{"gate-3"}, order)
	require.Equal(t, "completed", calls["gate-3"]["status"])
	require.Equal(t, "Interrupt after node: draft", calls["gate-3"]["title"])
	c.Ask = editor.Reject
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, engine.Rejected, d.status(s))
	live, order := editor.ToolCalls(t, c.Log)
	replay, again := editor.ToolCalls(t, d.client(nil).Load(s))
	require.Equal(t, order, again)
	for _, id := range order {
		require.Equal(t, live[id]["status"], replay[id]["status"])
		require.Equal(t, live[id]["content"], replay[id]["content"])
	}
}

func TestAPromptSleepsAlongUntilItsSignalComes(t *testing.T) {
	t.Parallel()
	passes := make(chan bool, 10)
	graph := single("sleeper", func(_ context.Context, t *engine.Task) (engine.Output, error) {
		passes <- true
		got, _, err := t.AwaitSignal("go", 0)
		if err != nil {
			return engine.Output{}, err
		}
		return engine.Set("response", fmt.Sprint("got ", got)), nil
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	prompt := c.Request("session/prompt", editor.Prompt(s, "first"))
	<-passes
	signal := func(v any) {
		t.Helper()
		require.NoError(t, engine.New(nil, d.store, engine.Options{}).Signal(context.Background(), s, "go", v, engine.By{}))
	}
	signal(1)
	m, _ := c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	require.Equal(t, "got 1\n", editor.Text(c.Log, "agent_message_chunk"))

	// Cancelled it stays asleep, or is cancelled where it had not come to that yet.
	prompt = c.Request("session/prompt", editor.Prompt(s, "second"))
	for len(passes) > 0 {
		<-passes
	}
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	m, _ = c.Response(prompt)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	require.Contains(t, []engine.Status{engine.Sleeping, engine.Cancelled, engine.Done}, d.status(s))
	require.NotContains(t, editor.Text(c.Load(s), "agent_message_chunk"), "Interrupt", "a wait is no question")
}

// A person is shown what a tool would do: the diff of a file, the line of a command.
func TestAQuestionAboutAToolShowsWhatItDoes(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string]any{
		"diff":    {"tool": "edit_file", "call_id": "1", "diff": map[string]any{"path": "/a", "old": "x", "new": "y"}},
		"command": {"tool": "exec", "call_id": "1", "command": "make all", "cwd": "/w"},
		"other":   {"tool": "mcp", "call_id": "1", "arguments": map[string]any{"n": 1}},
	} {
		ask := engine.AskAboutTool(engine.ToolCall{ID: "1", Name: "x"})
		ask.Data = data
		d := newDesk(t, acp.Adapter{}, single("tools", func(_ context.Context, task *engine.Task) (engine.Output, error) {
			_, err := task.Ask(*ask)
			return engine.Output{}, err
		}))
		c := d.client(nil)
		var call map[string]any
		c.Ask = func(m editor.Message) (any, bool) {
			call = m.Params["toolCall"].(map[string]any)
			return editor.Approve(m)
		}
		require.Equal(t, "end_turn", c.Says(c.NewSession(), "go"))
		text := fmt.Sprint(call["content"])
		switch name {
		case "diff":
			require.Equal(t, "edit", call["kind"])
			require.Contains(t, text, "newText:y oldText:x path:/a type:diff")
		case "command":
			require.Equal(t, "execute", call["kind"])
			require.Contains(t, text, "make all")
			require.Contains(t, text, "folder: /w")
		default:
			require.Contains(t, text, `"n": 1`)
		}
	}
}
