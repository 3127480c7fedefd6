package acp_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

// flat gives the members of a capability object by their paths. What is there is
// true; what says no, or is absent, is not.
func flat(path string, v any, into map[string]bool) map[string]bool {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			flat(strings.TrimPrefix(path+"."+name, "."), inner, into)
		}
		if len(v) == 0 && path != "" && !slices.Contains([]string{"auth", "sessionCapabilities", "promptCapabilities", "mcpCapabilities"}, path) {
			into[path] = true
		}
	case bool:
		into[path] = v
	}
	return into
}

// allCapabilities are the paths of everything that an agent can advertise.
func allCapabilities(t *testing.T) []string {
	t.Helper()
	yes := &acp.Supported{}
	text, err := json.Marshal(acp.AgentCapabilities{
		LoadSession: true, PromptCapabilities: acp.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true},
		MCPCapabilities:     acp.MCPCapabilities{HTTP: true, SSE: true},
		SessionCapabilities: acp.SessionCapabilities{List: yes, Delete: yes, Resume: yes, Close: yes, AdditionalDirectories: yes},
		Auth:                acp.AgentAuth{Logout: yes},
	})
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	return slices.Sorted(maps.Keys(flat("", v, map[string]bool{})))
}

// acp-cases 37, 48: what initialize advertises is there, and what it does not is
// refused.
func TestEveryCapabilityThatIsAdvertisedWorksAndNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	hello := c.Call("initialize", editor.Object{"protocolVersion": 1})
	advertised := flat("", hello["agentCapabilities"], map[string]bool{})
	open := func(s string) editor.Object {
		return editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}}
	}
	says := func(block editor.Object) (works, refused func()) {
		params := func() editor.Object { return editor.Object{"sessionId": c.NewSession(), "prompt": []any{block}} }
		return func() { require.Equal(t, "end_turn", c.Call("session/prompt", params())["stopReason"]) },
			func() { require.Equal(t, -32602, c.Refused("session/prompt", params()).Code) }
	}
	with := func(server editor.Object) func() {
		// A server that cannot be reached, or is of a kind that is not known, does not
		// take the session down.
		return func() {
			c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{server}})
		}
	}
	method := func(name string, params func() editor.Object) (works, refused func()) {
		return func() { c.Call(name, params()) }, func() { require.Equal(t, -32601, c.Refused(name, params()).Code) }
	}
	walk := map[string]struct{ works, refused func() }{}
	add := func(path string, works, refused func()) { walk[path] = struct{ works, refused func() }{works, refused} }
	session := func() editor.Object { return editor.Object{"sessionId": c.NewSession()} }
	works, refused := method("session/load", func() editor.Object { return open(c.NewSession()) })
	add("loadSession", works, refused)
	works, refused = says(editor.Object{"type": "image", "data": "AA==", "mimeType": "image/png"})
	add("promptCapabilities.image", works, refused)
	works, refused = says(editor.Object{"type": "audio", "data": "AA==", "mimeType": "audio/wav"})
	add("promptCapabilities.audio", works, refused)
	works, refused = says(editor.Object{"type": "resource", "resource": editor.Object{"uri": "file:///b", "text": "inside"}})
	add("promptCapabilities.embeddedContext", works, refused)
	for _, kind := range []string{"http", "sse"} {
		try := with(editor.Object{"type": kind, "name": "n", "url": "http://127.0.0.1:1/", "headers": []any{}})
		add("mcpCapabilities."+kind, try, try)
	}
	works, refused = method("session/list", func() editor.Object { return editor.Object{} })
	add("sessionCapabilities.list", works, refused)
	works, refused = method("session/delete", session)
	add("sessionCapabilities.delete", works, refused)
	works, refused = method("session/resume", func() editor.Object { return open(c.NewSession()) })
	add("sessionCapabilities.resume", works, refused)
	works, refused = method("session/close", session)
	add("sessionCapabilities.close", works, refused)
	roots := func() {
		s := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}, "additionalDirectories": []any{d.dir + "/more"}})["sessionId"]
		for _, item := range c.Call("session/list", editor.Object{})["sessions"].([]any) {
			if info := item.(map[string]any); info["sessionId"] == s {
				require.Equal(t, []any{d.dir + "/more"}, info["additionalDirectories"])
				return
			}
		}
		require.Fail(t, "the session is not in the list")
	}
	add("sessionCapabilities.additionalDirectories", roots, func() {})
	works, refused = method("logout", func() editor.Object { return editor.Object{} })
	add("auth.logout", works, refused)

	require.Equal(t, allCapabilities(t), slices.Sorted(maps.Keys(walk)), "every capability is tried")
	for path, try := range walk {
		if advertised[path] {
			try.works()
		} else {
			try.refused()
		}
		delete(advertised, path)
	}
	for path, yes := range advertised {
		require.False(t, yes, "%s is advertised, and nobody knows what it is", path)
	}

	// What a session says that it has: modes, options, commands.
	created := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}})
	s := created["sessionId"].(string)
	for _, m := range created["modes"].(map[string]any)["availableModes"].([]any) {
		c.Call("session/set_mode", mode(s, m.(map[string]any)["id"].(string)))
	}
	for _, o := range created["configOptions"].([]any) {
		o := o.(map[string]any)
		for _, choice := range o["options"].([]any) {
			v := choice.(map[string]any)["value"]
			list := c.Call("session/set_config_option", config(s, o["id"].(string), v))["configOptions"]
			require.Equal(t, v, option(list, o["id"].(string))["currentValue"])
		}
	}
	c.Says(s, "hello")
	for _, name := range everySession {
		before := len(c.Log)
		require.Equal(t, "end_turn", c.Says(s, "/"+name))
		require.NotContains(t, editor.Text(c.Log[before:], "agent_message_chunk"), "you said", name)
	}

	// No login is offered, so there is none.
	require.Equal(t, []any{}, hello["authMethods"])
	require.Equal(t, -32602, c.Refused("authenticate", editor.Object{"methodId": "x"}).Code)
	for _, name := range []string{"session/fork", "session/set_model", "session/status", "session/archive", "providers/list", "session/cancel", "session/update", "_x/y", "nothing"} {
		require.Equal(t, -32601, c.Refused(name, editor.Object{"sessionId": s}).Code, name)
	}
}

// acp-cases 46: what a client does not offer is not asked of it. The client answers
// no request but the permission, which every client has.
func TestAClientIsAskedForNothingThatItDoesNotOffer(t *testing.T) {
	t.Parallel()
	graph, _ := several(t)
	d := newDesk(t, acp.Adapter{}, graph)
	for _, capabilities := range []editor.Object{
		nil, {"elicitation": nil}, {"elicitation": editor.Object{"url": editor.Object{}}}, {"terminal": false, "fs": editor.Object{"readTextFile": false, "writeTextFile": false}},
	} {
		c := d.client(capabilities)
		s := c.NewSession()
		c.Ask = func(m editor.Message) (any, bool) {
			require.Equal(t, "session/request_permission", m.Method, m.Line)
			if strings.Contains(m.Line, "run_again") {
				return editor.Chosen("run_again"), true
			}
			return editor.Chosen("approve"), true
		}
		require.Equal(t, "end_turn", c.Says(s, "x"))
		require.Equal(t, "end_turn", c.Says(s, "true"))
		for _, m := range c.Log {
			if m.Is("config_option_update") {
				for _, o := range m.Update()["configOptions"].([]any) {
					require.Equal(t, "select", o.(map[string]any)["type"], "boolean options are for clients that have them")
				}
			}
			require.False(t, m.Is("notice"))
		}
		c.leave()
	}
}
