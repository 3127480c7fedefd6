package engine

import (
	"fmt"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// canonicalForm writes a graph as a graph file: JSON with sorted keys. Parts
// in Go cannot be written; they stand there by name, so that the fingerprint
// at least changes with what can be seen. The versions of the node types are
// an annotation, which loading skips and the fingerprint covers.
func canonicalForm(g *Graph) ([]byte, error) {
	channels := map[string]any{}
	for name, ch := range g.channels {
		c := map[string]any{"reducer": ch.Reducer}
		if ch.Initial != nil {
			c["initial"] = ch.initial
		}
		if ch.Reduce != nil {
			c["x-go"] = true
		}
		switch {
		case ch.Keep == 1:
			c["retention"] = "latest"
		case ch.Keep > 1:
			c["retention"], c["retention_limit"] = "bounded", ch.Keep
		}
		if ch.Ephemeral {
			c["persistence"] = "ephemeral"
		}
		channels[name] = c
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
		c := map[string]any{}
		for k, v := range n.Config {
			c[k] = v
		}
		c["type"] = n.Type
		c["on_crash"] = string(n.OnCrash)
		if sub := n.Subgraph; sub != nil {
			definition, err := value.Decode(sub.Graph.canonical)
			if err != nil {
				return nil, err
			}
			c["definition"] = definition
			if sub.Input != nil {
				c["input_map"] = sub.Input
			}
			if sub.Output != nil {
				c["output_map"] = sub.Output
			}
		}
		if n.Retry != nil && n.Retry != g.retry {
			c["retry_policy"] = n.Retry.canonical()
		}
		if n.Timeout != nil {
			c["on_timeout"] = or(string(n.Timeout.On), string(TimeoutFail))
			if n.Timeout.Run > 0 {
				c["run_timeout"] = n.Timeout.Run.String()
			}
			if n.Timeout.Idle > 0 {
				c["idle_timeout"] = n.Timeout.Idle.String()
			}
		}
		if n.OnError != "" {
			c["on_error"] = n.OnError
		}
		if n.Barrier != nil {
			barrier := map[string]any{"wait_for": n.Barrier.WaitFor}
			if n.Barrier.Min > 0 {
				barrier["min"] = n.Barrier.Min
			}
			c["barrier"] = barrier
		}
		nodes[name] = c
		versions[n.Type] = max(n.Version, toInt(versions[n.Type]))
		for _, to := range n.plain {
			edges = append(edges, map[string]any{"from": name, "to": to})
		}
		if n.route != nil {
			e := map[string]any{"from": name, "condition": n.route.Condition}
			if n.route.Condition == "" {
				e["x-go"] = true
			}
			if n.route.Routes != nil {
				routes := map[string]any{}
				for k, v := range n.route.Routes {
					routes[k] = v
				}
				e["routes"] = routes
			}
			conditional = append(conditional, e)
		}
	}
	doc := map[string]any{
		"schema_version": 1, "name": g.name, "channels": channels, "nodes": nodes, "edges": edges,
		"x-types": versions,
	}
	if g.retry != nil {
		doc["retry_policy"] = g.retry.canonical()
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
	b, err := value.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("the graph cannot be written as JSON: %w", err)
	}
	return b, nil
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
		"max_retries": p.MaxRetries, "initial_delay_ms": p.InitialDelay.Milliseconds(),
		"backoff_multiplier": p.Multiplier, "max_delay_ms": p.MaxDelay.Milliseconds(), "jitter": p.Jitter,
	}
}
