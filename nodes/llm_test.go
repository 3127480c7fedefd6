package nodes

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// agent is a graph with models and tools, and what is seen of it.
type agent struct {
	t      *testing.T
	model  *modeltest.Server
	store  *store.Store
	graph  *engine.Graph
	host   engine.Host
	dir    string
	mu     sync.Mutex
	events []engine.Event
}

// newAgent loads a graph in which URL is where the model is.
func newAgent(t *testing.T, graph string, replies ...modeltest.Reply) *agent {
	t.Helper()
	a := &agent{t: t, model: modeltest.New(t, replies...), store: openStore(t), dir: t.TempDir()}
	dir, err := filepath.EvalSymlinks(a.dir)
	require.NoError(t, err)
	a.dir = dir
	a.graph = mustLoad(t, strings.ReplaceAll(graph, "URL", a.model.URL))
	return a
}

func (a *agent) engine() *engine.Engine {
	return engine.New(a.graph, a.store, engine.Options{Host: a.host, Events: func(ev engine.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, ev)
	}})
}

// say starts a turn with a message of the user.
func (a *agent) say(text string) (*engine.Turn, error) {
	return a.engine().Start(a.t.Context(), "t", engine.Input{Cwd: a.dir, Values: engine.Values{"messages": map[string]any{"role": "user", "content": text}}})
}

func (a *agent) resume(answers ...interrupt.Answer) (*engine.Turn, error) {
	return a.engine().Resume(a.t.Context(), "t", answers...)
}

// shown gives what was shown of a kind, by id; of a call its newest state.
func (a *agent) shown(kind engine.ShownKind) map[string]engine.Shown {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]engine.Shown{}
	for _, ev := range a.events {
		if ev.Shown == nil || ev.Shown.Kind != kind {
			continue
		}
		s := *ev.Shown
		s.Text = out[s.ID].Text + s.Text
		out[s.ID] = s
	}
	return out
}

func (a *agent) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(a.t, os.WriteFile(path, []byte(text), 0o644))
}

func (a *agent) read(name string) string {
	a.t.Helper()
	data, err := os.ReadFile(filepath.Join(a.dir, name))
	require.NoError(a.t, err)
	return string(data)
}

const chat = `schema_version: 1
channels: {messages: {reducer: messages}}
nodes:
  model: {type: llm, model: m, base_url: "URL", KEYS}
edges: [{from: __start__, to: model}]
`

func chatWith(keys string) string {
	if keys == "" {
		return strings.ReplaceAll(chat, ", KEYS", "")
	}
	return strings.ReplaceAll(chat, "KEYS", keys)
}

func TestAModelsAnswerIsShownAsItComesAndJoinsTheConversation(t *testing.T) {
	t.Parallel()
	a := newAgent(t, chatWith(`system: "You serve ${{ thread }}.", context_window: 1000`),
		modeltest.Reply{Thought: "hm", Pieces: []string{"Hel", "lo"}, In: 30, Out: 12})
	turn, err := a.say("Hi")
	require.NoError(t, err)
	messages := turn.State["messages"].([]any)
	require.Len(t, messages, 2)
	answer := messages[1].(map[string]any)
	require.Equal(t, "assistant", answer["role"])
	require.Equal(t, "Hello", answer["content"])
	id := answer["id"].(string)
	require.Equal(t, map[string]engine.Shown{id: {Kind: engine.ShownMessage, ID: id, Text: "Hello"}}, a.shown(engine.ShownMessage))
	require.Equal(t, "hm", a.shown(engine.ShownThought)[id].Text)
	var usage *engine.Usage
	for _, ev := range a.events {
		if ev.Usage != nil {
			usage = ev.Usage
		}
	}
	require.Equal(t, &engine.Usage{InputTokens: 30, OutputTokens: 12, Context: 42, Window: 1000}, usage)
	sent := a.model.Requests()[0].Messages()
	require.Equal(t, "You serve t.", sent[0]["content"])
	require.Equal(t, "Hi", sent[1]["content"])
}

func TestABusyServerIsAskedAgainWhenItSays(t *testing.T) {
	t.Parallel()
	busy := modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After-Ms", "40")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
	}}
	half := modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) {
		modeltest.Stream(w)("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": "Hel"}}}})
	}}
	a := newAgent(t, chatWith("retry_policy: {max_retries: 3, initial_delay_ms: 1}"), busy, half, modeltest.Text("Hello"))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "Hello", turn.State["messages"].([]any)[1].(map[string]any)["content"])
	var delays []time.Duration
	for _, ev := range a.events {
		if ev.Type == engine.EventRetry {
			delays = append(delays, ev.Elapsed)
		}
	}
	require.Len(t, delays, 2)
	require.GreaterOrEqual(t, delays[0], 40*time.Millisecond)
	shown := a.shown(engine.ShownMessage)
	require.Len(t, shown, 2, "another attempt is another message")
	var texts []string
	for _, s := range shown {
		texts = append(texts, s.Text)
	}
	require.ElementsMatch(t, []string{"Hel", "Hello"}, texts)

	refused := modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }}
	a = newAgent(t, chatWith(""), refused)
	_, err = a.say("Hi")
	require.ErrorContains(t, err, "model m: "+a.model.URL+"/chat/completions answered 400 Bad Request")
	require.Len(t, a.model.Requests(), 1, "no other attempt can help")
}

func TestATypeHasARetryPolicyOfItsOwnWhereTheFileHasNone(t *testing.T) {
	t.Parallel()
	plain := strings.ReplaceAll(chatWith(""), "URL", "http://localhost")
	require.Contains(t, string(mustLoad(t, plain).Canonical()), `"max_retries":4`)
	g := strings.ReplaceAll(plain, "edges:", "retry_policy: {max_retries: 1}\nedges:")
	require.NotContains(t, string(mustLoad(t, g).Canonical()), `"max_retries":4`)
}

func TestASpentBudgetAndARefusalEndTheTurnWithCodesOfTheirOwn(t *testing.T) {
	t.Parallel()
	loop := strings.ReplaceAll(chatWith("budget: 100"), "edges:", "conditional_edges: [{from: model, condition: 'len(messages) > 9', routes: {true: __end__, false: model}}]\nedges:")
	a := newAgent(t, loop, modeltest.Reply{Pieces: []string{"1"}, In: 50, Out: 10}, modeltest.Reply{Pieces: []string{"2"}, In: 50, Out: 10})
	_, err := a.say("Hi")
	var failed *engine.TurnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "budget", failed.Code)
	require.ErrorContains(t, err, "used 120 tokens, and budget of node model is 100")

	a = newAgent(t, chatWith(""), modeltest.Reply{Refusal: "I will not."}, modeltest.Text("Gladly."))
	_, err = a.say("Hi")
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "refusal", failed.Code)
	turn, err := a.say("Something else")
	require.NoError(t, err)
	require.Len(t, turn.State["messages"].([]any), 3)
}

func TestAnAnswerThatWasCutSaysSoInItsMessage(t *testing.T) {
	t.Parallel()
	a := newAgent(t, chatWith(""), modeltest.Reply{Pieces: []string{"Half an ans"}, Stop: "length"})
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "max_tokens", turn.State["messages"].([]any)[1].(map[string]any)["stop_reason"])
}

func TestAnAnswerIsTheValueThatItsSchemaWants(t *testing.T) {
	t.Parallel()
	const graph = `schema_version: 1
channels: {city: {initial: Bern}, fact: {}}
nodes:
  ask:
    type: llm
    provider: PROVIDER
    model: m
    base_url: "URL"
    api_key_env: null
    prompt: "How many people live in ${{ city }}?"
    answer_schema: {type: object, properties: {people: {type: integer}}, required: [people]}
    output: fact
    retry_policy: {max_retries: 3, initial_delay_ms: 0}
edges: [{from: __start__, to: ask}]
`
	for _, provider := range []string{"openai", "anthropic"} {
		a := &agent{t: t, store: openStore(t), dir: t.TempDir()}
		a.model = modeltest.New(t, modeltest.Text("many"), modeltest.Text(`{"people": "many"}`), modeltest.Text("```json\n{\"people\": 134000}\n```"))
		url := a.model.URL
		if provider == "anthropic" {
			url = strings.TrimSuffix(url, "/v1")
		}
		a.graph = mustLoad(t, strings.NewReplacer("URL", url, "PROVIDER", provider).Replace(graph))
		turn, err := a.engine().Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"people": int64(134000)}, turn.State["fact"])
		body := a.model.Requests()[0].Body
		require.NotNil(t, body[map[string]string{"openai": "response_format", "anthropic": "output_config"}[provider]])
	}
}

func TestMistakesOfANodeThatCallsAModelAreFoundWhenTheFileIsLoaded(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		`base_url: "ftp://x"`:             "is no URL of a server",
		`base_url: "https://key@host/v1"`: "name an environment variable with api_key_env",
		`api_key_env: "sk-123 abc"`:       "api_key_env",
		`tools: hands`:                    `there is no node "hands" of type tools`,
		`messages: msgs`:                  `no channel "msgs"`,
		`prompt: hi, messages: null`:      "goes nowhere",
		`parameters: {stream: false}`:     "cannot set stream",
		`answer_schema: {type: 7}`:        "answer_schema",
		`provider: cohere`:                "openai",
		`temperature: 3`:                  "temperature",
		`systm: x`:                        "did you mean system?",
		`max_tokens: 0`:                   "max_tokens",
		`prompt: "${{ nothing }}"`:        "unknown name nothing",
	} {
		g := strings.ReplaceAll(chatWith(keys), `base_url: "URL", `, "")
		_, err := Load("x", []byte(g))
		require.ErrorContains(t, err, want, keys)
	}
	_, err := Load("x", []byte(strings.ReplaceAll(chatWith(""), "{reducer: messages}", "")))
	require.ErrorContains(t, err, "a conversation needs messages")
	_, err = Load("x", []byte(strings.ReplaceAll(chatWith(""), "{messages: {reducer: messages}}", "{other: }")))
	require.ErrorContains(t, err, `there is no channel "messages"`)
}

func TestAKeyThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	a := newAgent(t, chatWith("api_key_env: HOLDFAST_NO_SUCH_KEY"))
	_, err := a.say("Hi")
	require.ErrorContains(t, err, "the environment variable HOLDFAST_NO_SUCH_KEY, which should hold the API key, is not set")
}

// The key is neither in the file nor in what is reported, whatever the server,
// the model and its commands make of it.
func TestTheKeyIsNeverStoredOrReported(t *testing.T) {
	const key, env = "sk-live-9f8e7d6c5b4a-do-not-keep", "HOLDFAST_STORED_KEY"
	t.Setenv(env, key)
	repeated := modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"message":"not now, `+r.Header.Get("Authorization")+`"}}`)
	}}
	a := newAgent(t, `schema_version: 1
channels: {messages: {reducer: messages}}
nodes:
  model: {type: llm, model: m, base_url: "URL", api_key_env: HOLDFAST_STORED_KEY, tools: hands, retry_policy: {max_retries: 1, initial_delay_ms: 0}}
  hands: {type: tools, tools: [exec, read_file, write_file], approve: never}
edges: [{from: __start__, to: model}, {from: hands, to: model}]
conditional_edges: [{from: model, condition: has_tool_calls, routes: {true: hands, false: __end__}}]
`, repeated,
		modeltest.Reply{Calls: []modeltest.Call{
			{ID: "1", Name: "exec", Arguments: `{"command": "env; echo $HOLDFAST_STORED_KEY"}`}, {ID: "2", Name: "write_file", Arguments: `{"path": ".env", "content": "KEY="}`}, {ID: "3", Name: "read_file", Arguments: `{"path": ".env"}`},
		}}, repeated, repeated)
	a.write(".env", "KEY="+key)
	_, err := a.say("Hi")
	require.ErrorContains(t, err, "503")
	require.NotContains(t, err.Error(), key)
	require.Equal(t, "Bearer "+key, a.model.Requests()[0].Header.Get("Authorization"))
	require.Len(t, a.model.Requests(), 4)
	sent := a.model.Requests()[3].Messages()
	require.Equal(t, "KEY=[the value of "+env+"]", sent[len(sent)-1]["content"])
	require.Contains(t, sent[len(sent)-2]["content"], "change it by hand")
	for _, ev := range a.events {
		if ev.Err != nil {
			require.NotContains(t, ev.Err.Error(), key)
		}
	}
	require.NoError(t, a.store.Close())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(a.dir), "*", "test.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.False(t, bytes.Contains(data, []byte(key)), file)
	}
}

func TestACallEndsWhenTheTurnIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	a := newAgent(t, chatWith(""), modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		cancel(&engine.CancelError{By: engine.By{Actor: "ada"}})
		<-r.Context().Done()
	}}, modeltest.Text("later"))
	turn, err := a.engine().Start(ctx, "t", engine.Input{Values: engine.Values{"messages": []any{map[string]any{"role": "user", "content": "Hi"}}}})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	turn, err = a.say("Again")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
}

// What a stop of the process leaves of a call that was answered: the answer.
func TestAnAnswerThatIsStoredIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	graph := `schema_version: 1
channels: {messages: {reducer: messages}, out: {}}
nodes:
  model: {type: llm, model: m, base_url: "URL", budget: 10}
  other: {type: exec, command: [cat, flag], fail_on: nonzero, on_crash: retry, retry_policy: {max_retries: 0}}
edges: [{from: __start__, to: model}, {from: __start__, to: other}]
`
	a := newAgent(t, graph, modeltest.Reply{Pieces: []string{"Hello"}, In: 8, Out: 4})
	_, err := a.say("Hi")
	require.ErrorContains(t, err, "node other")
	a.write("flag", "")
	turn, err := a.resume()
	require.NoError(t, err)
	require.Len(t, turn.State["messages"].([]any), 2)
	require.Len(t, a.model.Requests(), 1)
}

const classify = `schema_version: 1
channels: {messages: {reducer: messages}, __route__: {}, out: {}}
nodes:
  sort: {type: intent_classifier, model: m, base_url: "URL", routes: ROUTES, KEYS}
  bill: {type: set, values: {out: '"bill"'}}
  help: {type: set, values: {out: '"help"'}}
edges: [{from: __start__, to: sort}]
conditional_edges: [{from: sort, condition: route_channel, routes: {billing: bill, support: help}}]
`

func TestAnIntentLeadsOnByTheLabelThatTheModelGives(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]any{
		"billing": "bill", " Support.\n": "help", "**billing**": "bill", "The label is: support": "help",
		"billing or support": "help", "no idea": "help", "unsupported": "help", // default
	} {
		a := newAgent(t, fill(classify, "ROUTES", "{billing: money, support: all else}", "KEYS", "default: support"), modeltest.Text(answer))
		turn, err := a.say("My bill is wrong")
		require.NoError(t, err)
		require.Equal(t, want, turn.State["out"], answer)
		require.Len(t, turn.State["messages"].([]any), 1, "it is no part of the conversation")
		require.Empty(t, a.shown(engine.ShownMessage))
		sent := a.model.Requests()[0].Messages()
		require.Equal(t, "My bill is wrong", sent[0]["content"])
		require.Contains(t, sent[1]["content"], "- billing: money\n- support: all else\n")
	}
	a := newAgent(t, fill(classify, "ROUTES", "[billing, support]", "KEYS", "retry_policy: {max_retries: 1, initial_delay_ms: 0}"), modeltest.Text("neither"), modeltest.Text("support"))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "help", turn.State["out"])

	for routes, want := range map[string]string{
		"[billing, Billing, support]": "are the same in an answer", "[billing]": "none of its routes", "[]": "routes",
	} {
		_, err := Load("x", []byte(strings.ReplaceAll(fill(classify, "ROUTES", routes, "KEYS", "default: support"), "URL", "http://x")))
		require.ErrorContains(t, err, want, routes)
	}
}
