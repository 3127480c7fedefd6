package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// plan is what comes next, computed from the log alone: the same base and the
// same questions and answers give the same plan in every process.
type plan struct {
	frontier                              // what the base leads to
	tasks    []string                     // to run now, in task order
	ask      []*interrupt.Question        // gates that were not asked yet
	gates    map[string]*interrupt.Answer // what the gate of a task was told
	refused  bool                         // a gate was rejected on this base
	why      string                       // how, for the end of the turn
	err      error                        // a gate cannot be shown
	task     string                       // whose
}

// nodeOf gives the node of a task id: "worker" of "worker[3]".
func nodeOf(task string) string {
	node, _, _ := strings.Cut(task, "[")
	return node
}

// plan decides in this order: questions that are open keep everything waiting;
// gates behind the nodes that ran; gates in front of the tasks that are ready;
// and what no gate holds back is run. A gate in front is asked only when it is
// certain that its node is ready, so after the gates behind were approved.
func (r *run) plan(base *Entry, known []asked) plan {
	var p plan
	if base.Payload.Refused != "" {
		p.refused, p.why = true, base.Payload.Refused
	}
	p.frontier = r.afterGates(base, known, &p)
	if len(p.ask) > 0 || p.err != nil {
		return p
	}
	if len(r.graph.before) == 0 {
		p.tasks = p.ready
	} else {
		r.beforeGates(base, known, &p)
		slices.SortStableFunc(p.tasks, compareTasks)
	}
	if len(p.timers) > 0 && len(p.tasks) == 0 && len(p.ask) == 0 && p.err == nil {
		var q *interrupt.Question
		if q, p.err = r.joinTimer(base, p.frontier); p.err == nil {
			p.ask = []*interrupt.Question{q}
		}
	}
	return p
}

// afterGates gives what is ready once the gates behind the nodes of the base
// are decided.
func (r *run) afterGates(base *Entry, known []asked, p *plan) frontier {
	before := frontier{
		ready: base.Next, arrivals: base.Payload.Arrivals, debts: base.Payload.Debts,
		timers: base.Payload.Timers, rejected: base.Payload.Rejected,
	}
	at := r.moment(base)
	if base.Payload.Routes != nil {
		before.ready = nil // what the routes lead to is computed anew
	}
	before = r.graph.overdue(before, at)
	if base.Payload.Routes == nil {
		return before
	}
	var routes []led
	arrived := base.At // behind a gate: when it was approved
	for _, task := range base.Tasks {
		gate, gated := r.graph.after[nodeOf(task)]
		to, goesOn := base.Payload.Routes[task]
		if !goesOn {
			continue // refused inside
		}
		if gated {
			q := findGate(known, interrupt.After, task)
			switch {
			case q == nil:
				p.ask = append(p.ask, r.gateQuestion(interrupt.After, gate, task))
				continue
			case q.answer.At.After(arrived):
				arrived = q.answer.At
			}
			switch {
			case q.answer.Choice != interrupt.Approve:
				p.reject(q, "after", task)
				to = nil
				if gate.OnReject != "" && gate.OnReject != End {
					to = []string{gate.OnReject}
					p.told(gate.OnReject, q.answer)
				}
			default:
				for _, next := range to {
					p.told(next, q.answer)
				}
			}
		}
		routes = append(routes, led{task, to})
	}
	for _, q := range p.ask {
		if err := q.Seal(base.Seq); err != nil {
			p.err, p.task = err, q.Task
		}
	}
	after := r.graph.overdue(r.graph.timed(before, r.graph.advance(before, routes), arrived), at)
	after.ready = union(before.ready, after.ready)
	after.rejected = append(slices.Clone(after.rejected), p.frontier.rejected...)
	return after
}

// beforeGates sorts the ready tasks into those to ask about and those to run.
// A rejected one is replaced by its on_reject node, which may have a gate too.
func (r *run) beforeGates(base *Entry, known []asked, p *plan) {
	seen := map[string]bool{}
	for _, task := range p.ready {
		seen[task] = true
	}
	queue := slices.Clone(p.ready)
	for len(queue) > 0 {
		task := queue[0]
		queue = queue[1:]
		gate, gated := r.graph.before[nodeOf(task)]
		if !gated {
			p.tasks = append(p.tasks, task)
			continue
		}
		q := findGate(known, interrupt.Before, task)
		switch {
		case q == nil:
			question := r.gateQuestion(interrupt.Before, gate, task)
			shows, err := r.resolve(task, base, p.gates[task])
			if err == nil {
				question.Shows = shows
				err = question.Seal(base.Seq)
			}
			if err != nil {
				p.err, p.task = fmt.Errorf("its gate cannot be asked: %w", err), task
				return
			}
			p.ask = append(p.ask, question)
		case q.answer.Choice == interrupt.Approve:
			p.told(task, q.answer)
			p.tasks = append(p.tasks, task)
		default:
			p.reject(q, "before", task)
			if gate.OnReject == "" {
				continue
			}
			// Where that is a join, the branch arrives there and runs it only if
			// it is the last.
			after := r.graph.timed(p.frontier, r.graph.advance(p.frontier, []led{{task, []string{gate.OnReject}}}), q.answer.At)
			after = r.graph.overdue(after, r.moment(base))
			p.arrivals, p.debts, p.timers = after.arrivals, after.debts, after.timers
			for _, to := range after.ready {
				if !seen[to] {
					seen[to] = true
					p.told(to, q.answer)
					queue = append(queue, to)
				}
			}
		}
	}
	if len(p.ask) > 0 {
		p.tasks = nil // the whole step waits for its gates
	}
}

// told notes what the gate of a task was told.
func (p *plan) told(task string, a *interrupt.Answer) {
	if p.gates == nil {
		p.gates = map[string]*interrupt.Answer{}
	}
	p.gates[task] = a
}

func (p *plan) reject(q *asked, where, task string) {
	p.refused = true
	p.rejected = append(slices.Clone(p.rejected), nodeOf(task))
	if p.why != "" {
		return
	}
	p.why = fmt.Sprintf("%s rejected the gate %s %s (%s)", or(q.answer.Actor, "somebody"), where, task, q.question.ID())
	if q.answer.Reason != "" {
		p.why += ": " + q.answer.Reason
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func findGate(known []asked, kind interrupt.Kind, task string) *asked {
	for i := range known {
		if q := &known[i]; q.question.Payload.Kind == kind && q.question.Task == task && !q.void {
			return q
		}
	}
	return nil
}

func (r *run) gateQuestion(kind interrupt.Kind, gate Gate, task string) *interrupt.Question {
	q := &interrupt.Question{
		Payload:    interrupt.GraphInterruptPayload{Kind: kind, Node: gate.Node, Message: gate.Message},
		AskingNode: gate.Node, Task: task,
	}
	if gate.Deadline > 0 {
		at := r.e.now().Add(gate.Deadline)
		q.Deadline, q.Default = &at, or(gate.Default, interrupt.Reject)
	}
	return q
}

// resolve gives what a task is about to do, as an approver is shown it.
func (r *run) resolve(task string, base *Entry, gate *interrupt.Answer) (shows any, err error) {
	n := r.graph.nodes[nodeOf(task)]
	if n.Resolve == nil {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while it was resolved: %v", p)
		}
	}()
	t := r.newTask(task, base, nil)
	t.gate = gate
	raw, err := n.Resolve(t)
	if err != nil {
		return nil, err
	}
	shows, _, err = value.Normalize(raw)
	return shows, err
}

// withGates puts behind an entry that moves the base the gates that it leads
// to, and says what becomes of the lease. The state is already that of the
// entry.
func (r *run) withGates(entry *Entry) ([]*Entry, Lease) {
	r.oneEntry[0] = entry
	entries := r.oneEntry[:]
	if r != r.root {
		// A subgraph asks, and ends, when its parent's step comes to rest.
		return entries, LeaseMoving
	}
	// Its place in the log, as the commit will give it: gates are sealed with it.
	entry.Seq, entry.Turn = r.seq+1, r.thread.Turn
	if entry.Kind == KindInput {
		entry.Turn++
	}
	p := r.plan(entry, nil)
	switch {
	case p.err != nil:
		// The entry stands; that its gate cannot be asked ends the turn next.
		return entries, LeaseMoving
	case len(p.ask) > 0 && r.log == nil:
		return entries, LeaseMoving
	case len(p.ask) > 0:
		asked := r.pauseEntries(r.own(p.ask))
		for _, ask := range asked {
			ask.Step = entry.Step
		}
		return append(entries, asked...), r.paused(asked[0].Status)
	case len(p.tasks) == 0 && !p.refused && len(p.arrivals) == 0:
		entry.Status = Done
		return entries, LeaseFree
	}
	return entries, LeaseMoving
}

// paused is what becomes of the lease when the turn pauses, or falls asleep.
func (r *run) paused(status Status) Lease {
	if r.stays(status) {
		return LeaseWaiting
	}
	return LeaseFree
}

// own are questions of this very graph.
func (r *run) own(questions []*interrupt.Question) []pending {
	out := make([]pending, len(questions))
	for i, q := range questions {
		out[i] = pending{q, r.ns, r.head.Step}
	}
	return out
}

func (r *run) pauseEntries(questions []pending) []*Entry {
	var entries []*Entry
	status := Sleeping
	for _, ask := range questions {
		if ask.question.Wait == nil {
			status = Paused
		}
	}
	for _, ask := range questions {
		q := ask.question
		stored := *q
		stored.AskedAt = r.e.now()
		entries = append(entries, &Entry{
			Kind: KindPause, Status: status, Namespace: ask.ns, Step: ask.step, Tasks: asking(q), At: stored.AskedAt,
			Payload: Payload{Question: &stored, Interrupt: &InterruptRecord{
				Kind: q.Payload.Kind, Node: q.Payload.Node, Message: q.Payload.Message, Data: q.Payload.Data,
			}},
		})
	}
	return entries
}

// asking is the task that asks a question; a join's timer is asked by none.
func asking(q *interrupt.Question) []string {
	if q.Task == "" {
		return nil
	}
	return []string{q.Task}
}

// pause writes questions, and the results of siblings that finished, when the
// thread has come to rest.
func (r *run) pause(questions []pending, results []Result) error {
	if r.log == nil {
		return fmt.Errorf("%s: %w", questions[0].question.Payload.Reason(), ErrNoStore)
	}
	entries := r.pauseEntries(questions)
	if err := r.commit(r.paused(entries[0].Status), entries, results, Commit{}); err != nil {
		return err
	}
	r.questionEvents(entries)
	return nil
}

func (r *run) questionEvents(entries []*Entry) {
	for _, entry := range entries {
		if q, ok := entry.Question(r.thread.ID); ok {
			typ := EventQuestion
			if q.Wait != nil {
				typ = EventSleep
			}
			r.emit(Event{Type: typ, Step: entry.Step, Status: entry.Status, Seq: entry.Seq, Entry: entry, Task: q.Task, Node: q.AskingNode, Question: &q})
		}
	}
}

func (r *run) answerEvents(entries []*Entry) {
	for _, entry := range entries {
		if entry.Kind == KindAnswer {
			r.emit(Event{Type: EventAnswer, Step: entry.Step, Status: entry.Status, Seq: entry.Seq, Entry: entry, Answer: entry.Payload.Answer})
		}
	}
}
