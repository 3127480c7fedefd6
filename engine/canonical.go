package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// canonicalForm writes a graph as a graph file: JSON with sorted keys. Parts
// in Go cannot be written; they stand there by name, so that the fingerprint
// at least changes with what can be seen. The versions of the node types are
// an annotation, which loading skips and the fingerprint covers.
func canonicalForm(g *Graph) ([]byte, error) {
	channels := map[string]any{}
	for name, ch := range g.channels {
		channels[name] = ch.canonical()
	}
	nodes := map[string]any{}
	versions := map[string]any{}
	edges := []any{}
	conditional := []any{}
	for _, to := range g.entries {
		edges = append(edges, map[string]any{"from": Start, "to": to})
	}
	for _, name := range g.Nodes() {
		n := g.nodes[name]
		c, err := n.canonical(g)
		if err != nil {
			return nil, err
		}
		nodes[name] = c
		versions[n.Type] = max(n.Version, toInt(versions[n.Type]))
		for _, to := range n.plain {
			edges = append(edges, map[string]any{"from": name, "to": to})
		}
		if n.route != nil {
			conditional = append(conditional, n.route.canonical())
		}
	}
	doc := map[string]any{
		"schema_version": 1, "name": g.name, "channels": channels, "nodes": nodes, "edges": edges,
		"x-types": versions,
	}
	if g.lenient {
		// What it was only warned about would be mistakes otherwise.
		doc["schema_version"] = 0
	}
	if g.retry != nil {
		doc["retry_policy"] = g.retry.canonical()
	}
	if limits := g.limits.canonical(); len(limits) > 0 {
		doc["limits"] = limits
	}
	if len(conditional) > 0 {
		doc["conditional_edges"] = conditional
	}
	if len(g.before) > 0 {
		doc["interrupt_before"] = canonicalGates(g.before)
	}
	if len(g.after) > 0 {
		doc["interrupt_after"] = canonicalGates(g.after)
	}
	if len(g.commands) > 0 {
		list := make([]any, len(g.commands))
		for i, command := range g.commands {
			list[i] = command.canonical()
		}
		doc["commands"] = list
	}
	b, err := value.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("the graph cannot be written as JSON: %w", err)
	}
	return b, nil
}

func (c *channel) canonical() map[string]any {
	out := map[string]any{"reducer": c.Reducer}
	if c.Initial != nil {
		out["initial"] = c.initial
	}
	if c.Reduce != nil {
		out["x-go"] = true
	}
	switch {
	case c.Keep == 1:
		out["retention"] = "latest"
	case c.Keep > 1:
		out["retention"], out["retention_limit"] = "bounded", c.Keep
	}
	if c.Ephemeral {
		out["persistence"] = "ephemeral"
	}
	return out
}

func (n *node) canonical(g *Graph) (map[string]any, error) {
	out := map[string]any{}
	for k, v := range n.Config {
		out[k] = v
	}
	out["type"] = n.Type
	out["on_crash"] = string(n.OnCrash)
	if sub := n.Subgraph; sub != nil {
		definition, err := value.Decode(sub.Graph.canonical)
		if err != nil {
			return nil, err
		}
		out["definition"] = definition
		if sub.Input != nil {
			out["input_map"] = sub.Input
		}
		if sub.Output != nil {
			out["output_map"] = sub.Output
		}
	}
	if called := n.canonicalCalls(); len(called) > 0 {
		out["x-calls"] = called
	}
	if n.Retry != g.retry {
		out["retry_policy"] = n.Retry.canonical()
	}
	if n.Timeout != nil {
		out["on_timeout"] = or(string(n.Timeout.On), string(TimeoutFail))
		if n.Timeout.Run > 0 {
			out["run_timeout"] = n.Timeout.Run.String()
		}
		if n.Timeout.Idle > 0 {
			out["idle_timeout"] = n.Timeout.Idle.String()
		}
	}
	if n.MaxConcurrency > 0 {
		out["max_concurrency"] = n.MaxConcurrency
	}
	if n.OnError != "" {
		out["on_error"] = n.OnError
	}
	if n.Barrier != nil {
		barrier := map[string]any{"wait_for": slices.Sorted(slices.Values(n.Barrier.WaitFor))}
		if n.Barrier.Min > 0 {
			barrier["min"] = n.Barrier.Min
		}
		if n.Barrier.Timeout > 0 {
			barrier["timeout"] = n.Barrier.Timeout.String()
		}
		out["barrier"] = barrier
	}
	return out, nil
}

// canonicalCalls are the graphs that a node calls, by fingerprint: a file has
// their definitions where its node type wants them. Nodes of the graph itself
// are written anyway.
func (n *node) canonicalCalls() map[string]any {
	out := map[string]any{}
	for name, g := range n.Calls {
		if g != nil {
			out[name] = g.fingerprint
		}
	}
	return out
}

func (e *ConditionalEdge) canonical() map[string]any {
	out := map[string]any{"from": e.From, "condition": e.Condition}
	if e.Condition == "" {
		out["x-go"] = true
	}
	if e.Routes != nil {
		routes := map[string]any{}
		for k, v := range e.Routes {
			routes[k] = v
		}
		out["routes"] = routes
	}
	return out
}

func canonicalGates(gates map[string]Gate) []any {
	out := []any{}
	for _, name := range sortedKeys(gates) {
		gate := gates[name]
		if gate.Message == "" && gate.OnReject == "" && gate.Deadline == 0 {
			out = append(out, name)
			continue
		}
		g := map[string]any{"node": name}
		if gate.Message != "" {
			g["message"] = gate.Message
		}
		if gate.OnReject != "" {
			g["on_reject"] = gate.OnReject
		}
		if gate.Deadline > 0 {
			g["deadline"], g["default"] = gate.Deadline.String(), or(gate.Default, "reject")
		}
		out = append(out, g)
	}
	return out
}

func toInt(v any) int {
	n, _ := v.(int)
	return n
}

func (p Retry) canonical() map[string]any {
	return map[string]any{
		"max_retries": p.MaxRetries, "initial_delay_ms": milliseconds(p.InitialDelay),
		"backoff_multiplier": p.Multiplier, "max_delay_ms": milliseconds(p.MaxDelay), "jitter": p.Jitter,
	}
}

// milliseconds is a time as files write it: an integer where it is one. What is
// less than a microsecond is no time at all: it is how a file's 0 is kept apart
// from the default.
func milliseconds(d time.Duration) any {
	switch {
	case d < time.Microsecond:
		return 0
	case d%time.Millisecond == 0:
		return d.Milliseconds()
	}
	return float64(d) / float64(time.Millisecond)
}
