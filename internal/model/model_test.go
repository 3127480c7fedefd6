package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
)

const key = "sk-test-0123456789-secret"

// client gives a client of a provider for a server.
func client(provider string, s *modeltest.Server) *model.Client {
	base := s.URL
	if provider == model.Anthropic {
		base = strings.TrimSuffix(base, "/v1")
	}
	return &model.Client{Provider: provider, BaseURL: base, Key: key}
}

func both(t *testing.T, test func(t *testing.T, provider string)) {
	for _, provider := range []string{model.OpenAI, model.Anthropic} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			test(t, provider)
		})
	}
}

func user(text string) []model.Message { return []model.Message{{Role: "user", Content: text}} }

func TestAnAnswerComesInPiecesAndAsAWhole(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, provider string) {
		s := modeltest.New(t, modeltest.Reply{
			Thought: "hm", Pieces: []string{"Hel", "lo"}, In: 100, Out: 20,
			Calls: []modeltest.Call{{ID: "a", Name: "read", Arguments: `{"path": "x"}`}, {ID: "b", Name: "list", Arguments: "{}"}},
		})
		var said, thought []string
		temperature := 0.5
		r, err := client(provider, s).Call(t.Context(), model.Request{
			Model: "m", System: "Be brief.", Messages: user("Hi"), Temperature: &temperature, MaxTokens: 77,
			Tools:      []model.Tool{{Name: "read", Description: "reads", Schema: map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []any{"path"}}}},
			Parameters: map[string]any{"top_p": 0.25},
		}, model.Sink{Say: func(p string) { said = append(said, p) }, Think: func(p string) { thought = append(thought, p) }})
		require.NoError(t, err)
		require.Equal(t, []string{"Hel", "lo"}, said)
		require.Equal(t, []string{"hm"}, thought)
		require.Equal(t, "hm", r.Thought)
		require.Equal(t, model.Usage{Input: 100, Output: 20}, r.Usage)
		require.Equal(t, model.StopEnd, r.Stop)
		require.Equal(t, "Hello", r.Message.Content)
		require.Equal(t, []model.ToolCall{
			{ID: "a", Type: "function", Function: model.Function{Name: "read", Arguments: `{"path": "x"}`}},
			{ID: "b", Type: "function", Function: model.Function{Name: "list", Arguments: "{}"}},
		}, r.Message.ToolCalls)

		sent := s.Requests()[0]
		require.Equal(t, "m", sent.Body["model"])
		require.Equal(t, true, sent.Body["stream"])
		require.InDelta(t, 0.5, sent.Body["temperature"], 0)
		require.InDelta(t, 0.25, sent.Body["top_p"], 0)
		require.InDelta(t, 77, sent.Body["max_tokens"], 0)
		raw, err := json.Marshal(sent.Body["tools"])
		require.NoError(t, err)
		if provider == model.OpenAI {
			require.Equal(t, "Bearer "+key, sent.Header.Get("Authorization"))
			require.Equal(t, "system", sent.Messages()[0]["role"])
			require.JSONEq(t, `[{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]`, string(raw))
		} else {
			require.Equal(t, key, sent.Header.Get("X-Api-Key"))
			require.JSONEq(t, `[{"name":"read","description":"reads","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}]`, string(raw))
		}
	})
}

// What a turn that was cut short left in the conversation must not make every
// later call fail.
func TestAConversationIsMadeValidForTheServer(t *testing.T) {
	t.Parallel()
	call := func(id, arguments string) model.ToolCall {
		return model.ToolCall{ID: id, Type: "function", Function: model.Function{Name: "f", Arguments: arguments}}
	}
	messages := []model.Message{
		{Role: "user", Content: "Hi"},
		{Role: "tool", ToolCallID: "nobody", Content: "an answer without a call"},
		{Role: "assistant", ToolCalls: []model.ToolCall{call("1", `{"a":1}`), call("2", `{broken`)}, Thinking: []model.Thought{{Text: "hm", Signature: "signed"}}, Reasoning: "hm"},
		{Role: "tool", ToolCallID: "2", Content: "two"},
		{Role: "user", Content: "And?"},
	}
	both(t, func(t *testing.T, provider string) {
		s := modeltest.New(t, modeltest.Text("ok"))
		_, err := client(provider, s).Call(t.Context(), model.Request{Model: "m", Messages: messages}, model.Sink{})
		require.NoError(t, err)
		raw, err := json.Marshal(s.Requests()[0].Body["messages"])
		require.NoError(t, err)
		want := `[
			{"role":"user","content":"Hi"},
			{"role":"assistant","reasoning_content":"hm","tool_calls":[
				{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
				{"id":"2","type":"function","function":{"name":"f","arguments":"{\"invalid_json\":\"{broken\"}"}}]},
			{"role":"tool","tool_call_id":"1","content":"This call was not run."},
			{"role":"tool","tool_call_id":"2","content":"two"},
			{"role":"user","content":"And?"}]`
		if provider == model.Anthropic {
			want = `[
				{"role":"user","content":[{"type":"text","text":"Hi"}]},
				{"role":"assistant","content":[
					{"type":"thinking","thinking":"hm","signature":"signed"},
					{"type":"tool_use","id":"1","name":"f","input":{"a":1}},
					{"type":"tool_use","id":"2","name":"f","input":{"invalid_json":"{broken"}}]},
				{"role":"user","content":[
					{"type":"tool_result","tool_use_id":"1","is_error":false,"content":[{"type":"text","text":"This call was not run."}]},
					{"type":"tool_result","tool_use_id":"2","is_error":false,"content":[{"type":"text","text":"two"}]},
					{"type":"text","text":"And?"}]}]`
		}
		require.JSONEq(t, want, string(raw))
	})
	_, err := (&model.Client{}).Call(t.Context(), model.Request{Model: "m"}, model.Sink{})
	require.ErrorContains(t, err, "empty")
}

func TestWhyAModelStoppedIsTold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, provider string) {
		s := modeltest.New(t,
			modeltest.Reply{Pieces: []string{"half an ans"}, Stop: "length", Calls: []modeltest.Call{{ID: "a", Name: "f", Arguments: `{"x": [1,`}}},
			modeltest.Reply{Refusal: "I will not."},
			modeltest.Reply{Stop: "content_filter"},
		)
		ask := func() *model.Response {
			r, err := client(provider, s).Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
			require.NoError(t, err)
			return r
		}
		r := ask()
		require.Equal(t, model.StopMaxTokens, r.Stop)
		require.Equal(t, "half an ans", r.Message.Content)
		require.Empty(t, r.Message.ToolCalls, "it was cut in the middle")
		r = ask()
		require.Equal(t, model.StopRefusal, r.Stop)
		require.NotEmpty(t, r.Refusal)
		require.Equal(t, model.StopRefusal, ask().Stop)
	})
}

func TestAnErrorSaysWhatAndWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	status := func(code int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	stream := func(body string) http.HandlerFunc {
		return status(200, body, "Content-Type", "text/event-stream")
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		says    string
		retry   bool
		after   time.Duration
	}{
		"bad key, repeated":   {status(401, `{"error":{"type":"invalid_request_error","message":"Incorrect API key provided: `+key+`."}}`), "401 Unauthorized: Incorrect API key provided: [the key].", false, 0},
		"not found":           {status(404, `{"error":"model not found"}`), "/chat/completions answered 404 Not Found: model not found", false, 0},
		"bad request":         {status(400, `{"detail":"no"}`, "Retry-After", "3"), "400", false, 3 * time.Second},
		"busy":                {status(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7"), "slow down", true, 7 * time.Second},
		"busy, milliseconds":  {status(429, `{}`, "Retry-After-Ms", "1500", "Retry-After", "9"), "429", true, 1500 * time.Millisecond},
		"busy for a day":      {status(429, `{}`, "Retry-After", "86400"), "it asks to wait 24h0m0s", false, 24 * time.Hour},
		"quota":               {status(429, `{"error":{"message":"no money","code":"insufficient_quota"}}`), "no money", false, 0},
		"overloaded":          {status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "Overloaded", true, 0},
		"a page for people":   {status(502, "<!DOCTYPE html><html><head><title>Bad Gateway</title></head><body>"+strings.Repeat("x", 1<<20)+"</body></html>"), "a page for people: Bad Gateway", true, 0},
		"a page instead":      {status(200, "<html><body>Welcome</body></html>", "Content-Type", "text/html"), "does not stream", false, 0},
		"not streamed":        {status(200, `{"choices":[]}`, "Content-Type", "application/json"), "does not stream", false, 0},
		"an error with 200":   {status(200, `{"error":{"message":"warming up"}}`, "Content-Type", "application/json"), "warming up", true, 0},
		"elsewhere":           {status(302, "", "Location", "https://elsewhere.example/v1"), "leads to https://elsewhere.example/v1", false, 0},
		"cut in the middle":   {stream("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n"), "ended in the middle", true, 0},
		"cut in an event":     {stream("data: {\"choices\":[{\"index\":0,\"delta\":{\"con"), "ended in the middle", true, 0},
		"nothing":             {stream(""), "ended in the middle", true, 0},
		"broken JSON":         {stream("data: {\"choices\":[}\n\n"), "cannot be read", true, 0},
		"an error inside":     {stream("data: {\"error\":{\"message\":\"server had an error\",\"type\":\"server_error\"}}\n\n"), "server had an error", true, 0},
		"a bad request there": {stream("data: {\"error\":{\"message\":\"too long\",\"type\":\"invalid_request_error\"}}\n\n"), "too long", false, 0},
		"a huge event":        {stream("data: " + strings.Repeat("x", 3<<20) + "\n\n"), "an event of more than", false, 0},
		"many lines no event": {stream(strings.Repeat("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 1<<17)), "an event of more than", false, 0},
		"cut connection": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n")
		}, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.New(t, modeltest.Reply{Handler: c.handler})
			_, err := client(model.OpenAI, s).Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
			var failed *model.Error
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Message, c.says)
			require.NotContains(t, failed.Message, key)
			require.Less(t, len(failed.Message), 2000)
			require.Equal(t, c.retry, failed.Retry, failed.Message)
			require.Equal(t, c.after, failed.After)
			require.Len(t, s.Requests(), 1, "another attempt is the caller's")
		})
	}
}

func TestAnthropicReportsErrorsInItsStream(t *testing.T) {
	t.Parallel()
	for kind, retry := range map[string]bool{"overloaded_error": true, "invalid_request_error": false} {
		s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) {
			modeltest.Stream(w)("error", map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": "Because " + key}})
		}})
		_, err := client(model.Anthropic, s).Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
		var failed *model.Error
		require.ErrorAs(t, err, &failed)
		require.Contains(t, failed.Message, "Because [the key]")
		require.Equal(t, retry, failed.Retry)
	}
}

func TestAServerThatCannotBeReachedIsNamed(t *testing.T) {
	t.Parallel()
	c := &model.Client{Provider: model.OpenAI, BaseURL: "http://127.0.0.1:1/v1"}
	_, err := c.Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
	var failed *model.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Message, "http://127.0.0.1:1/v1/chat/completions cannot be reached")
	require.True(t, failed.Retry)
}

// An endless answer is broken off before it has grown large.
func TestAnEndlessStreamIsBrokenOff(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 1000)
	for name, send := range map[string]func(func(string, any)){
		"text": func(send func(string, any)) {
			send("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": piece}}}})
		},
		"arguments": func(send func(string, any)) {
			send("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "a", "function": map[string]any{"name": "f", "arguments": piece}}}}}}})
		},
		"thoughts": func(send func(string, any)) {
			send("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"reasoning_content": piece}}}})
		},
		"calls": func() func(func(string, any)) {
			n := 0
			return func(send func(string, any)) {
				n++
				send("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"tool_calls": []any{map[string]any{"index": n * 1000, "id": fmt.Sprint(n), "function": map[string]any{"name": "f"}}}}}}})
			}
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan int, 1)
			s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
				to, n := modeltest.Stream(w), 0
				for ; r.Context().Err() == nil; n++ {
					send(to)
				}
				sent <- n
			}})
			_, err := client(model.OpenAI, s).Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
			var failed *model.Error
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Message, "more than")
			require.False(t, failed.Retry)
			// Beside what was kept: the buffers of the connection.
			require.Less(t, <-sent, 100_000)
		})
	}
}

// A server that only keeps the connection open says nothing.
func TestAStalledStreamIsBrokenOff(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, provider string) {
		began := make(chan struct{})
		s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": waiting\n\n")
			w.(http.Flusher).Flush()
			close(began)
			<-r.Context().Done()
		}})
		fake := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		c := client(provider, s)
		c.Clock, c.Idle = fake, time.Minute
		result := make(chan error, 1)
		go func() {
			_, err := c.Call(context.Background(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
			result <- err
		}()
		<-began
		for range 2 {
			require.NoError(t, fake.WaitForTimers(t.Context(), 1))
			fake.Advance(time.Minute)
		}
		var failed *model.Error
		require.ErrorAs(t, <-result, &failed)
		require.Contains(t, failed.Message, "said nothing for 1m0s")
		require.True(t, failed.Retry)
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, provider string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			cancel(why)
			<-r.Context().Done()
		}})
		_, err := client(provider, s).Call(ctx, model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
		require.ErrorIs(t, err, why)
	})
}

// The environment has keys and servers that a file does not name.
func TestNothingIsTakenFromTheEnvironmentThatWasNotNamed(t *testing.T) {
	for _, env := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"} {
		t.Setenv(env, "not-yours")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	for _, provider := range []string{model.OpenAI, model.Anthropic} {
		s := modeltest.New(t, modeltest.Text("ok"))
		c := client(provider, s)
		c.Key = ""
		_, err := c.Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(s.Requests()[0].Header), "not-yours")
	}
}

func TestUsageIsEstimatedWhereTheServerTellsNothing(t *testing.T) {
	t.Parallel()
	s := modeltest.New(t, modeltest.Reply{Handler: func(w http.ResponseWriter, _ *http.Request) {
		send := modeltest.Stream(w)
		send("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": strings.Repeat("x", 400)}, "finish_reason": "stop"}}})
	}})
	r, err := client(model.OpenAI, s).Call(t.Context(), model.Request{Model: "m", Messages: user("Hi")}, model.Sink{})
	require.NoError(t, err)
	require.True(t, r.Usage.Estimated)
	require.Equal(t, int64(101), r.Usage.Output)
	require.Positive(t, r.Usage.Input)
}

func TestAConversationIsReadFromAChannel(t *testing.T) {
	t.Parallel()
	got, err := model.Messages([]byte(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null}]`))
	require.NoError(t, err)
	require.Equal(t, []model.Message{{Role: "user", Content: "a\nb"}, {Role: "assistant"}}, got)
	for raw, want := range map[string]string{
		`{"role":"user"}`:                                    "no list",
		`[{"role":"robot"}]`:                                 "message 0 has the role \"robot\"",
		`[{"role":"user","content":1}]`:                      "message 0",
		`[{"role":"user","content":[{"type":"image_url"}]}]`: "only text",
	} {
		_, err := model.Messages([]byte(raw))
		require.ErrorContains(t, err, want, raw)
	}
}

func TestAKeyIsHiddenWhereverItStands(t *testing.T) {
	env := "HOLDFAST_TEST_KEY"
	_, err := model.Key(env)
	require.ErrorContains(t, err, env)
	require.NoError(t, os.Setenv(env, key+"\n"))
	defer os.Unsetenv(env)
	got, err := model.Key(env)
	require.NoError(t, err)
	require.Equal(t, key, got)
	require.Equal(t, "a [the value of HOLDFAST_TEST_KEY] b", model.Hide("a "+key+" b"))
	require.NoError(t, os.Setenv(env, "none"))
	require.Equal(t, "none of it", model.Hide("none of it"), "a short value is no key")
}
