package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// frontier is what is ready after a step, and what joins still wait for.
type frontier struct {
	ready    []string             // task ids, in task order
	arrivals map[string][]string  // join -> members that arrived
	debts    map[string][]string  // join -> members that come too late to count
	timers   map[string]time.Time // join -> when it runs with those who arrived
	rejected []string             // nodes whose gate was rejected in this turn
}

// led is where one finished task leads.
type led struct {
	task    string
	targets []string
}

// route evaluates where the finished tasks lead, over the merged state.
func (r *run) route(entry *Entry, before frontier, outcomes []*outcome) (node string, err error) {
	entry.Payload.Rejected = before.rejected
	gated := false
	routes := make([]led, 0, 8) // most steps have no more tasks, and then it is no work for the heap
	var sent map[string]int
	for _, o := range outcomes {
		entry.Payload.Notes = append(entry.Payload.Notes, o.task.notes...)
		if o.failure != nil {
			if entry.Payload.Failures == nil {
				entry.Payload.Failures = map[string]Failure{}
			}
			entry.Payload.Failures[o.task.id] = *o.failure
		}
		entry.Payload.Left = append(entry.Payload.Left, o.output.GotoParent...)
		if o.refused != "" {
			// A gate in the subgraph was rejected and nothing was left to run
			// there: so the branch ends here, and no gate is asked behind it.
			entry.Payload.Refused = o.refused
			entry.Payload.Rejected = append(slices.Clone(entry.Payload.Rejected), o.task.node.name)
			continue
		}
		targets, err := r.leads(o)
		if err != nil {
			return o.task.node.name, err
		}
		targets = slices.Clip(targets) // sends go into a list of their own
		for _, send := range o.output.Sends {
			id := send.Node + "[" + strconv.Itoa(sent[send.Node]) + "]"
			if sent == nil {
				sent = map[string]int{}
			}
			sent[send.Node]++
			if entry.Payload.Sends == nil {
				entry.Payload.Sends = map[string]Values{}
			}
			entry.Payload.Sends[id] = send.Input
			targets = append(targets, id)
		}
		if n := len(entry.Payload.Sends); n > r.graph.limits.Sends {
			return o.task.node.name, r.graph.tooManySends("the tasks of this step together send", n)
		}
		routes = append(routes, led{o.task.id, targets})
		o.task.noteRan(&entry.Payload)
		if _, ok := r.graph.after[o.task.node.name]; ok {
			gated = true
		}
	}
	if gated {
		// What becomes ready is known when the gates are decided. Next says what
		// would, so that a reader sees where the turn stands.
		entry.Payload.Routes = make(map[string][]string, len(routes))
		for _, l := range routes {
			entry.Payload.Routes[l.task] = l.targets
		}
		entry.Payload.Arrivals, entry.Payload.Debts, entry.Payload.Timers = before.arrivals, before.debts, before.timers
		entry.Next = r.graph.overdue(r.graph.timed(before, r.graph.advance(before, routes), entry.At), entry.At).ready
		return "", nil
	}
	after := r.graph.overdue(r.graph.timed(before, r.graph.advance(before, routes), entry.At), entry.At)
	entry.Next, entry.Payload.Arrivals, entry.Payload.Debts, entry.Payload.Timers = after.ready, after.arrivals, after.debts, after.timers
	return "", nil
}

// advance computes what is ready from where the finished tasks lead. An edge
// into a join does not trigger it: it counts as the arrival of the task's node.
func (g *Graph) advance(before frontier, routes []led) frontier {
	after := frontier{rejected: before.rejected}
	if !g.joins && len(routes) == 1 && len(routes[0].targets) == 1 {
		if routes[0].targets[0] != End {
			after.ready = routes[0].targets
		}
		return after
	}
	if g.joins {
		after.arrivals, after.debts = cloneLists(before.arrivals), cloneLists(before.debts)
	}
	targets := 0
	for _, l := range routes {
		targets += len(l.targets)
	}
	ready := make([]string, 0, targets)
	var touched []string
	for _, l := range routes {
		member := nodeOf(l.task)
		for _, to := range l.targets {
			if to == End {
				continue
			}
			if !g.joins || !g.nodes[to].awaits(member) {
				ready = append(ready, to)
				continue
			}
			if !slices.Contains(touched, to) {
				touched = append(touched, to)
			}
			if !slices.Contains(after.arrivals[to], member) {
				after.arrivals[to] = append(after.arrivals[to], member)
			}
		}
	}
	for _, join := range touched {
		if g.fire(join, &after, before) {
			ready = append(ready, join)
		}
	}
	after.ready = taskOrder(ready)
	return after
}

// fire settles debts and reports whether a join has enough arrivals to run.
func (g *Graph) fire(join string, after *frontier, before frontier) (ready bool) {
	barrier := g.nodes[join].Barrier
	arrived := after.arrivals[join]
	for _, late := range before.debts[join] {
		if at := slices.Index(arrived, late); at >= 0 {
			arrived = slices.Delete(slices.Clone(arrived), at, at+1)
			owed := after.debts[join]
			after.debts[join] = slices.DeleteFunc(slices.Clone(owed), func(m string) bool { return m == late })
		}
	}
	if ready = len(arrived) >= barrier.need(); ready {
		g.owe(join, after, arrived)
		arrived = nil
	}
	sort.Strings(arrived)
	after.arrivals[join] = arrived
	if len(arrived) == 0 {
		delete(after.arrivals, join)
	}
	if len(after.debts[join]) == 0 {
		delete(after.debts, join)
	}
	return ready
}

// need is how many have to arrive.
func (b *Barrier) need() int {
	if b.Min <= 0 {
		return len(b.WaitFor)
	}
	return b.Min
}

// leads is where the edges of a node lead.
func (n *node) leads() []string {
	if n.route == nil {
		return n.plain
	}
	var out []string
	for _, to := range n.route.Routes {
		out = append(out, to)
	}
	return out
}

func cloneLists(m map[string][]string) map[string][]string {
	out := make(map[string][]string, len(m))
	for k, v := range m {
		out[k] = slices.Clone(v)
	}
	return out
}

// taskOrder sorts task ids, each once, in place.
func taskOrder(ids []string) []string {
	slices.SortFunc(ids, compareTasks)
	return slices.Compact(ids)
}

// compareTasks is the order of tasks: by the bytes of the node's name, the
// node's plain task first, then its sends in the order in which they were sent.
func compareTasks(a, b string) int {
	nodeA, indexA := splitTask(a)
	nodeB, indexB := splitTask(b)
	return cmp.Or(strings.Compare(nodeA, nodeB), cmp.Compare(indexA, indexB), strings.Compare(a, b))
}

// splitTask takes a task id apart; the index of a plain task is -1.
func splitTask(id string) (node string, index int) {
	node, rest, sent := strings.Cut(id, "[")
	if !sent {
		return node, -1
	}
	index, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil {
		return node, -1
	}
	return node, index
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
	if e.Routes == nil && len(keys) == 1 && (keys[0] == End || g.nodes[keys[0]] != nil) {
		return keys, nil
	}
	targets = make([]string, 0, len(keys))
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
