//go:build unix

package acp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/integration/toolserver"
)

// stdioServer is an entry of mcpServers. env are pairs.
func stdioServer(mode string, env ...string) editor.Object {
	list := []any{editor.Object{"name": toolserver.Variable, "value": mode}}
	for i := 0; i < len(env); i += 2 {
		list = append(list, editor.Object{"name": env[i], "value": env[i+1]})
	}
	return editor.Object{"name": mode, "command": toolserver.Command(), "args": []any{}, "env": list}
}

func (v *visitor) sessionWith(servers ...any) string {
	v.T.Helper()
	id, _ := v.Call("session/new", editor.Object{"cwd": v.Cwd, "mcpServers": servers})["sessionId"].(string)
	require.NotEmpty(v.T, id)
	return id
}

// calling calls the tool that the prompt names, with a text.
func calling() *engine.Graph {
	return using(func(ctx context.Context, t *engine.Task, text string) (string, error) {
		tool, argument, _ := strings.Cut(text, " ")
		v, err := t.Host().CallTool(ctx, t, tool, map[string]any{"text": argument})
		return fmt.Sprint(v), err
	})
}

func TestToolsOfTheClientsServersReachTheGraph(t *testing.T) {
	t.Parallel()
	streamable := httptest.NewServer(toolserver.Handler(toolserver.New(), false))
	t.Cleanup(streamable.Close)
	sse := httptest.NewServer(toolserver.Handler(toolserver.New(), true))
	t.Cleanup(sse.Close)
	graph := engine.MustCompile(engine.Definition{
		Name: "tools", Channels: channels("_acp_mcp_tools"),
		Nodes: map[string]engine.Node{"use": {Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
			tools, err := t.Host().Tools(ctx, t)
			if err != nil {
				return engine.Output{}, err
			}
			said := fmt.Sprintf("%d;", len(tools))
			for _, server := range []string{"good", "web", "old"} {
				v, err := t.Host().CallTool(ctx, t, server+"__where", map[string]any{"text": ""})
				if err != nil {
					return engine.Output{}, err
				}
				said += fmt.Sprint(v) + ";"
			}
			v, err := t.Host().CallTool(ctx, t, "web__header", map[string]any{"text": ""})
			return engine.Set("response", said+fmt.Sprint(v)), err
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "use"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	can := c.Call("initialize", editor.Object{"protocolVersion": 1})["agentCapabilities"].(map[string]any)["mcpCapabilities"]
	require.Equal(t, map[string]any{"http": true, "sse": true}, can)
	s := c.sessionWith(stdioServer(toolserver.Good, "GIVEN", "v"),
		editor.Object{"type": "http", "name": "web", "url": streamable.URL, "headers": []any{editor.Object{"name": "X-Token", "value": "secret"}}},
		editor.Object{"type": "sse", "name": "old", "url": sse.URL, "headers": []any{}})
	here, err := os.Getwd()
	require.NoError(t, err)
	folder, err := filepath.EvalSymlinks(d.dir)
	require.NoError(t, err)
	said := replies(c, s, "x")
	require.Regexp(t, `^\d+;`, said)
	count, said, _ := strings.Cut(said, ";")
	require.Equal(t, folder+" v;"+here+" ;"+here+" ;secret", said)
	list := d.channel(s, "_acp_mcp_tools").([]any)
	require.Equal(t, count, strconv.Itoa(len(list)))
	byName := map[string]map[string]any{}
	for _, item := range list {
		tool := item.(map[string]any)
		byName[tool["name"].(string)] = tool
	}
	add := byName["good__add"]
	require.Equal(t, []any{"Add", "adds two numbers", true}, []any{add["title"], add["description"], add["read_only"]})
	require.Contains(t, add["input_schema"].(map[string]any)["properties"], "a")
	require.Contains(t, byName, "web__echo")
	require.Contains(t, byName, "old__echo")

	// Another process knows no servers until the client names them again.
	c.leave()
	c = d.client(nil)
	c.Load(s)
	require.Contains(t, c.Refused("session/prompt", editor.Prompt(s, "x")).Message, "there is no tool")
	require.Empty(t, d.channel(s, "_acp_mcp_tools"))
}

func TestAToolServerThatIsNoGoodIsToldOfOnceAndTheSessionGoesOn(t *testing.T) { // acp-cases 63
	t.Parallel()
	for name, capabilities := range map[string]editor.Object{"a message": nil, "a notice": {"session": editor.Object{"notices": editor.Object{}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, calling())
			c := d.client(capabilities)
			s := c.sessionWith(stdioServer(toolserver.Crash), editor.Object{"name": "half"}, stdioServer(toolserver.Good))
			require.Equal(t, "end_turn", c.Says(s, "crash__echo x"))
			told := editor.Text(c.Log, "agent_message_chunk")
			if capabilities != nil {
				told = ""
				for _, m := range c.Log {
					if m.Is("notice") {
						require.Equal(t, "warning", m.Update()["severity"])
						told += fmt.Sprint(m.Update()["title"])
					}
				}
			}
			require.Contains(t, told, `MCP server "crash" could not be started`)
			require.Contains(t, told, "no such database")
			require.Contains(t, told, "An MCP server was left out: params.mcpServers[1]")
			before := len(c.Log)
			require.Equal(t, "echo: x", replies(c, s, "good__echo x"))
			for _, m := range c.Log[before:] {
				require.NotContains(t, m.Line, "crash", "it was told")
			}
			// It dies in the middle of a call, and is there again.
			require.Contains(t, replies(c, s, "good__die x"), "doubt: true")
			require.Contains(t, replies(c, s, "good__echo y"), "echo: y")
			replay := editor.Text(c.Load(s), "agent_message_chunk")
			require.Contains(t, replay, "echo: x")
			require.NotContains(t, replay, "no such database\n", "it is no part of the conversation")
		})
	}
}

func TestAGraphThatWantsNoToolsDoesNotWaitForThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	s := c.sessionWith(stdioServer(toolserver.Hang))
	begun := time.Now()
	require.Equal(t, "you said: x", replies(c, s, "x"))
	require.Less(t, time.Since(begun), 25*time.Second, "a server may take 30 s to start")

	// A cancel ends the wait of one that does.
	d = newDesk(t, acp.Adapter{}, calling())
	c = d.client(nil)
	s = c.sessionWith(stdioServer(toolserver.Hang))
	prompt := c.Request("session/prompt", editor.Prompt(s, "hang__echo x"))
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	m, _ := c.Response(prompt)
	require.Equal(t, "cancelled", m.Result["stopReason"])
}

func TestToolServersEndWithTheirSession(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"close", "delete", "load", "resume", "leave"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, calling())
			c := d.client(nil)
			file := filepath.Join(t.TempDir(), "pid")
			s := c.sessionWith(stdioServer(toolserver.Good, "PIDFILE", file))
			require.Equal(t, "echo: x", replies(c, s, "good__echo x"))
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, 0), "it lives")
			open := editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}}
			switch how {
			case "leave":
				c.leave()
			case "load", "resume":
				c.Call("session/"+how, open)
				require.Contains(t, replies(c, s, "good__echo x"), "there is no tool")
			default:
				c.Call("session/"+how, editor.Object{"sessionId": s})
			}
			require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "it has ended before that was answered")
		})
	}
}

func TestNothingIsLeftOfTheServersOfManySessions(t *testing.T) {
	// Not parallel: it counts goroutines.
	d := newDesk(t, acp.Adapter{}, calling())
	c := d.client(nil)
	before := runtime.NumGoroutine()
	for range 5 {
		s := c.sessionWith(stdioServer(toolserver.Good))
		require.Equal(t, "echo: x", replies(c, s, "good__echo x"))
		c.Call("session/close", editor.Object{"sessionId": s})
	}
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+3; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "%d goroutines, before %d", runtime.NumGoroutine(), before)
	}
}
