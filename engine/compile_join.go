package engine

import (
	"fmt"
	"slices"
	"strings"
)

// compileBarriers checks that every join can fill, and that nothing leads into
// one past its barrier.
func (c *compiler) compileBarriers() {
	into := map[string][]string{} // node -> nodes whose edges lead to it
	for _, name := range sortedKeys(c.g.nodes) {
		for _, to := range c.g.nodes[name].leads() {
			if !slices.Contains(into[to], name) {
				into[to] = append(into[to], name)
			}
		}
	}
	for _, name := range sortedKeys(c.g.nodes) {
		n := c.g.nodes[name]
		if n.Barrier == nil {
			continue
		}
		c.g.joins = true
		at := "/nodes/" + EscapePointer(name) + "/barrier"
		members := n.Barrier.WaitFor
		if len(members) == 0 {
			c.problem(at+"/wait_for", "", "join %s waits for nobody", name)
			continue
		}
		if n.Barrier.Min < 0 || n.Barrier.Min > len(members) {
			c.problem(at+"/min", "", "join %s needs %d of %d members; min is between 1 and %d", name, n.Barrier.Min, len(members), len(members))
		}
		switch limit := n.Barrier.Timeout; {
		case limit < 0:
			c.problem(at+"/timeout", "", "join %s waits for %s: a timeout is greater than zero", name, limit)
		case limit > 0:
			c.g.timeouts = true
			if n.Barrier.Min == 1 {
				c.warn(at+"/timeout", "leave it out, or min", "join %s never waits for its timeout: the first arrival runs it", name)
			}
		}
		for i, member := range members {
			place := fmt.Sprintf("%s/wait_for/%d", at, i)
			switch {
			case member == name:
				c.problem(place, "", "join %s waits for itself", name)
			case slices.Index(members, member) != i:
				c.problem(place, "", "join %s waits for %s twice", name, member)
			case c.g.nodes[member] == nil:
				c.unknownNode(place, member)
			case !slices.Contains(into[name], member) && !c.mayGoTo(member) && !c.strays(member, name):
				c.finding(Problem{Pointer: place, Suggestion: "add an edge from " + member + " to " + name,
					Message: fmt.Sprintf("join %s waits for %s, which never leads to it: the join can never fill", name, member)})
			}
		}
		for _, from := range into[name] {
			if !slices.Contains(members, from) {
				c.problem(at+"/wait_for", "add it to wait_for", "an edge leads from %s into join %s, which does not wait for it", from, name)
			}
		}
		if slices.Contains(c.g.entries, name) {
			c.problem(at, "", "join %s cannot be an entry: %s leads to it, and nobody arrives", name, Start)
		}
	}
	c.warnUnequal(into)
}

// excludes reports whether the node is a join that does not wait for another.
func (n *node) excludes(member string) bool {
	return n != nil && n.Barrier != nil && !slices.Contains(n.Barrier.WaitFor, member)
}

// awaits reports whether a node is a join that waits for another.
func (n *node) awaits(member string) bool {
	return n != nil && n.Barrier != nil && slices.Contains(n.Barrier.WaitFor, member)
}

// strays reports whether a failure or a rejection of a node leads to another.
func (c *compiler) strays(from, to string) bool {
	leads := func(gates []Gate) bool {
		return slices.ContainsFunc(gates, func(g Gate) bool { return g.Node == from && g.OnReject == to })
	}
	return c.g.nodes[from].OnError == to || leads(c.d.InterruptBefore) || leads(c.d.InterruptAfter)
}

// roams reports whether the node may lead elsewhere than its edges say: by
// Goto, which only code can. A subgraph leaves with GotoParent.
func (n *node) roams() bool {
	if n.Subgraph != nil && n.Subgraph.Graph != nil {
		return n.Subgraph.Graph.roams
	}
	return n.Type == "go"
}

// mayGoTo reports whether a node may lead to others than its edges say.
func (c *compiler) mayGoTo(name string) bool {
	n := c.g.nodes[name]
	return n.roams() || (n.route != nil && n.route.Routes == nil)
}

// warnUnequal finds nodes that plain edges of branches of unequal length lead
// to: without a barrier they run once for each length.
func (c *compiler) warnUnequal(into map[string][]string) {
	const longest = 64 // branches beyond that are loops
	steps := map[string]map[int]bool{}
	level := map[string]bool{}
	for _, entry := range c.g.entries {
		level[entry] = true
	}
	for depth := 0; depth < longest && len(level) > 0; depth++ {
		next := map[string]bool{}
		for name := range level {
			if steps[name] == nil {
				steps[name] = map[int]bool{}
			}
			steps[name][depth] = true
			if n := c.g.nodes[name]; n != nil && n.route == nil {
				for _, to := range n.plain {
					next[to] = true
				}
			}
		}
		level = next
	}
	if len(level) > 0 {
		return // a loop of plain edges: every length is possible, and meant
	}
	for _, name := range sortedKeys(c.g.nodes) {
		if n := c.g.nodes[name]; n.Barrier == nil && len(steps[name]) > 1 && len(into[name]) > 1 {
			c.warn("/nodes/"+EscapePointer(name), "a barrier with wait_for: ["+strings.Join(into[name], ", ")+"] makes it run once",
				"branches of unequal length lead to node %s: it runs once for each length", name)
		}
	}
}
