package acp

import (
	"context"
	"maps"
)

// traceKeys are the members of _meta that carry W3C trace context.
var traceKeys = []string{"traceparent", "tracestate", "baggage"}

// maxTrace bounds each of them, in bytes: they come back with every update.
const maxTrace = 8 << 10

// traceOf is the trace context of a message, nil if it has none. What is no text
// is none.
func traceOf(m Meta) Meta {
	var trace Meta
	for _, key := range traceKeys {
		text := m[key]
		if len(text) == 0 || !isString(text) || len(text) > maxTrace {
			continue
		}
		if trace == nil {
			trace = Meta{}
		}
		trace[key] = text
	}
	return trace
}

// with gives m and the trace context beside it.
func (m Meta) with(trace Meta) Meta {
	if len(trace) == 0 {
		return m
	}
	out := maps.Clone(trace)
	maps.Copy(out, m)
	return out
}

type traceKey struct{}

// TraceContext gives the trace context of the prompt that a node works for, of the
// node's own context: the members traceparent, tracestate and baggage, those that
// the client sent. It is what goes on with the client's trace.
func TraceContext(ctx context.Context) map[string]string {
	trace, _ := ctx.Value(traceKey{}).(Meta)
	out := map[string]string{}
	for key, text := range trace {
		out[key] = unquote(text)
	}
	return out
}

// traced gives the trace context of the prompt that a session works on.
func (c *client) traced(sessionID string) Meta {
	c.mu.Lock()
	s := c.sessions[sessionID]
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		return nil
	}
	return s.active.trace
}
