package acp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

var terminals = editor.Object{"terminal": true}

// shell runs a command in the client's terminal, or says that there is none.
func shell() *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name: "shell", Channels: channels(),
		Nodes: map[string]engine.Node{"run": {
			Resolve: func(*engine.Task) (any, error) { return map[string]any{"line": "make all", "cwd": "/w"}, nil },
			Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
				r, err := t.Host().Terminal(ctx, t, engine.Command{
					Args: []string{"sh", "-c", "make all"}, Dir: "/w", Env: map[string]string{"A": "1"}, Limit: 1000,
				})
				if errors.Is(err, engine.ErrNoTerminal) {
					return engine.Set("response", "no terminal"), nil
				}
				return engine.Set("response", fmt.Sprintf("%s|%d|%s|%t", r.Output, r.ExitCode, r.Signal, r.Truncated)), err
			},
		}},
		Edges: []engine.Edge{{From: engine.Start, To: "run"}},
	})
}

// term is a client with a terminal. hang keeps its command running.
type term struct {
	c     *visitor
	hang  bool
	exit  editor.Object
	calls []string
}

func (w *term) ask(m editor.Message) (any, bool) {
	w.calls = append(w.calls, m.Method)
	switch m.Method {
	case "terminal/create":
		return editor.Object{"terminalId": "t1"}, true
	case "terminal/wait_for_exit":
		if w.hang {
			w.c.Notify("session/cancel", editor.Object{"sessionId": m.Params["sessionId"]})
			return nil, false
		}
		return w.exit, true
	case "terminal/output":
		return editor.Object{"output": "built", "truncated": true, "exitStatus": w.exit}, true
	}
	return editor.Object{}, true
}

func TestACommandRunsInTheClientsTerminalAndItIsReleased(t *testing.T) { // acp-cases 46, 47
	t.Parallel()
	for exit, want := range map[*editor.Object]string{
		{"exitCode": 3}:                       "built|3||true",
		{"signal": "SIGKILL"}:                 "built|137|SIGKILL|true",
		{"exitCode": nil, "signal": "QUIT"}:   "built|131|QUIT|true",
		{"exitCode": 0, "signal": nil}:        "built|0||true",
		{"exitCode": nil, "signal": "custom"}: "built|128|custom|true",
	} {
		d := newDesk(t, acp.Adapter{}, shell())
		c := d.client(terminals)
		w := &term{c: c, exit: *exit}
		c.Ask = w.ask
		s := c.NewSession()
		require.Equal(t, "end_turn", c.Says(s, "x"))
		require.Equal(t, want+"\n", editor.Text(c.Log, "agent_message_chunk"))
		require.Equal(t, []string{"terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"}, w.calls)
		embedded, released := -1, -1
		for i, m := range c.Log {
			switch {
			case m.Method == "terminal/create":
				require.Equal(t, []any{"-c", "make all"}, m.Params["args"])
				require.Equal(t, []any{map[string]any{"name": "A", "value": "1"}}, m.Params["env"])
				require.EqualValues(t, 1000, m.Params["outputByteLimit"])
			case m.Method == "terminal/release":
				released = i
			case m.Is("tool_call_update") && embedded < 0:
				embedded = i
				require.Contains(t, m.Line, `{"type":"terminal","terminalId":"t1"}`)
			}
		}
		require.Less(t, embedded, released)
		calls, order := editor.ToolCalls(t, c.Log)
		require.Equal(t, "execute", calls[order[0]]["kind"])
		require.Equal(t, "make all", calls[order[0]]["title"])
		require.Contains(t, editor.JSON(t, calls[order[0]]["content"]), "t1")
		replay, again := editor.ToolCalls(t, d.client(nil).Load(s))
		require.Equal(t, order, again)
		require.NotContains(t, editor.JSON(t, replay[order[0]]["content"]), "t1", "the terminal is gone")
	}
}

func TestACancelKillsAndReleasesTheTerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, shell())
	c := d.client(terminals)
	w := &term{c: c, hang: true}
	c.Ask = w.ask
	s := c.NewSession()
	require.Equal(t, "cancelled", c.Says(s, "x"))
	require.Equal(t, []string{"terminal/create", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}, w.calls)
	calls, order := editor.ToolCalls(t, c.Log)
	require.Equal(t, "failed", calls[order[0]]["status"])
	require.Equal(t, engine.Cancelled, d.status(s))
}

func TestATerminalThatComesLateIsReleasedToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, shell())
	c := d.client(terminals)
	s := c.NewSession()
	prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
	create := c.Until("terminal/create")
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	m, _ := c.Response(prompt)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	c.Respond(create, editor.Object{"terminalId": "late"})
	kill := c.Until("terminal/kill")
	require.Equal(t, "late", kill.Params["terminalId"])
	c.Respond(kill, editor.Object{})
	release := c.Until("terminal/release")
	require.Equal(t, "late", release.Params["terminalId"])
	c.Respond(release, editor.Object{})
}

func TestWithoutATerminalNobodyIsAskedForOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, shell())
	c := d.client(nil)
	require.Equal(t, "end_turn", c.Says(c.NewSession(), "x"))
	require.Equal(t, "no terminal\n", editor.Text(c.Log, "agent_message_chunk"))
	for _, m := range c.Log {
		require.NotContains(t, m.Method, "terminal/")
	}
	c = d.client(terminals)
	c.Ask = always(editor.Error{Code: -32601, Message: "no"})
	require.Equal(t, "end_turn", c.Says(c.NewSession(), "x"))
	require.Equal(t, "no terminal\n", editor.Text(c.Log, "agent_message_chunk"))
}
