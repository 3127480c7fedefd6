//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
)

// agent writes a graph of an agent whose model is at a server of the test.
func (h *harness) agent(provider string, s *modeltest.Server, keys string) string {
	h.t.Helper()
	h.env = append(h.env, "HOLDFAST_KEY=sk-integration-0123456789")
	url := s.URL
	if provider == "anthropic" {
		url = strings.TrimSuffix(url, "/v1") // its client adds that
	}
	return h.write("agent.yaml", fmt.Sprintf(`schema_version: 1
channels: {messages: {reducer: messages}}
nodes:
  model: {type: llm, provider: %s, model: m, base_url: %q, api_key_env: HOLDFAST_KEY, tools: hands, context_window: 1000%s}
  hands: {type: tools, tools: [read_file, edit_file, list_files, exec]}
edges: [{from: __start__, to: model}, {from: hands, to: model}]
conditional_edges: [{from: model, condition: has_tool_calls, routes: {true: hands, false: __end__}}]
`, provider, url, keys))
}

// told is what a client knows at the end: the texts of messages and thoughts by
// id, and tool calls.
type told struct {
	texts map[string]string
	order []string
	calls map[string]object
	ids   []string
}

func toldBy(t *testing.T, log []message) told {
	t.Helper()
	out := told{texts: map[string]string{}}
	for _, m := range log {
		if !m.Is("agent_message_chunk") && !m.Is("agent_thought_chunk") {
			continue
		}
		id, _ := m.Update()["messageId"].(string)
		require.NotEmpty(t, id, m.Line)
		if _, there := out.texts[id]; !there {
			out.order = append(out.order, id)
		}
		content, _ := m.Update()["content"].(object)
		text, _ := content["text"].(string)
		out.texts[id] += text
	}
	out.calls, out.ids = editor.ToolCalls(t, log)
	for _, call := range out.calls {
		delete(call, "sessionUpdate")
		require.Contains(t, []any{"completed", "failed"}, call["status"], "%v", call)
	}
	return out
}

// requireNoKey checks that the key is in no line and in no file.
func (e *served) requireNoKey() {
	e.h.t.Helper()
	require.NotContains(e.h.t, e.stderr.String(), "sk-integration")
	for _, m := range e.Log {
		require.NotContains(e.h.t, m.Line, "sk-integration")
	}
	files, err := filepath.Glob(e.h.db + "*")
	require.NoError(e.h.t, err)
	for _, file := range files {
		require.NotContains(e.h.t, fileText(e.h.t, file), "sk-integration", file)
	}
}

func TestWhatAModelSaysAndDoesIsToldOnceAndAgainAfterALoad(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			file := h.write("a.txt", "one\ntwo\n")
			s := modeltest.New(t,
				modeltest.Reply{Thought: "Let me think.", Pieces: []string{"I ", "will ", "look."}, Calls: []modeltest.Call{
					{ID: "1", Name: "read_file", Arguments: `{"path":"a.txt"}`},
					{ID: "1", Name: "edit_file", Arguments: `{"path":"a.txt","old_text":"two","new_text":"three"}`},
					{ID: "3", Name: "exec", Arguments: `{"command":"echo hi"}`},
					{ID: "4", Name: "delete_file", Arguments: `{}`},
					{ID: "5", Name: "read_file", Arguments: `{broken`},
				}},
				// Some servers give every answer the same ids.
				modeltest.Reply{Calls: []modeltest.Call{{ID: "1", Name: "read_file", Arguments: `{"path":"a.txt"}`}}},
				modeltest.Reply{Pieces: []string{"Do", "ne."}}, modeltest.Text("Done."),
			)
			graph := h.agent(provider, s, "")
			e := h.serve("--graph", graph).hello(nil)
			session := e.NewSession()
			require.Equal(t, "end_turn", e.Says(session, "Change it"))
			require.Equal(t, "end_turn", e.Says(session, "Again"))
			live := toldBy(t, e.Log)
			require.Len(t, live.order, 4, "%v", live.texts)
			require.Equal(t, []string{"Let me think.", "I will look.", "Done.", "Done."}, []string{
				live.texts[live.order[0]], live.texts[live.order[1]], live.texts[live.order[2]], live.texts[live.order[3]],
			})
			got := map[string]string{} // title to status
			for _, id := range live.ids {
				got[fmt.Sprint(live.calls[id]["title"])] += fmt.Sprint(live.calls[id]["status"], " ")
			}
			require.Equal(t, map[string]string{
				"Edit a.txt?": "completed ", "Run echo hi?": "completed ", "Edit a.txt": "completed ", "Run echo hi": "completed ",
				"Read a.txt": "completed completed ", "delete_file": "failed ", "read_file": "failed ",
			}, got, "and none for the model itself, whose answer is a message")
			asked := editor.JSON(t, e.Log)
			require.Contains(t, asked, editor.JSON(t, object{"type": "diff", "path": file, "oldText": "one\ntwo\n", "newText": "one\nthree\n"}))
			require.Contains(t, asked, "```sh\\necho hi\\n```")
			used := 0
			for _, m := range e.Log {
				if m.Is("usage_update") {
					used++
					require.Equal(t, []any{float64(15), float64(1000)}, []any{m.Update()["used"], m.Update()["size"]})
				}
			}
			require.Equal(t, 4, used, "one a call")
			require.Equal(t, "one\nthree\n", fileText(t, file))
			require.Zero(t, e.leave())
			e.requireNoKey()

			e = h.serve("--graph", graph).hello(nil)
			require.Equal(t, live.texts, toldBy(t, e.Load(session)).texts)
			replay := toldBy(t, e.Log)
			require.Equal(t, live.order, replay.order)
			require.ElementsMatch(t, live.ids, replay.ids)
			require.Equal(t, live.calls, replay.calls)
			h.verify()
		})
	}
}

func TestAModelThatIsNoGoodEndsThePromptAndNotTheSession(t *testing.T) {
	t.Parallel()
	answers := func(code int, header, body string) modeltest.Reply {
		return modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) {
			name, v, _ := strings.Cut(header, ": ")
			w.Header().Set(name, v)
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
		}}
	}
	half := func(w http.ResponseWriter) {
		modeltest.Stream(w)("", json.RawMessage(`{"choices":[{"index":0,"delta":{"content":"half "}}]}`))
	}
	var many []modeltest.Call
	for i := range 200 {
		many = append(many, modeltest.Call{ID: fmt.Sprint(i), Name: "list_files", Arguments: "{}"})
	}
	huge := modeltest.Call{ID: "1", Name: "exec", Arguments: `{"command":"` + strings.Repeat("x", 900<<10) + `"}`}
	once := ", retry_policy: {max_retries: 1, initial_delay_ms: 1}"
	for name, test := range map[string]struct {
		keys    string
		replies []modeltest.Reply
		want    string // the stop reason, or in the error
		says    string // the last message
	}{
		"busy":         {"", []modeltest.Reply{answers(429, "Retry-After: 0.001", `{"error":{"message":"slow down"}}`), modeltest.Text("fine")}, "end_turn", "fine"},
		"broken off":   {once, []modeltest.Reply{{Handler: func(w http.ResponseWriter, _ *http.Request) { half(w); panic(http.ErrAbortHandler) }}, modeltest.Text("whole")}, "end_turn", "whole"},
		"always ill":   {once, []modeltest.Reply{answers(500, "A: b", "oops"), answers(500, "A: b", "oops")}, "500 Internal Server Error: oops (attempt 2, the last)", ""},
		"a page":       {"", []modeltest.Reply{answers(403, "Content-Type: text/html", "<html><title>No, sk-integration-0123456789</title>")}, "a page for people: No, [the key]", ""},
		"a login page": {", retry_policy: {max_retries: 0}", []modeltest.Reply{answers(200, "Content-Type: text/html", "<html><title>Log in</title>")}, "does not stream its answer", ""},
		"endless": {"", []modeltest.Reply{{Handler: func(w http.ResponseWriter, r *http.Request) {
			for send := modeltest.Stream(w); r.Context().Err() == nil; {
				send("", object{"choices": []any{object{"index": 0, "delta": object{"content": strings.Repeat("x", 64<<10)}}}})
			}
		}}}, "was broken off: set max_tokens", "xxx"},
		"refuses":   {"", []modeltest.Reply{{Refusal: "I will not."}}, "refusal", "I will not."},
		"cut":       {"", []modeltest.Reply{{Pieces: []string{"And th"}, Stop: "length"}}, "max_tokens", "And th"},
		"spent":     {", budget: 3", []modeltest.Reply{{Calls: many[:1]}}, "max_tokens", "the budget is spent"},
		"200 calls": {", retry_policy: {max_retries: 0}", []modeltest.Reply{{Calls: many}}, "more than 128 tool calls", ""},
		"100 calls": {"", []modeltest.Reply{{Calls: many[:100]}, modeltest.Text("ok")}, "end_turn", "ok"},
		"huge":      {"", []modeltest.Reply{{Calls: []modeltest.Call{huge}}, modeltest.Text("ok")}, "end_turn", "ok"},
		"odd names": {"", []modeltest.Reply{{Calls: []modeltest.Call{{ID: "a\n\x1b[31m", Name: "x\n\x1b[31m", Arguments: "{}"}, {}}}, modeltest.Text("ok")}, "end_turn", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := modeltest.New(t, append(test.replies, modeltest.Text("The next turn."))...)
			graph := h.agent("openai", s, test.keys)
			e := h.serve("--graph", graph).hello(nil)
			session := e.NewSession()
			m, ok := e.Response(e.Request("session/prompt", editor.Prompt(session, "Go")))
			require.True(t, ok)
			if m.Error != nil {
				require.Contains(t, m.Error.Message, test.want)
			} else {
				require.Equal(t, test.want, m.Result["stopReason"])
			}
			live := toldBy(t, e.Log)
			if test.says != "" {
				require.Contains(t, live.texts[live.order[len(live.order)-1]], test.says)
			}
			require.Equal(t, "end_turn", e.Says(session, "Go on"))
			live = toldBy(t, e.Log)
			require.Equal(t, "The next turn.", live.texts[live.order[len(live.order)-1]])
			require.Zero(t, e.leave())
			e.requireNoKey()

			e = h.serve("--graph", graph).hello(nil)
			replay := toldBy(t, e.Load(session))
			require.ElementsMatch(t, live.ids, replay.ids)
			require.Equal(t, "The next turn.", replay.texts[replay.order[len(replay.order)-1]])
			h.verify()
		})
	}
}

// A process that dies, or a person who cancels, in the middle of an answer leaves a
// session that goes on.
func TestAnAnswerThatIsCutShortByTheAgentsEndIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "cancel"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
				modeltest.Stream(w)("", json.RawMessage(`{"choices":[{"index":0,"delta":{"content":"half "}}]}`))
				<-r.Context().Done()
			}}, modeltest.Text("whole"), modeltest.Text("next"))
			graph := h.agent("openai", s, "")
			e := h.serve("--graph", graph).hello(nil)
			session := e.NewSession()
			prompt := e.Request("session/prompt", editor.Prompt(session, "Go"))
			for !strings.Contains(e.Log[len(e.Log)-1].Line, "half ") {
				_, ok := e.Next()
				require.True(t, ok)
			}
			want := []string{"whole", "next"} // the turn is finished first
			if how == "kill" {
				e.kill()
			} else {
				e.Notify("session/cancel", object{"sessionId": session})
				m, _ := e.Response(prompt)
				require.Equal(t, "cancelled", m.Result["stopReason"])
				require.Zero(t, e.leave())
				want = want[:1]
			}
			e = h.serve("--graph", graph).hello(nil)
			require.Empty(t, toldBy(t, e.Load(session)).texts, "what was not stored was not said")
			require.Equal(t, "end_turn", e.Says(session, "Next"))
			live := toldBy(t, e.Log)
			require.Zero(t, e.leave())
			e = h.serve("--graph", graph).hello(nil)
			replay := toldBy(t, e.Load(session))
			require.Equal(t, live.texts, replay.texts)
			var texts []string
			for _, id := range replay.order {
				texts = append(texts, replay.texts[id])
			}
			require.Equal(t, want, texts)
			h.verify()
		})
	}
}

// A process that dies while a tool runs asks what became of it, and shows it under
// the ids that it had.
func TestAToolThatWasRunningWhenTheAgentDiedIsInDoubt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	mark := h.fifo("mark")
	command := object{"command": "echo x >> did; echo $$ > mark; sleep 600"}
	s := modeltest.New(t, modeltest.Reply{Pieces: []string{"I run it."}, Calls: []modeltest.Call{
		{ID: "1", Name: "exec", Arguments: editor.JSON(t, command)}, {ID: "2", Name: "list_files", Arguments: "{}"},
	}}, modeltest.Text("whole"), modeltest.Text("next"))
	graph := h.agent("openai", s, "")
	e := h.serve("--graph", graph).hello(nil)
	session := e.NewSession()
	e.Request("session/prompt", editor.Prompt(session, "Go"))
	ask := e.Until("session/request_permission")
	e.Respond(ask, editor.Chosen("approve"))
	mark.read()
	e.kill()
	before, _ := editor.ToolCalls(t, e.Log)

	e = h.serve("--graph", graph).hello(nil)
	e.Load(session)
	doubts := 0
	e.Ask = func(m message) (any, bool) {
		doubts++
		require.Contains(t, m.Line, "It is not known whether")
		require.Contains(t, m.Line, "sleep 600")
		return editor.Chosen("done"), true
	}
	require.Equal(t, "end_turn", e.Says(session, "Next"))
	require.Equal(t, 1, doubts)
	require.Equal(t, "x\n", fileText(t, filepath.Join(h.dir, "did")))
	live := toldBy(t, e.Log)
	for id := range before {
		require.Contains(t, live.calls, id)
	}
	require.Zero(t, e.leave())
	e = h.serve("--graph", graph).hello(nil)
	replay := toldBy(t, e.Load(session))
	require.ElementsMatch(t, live.ids, replay.ids)
	require.Equal(t, live.texts, replay.texts)
	h.verify()
}
