package engine

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// A join with a timeout has a timer in the log, from the first arrival of a
// round until it runs. What is due is a matter of the log alone: a timer is due
// when an entry since the base, or the base itself, is as late as it. So a timer
// fires when the thread moves past it; when nothing is left to run, a question
// to the clock (kind timer) makes it move in time.

// timed starts the timers of joins that began to wait at a time, and goes on
// with those that did before.
func (g *Graph) timed(before, after frontier, at time.Time) frontier {
	if !g.timeouts {
		return after
	}
	after.timers = nil
	for join := range after.arrivals {
		limit := g.nodes[join].Barrier.Timeout
		if limit <= 0 {
			continue
		}
		due, waits := before.timers[join]
		if !waits {
			due = at.Add(limit).Truncate(time.Millisecond)
		}
		if after.timers == nil {
			after.timers = map[string]time.Time{}
		}
		after.timers[join] = due
	}
	return after
}

// overdue lets joins run whose timer is due, with those who arrived.
func (g *Graph) overdue(f frontier, at time.Time) frontier {
	if len(f.timers) == 0 {
		return f
	}
	var due []string
	for join, when := range f.timers {
		if !at.Before(when) {
			due = append(due, join)
		}
	}
	if due == nil {
		return f
	}
	f.arrivals, f.debts, f.timers = cloneLists(f.arrivals), cloneLists(f.debts), maps.Clone(f.timers)
	for _, join := range due {
		g.owe(join, &f, f.arrivals[join])
		delete(f.arrivals, join)
		delete(f.timers, join)
	}
	f.ready = union(f.ready, due)
	return f
}

// union joins two lists of tasks, in task order.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	return taskOrder(slices.Concat(a, b))
}

// owe notes who had not arrived when a join ran: they come too late to count.
func (g *Graph) owe(join string, f *frontier, arrived []string) {
	for _, member := range g.nodes[join].Barrier.WaitFor {
		if !slices.Contains(arrived, member) && !slices.Contains(f.debts[join], member) {
			f.debts[join] = append(f.debts[join], member)
		}
	}
	sort.Strings(f.debts[join])
}

// short is the error of a join that ran out of time with fewer arrivals than it
// needs; nil for any other task. Who did not arrive is in debt.
func (g *Graph) short(task string, f frontier) error {
	n := g.nodes[task]
	if n == nil || n.Barrier == nil || n.Barrier.Timeout <= 0 {
		return nil
	}
	b := n.Barrier
	if len(b.WaitFor)-len(f.debts[task]) >= b.Min {
		return nil
	}
	var arrived []string
	for _, member := range b.WaitFor {
		if !slices.Contains(f.debts[task], member) {
			arrived = append(arrived, member)
		}
	}
	return fmt.Errorf("join %s %w after %s: it has %d of %d (%s), needs %d, and waits for %s", task, ErrTimeout, b.Timeout,
		len(arrived), len(b.WaitFor), strings.Join(arrived, ", "), b.Min, strings.Join(f.debts[task], ", "))
}

// moment is how late it is by the log: the newest time of a base and what
// follows it.
func (r *run) moment(base *Entry) time.Time {
	at := base.At
	if !r.graph.timeouts {
		return at
	}
	if len(r.tail) > 0 && r.tail[0].Seq == base.Seq {
		for i := range r.tail {
			if r.tail[i].At.After(at) {
				at = r.tail[i].At
			}
		}
	}
	return at
}

// joinTimer is the question to the clock of the join that is due first.
func (r *run) joinTimer(base *Entry, f frontier) (*interrupt.Question, error) {
	join := ""
	for _, name := range sortedKeys(f.timers) {
		if join == "" || f.timers[name].Before(f.timers[join]) {
			join = name
		}
	}
	until := f.timers[join]
	q := &interrupt.Question{
		Payload: interrupt.GraphInterruptPayload{
			Kind:    interrupt.Timer,
			Message: fmt.Sprintf("%s to reach join %s", strings.Join(r.graph.missing(join, f.arrivals[join]), ", "), join),
		},
		AskingNode: join, Wait: &interrupt.Wait{Until: &until},
	}
	return q, q.Seal(base.Seq)
}

// missing are the members of a join that have not arrived.
func (g *Graph) missing(join string, arrived []string) (missing []string) {
	for _, member := range g.nodes[join].Barrier.WaitFor {
		if !slices.Contains(arrived, member) {
			missing = append(missing, member)
		}
	}
	return missing
}

// starved names the joins that wait when nothing is left to run.
func (g *Graph) starved(arrivals map[string][]string) string {
	var parts []string
	for _, join := range sortedKeys(arrivals) {
		parts = append(parts, fmt.Sprintf("join %s has %s and waits for %s", join,
			strings.Join(arrivals[join], ", "), strings.Join(g.missing(join, arrivals[join]), ", ")))
	}
	return strings.Join(parts, "; ")
}

// rejectedBranch reports whether a join waits for a node that a rejected one
// would have led to: its turn is rejected then, and not starved.
func (g *Graph) rejectedBranch(f frontier) bool {
	forward := map[string][]string{}
	for name, n := range g.nodes {
		forward[name] = n.leads()
	}
	for _, from := range f.rejected {
		reached := reach(from, forward)
		for join, arrived := range f.arrivals {
			for _, member := range g.nodes[join].Barrier.WaitFor {
				if reached[member] && !slices.Contains(arrived, member) {
					return true
				}
			}
		}
	}
	return false
}
