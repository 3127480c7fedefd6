package engine

import (
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// Sleep pauses the task for a time, durably: whoever has the thread then goes
// on, late if nobody has it, and once. The first time it returns an error that
// the node must return; when the time has come the node runs again from its
// top and Sleep returns nil.
func (t *Task) Sleep(d time.Duration) error {
	return t.await(interrupt.Timer, fmt.Sprintf("%s to pass", d), func() *interrupt.Question {
		until := t.run.e.now().Add(d)
		return &interrupt.Question{Wait: &interrupt.Wait{Until: &until}}
	}, nil)
}

// SleepUntil is Sleep until a point in time.
func (t *Task) SleepUntil(at time.Time) error {
	at = at.UTC().Truncate(time.Millisecond)
	return t.await(interrupt.Timer, "the time "+at.Format(time.RFC3339Nano), func() *interrupt.Question {
		return &interrupt.Question{Wait: &interrupt.Wait{Until: &at}}
	}, nil)
}

// AwaitSignal pauses the task until a signal of this name comes (it may have
// come already) and gives its value. With a timeout that is not 0, came is
// false if none did in time.
func (t *Task) AwaitSignal(name string, timeout time.Duration) (v any, came bool, err error) {
	what := "signal " + name
	if timeout > 0 {
		what += fmt.Sprintf(" for at most %s", timeout)
	}
	var answer interrupt.Answer
	err = t.await(interrupt.Signal, what, func() *interrupt.Question {
		q := &interrupt.Question{Wait: &interrupt.Wait{Signal: name}}
		if timeout > 0 {
			at := t.run.e.now().Add(timeout)
			q.Deadline = &at
		}
		return q
	}, &answer)
	return answer.Value, err == nil && answer.Via == "signal", err
}

func (t *Task) await(kind interrupt.Kind, what string, question func() *interrupt.Question, answer *interrupt.Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := question()
	q.Payload = interrupt.GraphInterruptPayload{Kind: kind, Message: what}
	q.AskingNode, q.Task, q.Ordinal = t.node.name, t.id, t.asks
	t.asks++
	if err := q.Seal(t.base); err != nil {
		return t.fail(err)
	}
	a, err := t.match(q)
	if err == nil && answer != nil {
		*answer = a
	}
	return err
}
