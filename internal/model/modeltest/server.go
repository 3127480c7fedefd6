// Package modeltest has a server for tests that speaks the APIs of package model
// and answers what it is told.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Reply is one answer. The zero value is an empty text.
type Reply struct {
	Pieces  []string // of the text
	Thought string
	Refusal string
	Calls   []Call
	Stop    string // as OpenAI calls it; empty: stop, or tool_calls
	In, Out int64  // usage; both 0: 10 and 5
	// Handler, if set, answers instead.
	Handler http.HandlerFunc
	// Before, if set, is called when the request has come.
	Before func(Request)
}

// Call is a tool call of a reply.
type Call struct{ ID, Name, Arguments string }

// Text is a reply of one text.
func Text(text string) Reply { return Reply{Pieces: []string{text}} }

// Request is what a client sent.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
}

// Messages are those of the request.
func (r Request) Messages() (out []map[string]any) {
	list, _ := r.Body["messages"].([]any)
	for _, m := range list {
		message, _ := m.(map[string]any)
		out = append(out, message)
	}
	return out
}

// Last is the last message.
func (r Request) Last() map[string]any {
	all := r.Messages()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// Server answers requests.
type Server struct {
	URL string // of OpenAI's API: with /v1

	mu       sync.Mutex
	requests []Request
}

// New starts a server that gives these replies in their order, and fails the test
// if it is asked for more.
func New(t testing.TB, replies ...Reply) *Server {
	t.Helper()
	next := 0
	return Func(t, func(Request) Reply {
		if next >= len(replies) {
			t.Errorf("the model was asked %d times, and there are %d replies", next+1, len(replies))
			return Reply{}
		}
		next++
		return replies[next-1]
	})
}

// Func starts a server that answers by a function, one request after the other.
func Func(t testing.TB, reply func(Request) Reply) *Server {
	t.Helper()
	s := &Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		req := Request{Path: r.URL.Path, Header: r.Header}
		if err == nil {
			err = json.Unmarshal(raw, &req.Body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, req)
		answer := reply(req)
		s.mu.Unlock()
		if answer.Before != nil {
			answer.Before(req)
		}
		switch {
		case answer.Handler != nil:
			answer.Handler(w, r)
		case r.URL.Path == "/v1/messages":
			answer.anthropic(w)
		case r.URL.Path == "/v1/chat/completions":
			answer.openAI(w)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// Requests are those that came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Stream begins a stream of events and gives the function that sends one.
func Stream(w http.ResponseWriter) func(event string, data any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return func(event string, data any) {
		if event != "" {
			fmt.Fprintf(w, "event: %s\n", event)
		}
		text, isText := data.(string)
		if !isText {
			raw, err := json.Marshal(data)
			if err != nil {
				panic(err)
			}
			text = string(raw)
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

type object = map[string]any

func (r Reply) usage() (in, out int64) {
	if r.In == 0 && r.Out == 0 {
		return 10, 5
	}
	return r.In, r.Out
}

// halves cuts a text in two, as a stream would.
func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }

func (r Reply) openAI(w http.ResponseWriter) {
	send := Stream(w)
	chunk := func(delta object, stop any) {
		send("", object{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": stop}}})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	if r.Thought != "" {
		chunk(object{"reasoning_content": r.Thought}, nil)
	}
	for _, piece := range r.Pieces {
		chunk(object{"content": piece}, nil)
	}
	if r.Refusal != "" {
		chunk(object{"refusal": r.Refusal}, nil)
	}
	for i, c := range r.Calls {
		chunk(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, half := range halves(c.Arguments) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	stop := r.Stop
	if stop == "" {
		if stop = "stop"; len(r.Calls) > 0 {
			stop = "tool_calls"
		}
	}
	chunk(object{}, stop)
	in, out := r.usage()
	send("", object{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": []any{}, "usage": object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}})
	send("", "[DONE]")
}

func (r Reply) anthropic(w http.ResponseWriter) {
	send := Stream(w)
	in, out := r.usage()
	send("message_start", object{"type": "message_start", "message": object{
		"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "usage": object{"input_tokens": in, "output_tokens": 1},
	}})
	send("ping", object{"type": "ping"})
	index := 0
	block := func(start object, deltas ...object) {
		send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": d})
		}
		send("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	if r.Thought != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": r.Thought}, object{"type": "signature_delta", "signature": "signed"})
	}
	if pieces := r.Pieces; len(pieces) > 0 || r.Refusal != "" {
		var deltas []object
		for _, piece := range append(pieces, r.Refusal) {
			if piece != "" {
				deltas = append(deltas, object{"type": "text_delta", "text": piece})
			}
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range r.Calls {
		var deltas []object
		for _, half := range halves(c.Arguments) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": half})
		}
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, deltas...)
	}
	stop := map[string]string{"": "end_turn", "stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}[r.Stop]
	switch {
	case r.Refusal != "":
		stop = "refusal"
	case r.Stop == "" && len(r.Calls) > 0:
		stop = "tool_use"
	}
	send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": object{"output_tokens": out}})
	send("message_stop", object{"type": "message_stop"})
}
