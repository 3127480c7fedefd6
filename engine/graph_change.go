package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// GraphChangedError says why a turn cannot go on with the graph at hand: it
// began with another one.
type GraphChangedError struct {
	Thread string
	Graph  string // name of the graph that the turn began with
	// Changes are what is different in the graph at hand, one a line: what was
	// added, removed or changed. Empty if there is no graph at hand.
	Changes []string
	// Missing is what the turn needs and the graph at hand does not have; only
	// of AcceptGraph. Nobody can accept that.
	Missing []string
}

func (e *GraphChangedError) Error() string {
	var b strings.Builder
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, "thread %s cannot go on with the changed graph: %s", e.Thread, strings.Join(e.Missing, "; "))
	} else {
		fmt.Fprintf(&b, "thread %s: its turn began with another version of graph %s", e.Thread, e.Graph)
	}
	if len(e.Changes) > 0 {
		b.WriteString(". What changed: " + strings.Join(e.Changes, "; "))
	}
	return b.String()
}

// Is makes errors.Is(err, ErrGraphChanged) true.
func (e *GraphChangedError) Is(target error) bool { return target == ErrGraphChanged }

// AcceptGraph lets the turn under way go on with the engine's graph, though it
// began with another: somebody looked at what changed (GraphChangedError) and
// answers for it. The log says who, when and what. Nothing runs: Resume goes on.
// Questions stay open and results stay stored.
//
// It is refused, with a GraphChangedError that says why in Missing, unless all
// that the turn still needs is there: the nodes that are ready, the nodes and
// gates that have been asked about, the joins that wait, and all channels. A turn
// that is over gives ErrInvalid: the next one takes the new graph anyway.
func (e *Engine) AcceptGraph(ctx context.Context, thread string, by By) (*Turn, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	if e.graph == nil {
		return nil, fmt.Errorf("this engine has no graph to accept: %w", ErrInvalid)
	}
	for attempt := 0; ; attempt++ {
		log, err := e.store.Open(ctx, thread)
		if err != nil {
			return nil, fmt.Errorf("accept a graph for thread %s: %w", thread, err)
		}
		r := e.newRun(log)
		turn, err := closing(r, func() (*Turn, error) { return r.acceptGraph(ctx, by) })
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return turn, err
	}
}

func (r *run) acceptGraph(ctx context.Context, by By) (*Turn, error) {
	if err := r.busy(TakeFree); err != nil {
		return r.result(), err
	}
	g := r.e.graph
	switch status := r.thread.Status; {
	case status.Over() && status != Failed:
		return r.result(), fmt.Errorf("the turn of thread %s is over (%s): the next one takes the new graph: %w", r.thread.ID, status, ErrInvalid)
	case r.thread.Graph == g.fingerprint:
		return r.result(), nil
	}
	definition, err := r.e.store.Graph(ctx, r.thread.Graph)
	if err != nil {
		return r.result(), fmt.Errorf("graph %.12s of thread %s: %w", r.thread.Graph, r.thread.ID, err)
	}
	change, err := newGraphChange(definition, g)
	if err != nil {
		return r.result(), fmt.Errorf("graph %s of thread %s: %w", r.thread.GraphName, r.thread.ID, err)
	}
	if missing := r.missingIn(change); len(missing) > 0 {
		return r.result(), &GraphChangedError{Thread: r.thread.ID, Graph: r.thread.GraphName, Changes: change.lines, Missing: missing}
	}
	input, err := r.e.inputAt(ctx, r.thread.ID, r.log.View().InputSeq)
	if err != nil {
		return r.result(), err
	}
	record := *input
	record.Graph, record.Name = g.fingerprint, g.name
	ops, _, err := g.inputOps(r.state, Input{})
	if err != nil {
		return r.result(), &GraphChangedError{Thread: r.thread.ID, Graph: r.thread.GraphName, Changes: change.lines, Missing: []string{err.Error()}}
	}
	r.graph = g
	changed, err := r.reduce(ops) // new channels get their initial value
	if err != nil {
		return r.result(), err
	}
	r.apply(changed)
	entry := &Entry{
		Kind: KindGraph, Status: r.thread.Status, Step: r.head.Step, Actor: or(by.Actor, osUser()),
		Payload: Payload{Ops: g.stored(ops), Input: &record, Edit: by.Record(), Notes: change.lines},
	}
	if owner := r.thread.Owner; owner != nil && !owner.Alive {
		r.take = TakeFree
	}
	c := Commit{Graph: &GraphRecord{Fingerprint: g.fingerprint, Name: g.name, Definition: g.canonical}}
	if err := r.commit(LeaseFree, []*Entry{entry}, nil, c); err != nil {
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrBusy) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("accept a graph for thread %s: %w", r.thread.ID, err)
	}
	return r.result(), nil
}

// missingIn says what the turn needs that the changed graph does not have.
func (r *run) missingIn(c *graphChange) (missing []string) {
	need := func(ok bool, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !ok && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	for name := range c.old("channels") {
		need(c.g.channels[name] != nil, "channel %s is gone", name)
	}
	base, has := r.base(), func(node string) bool { return c.g.nodes[node] != nil }
	for _, task := range base.Next {
		need(has(nodeOf(task)), "node %s, which is next, is gone", nodeOf(task))
	}
	for task, targets := range base.Payload.Routes {
		need(has(nodeOf(task)), "node %s, which waits for its gate, is gone", nodeOf(task))
		for _, to := range targets {
			need(to == End || has(nodeOf(to)), "node %s, which is next, is gone", nodeOf(to))
		}
	}
	for _, waits := range []map[string][]string{base.Payload.Arrivals, base.Payload.Debts} {
		for join, members := range waits {
			ok := has(join) && c.g.nodes[join].Barrier != nil
			need(ok, "join %s, which waits, is gone", join)
			for _, member := range members {
				need(!ok || slices.Contains(c.g.nodes[join].Barrier.WaitFor, member), "join %s does not wait for %s any more", join, member)
			}
		}
	}
	for join, arrived := range base.Payload.Arrivals {
		// It is an arrival that lets a join run, and there may be none any more.
		n := c.g.nodes[join]
		need(n == nil || n.Barrier == nil || len(arrived) < n.Barrier.need(), "join %s, which waits, waits for nobody any more", join)
	}
	for join, until := range base.Payload.Timers {
		// Its timer is in the log, and would never be due.
		n := c.g.nodes[join]
		need(n == nil || n.Barrier == nil || n.Barrier.Timeout > 0, "join %s, which waits until %s at most, has no timeout any more", join, until.UTC().Format(time.RFC3339))
	}
	for _, q := range r.asked() {
		node := q.question.AskingNode
		if q.void {
			continue
		}
		need(has(node), "node %s, which asked %s, is gone", node, q.question.ID())
		// What was asked about is what may run, and only where it was asked about.
		var list string
		switch q.question.Payload.Kind {
		case interrupt.Before:
			list = "interrupt_before"
		case interrupt.After:
			list = "interrupt_after"
		default:
			continue
		}
		need(!c.differs(list, node), "the gate of node %s was asked (%s), and is another now", node, q.question.ID())
		need(!c.differs("nodes", node), "the gate of node %s was asked (%s), and the node is another now", node, q.question.ID())
	}
	for ns := range r.children {
		// A visit goes on with its own graph, which must be what it was.
		_, task, _ := strings.Cut(strings.SplitN(ns, "@", 2)[0], ":")
		need(!c.differs("nodes", nodeOf(task)), "subgraph %s is in the middle of a visit, and has changed", nodeOf(task))
	}
	slices.Sort(missing)
	return missing
}

// graphChange compares a stored definition with a graph, part by part.
type graphChange struct {
	g           *Graph
	before, now map[string]map[string]any // part -> name -> definition
	lines       []string
}

// graphParts are the parts of a definition, and what one of each is called.
var graphParts = []struct{ key, what string }{
	{"channels", "channel"}, {"nodes", "node"}, {"edges", "edge"}, {"conditional_edges", "conditional edge from"},
	{"interrupt_before", "gate before"}, {"interrupt_after", "gate after"}, {"retry_policy", "retry policy"}, {"x-types", "node type"},
}

func newGraphChange(definition []byte, g *Graph) (*graphChange, error) {
	c := &graphChange{g: g}
	var err error
	if c.before, err = partsOf(definition); err != nil {
		return nil, err
	}
	if c.now, err = partsOf(g.canonical); err != nil {
		return nil, err
	}
	for _, part := range graphParts {
		before, now := c.before[part.key], c.now[part.key]
		for _, name := range sortedKeys(before) {
			is, stays := now[name]
			switch {
			case !stays:
				c.lines = append(c.lines, fmt.Sprintf("%s %s was removed", part.what, name))
			case !value.Equal(before[name], is):
				c.lines = append(c.lines, fmt.Sprintf("%s %s was changed%s", part.what, name, whatChanged(before[name], is)))
			}
		}
		for _, name := range sortedKeys(now) {
			if _, had := before[name]; !had {
				c.lines = append(c.lines, fmt.Sprintf("%s %s was added", part.what, name))
			}
		}
	}
	return c, nil
}

func (c *graphChange) old(part string) map[string]any { return c.before[part] }

// differs reports whether something of a part is not what it was.
func (c *graphChange) differs(part, name string) bool {
	before, had := c.before[part][name]
	now, has := c.now[part][name]
	return had != has || !value.Equal(before, now)
}

// partsOf takes a canonical definition apart: each part by the names in it.
func partsOf(definition []byte) (map[string]map[string]any, error) {
	v, err := value.Decode(definition)
	if err != nil {
		return nil, err
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its definition is %s and not an object", kindOf(v))
	}
	text := func(v any) string { s, _ := v.(string); return s }
	out := map[string]map[string]any{}
	for _, part := range graphParts {
		named := map[string]any{}
		switch v := doc[part.key].(type) {
		case map[string]any:
			if part.key == "retry_policy" {
				v = map[string]any{"of the graph": v}
			}
			named = v
		case []any:
			for _, item := range v {
				switch item := item.(type) {
				case string: // a gate
					named[item] = item
				case map[string]any:
					name := text(item["from"])
					switch part.key {
					case "edges":
						name += " -> " + text(item["to"])
					case "interrupt_before", "interrupt_after":
						name = text(item["node"])
					}
					named[name] = item
				}
			}
		}
		out[part.key] = named
	}
	return out, nil
}

// whatChanged names the keys that are different, with their values where those
// are short.
func whatChanged(before, now any) string {
	var parts []string
	for _, change := range Diff(State{"": before}, State{"": now}) {
		at := strings.TrimPrefix(strings.TrimPrefix(change.Pointer, "/"), "/")
		if at == "" {
			return ""
		}
		was, is := jsonText(change.Before), jsonText(change.After)
		switch {
		case change.Added:
			was = "nothing"
		case change.Removed:
			is = "nothing"
		}
		if len(was)+len(is) > 100 {
			parts = append(parts, at)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s from %s to %s", at, was, is))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
