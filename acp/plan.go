package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// plan shows a turn as a list of the graph's nodes in the order in which they
// run. A graph with loops has no such order, and tasks that are sent are not known
// before: such a turn has no plan. Nor has a graph of one node, which its tool
// call shows better. A nil plan is none.
type plan struct {
	nodes  []string
	status map[string]string
	off    bool
	told   string
}

// The statuses of an entry of a plan.
const (
	planPending    = "pending"
	planInProgress = "in_progress"
	planCompleted  = "completed"
)

// newPlan makes the plan of a graph, nil where there is none.
func newPlan(graph *engine.Graph) *plan {
	nodes, ok := topological(graph)
	if !ok || len(nodes) < 2 {
		return nil
	}
	p := &plan{nodes: nodes}
	p.reset()
	return p
}

// topological orders the nodes so that each comes behind those that lead to it,
// by name where that says nothing. Not ok: there is a loop, or a node leads where
// only its code knows.
func topological(graph *engine.Graph) (order []string, ok bool) {
	var doc struct {
		Edges []struct {
			From, To string
		} `json:"edges"`
		Conditional []struct {
			From   string
			Routes map[string]string
		} `json:"conditional_edges"`
		Nodes map[string]struct {
			OnError string `json:"on_error"`
		} `json:"nodes"`
	}
	if json.Unmarshal(graph.Canonical(), &doc) != nil {
		return nil, false
	}
	to := map[string]map[string]bool{}
	into := map[string]int{}
	add := func(from, target string) {
		if from == engine.Start || target == engine.End || target == "" || to[from][target] {
			return
		}
		if to[from] == nil {
			to[from] = map[string]bool{}
		}
		to[from][target] = true
		into[target]++
	}
	for _, e := range doc.Edges {
		add(e.From, e.To)
	}
	for _, e := range doc.Conditional {
		if e.Routes == nil {
			return nil, false
		}
		for _, target := range e.Routes {
			add(e.From, target)
		}
	}
	for name, n := range doc.Nodes {
		add(name, n.OnError)
	}
	ready := slices.DeleteFunc(graph.Nodes(), func(name string) bool { return into[name] > 0 })
	for len(ready) > 0 {
		name := ready[0]
		ready = ready[1:]
		order = append(order, name)
		for target := range to[name] {
			if into[target]--; into[target] == 0 {
				at, _ := slices.BinarySearch(ready, target)
				ready = slices.Insert(ready, at, target)
			}
		}
	}
	return order, len(order) == len(graph.Nodes())
}

func (p *plan) reset() {
	if p == nil {
		return
	}
	p.status, p.off, p.told = map[string]string{}, false, ""
}

func (p *plan) started(ev engine.Event) {
	if p == nil || ev.Namespace != "" {
		return
	}
	p.note(ev.Task, planInProgress)
}

func (p *plan) step(e *engine.Entry) {
	if p == nil || e.Namespace != "" {
		return
	}
	for _, task := range e.Tasks {
		p.note(task, planCompleted)
	}
}

func (p *plan) note(task, status string) {
	if strings.ContainsRune(task, '[') || !slices.Contains(p.nodes, task) {
		p.off = true // sent, or of another graph
		return
	}
	p.status[task] = status
}

// update gives the plan as it is to be shown, if it has changed.
func (p *plan) update() (Plan, bool) {
	if p == nil || p.off {
		return Plan{}, false
	}
	var u Plan
	state := ""
	for _, node := range p.nodes {
		status := p.status[node]
		if status == "" {
			status = planPending
		}
		state += status + " "
		u.Entries = append(u.Entries, PlanEntry{Content: node, Priority: "medium", Status: status})
	}
	if state == p.told {
		return Plan{}, false
	}
	p.told = state
	return u, true
}
