package engine

import "fmt"

// checkCalls finds calls of nodes that are not there, or that cannot be called.
func (c *compiler) checkCalls() {
	for _, name := range sortedKeys(c.g.nodes) {
		for _, call := range c.g.nodes[name].calledNodes() {
			at := "/nodes/" + EscapePointer(name)
			to := c.g.nodes[call]
			switch {
			case to == nil:
				c.problem(at, Nearest(call, sortedKeys(c.g.nodes)), "node %s calls node %q, which does not exist", name, call)
			case len(to.calledNodes()) > 0:
				// Alone it would not have them, and it could be among them itself.
				c.problem(at, "put it into a graph of its own", "node %s calls node %s, which calls nodes itself", name, call)
			}
		}
	}
}

// calledNodes are the nodes of its own graph that a node calls, sorted.
func (n *node) calledNodes() (names []string) {
	for _, name := range sortedKeys(n.Calls) {
		if n.Calls[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// readyCalls finds the graph of each call.
func (g *Graph) readyCalls() error {
	for _, name := range g.Nodes() {
		n := g.nodes[name]
		for _, call := range sortedKeys(n.Calls) {
			if n.called == nil {
				n.called = map[string]*Graph{}
			}
			n.called[call] = n.Calls[call]
			if n.called[call] != nil {
				continue
			}
			alone, err := g.NodeGraph(call)
			if err != nil {
				return &CompileError{Name: g.name, Problems: []Problem{{
					Pointer: "/nodes/" + EscapePointer(name), Message: fmt.Sprintf("node %s cannot call node %s: %v", name, call, err),
				}}}
			}
			n.called[call] = alone
		}
	}
	return nil
}
