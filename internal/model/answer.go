package model

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// answer is what has come of an answer.
type answer struct {
	sink     Sink
	alive    func()
	text     strings.Builder
	refusal  strings.Builder
	thought  strings.Builder
	reason   bool     // the server wants its thoughts back
	blocks   []*block // of Anthropic, by index
	calls    []*ToolCall
	byIndex  map[int64]*call
	size     int
	stop     Stop
	finished bool // the server said why it stopped
	usage    Usage
	err      error // the answer went over a bound
}

// call is a tool call under way.
type call struct {
	ToolCall
	arguments strings.Builder
}

// block is a thought under way.
type block struct {
	Thought
	text, signature strings.Builder
}

// take counts what is kept, and reports whether it may be.
func (a *answer) take(pieces ...string) bool {
	for _, s := range pieces {
		a.size += jsonSize(s)
	}
	if a.size > maxAnswer && a.err == nil {
		a.err = &Error{Message: fmt.Sprintf("the answer has more than %d bytes and was broken off: set max_tokens", maxAnswer)}
	}
	return a.err == nil
}

// jsonSize is about the length of a text in JSON.
func jsonSize(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\t', c == '\r':
			n++
		case c < 0x20:
			n += 5
		}
	}
	return n
}

func (a *answer) say(piece string) bool {
	if !a.take(piece) {
		return false
	}
	if piece != "" {
		a.text.WriteString(piece)
		a.sink.Say(piece)
	}
	return true
}

func (a *answer) think(piece string) bool {
	if !a.take(piece) {
		return false
	}
	if piece != "" {
		a.thought.WriteString(piece)
		a.sink.Think(piece)
	}
	return true
}

func (a *answer) refuse(piece string) bool {
	if !a.take(piece) {
		return false
	}
	if piece != "" {
		a.refusal.WriteString(piece)
		a.sink.Say(piece)
	}
	return true
}

// call adds a piece of a tool call. Some servers give every call the same index
// and tell them apart by the id alone.
func (a *answer) call(index int64, id, name, arguments string) bool {
	if !a.take(id, name, arguments) {
		return false
	}
	if a.byIndex == nil {
		a.byIndex = map[int64]*call{}
	}
	c := a.byIndex[index]
	if c == nil || id != "" && c.ID != "" && id != c.ID && name != "" {
		if len(a.calls) == maxCalls {
			a.err = &Error{Message: fmt.Sprintf("the model asks for more than %d tool calls at once", maxCalls)}
			return false
		}
		c = &call{ToolCall: ToolCall{Type: "function"}}
		a.byIndex[index] = c
		a.calls = append(a.calls, &c.ToolCall)
	}
	if c.ID == "" {
		c.ID = id
	}
	if c.Function.Name == "" {
		c.Function.Name = name
	}
	c.arguments.WriteString(arguments)
	// A builder's text shares its bytes: this copies nothing.
	c.Function.Arguments = c.arguments.String()
	return true
}

// response is the whole answer.
func (a *answer) response(req Request) *Response {
	r := &Response{Stop: a.stop, Refusal: a.refusal.String(), Thought: a.thought.String(), Usage: a.usage}
	if r.Refusal != "" {
		r.Stop = StopRefusal
	}
	r.Message = Message{Role: "assistant", Content: a.text.String(), Stop: r.Stop}
	seen := map[string]bool{}
	for _, c := range a.calls {
		if r.Stop == StopMaxTokens && !json.Valid([]byte(c.Function.Arguments)) {
			continue // the answer was cut in the middle of it
		}
		if c.ID == "" || seen[c.ID] {
			c.ID = "call_" + RandomID()
		}
		seen[c.ID] = true
		r.Message.ToolCalls = append(r.Message.ToolCalls, *c)
	}
	for _, b := range a.blocks {
		if b == nil {
			continue
		}
		b.Text, b.Signature = b.text.String(), b.signature.String()
		r.Message.Thinking = append(r.Message.Thinking, b.Thought)
	}
	if a.reason && len(r.Message.ToolCalls) > 0 {
		r.Message.Reasoning = a.thought.String()
	}
	if r.Usage.Input == 0 && r.Usage.Output == 0 {
		raw, _ := json.Marshal([]any{req.System, req.Messages, req.Tools})
		r.Usage = Usage{Input: int64(len(raw))/4 + 1, Output: int64(a.size)/4 + 1, Estimated: true}
	}
	return r
}

// RandomID is a name that nothing else has.
func RandomID() string {
	var b [10]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
