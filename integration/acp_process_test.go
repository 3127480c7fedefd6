//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

// Answered elsewhere while the dialog is open: it is withdrawn, and the turn goes on
// in the process that holds the prompt.
func TestAnAnswerFromElsewhereWithdrawsTheDialog(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--approve", "--reject"} {
		h := newHarness(t)
		e := h.serve().hello(nil)
		s := e.NewSession()
		prompt := e.Request("session/prompt", editor.Prompt(s, does("A", "1", "")))
		asked := e.Until("session/request_permission")
		h.run("answer", s+"@2", flag, "--as", "alice").exits(0).says("another process")
		withdrawn := e.Until("$/cancel_request")
		require.Equal(t, string(asked.ID), editor.JSON(t, withdrawn.Params["requestId"]))
		m, ok := e.Response(prompt)
		require.True(t, ok)
		require.Equal(t, "end_turn", m.Result["stopReason"])
		calls, order := editor.ToolCalls(t, e.Log)
		require.Contains(t, editor.JSON(t, calls[order[0]]["content"]), "alice via cli")
		if flag == "--approve" {
			require.Equal(t, "completed", calls[order[0]]["status"])
			require.Equal(t, 1, counts(h.effects())["A 1"])
		} else {
			require.Equal(t, "failed", calls[order[0]]["status"])
			require.Empty(t, h.effects())
		}
		e.Respond(asked, editor.Chosen("reject")) // late, and for nobody
		require.Equal(t, "end_turn", e.Says(s, "echo more"))
		require.Zero(t, e.leave())
		h.verify()
	}
}

func TestACancelFromElsewhereEndsThePrompt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	prompt := e.Request("session/prompt", editor.Prompt(s, "echo x"))
	e.Until("session/request_permission")
	h.run("cancel", s).exits(0)
	m, _ := e.Response(prompt)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	require.Equal(t, "cancelled", h.status(s))
}

// acp-cases 60, 61: the end of the input, in the middle of anything, ends the
// program with 0, and what was stored stays.
func TestTheEndOfTheInputEndsTheProgramInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ready := h.fifo("ready")
	command := does("A", "1", fmt.Sprintf("echo up > %s; exec sleep 1000", ready.path))

	e := h.serve()
	require.Zero(t, e.leave(), "before anything")

	e = h.serve().hello(nil)
	idle := e.NewSession()
	require.Zero(t, e.leave(), "idle")

	e = h.serve().hello(nil)
	e.Request("session/prompt", editor.Prompt(idle, command))
	e.Until("session/request_permission")
	start := time.Now()
	require.Zero(t, e.leave(), "with an open dialog")
	require.Less(t, time.Since(start), 20*time.Second)
	require.Equal(t, "paused", h.status(idle))

	e = h.serve().hello(nil)
	e.Load(idle)
	e.Request("session/prompt", editor.Prompt(idle, "echo never"))
	e.Respond(e.Until("session/request_permission"), editor.Chosen("approve"))
	require.Equal(t, "up", ready.read())
	start = time.Now()
	require.Zero(t, e.leave(), "while a command runs")
	require.Less(t, time.Since(start), 20*time.Second)
	require.Equal(t, "running", h.status(idle), "stopped, not cancelled")

	// The command was killed: that is a doubt, and it is asked about.
	e = h.serve().hello(nil)
	doubts := 0
	e.Ask = doubtful(h, &doubts, editor.Approve)
	require.Equal(t, "end_turn", e.Says(idle, "echo last"))
	require.Equal(t, 1, doubts)
	require.Equal(t, 1, counts(h.effects())["A 1"])
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "last")
	require.Zero(t, e.leave())
	h.verify()
}

func TestSIGTERMStopsTheProgramInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	e.Request("session/prompt", editor.Prompt(s, "echo x"))
	e.Until("session/request_permission")
	require.NoError(t, e.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, e.wait())
	require.Equal(t, "paused", h.status(s))
}

// acp-cases 58: stdout is protocol from the first byte on. The client checks every
// line; here the program starts, migrates, logs and meets garbage.
func TestOnlyTheProtocolIsOnStdout(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serveWith([]string{"HOLDFAST_FAILPOINT=engine.node.before=1*panic"})
	for _, line := range []string{"", "garbage", "[]", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":true,"method":"x"}`} {
		e.Raw(line)
	}
	for range 5 {
		m, ok := e.Next()
		require.True(t, ok)
		require.Contains(t, []string{"null", "1"}, string(m.ID), m.Line)
		require.Contains(t, []int{-32700, -32600}, m.Error.Code)
	}
	require.Equal(t, -32600, e.Refused("session/new", object{"cwd": h.dir, "mcpServers": []any{}}).Code, "initialize comes first")
	e.hello(nil)
	s, _ := e.Call("session/new", object{"cwd": h.dir, "mcpServers": []any{object{"name": "x"}, object{"name": "y", "command": "/bin/y", "args": []any{}, "env": []any{}}}})["sessionId"].(string)
	failed := e.Refused("session/prompt", editor.Prompt(s, "echo x"))
	require.Contains(t, failed.Message, "panic")
	require.Equal(t, "end_turn", e.Says(s, "echo the agent lives"))
	for _, id := range []string{"-3", "null", `"a"`, "9007199254740993"} {
		e.Raw(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/list"}`)
		m, _ := e.Response(json.RawMessage(id))
		require.NotNil(t, m.Result["sessions"], m.Line)
	}
	require.Zero(t, e.leave())
	require.Contains(t, e.stderr.String(), "MCP server") // acp-cases 63
}

// acp-cases 59: a large line in, none that is too large out.
func TestLargeLines(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("echo.yaml", `
schema_version: 1
name: echo
channels: {prompt: {}, response: {}}
nodes:
  say: {type: set, values: {response: 'string(len(prompt))'}}
  big: {type: exec, command: [sh, -c, "head -c 400000 /dev/zero | tr '\\0' '<'"], max_output: 524288, output: response, on_crash: retry}
edges:
  - {from: __start__, to: say}
  - {from: say, to: big}
`)
	e := h.serve("--graph", graph).hello(nil)
	s := e.NewSession()
	// Fill a line up to 32 MiB with what is not used.
	pad := strings.Repeat("x", 31<<20)
	e.Raw(`{"jsonrpc":"2.0","id":"big","method":"session/prompt","params":{"sessionId":"` + s + `","prompt":[{"type":"text","text":"hello"}],"_meta":{"pad":"` + pad + `"}}}`)
	m, ok := e.Response("big")
	require.True(t, ok)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	require.Greater(t, len(editor.Text(e.Log, "agent_message_chunk")), 400000)
	e.Raw(`{"jsonrpc":"2.0","id":"too big","method":"session/list","params":{"_meta":{"pad":"` + pad + pad + `"}}}`)
	m, _ = e.Next()
	require.NotNil(t, m.Error, "finite limit, clean error")
	e.Load(s)
	require.Zero(t, e.leave())
}

// A client that asks much and reads nothing does not make the agent grow.
func TestMemoryIsBoundedUnderAFlood(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serveWith([]string{"GOMEMLIMIT=200MiB"}).hello(nil)
	s := e.NewSession()
	// A command that prints 200 MB.
	require.Equal(t, "end_turn", e.Says(s, "head -c 200000000 /dev/zero | tr '\\0' a"))
	updates := 0
	for _, m := range e.Log {
		updates += len(m.Line)
	}
	require.Less(t, updates, 20<<20, "what is shown of a flood is bounded")
	for range 20000 {
		e.Notify("session/cancel", object{"sessionId": s})
		e.Notify("_unknown", object{"x": strings.Repeat("y", 1000)})
	}
	require.Equal(t, "end_turn", e.Says(s, "echo done"))
	require.Less(t, peakMemory(t, e.cmd.Process.Pid), 400<<20)
	require.Zero(t, e.leave())
}

// Two editors on one session: the one that holds the dialog goes on.
func TestASecondEditorCanAnswerButNotMoveTheTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.serve().hello(nil)
	s := first.NewSession()
	prompt := first.Request("session/prompt", editor.Prompt(s, does("A", "1", "")))
	first.Until("session/request_permission")

	second := h.serve().hello(nil)
	second.Load(s)
	require.Equal(t, "end_turn", second.Says(s, "echo mine"))
	require.Contains(t, editor.Text(second.Log, "agent_message_chunk"), "another process")
	require.Contains(t, editor.Text(second.Log, "agent_message_chunk"), "not used")
	require.Equal(t, "end_turn", second.Says(s, "approve"))

	m, _ := first.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	require.Equal(t, 1, counts(h.effects())["A 1"])
	require.Equal(t, "end_turn", second.Says(s, "echo mine"), "now it is its turn")
	require.Contains(t, editor.Text(second.Log, "agent_message_chunk"), "mine")
	require.Zero(t, first.leave())
	require.Zero(t, second.leave())
	h.verify()
}
