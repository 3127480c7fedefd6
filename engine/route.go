package engine

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// route evaluates where the finished tasks lead, over the merged state.
func (r *run) route(entry *Entry, outcomes []*outcome) (node string, err error) {
	gated := false
	routes := make(map[string][]string, len(outcomes))
	next := map[string]bool{}
	for _, o := range outcomes {
		entry.Tasks = append(entry.Tasks, o.task.id)
		entry.Payload.Notes = append(entry.Payload.Notes, o.task.notes...)
		targets, err := r.leads(o)
		if err != nil {
			return o.task.node.name, err
		}
		routes[o.task.id] = targets
		o.task.noteRan(&entry.Payload)
		if _, ok := r.graph.after[o.task.node.name]; ok {
			gated = true
		}
		for _, to := range targets {
			if to != End {
				next[to] = true
			}
		}
	}
	entry.Next = sortedKeys(next)
	if gated {
		entry.Payload.Routes = routes
	}
	return "", nil
}

// noteRan says in the log what a task resolved to, where its gate's question
// does not say it already.
func (t *Task) noteRan(p *Payload) {
	if t.resolved == nil || findGate(t.asked, interrupt.Before, t.id) != nil {
		return
	}
	if p.Ran == nil {
		p.Ran = map[string]any{}
	}
	p.Ran[t.id] = t.resolved
}

// leads is where one finished task leads: its goto, else its conditional edge,
// else all its plain edges, else the end.
func (r *run) leads(o *outcome) ([]string, error) {
	n := o.task.node
	switch {
	case o.output.Goto != nil:
		return o.output.Goto, nil
	case n.route != nil:
		return n.route.targets(r.graph, State(r.state))
	case len(n.plain) > 0:
		return n.plain, nil
	}
	return []string{End}, nil
}

func (e *ConditionalEdge) targets(g *Graph, s State) (targets []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route of node %s: panic: %v", e.From, p)
		}
	}()
	keys, err := e.Route(s)
	if err != nil {
		return nil, fmt.Errorf("route of node %s: %w", e.From, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("route of node %s gave no key; give %s to end", e.From, End)
	}
	for _, key := range keys {
		to, known := e.Routes[key]
		if !known && e.Routes == nil {
			to, known = key, key == End || g.nodes[key] != nil
		}
		if !known {
			to, known = e.Routes[DefaultRoute]
		}
		if !known {
			names := sortedKeys(e.Routes)
			if e.Routes == nil {
				names = append(g.Nodes(), End)
			}
			sort.Strings(names)
			return nil, fmt.Errorf("route of node %s gave the key %q, which leads nowhere; known keys are %s", e.From, key, strings.Join(names, ", "))
		}
		if !slices.Contains(targets, to) {
			targets = append(targets, to)
		}
	}
	return targets, nil
}
