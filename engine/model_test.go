package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// The model of the engine, as the design has it and without a store: what
// every action must lead to. property_test.go compares.

// graphSpec is a random graph, of which both a Definition and the model are made.
type graphSpec struct {
	nodes   []*nodeSpec
	by      map[string]*nodeSpec
	entries []string
}

type nodeSpec struct {
	name          string
	plain         []string
	loop, exit    string // a conditional edge: to loop while its counter is below loops, then to exit
	loops         int64
	waitFor       []string
	min           int
	before, after bool
	rejects       map[interrupt.Kind]string // on_reject of the two gates
	asks, fails   int
	effect, guard engine.OnCrash
	sends         int
	sendTo        string
	sub           *graphSpec
}

func (n *nodeSpec) leads() []string {
	if n.loop != "" {
		return []string{n.loop, n.exit}
	}
	return n.plain
}

// asking is a question of the model.
type asking struct {
	kind   interrupt.Kind
	task   string
	text   string // of a dynamic one; "doubt KEY"
	intent int64  // of a doubt
	answer *interrupt.Answer
}

func (q *asking) key() string { return fmt.Sprint(q.kind, " ", q.task, " ", q.text) }

type lead struct {
	task string
	to   []string // nil: the branch has ended
}

// place is where a graph stands: the thread's own, or a visit of a subgraph.
type place struct {
	spec     *graphSpec
	path     string
	base     int // how often the base has moved
	log      []any
	own      []any // what a subgraph wrote to log by itself
	counts   map[string]int64
	ready    []string
	routes   []lead // led behind gates that are not decided
	arrivals map[string][]string
	debts    map[string][]string
	inputs   map[string]int64 // of sends
	rejected []string
	refused  bool

	// Of the base.
	asked   []*asking
	done    map[string]bool // tasks whose result is stored
	effects map[string]bool // tasks whose effect is stored
	intents map[string]int64
	kids    map[string]*place
}

func newPlace(spec *graphSpec, path string, log []any) *place {
	p := &place{spec: spec, path: path, base: -1, log: slices.Clone(log), counts: map[string]int64{}}
	p.moves(slices.Clone(spec.entries))
	return p
}

// moves makes a new base.
func (p *place) moves(ready []string) {
	p.base++
	p.ready, p.asked = ready, nil
	p.done, p.effects, p.intents, p.kids = map[string]bool{}, map[string]bool{}, map[string]int64{}, map[string]*place{}
}

func (p *place) clone() *place {
	c := *p
	c.log, c.own, c.counts = slices.Clone(p.log), slices.Clone(p.own), maps.Clone(p.counts)
	c.done, c.effects, c.intents = maps.Clone(p.done), maps.Clone(p.effects), maps.Clone(p.intents)
	c.asked = nil
	for _, q := range p.asked {
		copied := *q
		c.asked = append(c.asked, &copied)
	}
	c.kids = map[string]*place{}
	for task, kid := range p.kids {
		c.kids[task] = kid.clone()
	}
	return &c
}

func (p *place) node(task string) *nodeSpec {
	name, _, _ := strings.Cut(task, "[")
	return p.spec.by[name]
}

func (p *place) find(kind interrupt.Kind, task, text string) *asking {
	for _, q := range p.asked {
		if q.kind == kind && q.task == task && q.text == text {
			return q
		}
	}
	return nil
}

// open are the questions without an answer, of subgraphs too.
func (p *place) open() (out []*asking) {
	for _, q := range p.asked {
		if q.answer == nil {
			out = append(out, q)
		}
	}
	for _, kid := range p.kids {
		out = append(out, kid.open()...)
	}
	return out
}

// ahead is what comes next: gates to ask, or tasks to run.
type ahead struct {
	tasks            []string
	ask              []*asking
	arrivals, debts  map[string][]string
	refused, starved bool
	rejected         []string
}

func (p *place) plan() ahead {
	a := ahead{arrivals: p.arrivals, debts: p.debts, refused: p.refused, rejected: slices.Clone(p.rejected)}
	ready := p.ready
	decide := func(kind interrupt.Kind, gated bool, task string) (to []string, decided, approved bool) {
		if !gated {
			return nil, true, true
		}
		q := p.find(kind, task, "")
		if q == nil {
			a.ask = append(a.ask, &asking{kind: kind, task: task})
			return nil, false, false
		}
		if q.answer.Choice == interrupt.Approve {
			return nil, true, true
		}
		n := p.node(task)
		a.refused, a.rejected = true, append(a.rejected, n.name)
		if to := n.rejects[kind]; to != "" {
			return []string{to}, true, false
		}
		return nil, true, false
	}
	if p.routes != nil {
		var leads []lead
		for _, l := range p.routes {
			to, decided, approved := decide(interrupt.After, p.node(l.task).after && l.to != nil, l.task)
			if approved {
				to = l.to
			}
			if decided {
				leads = append(leads, lead{l.task, to})
			}
		}
		if len(a.ask) > 0 {
			return a
		}
		ready, a.arrivals, a.debts = p.spec.advance(a.arrivals, a.debts, leads)
	}
	seen := map[string]bool{}
	for queue := slices.Clone(ready); len(queue) > 0; queue = queue[1:] {
		task := queue[0]
		if seen[task] {
			continue
		}
		seen[task] = true
		to, decided, approved := decide(interrupt.Before, p.node(task).before, task)
		switch {
		case approved:
			a.tasks = append(a.tasks, task)
		case decided && to != nil && !slices.Contains(ready, to[0]):
			queue = append(queue, to[0])
		}
	}
	if len(a.ask) > 0 {
		a.tasks = nil // the whole step waits
	}
	sortTasks(a.tasks)
	a.starved = len(a.arrivals) > 0
	return a
}

// ends is how a graph ends that has nothing left to run.
func (p *place) ends(a ahead) engine.Status {
	if a.refused {
		return engine.Rejected
	}
	for join, arrived := range a.arrivals {
		for _, member := range p.spec.by[join].waitFor {
			if slices.Contains(arrived, member) {
				continue
			}
			for _, from := range a.rejected {
				if p.spec.reaches(from, member, map[string]bool{}) {
					return engine.Rejected
				}
			}
		}
	}
	if a.starved {
		return engine.Failed
	}
	return engine.Done
}

func (g *graphSpec) reaches(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] || g.by[from] == nil {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(g.by[from].leads(), func(next string) bool { return g.reaches(next, to, seen) })
}

func (g *graphSpec) advance(arrivals, debts map[string][]string, leads []lead) (ready []string, a, d map[string][]string) {
	a, d = copyLists(arrivals), copyLists(debts)
	touched := map[string]bool{}
	for _, l := range leads {
		member, _, _ := strings.Cut(l.task, "[")
		for _, to := range l.to {
			n := g.by[to]
			switch {
			case to == engine.End:
			case n != nil && slices.Contains(n.waitFor, member):
				touched[to] = true
				if !slices.Contains(a[to], member) {
					a[to] = append(a[to], member)
				}
			case !slices.Contains(ready, to):
				ready = append(ready, to)
			}
		}
	}
	for join := range touched {
		n := g.by[join]
		for _, late := range slices.Clone(d[join]) {
			if slices.Contains(a[join], late) { // it came too late to count
				a[join], d[join] = without(a[join], late), without(d[join], late)
			}
		}
		need := n.min
		if need == 0 {
			need = len(n.waitFor)
		}
		if len(a[join]) >= need {
			ready = append(ready, join)
			for _, member := range n.waitFor {
				if !slices.Contains(a[join], member) && !slices.Contains(d[join], member) {
					d[join] = append(d[join], member)
				}
			}
			a[join] = nil
		}
		if len(a[join]) == 0 {
			delete(a, join)
		}
		if len(d[join]) == 0 {
			delete(d, join)
		}
	}
	sortTasks(ready)
	return ready, a, d
}

func copyLists(in map[string][]string) map[string][]string {
	out := map[string][]string{}
	for k, v := range in {
		out[k] = slices.Clone(v)
	}
	return out
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == s })
}

func sortTasks(tasks []string) {
	split := func(task string) (string, int) {
		name, index, sent := strings.Cut(strings.TrimSuffix(task, "]"), "[")
		if !sent {
			return name, -1
		}
		i, _ := strconv.Atoi(index)
		return name, i
	}
	sort.Slice(tasks, func(i, j int) bool {
		a, x := split(tasks[i])
		b, y := split(tasks[j])
		return a < b || a == b && x < y
	})
}
