package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// target checks the end of an edge and reports whether it can be used.
func (c *compiler) target(at, name string) bool {
	if name == End || c.g.nodes[name] != nil {
		return true
	}
	if name == Start {
		c.problem(at, "", "%s is only the source of an edge", Start)
		return false
	}
	c.unknownNode(at, name)
	return false
}

func (c *compiler) unknownNode(at, name string) {
	names := append(sortedKeys(c.g.nodes), Start, End)
	c.problem(at, Nearest(name, names), "there is no node %q", name)
}

func (c *compiler) compileEdges() {
	seen := map[Edge]bool{}
	for i, e := range c.d.Edges {
		at := fmt.Sprintf("/edges/%d", i)
		if seen[e] {
			c.finding(Problem{Pointer: at, Message: fmt.Sprintf("the edge from %s to %s is there twice", e.From, e.To)})
			continue
		}
		seen[e] = true
		ok := c.target(at+"/to", e.To)
		if !ok || (e.From != Start && c.g.nodes[e.From] == nil) {
			c.assume(e.From, e.To)
		}
		switch from := c.g.nodes[e.From]; {
		case e.From == Start && e.To == End:
			c.problem(at, "", "an edge from %s to %s runs nothing", Start, End)
		case e.From == Start:
			if ok {
				c.g.entries = append(c.g.entries, e.To)
			}
		case e.From == End:
			c.problem(at+"/from", "", "%s is only the target of an edge", End)
		case from == nil:
			c.unknownNode(at+"/from", e.From)
		case ok:
			from.plain = append(from.plain, e.To)
		}
	}
	started := slices.ContainsFunc(c.d.Edges, func(e Edge) bool { return e.From == Start })
	if !started && len(c.d.Nodes) > 0 {
		c.problem("/edges", "add an edge from __start__ to the first node", "no node is an entry: nothing leads from %s", Start)
	}
}

func (c *compiler) compileConditional() {
	for i := range c.d.ConditionalEdges {
		e := c.d.ConditionalEdges[i]
		at := fmt.Sprintf("/conditional_edges/%d", i)
		from := c.g.nodes[e.From]
		switch {
		case e.From == Start:
			c.problem(at+"/from", "let a node of its own decide", "an edge from %s cannot be conditional", Start)
		case from == nil:
			c.unknownNode(at+"/from", e.From)
		case from.route != nil:
			c.problem(at, "", "node %s has a conditional edge already", e.From)
		default:
			from.route = &e
			if len(from.plain) > 0 {
				c.warn(at, "", "node %s has conditional and plain edges: the plain ones are not followed", e.From)
			}
		}
		if e.Route == nil {
			c.problem(at+"/condition", "", "the conditional edge of %s has no condition", e.From)
		}
		if e.Routes != nil && len(e.Routes) == 0 {
			c.problem(at+"/routes", "", "the conditional edge of %s leads nowhere: routes is empty", e.From)
		}
		for _, key := range sortedKeys(e.Routes) {
			if ok := c.target(at+"/routes/"+EscapePointer(key), e.Routes[key]); !ok || from == nil {
				c.assume(e.From, e.Routes[key])
			}
		}
		if e.Labels != nil && len(e.Routes) > 0 {
			c.checkLabels(at+"/routes", &e)
		}
	}
}

// checkLabels compares the keys that a condition can give with its routes.
func (c *compiler) checkLabels(at string, e *ConditionalEdge) {
	gives := strings.Join(e.Labels, " or ")
	strangers := 0
	for _, key := range sortedKeys(e.Routes) {
		if key != DefaultRoute && !slices.Contains(e.Labels, key) {
			strangers++
			c.finding(Problem{Pointer: at + "/" + EscapePointer(key), OfKey: true, Suggestion: Nearest(key, e.Labels),
				Message: fmt.Sprintf("the condition never gives %q; it gives %s", key, gives)})
		}
	}
	if _, ok := e.Routes[DefaultRoute]; ok {
		return
	}
	for _, label := range e.Labels {
		if _, ok := e.Routes[label]; ok {
			continue
		}
		if strangers--; strangers >= 0 {
			continue // a key that was meant for it is reported already
		}
		c.finding(Problem{Pointer: at, Suggestion: "add a route for it, to " + End + " if the branch ends there",
			Message: fmt.Sprintf("there is no route for %q, and the condition gives %s", label, gives)})
	}
}

// compileHandlers checks where failures lead.
func (c *compiler) compileHandlers() {
	for _, name := range sortedKeys(c.g.nodes) {
		to := c.g.nodes[name].OnError
		at := "/nodes/" + EscapePointer(name) + "/on_error"
		switch {
		case to == "":
		case to == name:
			c.problem(at, "use a retry policy", "node %s cannot handle its own failure", name)
		case !c.target(at, to):
			c.assume(name, to)
		case c.g.nodes[to].excludes(name):
			c.problem(at, "add it to wait_for", "a failure of %s leads into join %s, which does not wait for it", name, to)
		}
	}
}

func (c *compiler) compileGates(list string, gates []Gate, into map[string]Gate) {
	for i, gate := range gates {
		at := fmt.Sprintf("/%s/%d", list, i)
		if c.g.nodes[gate.Node] == nil {
			c.problem(at, Nearest(gate.Node, sortedKeys(c.g.nodes)), "an interrupt on node %q, which does not exist", gate.Node)
			continue
		}
		if _, twice := into[gate.Node]; twice {
			c.problem(at, "", "node %s is there twice", gate.Node)
			continue
		}
		if gate.OnReject != "" {
			if gate.OnReject == gate.Node {
				c.problem(at+"/on_reject", "", "a rejected node cannot be its own on_reject")
				continue
			}
			if !c.target(at+"/on_reject", gate.OnReject) {
				c.assume(gate.Node, gate.OnReject)
				continue
			}
			if c.g.nodes[gate.OnReject].excludes(gate.Node) {
				c.problem(at+"/on_reject", "add it to wait_for", "a rejection of %s leads into join %s, which does not wait for it", gate.Node, gate.OnReject)
			}
		}
		if gate.Deadline < 0 {
			c.problem(at+"/deadline", "", "a deadline is a time after the question, not before it")
		}
		if gate.Default != "" && gate.Default != interrupt.Approve && gate.Default != interrupt.Reject {
			c.problem(at+"/default", "", "the default of a gate is approve or reject, not %q", gate.Default)
		}
		into[gate.Node] = gate
	}
}
