package acp_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/nodes"
)

// offered waits for the commands that come next, and gives their names.
func offered(c *visitor) (names []string) {
	c.T.Helper()
	for {
		m, ok := c.Next()
		require.True(c.T, ok)
		if !m.Is("available_commands_update") {
			continue
		}
		for _, item := range m.Update()["availableCommands"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		return names
	}
}

var everySession = []string{"status", "history", "fork", "cancel", "permissions"}

func loaded(t *testing.T, text string) *engine.Graph {
	t.Helper()
	g, err := nodes.Load("file", []byte(text))
	require.NoError(t, err)
	return g
}

const reviewer = `
name: reviewer
channels: {prompt: {}, task: {persistence: ephemeral}, _acp_cwd: {}, response: {}}
nodes: {n: {type: set, values: {response: 'string(task) + ": " + prompt + " in " + _acp_cwd'}}}
edges: [{from: __start__, to: n}]
commands:
  - {name: review, description: Review a file, hint: a path, input: {task: review, prompt: "${{ text }}"}}
  - {name: broken, description: Fail, input: {prompt: "${{ int(text) }}"}}
`

func TestCommandsAreOfferedAfterTheResponseAndWhenTheyChange(t *testing.T) { // acp-cases 27, 29
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("plain", echo), loaded(t, reviewer))
	c := d.client(nil)
	s := c.NewSession()
	require.NotNil(t, c.Log[len(c.Log)-1].Result, "nothing of a session comes before the client knows it")
	require.Equal(t, everySession, offered(c))
	c.Call("session/set_config_option", config(s, "graph", "reviewer"))
	require.Equal(t, 1, count(c.Log[len(c.Log)-2:], "available_commands_update"))
	c.Call("session/set_mode", mode(s, "auto-approve"))
	require.Equal(t, 0, count(c.Log[len(c.Log)-1:], "available_commands_update"))
	for _, method := range []string{"session/load", "session/resume"} {
		c.leave()
		c = d.client(nil)
		c.Call(method, editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
		require.NotNil(t, c.Log[len(c.Log)-1].Result)
		require.Equal(t, append([]string{"review", "broken"}, everySession...), offered(c))
		command := c.Log[len(c.Log)-1].Update()["availableCommands"].([]any)[0].(map[string]any)
		require.Equal(t, map[string]any{"name": "review", "description": "Review a file", "input": map[string]any{"hint": "a path"}}, command)
	}
	// Behind them nothing comes outside of a turn.
	c.Call("session/list", nil)
	require.Equal(t, 0, count(c.Log, "agent_message_chunk"))
}

func TestACommandOfAGraphBeginsATurnWithItsOwnInput(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, loaded(t, reviewer))
	c := d.client(nil)
	s := c.NewSession()
	says := func(text string) string {
		before := len(c.Log)
		require.Equal(t, "end_turn", c.Says(s, text))
		return strings.TrimSpace(editor.Text(c.Log[before:], "agent_message_chunk"))
	}
	require.Equal(t, "review: main.go in "+d.dir, says("/review  main.go "))
	require.Equal(t, "null: /unknown main.go in "+d.dir, says("/unknown main.go"), "what is no command is text")
	require.Equal(t, "null: plain in "+d.dir, says("plain"))
	e := c.Refused("session/prompt", editor.Prompt(s, "/broken x"))
	require.Contains(t, e.Message, "command broken: channel prompt")
	require.Equal(t, engine.Done, d.status(s), "nothing has begun")
	require.Equal(t, "/review  main.go \n/unknown main.go\nplain\n", editor.Text(c.Load(s), "user_message_chunk"), "the conversation has what was typed")
}

func TestACommandThatEverySessionHasCannotBeTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, loaded(t, strings.Replace(reviewer, "name: review,", "name: status,", 1)))
	_, err := acp.NewServer(d.config)
	require.ErrorContains(t, err, "graph reviewer has a command /status, which every session has already")
}

func TestCommandsOfTheSessionAnswerWhileAQuestionIsOpenAndBeginNoTurn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	says := func(text string) string {
		t.Helper()
		before := len(c.Log)
		require.Equal(t, "end_turn", c.Says(s, text))
		require.Equal(t, 0, count(c.Log[before:], "tool_call")+count(c.Log[before:], "tool_call_update"))
		return editor.Text(c.Log[before:], "agent_message_chunk")
	}
	require.Contains(t, says("/status"), "status: new\n")
	require.Contains(t, says("/history"), "no entries yet")
	require.Contains(t, says("/fork"), "nothing to fork")
	require.Contains(t, says("/cancel"), "nothing to cancel")
	require.Contains(t, says("/permissions"), "Nothing was decided for always")
	require.Contains(t, says("/status now"), "stands alone")

	c.Ask = always(editor.Dismissed())
	c.Says(s, "first")
	c.Ask = never(t)
	status := says("/status")
	for _, line := range []string{"session: " + s, "status: paused", "turn: 1, step 0", "head: " + s + "@2", "graph: gated", "folder: " + d.dir, "mode: ask", "open: " + s + "@2: Interrupt before node: work"} {
		require.Contains(t, status, line+"\n")
	}
	require.Regexp(t, `(?m)^1 +input +1 +0 +running +first .*\n2 +pause +1 +0 +paused +Interrupt before node: work`, says("/history"))
	require.NotContains(t, says("/history 1"), "input")
	for _, bad := range []string{"/history 0", "/history x", "/history 201", "/fork 3", "/fork x", "/permissions forget", "/permissions forget 1", "/permissions all", "/cancel it"} {
		require.NotEmpty(t, says(bad))
		require.Equal(t, engine.Paused, d.status(s), bad)
	}

	// A fork is a session of its own, where the question is asked anew.
	fork := regexp.MustCompile(`sess_[0-9a-f]{32}`).FindString(says("/fork 1"))
	require.NotEqual(t, s, fork)
	c.Load(fork)
	asked := 0
	c.Ask = func(editor.Message) (any, bool) { asked++; return editor.Chosen("approve"), true }
	require.Equal(t, "end_turn", c.Says(fork, "on"))
	require.Equal(t, 2, asked)
	require.Equal(t, engine.Paused, d.status(s))

	c.Ask = never(t)
	require.Equal(t, "Turn 1 is cancelled.\n", says("/cancel"))
	require.Equal(t, engine.Cancelled, d.status(s))
	require.Contains(t, says("/history"), "cancelled by")
	c.Ask = editor.Approve
	require.Equal(t, "end_turn", c.Says(s, "again"))
	require.Contains(t, says("/history"), "approve via acp")

	replay := c.Load(s)
	require.Equal(t, "first\nagain\n", editor.Text(replay, "user_message_chunk"), "commands of the session are no part of it")
}

// The text of a command is not the answer that the last prompt waits for.
func TestACommandOfTheSessionLeavesAWaitingQuestionAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "What colour?"}))
	c := d.client(nil)
	s := c.NewSession()
	c.Says(s, "x")
	require.Equal(t, "end_turn", c.Says(s, "/status"))
	require.Equal(t, engine.Paused, d.status(s))
	require.Equal(t, "end_turn", c.Says(s, "blue"))
	require.Equal(t, "blue", d.channel(s, "answer"))

	c.Says(s, "x")
	require.Equal(t, "end_turn", c.Says(s, "/cancel"))
	require.Equal(t, engine.Cancelled, d.status(s))
	require.Equal(t, "end_turn", c.Says(s, "red"))
	require.Equal(t, engine.Paused, d.status(s), "a new turn, and no answer of the old one")
}

func TestPermissionsAreListedAndForgotten(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, loop(1))
	c := d.client(nil)
	s := c.NewSession()
	says := func(text string) string {
		t.Helper()
		before := len(c.Log)
		require.Equal(t, "end_turn", c.Says(s, text))
		return editor.Text(c.Log[before:], "agent_message_chunk")
	}
	c.Ask = always(editor.Chosen("approve_always"))
	says("x")
	list := says("/permissions")
	require.Regexp(t, `1  Approve work for the rest of this session, whatever it runs\n   chosen by \S+ at `+s+`@\d+`, list)
	require.Contains(t, list, "2  Approve other for the rest")
	require.Contains(t, says("/permissions forget 3"), "no number 3")
	before := len(c.Log)
	require.Contains(t, says("/permissions forget 1"), "Forgotten: 1")
	require.Equal(t, 1, count(c.Log[before:], "config_option_update"))
	require.NotContains(t, says("/permissions"), "work")
	var asked []string
	c.Ask = titles(&asked, "approve_always")
	says("y")
	require.Equal(t, []string{"Interrupt before node: work"}, asked)
	require.Contains(t, says("/permissions forget all"), "Forgotten: 2")
	require.Contains(t, says("/permissions"), "Nothing was decided")

	// Another version of the graph: it is listed, and does not count.
	says("z")
	c.leave()
	d.config.Graphs = []*engine.Graph{loop(2)}
	c = d.client(nil)
	require.Contains(t, says("/permissions"), "of another version of graph loop")
}

func TestAuditOfACommandSaysWhoGaveIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = always(editor.Dismissed())
	c.Says(s, "x")
	c.Says(s, "/cancel")
	var end *engine.EndRecord
	require.NoError(t, d.store.Entries(t.Context(), s, 0, 0, func(e engine.Entry) error {
		if e.Payload.End != nil {
			end = e.Payload.End
		}
		return nil
	}))
	require.Equal(t, "acp", end.Via)
	require.Equal(t, fmt.Sprintf("cancelled by %s", engine.OSUser()), end.Cause)
	record, err := d.store.Question(t.Context(), s, 2)
	require.NoError(t, err)
	require.Equal(t, engine.QuestionCancelled, record.State)
	_, err = engine.New(nil, d.store, engine.Options{}).Answer(t.Context(), s, interrupt.Answer{Question: s + "@2", Choice: "approve"})
	require.ErrorContains(t, err, "is cancelled")
}
