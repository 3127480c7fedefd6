package engine

import (
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
	routes := make([]led, 0, len(outcomes))
	var sent map[string]int
	if n := outcomes[0].task.node; len(outcomes) == 1 && outcomes[0].task.id == n.name {
		entry.Tasks = n.alone
	}
	for _, o := range outcomes {
		if len(entry.Tasks) < len(outcomes) {
			entry.Tasks = append(entry.Tasks, o.task.id)
		}
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
		for _, send := range o.output.Sends {
			id := fmt.Sprintf("%s[%d]", send.Node, sent[send.Node])
			if sent == nil {
				sent = map[string]int{}
			}
			sent[send.Node]++
			if entry.Payload.Sends == nil {
				entry.Payload.Sends = map[string]Values{}
			}
			entry.Payload.Sends[id] = send.Input
			targets = append(targets[:len(targets):len(targets)], id)
		}
		if n := len(entry.Payload.Sends); n > MaxSends {
			return o.task.node.name, fmt.Errorf("the tasks of this step send %d tasks together; at most %d are possible", n, MaxSends)
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
	if !g.joins && len(routes) == 1 && len(routes[0].targets) == 1 {
		if routes[0].targets[0] == End {
			return frontier{rejected: before.rejected}
		}
		return frontier{ready: routes[0].targets, rejected: before.rejected}
	}
	after := frontier{arrivals: cloneLists(before.arrivals), debts: cloneLists(before.debts), rejected: before.rejected}
	ready := map[string]bool{}
	touched := map[string]bool{}
	for _, l := range routes {
		member := nodeOf(l.task)
		for _, to := range l.targets {
			n := g.nodes[to]
			if n == nil || n.Barrier == nil || !slices.Contains(n.Barrier.WaitFor, member) {
				if to != End {
					ready[to] = true
				}
				continue
			}
			touched[to] = true
			if !slices.Contains(after.arrivals[to], member) {
				after.arrivals[to] = append(after.arrivals[to], member)
			}
		}
	}
	for join := range touched {
		g.fire(join, &after, before, ready)
	}
	after.ready = taskOrder(ready)
	return after
}

// fire settles debts and looks whether a join has enough arrivals to run.
func (g *Graph) fire(join string, after *frontier, before frontier, ready map[string]bool) {
	barrier := g.nodes[join].Barrier
	arrived := after.arrivals[join]
	for _, late := range before.debts[join] {
		if at := slices.Index(arrived, late); at >= 0 {
			arrived = slices.Delete(slices.Clone(arrived), at, at+1)
			owed := after.debts[join]
			after.debts[join] = slices.DeleteFunc(slices.Clone(owed), func(m string) bool { return m == late })
		}
	}
	need := barrier.Min
	if need <= 0 {
		need = len(barrier.WaitFor)
	}
	if len(arrived) >= need {
		ready[join] = true
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

// taskOrder sorts task ids: by the bytes of the node's name, the node's plain
// task first, then its sends in the order in which they were sent.
func taskOrder(ids map[string]bool) []string {
	out := sortedKeys(ids)
	sort.SliceStable(out, func(i, j int) bool { return taskLess(out[i], out[j]) })
	return out
}

func taskLess(a, b string) bool {
	nodeA, indexA := splitTask(a)
	nodeB, indexB := splitTask(b)
	if nodeA != nodeB {
		return nodeA < nodeB
	}
	return indexA < indexB
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
