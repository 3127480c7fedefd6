package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkReach finds nodes that nothing leads to, and nodes from which nothing
// leads to the end. A node may leave by Goto, which nobody can see here; so
// a node in Go is never said to be a trap, and is only warned about when
// nothing leads to it.
func (c *compiler) checkReach() {
	forward := map[string][]string{Start: c.g.entries}
	for name, n := range c.g.nodes {
		next := slices.Clone(n.plain)
		if n.route != nil {
			next = nil
			if n.route.Routes == nil {
				next = append(sortedKeys(c.g.nodes), End)
			}
			for _, to := range n.route.Routes {
				next = append(next, to)
			}
		} else if len(n.plain) == 0 {
			next = []string{End}
		}
		next = append(next, n.Sends...)
		if n.OnError != "" {
			next = append(next, n.OnError)
		}
		for _, gates := range []map[string]Gate{c.g.before, c.g.after} {
			if to := gates[name].OnReject; to != "" {
				next = append(next, to)
			}
		}
		forward[name] = next
	}
	for _, e := range c.assumed {
		forward[e.From] = append(slices.Clone(forward[e.From]), e.To)
	}
	// A node that is called leads nowhere then, so a call is no way to the end.
	leads := maps.Clone(forward)
	for name, n := range c.g.nodes {
		leads[name] = append(slices.Clone(leads[name]), n.calledNodes()...)
	}
	reached := reach(Start, leads)
	backward := map[string][]string{}
	for from, targets := range forward {
		for _, to := range targets {
			backward[to] = append(backward[to], from)
		}
	}
	ends := reach(End, backward)
	for _, name := range sortedKeys(c.g.nodes) {
		at := "/nodes/" + EscapePointer(name)
		if !reached[name] && len(c.g.entries) > 0 {
			if c.g.roams {
				c.warn(at, "", "node %s is unreachable, unless a node goes to it with Goto", name)
			} else {
				c.finding(Problem{Pointer: at, Message: fmt.Sprintf("node %s is unreachable: no edge leads to it", name)})
			}
		}
	}
	c.checkTraps(forward, backward, ends)
}

// checkTraps finds cycles with no way out. What only leads into one is no
// mistake of its own.
func (c *compiler) checkTraps(forward, backward map[string][]string, ends map[string]bool) {
	said := map[string]bool{}
	for _, name := range sortedKeys(c.g.nodes) {
		if ends[name] || said[name] {
			continue
		}
		after, before := reach(name, forward), reach(name, backward)
		var cycle []string
		for _, other := range sortedKeys(c.g.nodes) {
			if after[other] && before[other] {
				cycle = append(cycle, other)
				said[other] = true
			}
		}
		if len(cycle) == 1 && !slices.Contains(forward[name], name) {
			continue
		}
		at, who := "/nodes/"+EscapePointer(name), strings.Join(cycle, ", ")
		noun := "node"
		if len(cycle) > 1 {
			noun = "the cycle of nodes"
		}
		if c.g.roams {
			c.warn(at, "", "no way leads from %s %s to %s, unless a node leaves with Goto", noun, who, End)
		} else {
			c.finding(Problem{Pointer: at, Message: fmt.Sprintf("no way leads from %s %s to %s", noun, who, End)})
		}
	}
}

func reach(from string, edges map[string][]string) map[string]bool {
	seen := map[string]bool{from: true}
	queue := []string{from}
	for len(queue) > 0 {
		for _, to := range edges[queue[0]] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	return seen
}
