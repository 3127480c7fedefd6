package engine

import (
	"cmp"
	"slices"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// asked is a question of a base with its answer, as the log has them.
type asked struct {
	question interrupt.Question
	answer   *interrupt.Answer
	void     bool
	ns       string
	seq      int64
	step     int64 // of the graph that asked
}

// asked gives the questions of the base in the order of the log, with what
// became of them.
func (r *run) asked() []asked {
	if len(r.tail) < 2 {
		return nil // nothing but the base
	}
	return questionsOf(r.thread.ID, r.tail)
}

func questionsOf(thread string, entries []Entry) []asked {
	var out []asked
	for _, entry := range entries {
		switch entry.Kind {
		case KindPause:
			q, ok := entry.Question(thread)
			if !ok {
				continue
			}
			for i := range out {
				if out[i].question.ID() == q.Voids {
					out[i].void = true
				}
			}
			out = append(out, asked{question: q, ns: entry.Namespace, seq: entry.Seq, step: entry.Step})
		case KindAnswer:
			a := entry.Payload.Answer
			for i := range out {
				if a != nil && out[i].question.ID() == a.Question {
					out[i].answer = a
				}
			}
		}
	}
	return out
}

// open gives the questions that wait for a person, those of subgraphs too, in
// the order in which they were asked.
func (r *run) open() []interrupt.Question {
	if r.thread.Status != Paused {
		return nil
	}
	var out []interrupt.Question
	for _, q := range r.waiting() {
		if q.question.Wait == nil {
			out = append(out, q.question)
		}
	}
	return out
}

func (r *run) waiting() []asked {
	if len(r.tail) < 2 && len(r.children) == 0 {
		return nil
	}
	return waitingOf(r.thread.ID, r.tail, r.children)
}

// waitingOf gives the questions that are neither answered nor void: of the
// graph itself, and of its subgraphs by namespace.
func waitingOf(thread string, tail []Entry, children map[string][]Entry) []asked {
	var out []asked
	collect := func(entries []Entry) {
		for _, q := range questionsOf(thread, entries) {
			if q.answer == nil && !q.void {
				out = append(out, q)
			}
		}
	}
	collect(tail)
	for _, ns := range sortedKeys(children) {
		// Only what was asked on the child's newest base waits.
		collect(sinceBase(children[ns]))
	}
	slices.SortFunc(out, func(a, b asked) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// byNamespace takes a tail apart.
func byNamespace(entries []Entry) (own []Entry, children map[string][]Entry) {
	children = map[string][]Entry{}
	for _, entry := range entries {
		if entry.Namespace == "" {
			own = append(own, entry)
		} else {
			children[entry.Namespace] = append(children[entry.Namespace], entry)
		}
	}
	return own, children
}

// sinceBase gives the entries from the newest that moves the base on.
func sinceBase(entries []Entry) []Entry {
	for i, entry := range slices.Backward(entries) {
		if entry.Kind.MovesBase() {
			return entries[i:]
		}
	}
	return entries
}
