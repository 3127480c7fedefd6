package engine_test

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// given is an answer that a question has.
type given struct {
	id string
	a  interrupt.Answer
}

// answers gives some or all of the open questions an answer, in any order.
func (w *world) answers(id string) (list []interrupt.Answer, keys []string) {
	view, err := w.store.At(context.Background(), id, 0)
	require.NoError(w, err)
	open := view.Open()
	if len(open) == 0 {
		return nil, nil
	}
	open = rapid.Permutation(open).Draw(w.T, "order")
	open = open[:rapid.IntRange(1, len(open)).Draw(w.T, "how many")]
	for _, q := range open {
		a := interrupt.Answer{Question: q.ID(), Actor: "ada"}
		switch {
		case q.IsGate():
			a.Choice = rapid.SampledFrom([]string{interrupt.Approve, interrupt.Approve, interrupt.Approve, interrupt.Reject}).Draw(w.T, "decision")
		case q.IsDoubt():
			a.Choice = rapid.SampledFrom([]string{interrupt.RunAgain, interrupt.DoneIt, interrupt.FailIt}).Draw(w.T, "decision")
			if a.Choice == interrupt.DoneIt && q.Doubt.Key != "" {
				a.Value = true
			}
		default:
			a.Value = rapid.SampledFrom([]any{"yes", "", false, 0, nil}).Draw(w.T, "answer")
		}
		list, keys = append(list, a), append(keys, keyOf(q))
	}
	return list, keys
}

// take puts answers into the model.
func (m *model) take(list []interrupt.Answer, keys []string) {
	for i, key := range keys {
		for _, q := range m.at.open() {
			if q.key() == key {
				q.answer = &list[i]
			}
		}
	}
	if len(m.at.open()) == 0 {
		m.status = engine.Running
	}
	m.commit(len(list))
}

// goOn runs the turn and says whether it failed.
func (m *model) goOn() error {
	m.move()
	if m.status == engine.Failed {
		return errTurn
	}
	return nil
}

func (w *world) start(id string) {
	text := fmt.Sprint("input ", w.thread(id).turn+1)
	w.act(id, "start "+id, func(m *model) error {
		if m.status == engine.Running {
			if err := m.goOn(); err != nil {
				return err
			}
		}
		if m.status == engine.Paused {
			return engine.ErrPaused
		}
		m.input(w.spec, text)
		return m.goOn()
	}, func(e *engine.Engine) error {
		_, err := e.Start(context.Background(), id, engine.Input{Values: engine.Values{"log": text}})
		return err
	})
}

func (w *world) resume(id string, all bool) {
	list, keys := w.answers(id)
	if !all && rapid.Bool().Draw(w.T, "nothing to say") {
		list, keys = nil, nil
	}
	w.act(id, fmt.Sprint("resume ", id, keys), func(m *model) error {
		if len(list) > 0 {
			m.take(list, keys)
		}
		if m.status == engine.Failed {
			m.status = engine.Running
		}
		if m.status != engine.Running {
			return nil
		}
		return m.goOn()
	}, func(e *engine.Engine) error {
		_, err := e.Resume(context.Background(), id, list...)
		return err
	})
}

func (w *world) answer(id string) {
	list, keys := w.answers(id)
	if len(list) == 0 {
		return
	}
	w.act(id, fmt.Sprint("answer ", id, keys), func(m *model) error {
		m.take(list, keys)
		return nil
	}, func(e *engine.Engine) error {
		_, err := e.Answer(context.Background(), id, list...)
		return err
	})
}

// badAnswer gives what is no answer, and changes nothing.
func (w *world) badAnswer(id string) {
	list, _ := w.answers(id)
	bad, want := interrupt.Answer{Question: engine.CheckpointID(id, 9999), Value: 1}, engine.ErrNotFound
	var answered []given
	require.NoError(w, w.store.Entries(context.Background(), id, 0, 0, func(e engine.Entry) error {
		if e.Kind == engine.KindAnswer {
			answered = append(answered, given{e.Payload.Answer.Question, *e.Payload.Answer})
		}
		return nil
	}))
	switch rapid.IntRange(0, 3).Draw(w.T, "bad answer") {
	case 1:
		if len(answered) > 0 { // the same again
			old := rapid.SampledFrom(answered).Draw(w.T, "answered")
			bad, want = interrupt.Answer{Question: old.id, Choice: old.a.Choice, Value: old.a.Value}, nil
		}
	case 2:
		if len(answered) > 0 {
			old := rapid.SampledFrom(answered).Draw(w.T, "answered")
			bad, want = interrupt.Answer{Question: old.id, Value: "something else"}, engine.ErrAnswered
		}
	case 3:
		if len(list) > 0 {
			bad, want = interrupt.Answer{Question: list[0].Question, Choice: "perhaps"}, engine.ErrInvalid
		}
	}
	w.act(id, fmt.Sprint("bad answer ", bad.Question, want), func(*model) error { return want }, func(e *engine.Engine) error {
		_, err := e.Answer(context.Background(), id, bad)
		return err
	})
}

func (w *world) cancel(id string) {
	w.act(id, "cancel "+id, func(m *model) error {
		if m.status.Over() {
			return engine.ErrInvalid
		}
		m.status = engine.Cancelled
		m.commit(1)
		return nil
	}, func(e *engine.Engine) error {
		_, err := e.Cancel(context.Background(), id, engine.By{})
		return err
	})
}

func (w *world) update(id string) {
	node := ""
	if rapid.Bool().Draw(w.T, "as a node") {
		node = rapid.SampledFrom(w.spec.nodes).Draw(w.T, "node").name
	}
	w.act(id, fmt.Sprint("update ", id, " as ", node), func(m *model) error {
		m.update("edited", node)
		return nil
	}, func(e *engine.Engine) error {
		_, err := e.Update(context.Background(), id, engine.Edit{Node: node, Writes: []engine.Write{{Channel: "log", Value: "edited"}}})
		return err
	})
}

func (w *world) fork(id string) {
	into := id
	if rapid.Bool().Draw(w.T, "into a new thread") {
		for _, other := range propertyThreads {
			if w.thread(other).at == nil {
				into = other
				break
			}
		}
	}
	seq := int64(rapid.IntRange(1, int(w.head(id))).Draw(w.T, "from"))
	var from *place
	require.NoError(w, w.store.Entries(context.Background(), id, 0, int(seq), func(e engine.Entry) error {
		if at := w.bases[id][e.Seq]; at != nil {
			from = at
		}
		return nil
	}))
	w.act(into, fmt.Sprint("fork ", engine.CheckpointID(id, seq), " into ", into), func(m *model) error {
		if into != id {
			m.turn = 1
		}
		m.fork(from)
		return nil
	}, func(e *engine.Engine) error {
		_, err := e.Fork(context.Background(), engine.CheckpointID(id, seq), into, engine.By{})
		return err
	})
}
