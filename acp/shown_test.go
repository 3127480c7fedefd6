package acp_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

// messagesOf joins the chunks of each message, in the order of their beginnings.
func messagesOf(log []editor.Message, kind string) (texts map[string]string, order []string) {
	texts = map[string]string{}
	for _, m := range log {
		if !m.Is(kind) {
			continue
		}
		id, _ := m.Update()["messageId"].(string)
		content, _ := m.Update()["content"].(map[string]any)
		text, _ := content["text"].(string)
		if _, there := texts[id]; !there {
			order = append(order, id)
		}
		texts[id] += text
	}
	return texts, order
}

// working shows everything that a task can show.
func working(dir string, end func(ctx context.Context, t *engine.Task) (engine.Output, error)) *engine.Graph {
	return single("work", func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		t.Think("plan", "I should ")
		t.Think("plan", "look first.")
		t.Say("m1", "Let me ")
		t.Say("m1", "see: é")
		old, file := "a\n", filepath.Join(dir, "f.txt")
		for _, status := range []engine.CallStatus{engine.CallPending, engine.CallRuns, engine.CallCompleted} {
			c := engine.Call{Title: "Edit f.txt", Kind: "edit", Status: status, Input: map[string]any{"path": file}, Paths: []string{file, "relative"}}
			if status == engine.CallCompleted {
				c.Output, c.Text = "ok", "one line changed"
				c.Diffs = []engine.FileDiff{{Path: file, Old: &old, New: "b\n"}, {Path: filepath.Join(dir, "new"), New: "x"}}
			}
			if err := t.Show("edit", c); err != nil {
				return engine.Output{}, err
			}
		}
		if err := t.Show("left open", engine.Call{Title: "Search", Kind: "unheard of", Status: engine.CallRuns}); err != nil {
			return engine.Output{}, err
		}
		t.Use(engine.Usage{InputTokens: 5, OutputTokens: 2, Cost: 0.5, Currency: "USD", Context: 7, Window: 100})
		return end(ctx, t)
	})
}

func TestWhatATaskShowsIsToldLiveAndAgainUnderTheSameIDs(t *testing.T) { // acp-cases 34, 54, 55
	t.Parallel()
	dir := t.TempDir()
	d := newDesk(t, acp.Adapter{}, working(dir, func(_ context.Context, t *engine.Task) (engine.Output, error) {
		t.Say("m2", "Done: ")
		t.Say("m2", "changed.")
		return engine.Set("response", "Done: changed."), nil
	}))
	c := d.client(nil)
	s := c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	replay := d.client(nil).Load(s)
	for name, log := range map[string][]editor.Message{"live": c.Log, "replay": replay} {
		texts, order := messagesOf(log, "agent_message_chunk")
		require.Equal(t, []string{"message-1-work-m1", "message-1-work-m2"}, order, "%s: the reply was said already", name)
		require.Equal(t, []string{"Let me see: é", "Done: changed."}, []string{texts[order[0]], texts[order[1]]}, name)
		thoughts, order := messagesOf(log, "agent_thought_chunk")
		require.Equal(t, map[string]string{"thought-1-work-plan": "I should look first."}, thoughts, name)
		require.Len(t, order, 1)

		calls, order := editor.ToolCalls(t, log)
		require.Equal(t, []string{"tool-1-work-edit", "tool-1-work-left open"}, order, name)
		edit := calls[order[0]]
		file := filepath.Join(dir, "f.txt")
		require.Equal(t, []any{"Edit f.txt", "edit", "completed", "ok"}, []any{edit["title"], edit["kind"], edit["status"], edit["rawOutput"]}, name)
		require.Equal(t, map[string]any{"path": file}, edit["rawInput"], name)
		require.Equal(t, []any{map[string]any{"path": file}}, edit["locations"], name)
		content := edit["content"].([]any)
		require.Equal(t, "one line changed", content[0].(map[string]any)["content"].(map[string]any)["text"], name)
		require.Equal(t, map[string]any{"type": "diff", "path": file, "oldText": "a\n", "newText": "b\n"}, content[1], name)
		require.NotContains(t, content[2], "oldText", "the file is new")
		require.Equal(t, []any{"other", "failed"}, []any{calls[order[1]]["kind"], calls[order[1]]["status"]}, "%s: it has to end", name)
	}
	used := 0
	for _, m := range c.Log {
		if m.Is("usage_update") {
			used++
			require.Equal(t, []any{float64(7), float64(100), map[string]any{"amount": 0.5, "currency": "USD"}},
				[]any{m.Update()["used"], m.Update()["size"], m.Update()["cost"]})
		}
	}
	require.Equal(t, 1, used)
}

func TestACallThatATaskShowsEndsHoweverTheTaskEnds(t *testing.T) { // acp-cases 54
	t.Parallel()
	running := make(chan string, 1)
	for name, test := range map[string]struct {
		end   engine.Func
		check func(d *desk, c *visitor, s string)
	}{
		"failed": {func(context.Context, *engine.Task) (engine.Output, error) {
			return engine.Output{}, errors.New("no more paper")
		},
			func(_ *desk, c *visitor, s string) { c.Refused("session/prompt", editor.Prompt(s, "x")) }},
		"panicked": {func(context.Context, *engine.Task) (engine.Output, error) { panic("no more paper") },
			func(_ *desk, c *visitor, s string) { c.Refused("session/prompt", editor.Prompt(s, "x")) }},
		"cancelled": {blocked(running), func(_ *desk, c *visitor, s string) {
			prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
			<-running
			c.Notify("session/cancel", editor.Object{"sessionId": s})
			m, _ := c.Response(prompt)
			require.Equal(c.T, "cancelled", m.Result["stopReason"])
		}},
		"asks": {func(_ context.Context, t *engine.Task) (engine.Output, error) {
			a, err := t.Ask(engine.Ask{Message: "Which?", Type: "string"})
			return engine.Set("response", a.Value), err
		}, func(_ *desk, c *visitor, s string) { require.Equal(c.T, "end_turn", c.Says(s, "x")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, working(t.TempDir(), test.end))
			c := d.client(nil)
			s := c.NewSession()
			test.check(d, c, s)
			calls, order := editor.ToolCalls(t, c.Log)
			require.Len(t, order, 2)
			require.Equal(t, "completed", calls[order[0]]["status"])
			require.Equal(t, "failed", calls[order[1]]["status"])
			if name != "asks" {
				return
			}
			// The node runs again from its top: what was told is not told twice.
			require.Equal(t, "end_turn", c.Says(s, "this one"))
			texts, _ := messagesOf(c.Log, "agent_message_chunk")
			require.Equal(t, "Let me see: é", texts["message-1-work-m1"])
			updates := 0
			for _, m := range c.Log {
				if strings.Contains(m.Line, `"tool-1-work-edit"`) {
					updates++
				}
			}
			require.Equal(t, 3, updates)
			calls, _ = editor.ToolCalls(t, c.Log)
			require.Equal(t, "failed", calls[order[1]]["status"])
		})
	}
}
