package engine

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Called is the graph that a node calls by this name (see Node.Calls), or nil.
func (g *Graph) Called(node, name string) *Graph {
	if n := g.nodes[node]; n != nil {
		return n.called[name]
	}
	return nil
}

// Call runs a graph of the node's Calls inside of the task, to its end, and gives
// its state. The graph begins with its initial values and this input, which goes
// through its reducers, and shares nothing with the graph around it.
//
// It is as durable as the turn is: its steps are entries of a namespace of its
// own, and when the node runs again, Call goes on where they say. So key, which
// names the call within the node, and input are the same in every pass; a key
// used several times is told apart by order. A question inside pauses the task:
// Call returns an error that the node must return, and the answer goes to whoever
// asked. Several calls may run side by side, and all of them may ask.
//
// A gate inside that was rejected, and left nothing to run, is an error. So is a
// node inside that failed; called again, by Resume, it goes on at that node.
func (t *Task) Call(ctx context.Context, key, name string, input Values) (State, error) {
	g := t.node.called[name]
	if g == nil {
		return nil, fmt.Errorf("node %s calls %q, which is not among its Calls: %s (%w)", t.node.name, name, strings.Join(sortedKeys(t.node.called), ", "), ErrInvalid)
	}
	key, err := t.oneCall(key)
	if err != nil {
		return nil, err
	}
	child, err := t.run.visit(ctx, g, t.callsPrefix()+callSegment(key), func(c *run) ([]Op, error) {
		ops, _, err := g.inputOps(nil, Input{Values: input})
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", err, ErrInvalid)
		}
		changed, err := c.reduce(ops)
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", err, ErrInvalid)
		}
		c.apply(changed)
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	switch end, err := child.toEnd(t, "graph "+g.name); {
	case err != nil:
		return nil, err
	case end.left != nil:
		return nil, fmt.Errorf("graph %s left for %s, but whoever calls a graph is not led anywhere", g.name, strings.Join(end.left, ", "))
	case end.refused != "":
		return nil, fmt.Errorf("rejected: %s", end.refused)
	}
	return maps.Clone(child.state), nil
}

// oneCall gives a call a key of its own in this pass.
func (t *Task) oneCall(key string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return "", t.tooLate()
	}
	const call = "call\x00" // no effect has such a key, or it is told apart, too
	return strings.TrimPrefix(t.ownKey(call+key), call), nil
}

// callsPrefix begins the namespaces of the task's calls.
func (t *Task) callsPrefix() string { return namespace(t.run.ns, t.id, t.base) + "/" }

// callSegment is the rest of such a namespace. It holds no number of a base, so
// it is not taken for a visit of a subgraph.
func callSegment(key string) string { return fmt.Sprintf("%d:%s", len(key), key) }

// spent is what the task has used up to here, with the graphs that it called, in
// this pass or an earlier one: a call whose result is stored is not made again,
// and counts all the same. The caller holds t.mu.
func (t *Task) spent() Usage {
	used := t.used
	if len(t.node.called) == 0 {
		return used
	}
	root, prefix := t.run.root, t.callsPrefix()
	root.mu.Lock()
	defer root.mu.Unlock()
	for _, ns := range sortedKeys(root.children) {
		segment, inside := strings.CutPrefix(ns, prefix)
		if !inside || !isCall(segment) {
			continue
		}
		if u := sinceBase(root.children[ns])[0].Payload.Usage; u != nil {
			inner := *u
			inner.Context, inner.Window = 0, 0 // of another conversation
			used = used.plus(inner)
		}
	}
	return used
}

// isCall reports whether a rest of a namespace is a call, and not something
// inside of one, which has counted there.
func isCall(segment string) bool {
	size, key, _ := strings.Cut(segment, ":")
	n, err := strconv.Atoi(size)
	return err == nil && n == len(key)
}
