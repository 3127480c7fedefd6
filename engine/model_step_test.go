package engine_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// model is one thread, and what its nodes did to the world.
type model struct {
	at     *place
	status engine.Status
	turn   int64
	serial bool // one task at a time: those behind one that failed do not start
	// The world: nobody takes this back.
	runs, did map[string]int // by task
	fails     map[string]int // by node: failures that are left

	rows   int               // of the log, without a subgraph's own steps
	trace  map[int]*model    // after every commit of this action
	visits map[string]*place // a subgraph at each of its bases in this action
	bases  []*place          // the thread's own bases of this action, in order
}

func (m *model) clone() *model {
	c := *m
	c.trace, c.visits, c.bases = nil, nil, nil
	c.runs, c.did, c.fails = maps.Clone(m.runs), maps.Clone(m.did), maps.Clone(m.fails)
	if m.at != nil {
		c.at = m.at.clone()
	}
	return &c
}

func (m *model) begin() {
	m.rows, m.trace, m.visits, m.bases = 0, map[int]*model{}, map[string]*place{}, nil
	m.commit(0)
}

// commit is a transaction of so many rows.
func (m *model) commit(rows int) {
	m.rows += rows
	m.trace[m.rows] = m.clone()
}

// settle puts the gates behind a new base and says how the thread then is.
func (m *model) settle() {
	m.bases = append(m.bases, m.at.clone())
	a := m.at.plan()
	m.status = engine.Running
	switch {
	case len(a.ask) > 0:
		m.at.asked, m.status = append(m.at.asked, a.ask...), engine.Paused
	case len(a.tasks) == 0 && !a.refused && !a.starved:
		m.status = engine.Done
	}
	m.commit(1 + len(a.ask))
}

// input begins a turn.
func (m *model) input(spec *graphSpec, text string) {
	if m.at == nil {
		m.at = newPlace(spec, "", nil)
	} else {
		m.at.arrivals, m.at.debts, m.at.inputs, m.at.routes = nil, nil, nil, nil
		m.at.rejected, m.at.refused = nil, false
		m.at.moves(slices.Clone(spec.entries))
	}
	m.at.log = append(m.at.log, text)
	m.turn++
	m.settle()
}

// move runs the turn until it rests.
func (m *model) move() {
	for m.status == engine.Running {
		a := m.at.plan()
		if len(a.ask) > 0 {
			m.at.asked, m.status = append(m.at.asked, a.ask...), engine.Paused
			m.commit(len(a.ask))
			return
		}
		if len(a.tasks) == 0 {
			m.status = m.at.ends(a)
			m.commit(1)
			return
		}
		failed, asks := m.step(m.at, a)
		switch {
		case failed:
			m.status = engine.Failed
			m.commit(1)
		case len(asks) > 0:
			for p, list := range asks {
				p.asked = append(p.asked, list...)
			}
			m.status = engine.Paused
			n := 0
			for _, list := range asks {
				n += len(list)
			}
			m.commit(n)
		default:
			m.settle()
		}
	}
}

// step runs the tasks of a step and, if all finish, merges what they did.
func (m *model) step(p *place, a ahead) (failed bool, asks map[*place][]*asking) {
	asks = map[*place][]*asking{}
	refused := map[string]bool{}
	for _, task := range a.tasks {
		n := p.node(task)
		if p.done[task] {
			if kid := p.kids[task]; kid != nil && kid.ends(kid.plan()) == engine.Rejected {
				refused[task] = true
			}
			continue
		}
		var how engine.Status
		if n.sub != nil {
			how = m.visit(p, task, n, asks)
		} else {
			how = m.work(p, task, n, asks)
		}
		if how == engine.Failed && m.serial {
			return true, nil
		}
		switch how {
		case engine.Failed:
			failed = true
		case engine.Rejected:
			refused[task], p.done[task] = true, true
		case engine.Done:
			p.done[task] = true
		}
	}
	if failed {
		return true, nil
	}
	if len(asks) > 0 {
		return false, asks
	}
	for _, task := range a.tasks {
		n := p.node(task)
		if n.sub != nil {
			p.log, p.own = append(p.log, p.kids[task].own...), append(p.own, p.kids[task].own...)
			continue
		}
		if text, wrote := p.text(task, n); wrote {
			p.log, p.own = append(p.log, text), append(p.own, text)
			p.counts[n.name]++
		}
	}
	var leads []lead
	sent, inputs, gated := map[string]int{}, map[string]int64{}, false
	p.rejected, p.refused = a.rejected, len(refused) > 0
	for _, task := range a.tasks {
		n := p.node(task)
		if refused[task] {
			p.rejected = append(p.rejected, n.name)
			leads = append(leads, lead{task, nil})
			continue
		}
		gated = gated || n.after
		to := p.routesOf(n)
		if _, wrote := p.text(task, n); wrote {
			for i := range n.sends {
				id := fmt.Sprintf("%s[%d]", n.sendTo, sent[n.sendTo])
				sent[n.sendTo]++
				inputs[id] = int64(i)
				to = append(slices.Clone(to), id)
			}
		}
		leads = append(leads, lead{task, to})
	}
	ready, arrivals, debts := p.spec.advance(a.arrivals, a.debts, leads)
	p.routes = nil
	p.arrivals, p.debts = arrivals, debts
	if gated {
		p.routes, p.arrivals, p.debts = leads, a.arrivals, a.debts
	}
	p.inputs = inputs
	p.moves(ready)
	return false, nil
}

// routesOf is where the edges of a node lead.
func (p *place) routesOf(n *nodeSpec) []string {
	switch {
	case n.loop != "" && p.counts[n.name] < n.loops:
		return []string{n.loop}
	case n.loop != "":
		return []string{n.exit}
	case len(n.plain) == 0:
		return []string{engine.End}
	}
	return n.plain
}

// text is what a finished leaf writes; one that a person counted as done wrote
// nothing.
func (p *place) text(task string, n *nodeSpec) (string, bool) {
	if q := p.doubt(task, "doubt "); q != nil && q.answer != nil && q.answer.Choice == interrupt.DoneIt {
		return "", false
	}
	text := n.name
	if x, sent := p.inputs[task]; sent {
		text += fmt.Sprint(" x", x)
	}
	for i := range n.asks {
		if q := p.find(interrupt.Dynamic, task, fmt.Sprint(n.name, "?", i)); q != nil && q.answer != nil {
			text += fmt.Sprint(" ", q.answer.Value)
		}
	}
	return text, true
}

// doubt is the newest doubt about something of a task.
func (p *place) doubt(task, text string) *asking {
	for _, q := range slices.Backward(p.asked) {
		if q.task == task && q.text == text {
			return q
		}
	}
	return nil
}

// sure reports whether work may be done: nothing of it is in doubt, or somebody
// decided. Else it gives how the task ends, Running for one that asks.
func (m *model) sure(p *place, task, key string, policy engine.OnCrash, asks map[*place][]*asking) (goOn, isDone bool, how engine.Status) {
	intent := p.intents[task+" "+key]
	if intent == 0 || policy == "" || policy == engine.CrashRetry {
		return true, false, ""
	}
	if policy == engine.CrashFail {
		delete(p.intents, task+" "+key)
		return false, false, engine.Failed
	}
	q := p.doubt(task, "doubt "+key)
	if q == nil || q.intent != intent {
		asks[p] = append(asks[p], &asking{kind: interrupt.Dynamic, task: task, text: "doubt " + key, intent: intent})
		return false, false, engine.Running
	}
	switch q.answer.Choice {
	case interrupt.RunAgain:
		delete(p.intents, task+" "+key)
		return true, false, ""
	case interrupt.DoneIt:
		return false, true, ""
	}
	delete(p.intents, task+" "+key)
	return false, false, engine.Failed
}

// work is a pass of a leaf, from its top.
func (m *model) work(p *place, task string, n *nodeSpec, asks map[*place][]*asking) engine.Status {
	goOn, isDone, how := m.sure(p, task, "", n.guard, asks)
	if isDone {
		return engine.Done
	}
	if !goOn {
		return how
	}
	m.runs[task]++
	for i := range max(n.asks, 1) {
		if i < n.asks {
			q := p.find(interrupt.Dynamic, task, fmt.Sprint(n.name, "?", i))
			if q == nil {
				asks[p] = append(asks[p], &asking{kind: interrupt.Dynamic, task: task, text: fmt.Sprint(n.name, "?", i)})
				return engine.Running
			}
		}
		if i == 0 && n.effect != "" && !p.effects[task] {
			goOn, isDone, how := m.sure(p, task, "e", n.effect, asks)
			if !goOn && !isDone {
				return how
			}
			if goOn {
				m.did[task]++
			}
			p.effects[task] = true
		}
	}
	if m.fails[n.name] > 0 {
		m.fails[n.name]--
		return engine.Failed
	}
	return engine.Done
}

// visit is a subgraph, gone on with until it ends or asks.
func (m *model) visit(p *place, task string, n *nodeSpec, asks map[*place][]*asking) engine.Status {
	kid := p.kids[task]
	if kid == nil {
		kid = newPlace(n.sub, fmt.Sprintf("%s/%d:%s", p.path, p.base, task), p.log)
		p.kids[task] = kid
	}
	for {
		m.visits[fmt.Sprintf("%s#%d", kid.path, kid.base)] = kid.clone()
		a := kid.plan()
		if len(a.ask) > 0 {
			asks[kid] = a.ask
			return engine.Running
		}
		if len(a.tasks) == 0 {
			return kid.ends(a)
		}
		failed, more := m.step(kid, a)
		if failed {
			return engine.Failed
		}
		if len(more) > 0 {
			maps.Copy(asks, more)
			return engine.Running
		}
	}
}

// update edits the state by hand, as the output of a node if one is named.
func (m *model) update(text, node string) {
	p := m.at
	p.stands(slices.DeleteFunc(slices.Clone(p.asked), func(q *asking) bool { return q.answer == nil }))
	p.log = append(p.log, text)
	ready := p.ready
	next := len(ready) > 0
	if node != "" {
		n := p.spec.by[node]
		leads := []lead{{node, p.routesOf(n)}}
		var arrivals, debts map[string][]string
		ready, arrivals, debts = p.spec.advance(p.arrivals, p.debts, leads)
		next = len(ready) > 0
		p.routes, p.inputs = nil, nil
		if n.after {
			p.routes = leads
		} else {
			p.arrivals, p.debts = arrivals, debts
		}
	}
	p.moves(ready)
	if m.status.Over() && (node == "" || !next) {
		m.bases = append(m.bases, p.clone())
		m.commit(1)
		return
	}
	m.settle()
}

// stands decides the gates behind a base, if these answers do.
func (p *place) stands(asked []*asking) {
	p.asked = asked
	if p.routes == nil {
		return
	}
	var leads []lead
	rejected, refused := slices.Clone(p.rejected), p.refused
	for _, l := range p.routes {
		n, to := p.node(l.task), l.to
		if n.after && to != nil {
			q := p.find(interrupt.After, l.task, "")
			if q == nil {
				return
			}
			if q.answer.Choice != interrupt.Approve {
				refused, rejected, to = true, append(rejected, n.name), nil
				if other := n.rejects[interrupt.After]; other != "" {
					to = []string{other}
				}
			}
		}
		leads = append(leads, lead{l.task, to})
	}
	p.ready, p.arrivals, p.debts = p.spec.advance(p.arrivals, p.debts, leads)
	p.routes, p.rejected, p.refused = nil, rejected, refused
}

// fork goes on from a base, however the turn ended there.
func (m *model) fork(from *place) {
	m.at = from.clone()
	m.at.stands(nil)
	m.at.moves(m.at.ready)
	m.settle()
}

// wouldBe is what would be ready if every gate were approved.
func (p *place) wouldBe() []string {
	if p.routes == nil {
		return p.ready
	}
	ready, _, _ := p.spec.advance(p.arrivals, p.debts, p.routes)
	return ready
}
