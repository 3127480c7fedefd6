package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Subgraph is a graph as a node. Its entries have a namespace of their own, one
// for each visit; its state is its own, too.
type Subgraph struct {
	Graph *Graph
	// Input maps channels of the parent to channels of the child, Output those
	// of the child to the parent's. If both are nil, channels of one name are
	// shared both ways. Only what the child writes comes back.
	Input, Output map[string]string
}

// channels gives the two maps, with the shared channels filled in.
func (s *Subgraph) channels(parent *Graph) (input, output map[string]string) {
	if s.Input != nil || s.Output != nil {
		return s.Input, s.Output
	}
	shared := map[string]string{}
	for name := range s.Graph.channels {
		if parent.channels[name] != nil {
			shared[name] = name
		}
	}
	return shared, shared
}

// compileSubgraph finds maps that name no channel, and a child that exchanges
// nothing with its parent.
func (c *compiler) compileSubgraph(at string, n *node) {
	sub := n.Subgraph
	if sub.Graph == nil {
		c.problem(at+"/definition", "", "node %s has no graph to run", n.name)
		return
	}
	if n.Run != nil {
		c.problem(at, "", "node %s has a graph and a function to run: it can have one", n.name)
	}
	if n.Type == "" {
		n.Type = "subgraph"
	}
	side := func(place, channel string, channels []string, whose string) {
		if !slices.Contains(channels, channel) {
			c.problem(at+place+"/"+EscapePointer(channel), Nearest(channel, channels), "%s has no channel %q", whose, channel)
		}
	}
	outer, inner := sortedKeys(c.g.channels), sub.Graph.Channels()
	child := "subgraph " + sub.Graph.name
	for _, from := range sortedKeys(sub.Input) {
		side("/input_map", from, outer, "the parent")
		side("/input_map", sub.Input[from], inner, child)
	}
	for _, from := range sortedKeys(sub.Output) {
		side("/output_map", from, inner, child)
		side("/output_map", sub.Output[from], outer, "the parent")
	}
	if _, output := sub.channels(c.g); len(output) == 0 {
		c.warn(at, "", "nothing of what subgraph %s writes comes back: it shares no channel with its parent, and output_map is empty", sub.Graph.name)
	}
}

// namespace names one visit: the task, and the base that made it ready. Parts
// are separated by a slash, which a node's name may hold; the numbers keep two
// visits apart all the same.
func namespace(parent, task string, base int64) string {
	ns := fmt.Sprintf("%d:%s@%d", len(task), task, base)
	if parent != "" {
		ns = parent + "/" + ns
	}
	return ns
}

// runSubgraph runs the child's steps until it ends or asks. A visit that was
// interrupted goes on where its own entries say.
func (r *run) runSubgraph(ctx context.Context, t *Task) (Output, error) {
	sub := t.node.Subgraph
	child, err := r.visit(ctx, sub.Graph, namespace(r.ns, t.id, t.base), func(c *run) ([]Op, error) {
		return c.given(sub, t), nil
	})
	if err != nil {
		return Output{}, err
	}
	end, err := child.toEnd(t, "subgraph "+t.node.name)
	if err != nil {
		return Output{}, err
	}
	output := child.exports(t)
	output.Goto, t.refused = end.left, end.refused
	return output, nil
}

// visitEnd is how a visit ended: it left for nodes of the parent, a gate inside
// was rejected and nothing was left to run, or neither.
type visitEnd struct {
	left    []string
	refused string
}

// toEnd runs the steps of a visit until it ends. If it asks, what it asks is the
// task's and the error errAsked.
func (c *run) toEnd(t *Task, what string) (end visitEnd, err error) {
	for {
		if err := context.Cause(c.ctx); err != nil {
			return end, err
		}
		if to := c.base().Payload.Left; to != nil {
			return visitEnd{left: to}, nil
		}
		p := c.plan(c.base(), c.asked())
		switch {
		case p.err != nil:
			return end, fmt.Errorf("%s: %w", p.task, p.err)
		case len(p.ask) > 0:
			t.asksInside(c.own(p.ask))
			return end, errAsked
		case len(p.tasks) == 0 && (p.refused || c.graph.rejectedBranch(p.frontier)):
			return visitEnd{refused: or(p.why, c.graph.starved(p.arrivals))}, nil
		case len(p.tasks) == 0 && len(p.arrivals) > 0:
			return end, fmt.Errorf("nothing is left to run, but %s", c.graph.starved(p.arrivals))
		case len(p.tasks) == 0:
			return end, nil
		case c.head.Step-c.outside >= int64(c.limit):
			return end, fmt.Errorf("%w: %d steps in %s since the last event from outside", ErrStepLimit, c.limit, what)
		}
		if err := c.childStep(p, t); err != nil {
			return end, err
		}
	}
}

// asksInside adds questions of a graph that the task runs. A task that calls
// several may have them of all.
func (t *Task) asksInside(questions []pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inner = append(t.inner, questions...)
}

// visit opens the run of a graph inside of this one: a new one, which begins
// with these operations, or the one that its entries tell.
func (r *run) visit(ctx context.Context, g *Graph, ns string, begin func(c *run) ([]Op, error)) (*run, error) {
	if deepest := r.root.graph.limits.Depth; r.depth+1 > deepest {
		return nil, fmt.Errorf("subgraphs are nested deeper than %d: nest less, or raise limits.depth of graph %s", deepest, r.root.graph.name)
	}
	c := &run{
		e: r.e, log: r.log, graph: g, thread: r.thread, root: r.root, depth: r.depth + 1,
		ns: ns, state: map[string]any{}, limit: r.limit, ctx: ctx, kill: r.kill,
		before: r.usage(),
	}
	r.root.mu.Lock()
	known := slices.Clone(r.root.children[c.ns])
	r.root.mu.Unlock()
	if len(known) > 0 {
		return c, c.recall(known)
	}
	for name, ch := range g.channels {
		c.state[name] = ch.initial
	}
	ops, err := begin(c)
	if err != nil {
		return nil, err
	}
	entry := &Entry{
		Kind: KindInput, Status: Running, Next: g.entries,
		Payload: Payload{Ops: g.stored(ops)},
	}
	return c, c.commit(LeaseMoving, []*Entry{entry}, nil, Commit{})
}

// given are the operations that a subgraph begins with: its initial values, and
// over them what its parent gives.
func (c *run) given(sub *Subgraph, t *Task) []Op {
	input, _ := sub.channels(t.run.graph)
	var ops []Op
	for _, name := range sub.Graph.Channels() {
		ops = append(ops, Op{Channel: name, Op: OpSet, Value: c.state[name]})
	}
	for _, outer := range sortedKeys(input) {
		inner := input[outer]
		if v := clipped(t.state[outer]); v != nil {
			ops = append(ops, Op{Channel: inner, Op: OpSet, Value: v})
			c.state[inner] = v
		}
	}
	return ops
}

// clipped is a value whose list has no room behind it: what is appended here
// goes into a list of its own, for the parent's may be carried on elsewhere.
func clipped(v any) any {
	if list, ok := v.([]any); ok && cap(list) > len(list) {
		return slices.Clip(list)
	}
	return v
}

// recall folds the entries of an earlier part of this visit.
func (c *run) recall(known []Entry) error {
	for i := range known {
		entry := known[i]
		if err := Fold(c.state, &entry.Payload, entry.Kind); err != nil {
			return fmt.Errorf("subgraph %s: %w", c.ns, err)
		}
		c.head = entry
		if entry.Kind.MovesBase() {
			c.tail = append(c.tail[:0], entry)
		} else {
			c.tail = append(c.tail, entry)
		}
	}
	// A visit is gone on with after an event from outside.
	c.outside = c.head.Step
	c.refresh()
	return nil
}

// childStep runs one step of a subgraph. What it asks goes up to the parent,
// which writes it when the thread has come to rest.
func (c *run) childStep(p plan, t *Task) error {
	outcomes := c.tasks(p)
	s := c.sort(outcomes)
	if s.storeErr != nil {
		return s.storeErr
	}
	cause := context.Cause(c.ctx)
	if cause == nil || !s.broke() {
		c.handle(&s)
	}
	if !s.broke() {
		if failed := c.commitStep(p, outcomes); failed != nil {
			_, err := failed()
			return err
		}
		return nil
	}
	// What finished is stored, so that it is not done again.
	for _, res := range c.resultsOf(s.finished) {
		if err := c.put(c.ctx, res); err != nil {
			return err
		}
	}
	switch {
	case cause != nil:
		return cause
	case len(s.failed) > 0:
		parts := make([]string, len(s.failed))
		for i, o := range s.failed {
			parts[i] = fmt.Sprintf("%s: %v", o.task.id, o.err)
		}
		return ofCode(strings.Join(parts, "; and "), codeOf(s.failed[0].err))
	}
	t.asksInside(s.questions)
	return errAsked
}

// exports are the child's own writes to channels of the parent, in the order
// in which they were made. What the parent gave does not come back.
func (c *run) exports(t *Task) Output {
	if u := c.base().Payload.Usage; u != nil {
		t.used = *u
	}
	_, outputs := t.node.Subgraph.channels(t.run.graph)
	c.root.mu.Lock()
	entries := slices.Clone(c.root.children[c.ns])
	c.root.mu.Unlock()
	var output Output
	for _, entry := range entries {
		if entry.Kind == KindInput {
			continue
		}
		for _, op := range entry.Payload.Ops {
			outer, mapped := outputs[op.Channel]
			if !mapped {
				continue
			}
			w := Write{Channel: outer, Value: op.Value, Overwrite: c.overwrites(op)}
			if len(op.Raw) == 1 {
				w.Value = op.Raw[0]
			}
			output.Writes = addExport(output.Writes, w)
		}
	}
	return output
}

// overwrites reports whether an operation went past a channel's reducer.
func (c *run) overwrites(op Op) bool {
	ch := c.graph.channels[op.Channel]
	if ch.Reduce != nil {
		return len(op.Raw) == 0
	}
	return op.Op == OpSet && ch.Reducer != Overwrite
}

// addExport adds a write. One that goes past its reducer takes the place of all
// that were made to its channel before.
func addExport(writes []Write, w Write) []Write {
	if w.Overwrite {
		writes = slices.DeleteFunc(writes, func(old Write) bool { return old.Channel == w.Channel })
	}
	return append(writes, w)
}
