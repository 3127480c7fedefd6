// Package model calls language models over HTTP: any server that speaks the
// chat completions of OpenAI, and the messages of Anthropic. It has one shape
// of a conversation for both, which is also what a channel of messages holds.
//
// Rules that hold here:
//
//   - Nothing that a server sends is kept without a bound: neither an event, nor
//     an answer, nor an error page.
//   - A call is made once. Whether another attempt may help is in its *Error;
//     to make it is the caller's.
//   - The key is in the request and nowhere else: not in an error, not in what
//     is returned (see Hide).
package model

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

// The providers: what a server speaks.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// defaults are where a provider's own servers are, and the variable in which
// people have their key.
var defaults = map[string]struct{ url, env string }{
	OpenAI:    {"https://api.openai.com/v1", "OPENAI_API_KEY"},
	Anthropic: {"https://api.anthropic.com", "ANTHROPIC_API_KEY"},
}

// DefaultKeyEnv is the environment variable of the key for a provider's own
// servers.
func DefaultKeyEnv(provider string) string { return defaults[provider].env }

// Bounds of a call.
const (
	// DefaultIdle is how long a server may say nothing of substance. Some think
	// for minutes before their first word.
	DefaultIdle = 5 * time.Minute
	// DefaultMaxTokens is for servers that want to be told.
	DefaultMaxTokens = 16384

	maxAnswer   = 1<<20 - 8<<10 // bytes of JSON: an answer must fit a channel's value
	maxEvent    = 2 << 20       // bytes of one event of a stream
	maxCalls    = 128           // tool calls of one answer
	maxPage     = 64 << 10      // bytes that are read of an error
	longestWait = 10 * time.Minute
)

// Client is a server and how it is spoken to.
type Client struct {
	Provider string
	BaseURL  string // empty: the provider's own
	Key      string // empty: none is sent
	Idle     time.Duration
	Clock    clock.Clock
	// HTTP, if set, is what requests go through.
	HTTP http.RoundTripper
}

// Request is one call.
type Request struct {
	Model       string
	System      string // before the messages
	Messages    []Message
	Tools       []Tool
	Temperature *float64
	MaxTokens   int64          // 0: the server's own bound, where it has one
	Schema      map[string]any // JSON Schema that the answer must fit; nil: free text
	Parameters  map[string]any // further members of the request, as the server knows them
}

// Tool is a tool as a model is told of it.
type Tool struct {
	Name        string
	Description string
	Schema      map[string]any // JSON Schema of its arguments, an object
}

// Stop says why a model stopped.
type Stop string

// Why a model stopped.
const (
	StopEnd       Stop = ""           // it was finished, or calls tools
	StopMaxTokens Stop = "max_tokens" // its answer was cut
	StopRefusal   Stop = "refusal"    // it, or a filter, refused
)

// Response is an answer.
type Response struct {
	Message Message `json:"message"`
	Stop    Stop    `json:"stop,omitempty"`
	Refusal string  `json:"refusal,omitempty"` // what was said about a refusal
	Thought string  `json:"thought,omitempty"` // what it thought aloud
	Usage   Usage   `json:"usage"`
}

// Usage is what a call used.
type Usage struct {
	Input  int64 `json:"input"` // what came from a cache included
	Output int64 `json:"output"`
	// Estimated says that the server told nothing: the numbers are a quarter
	// of the bytes.
	Estimated bool `json:"estimated,omitempty"`
}

// Sink takes an answer piece by piece. Its fields may be nil.
type Sink struct {
	Say   func(piece string)
	Think func(piece string)
}

// CheckURL finds what is wrong with the address of a server.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no URL", base)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is no URL of a server: it begins with https:// or http://", base)
	case u.User != nil:
		return fmt.Errorf("a key does not belong into the URL of a server: name an environment variable with api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q: the URL of a server has no ? and no #", base)
	}
	return nil
}

// Call makes one call and gives the whole answer; sink gets it as it comes. The
// error is an *Error unless ctx ended.
func (c *Client) Call(ctx context.Context, req Request, sink Sink) (*Response, error) {
	messages, err := checked(req.Messages)
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	req.Messages = messages
	if c.BaseURL == "" {
		own := *c
		own.BaseURL = defaults[c.Provider].url
		c = &own
	}
	if err := CheckURL(c.BaseURL); err != nil {
		return nil, &Error{Message: err.Error()}
	}
	call := c.openAI
	if c.Provider == Anthropic {
		call = c.anthropic
	}
	outer := ctx
	ctx, alive, done := c.watch(ctx)
	defer done()
	a := &answer{sink: sink, alive: alive}
	if a.sink.Say == nil {
		a.sink.Say = func(string) {}
	}
	if a.sink.Think == nil {
		a.sink.Think = func(string) {}
	}
	err = call(ctx, req, a)
	switch {
	case outer.Err() != nil:
		return nil, context.Cause(outer)
	case ctx.Err() != nil && !a.finished:
		return nil, context.Cause(ctx)
	case err != nil && !(a.finished && a.err == nil):
		return nil, c.failure(err)
	case a.err != nil:
		return nil, a.err
	case !a.finished:
		return nil, &Error{Message: "the stream of the answer ended in the middle", Retry: true}
	}
	return a.response(req), nil
}

// watch ends the context when nothing of substance came for a while. A stall is
// noticed after one to two times that.
func (c *Client) watch(ctx context.Context) (_ context.Context, alive, done func()) {
	idle, clk := c.Idle, c.Clock
	if idle <= 0 {
		idle = DefaultIdle
	}
	if clk == nil {
		clk = clock.Real
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var events atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for seen := int64(-1); ; {
			if clock.Sleep(ctx, clk, idle) != nil {
				return
			}
			now := events.Load()
			if now == seen {
				cancel(&Error{Message: fmt.Sprintf("the server %s said nothing for %s", c.BaseURL, idle), Retry: true})
				return
			}
			seen = now
		}
	}()
	return ctx, func() { events.Add(1) }, func() { cancel(nil); <-ended }
}

// ownServer reports whether the server is the provider's own.
func (c *Client) ownServer() bool {
	return strings.TrimRight(c.BaseURL, "/") == defaults[c.Provider].url
}
