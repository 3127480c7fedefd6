package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Cases 1 and 6 of the seeds.
func TestAPauseNamesTheCheckpointWhereItStands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := engine.Definition{
		Channels: map[string]engine.Channel{"value": {Reducer: engine.Sum}},
		Nodes: map[string]engine.Node{
			"a": writes(engine.Set("value", 1)),
			"b": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
				b.ran("b")
				return engine.Set("value", 10), nil
			}},
		},
		Edges:           []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "b"}},
		InterruptBefore: []engine.Gate{{Node: "b"}},
	}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(1), turn.State["value"])
	payload := turn.Questions[0].Payload
	require.Equal(t, interrupt.Before, payload.Kind)
	require.Equal(t, "b", payload.Node)
	thread, seq, err := engine.ParseCheckpointID(payload.CheckpointID)
	require.NoError(t, err)
	require.Equal(t, payload.ThreadID, thread)
	view, err := e.State(t.Context(), thread, seq)
	require.NoError(t, err)
	require.Equal(t, engine.KindPause, view.Head.Kind)
	require.Equal(t, engine.Paused, view.Head.Status)
	require.Equal(t, int64(1), view.State["value"])
	require.Equal(t, []string{"b"}, view.Base().Next)
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, int64(11), turn.State["value"])
	require.Equal(t, 1, b.count("b"))
	b.verify()
}

// Case 2 of the seeds; langgraph PR1004.
func TestEveryListedNodePauses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "a"}, {Node: "b"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	for _, node := range []string{"a", "b"} {
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status)
		require.Equal(t, node, turn.Questions[0].Payload.Node)
		require.Zero(t, b.count(node))
		turn, err = e.Resume(t.Context(), "t", approve())
	}
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a", "b"}, b.takeRuns())
	b.verify()
}

// Case 4 of the seeds.
func TestAGateBehindANodeShowsItsWriteAndRunsItOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"a"}, turn.State["log"])
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b"}, turn.State["log"])
	require.Equal(t, []string{"a", "b"}, b.takeRuns())
	b.verify()
}

// Cases 7 and 10 of the seeds: the gated node sees what it was told, and only
// that node does; fault 14 of the first.
func TestOnlyTheGatedNodeSeesTheDecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := map[string]*interrupt.Answer{}
	look := engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		seen[t.Node()] = t.Answer()
		return engine.Output{}, nil
	}}
	d := b.chain("first", "pay", "last")
	for name := range d.Nodes {
		d.Nodes[name] = look
	}
	d.Nodes["sibling"] = look
	d.Edges = append(d.Edges, engine.Edge{From: "first", To: "sibling"})
	d.InterruptBefore = []engine.Gate{{Node: "pay"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	yes := approve()
	yes.Reason = "within the budget"
	_, err = e.Resume(t.Context(), "t", yes)
	require.NoError(t, err)
	require.Equal(t, "within the budget", seen["pay"].Reason)
	require.Equal(t, "ada", seen["pay"].Actor)
	for _, other := range []string{"first", "sibling", "last"} {
		require.Contains(t, seen, other)
		require.Nil(t, seen[other], other)
	}
	b.verify()
}

// Cases 11 and 12 of the seeds.
func TestAQuestionOfANodeKeepsItsMessageAndData(t *testing.T) {
	t.Parallel()
	for _, data := range []any{map[string]any{"amount": int64(250), "currency": "EUR"}, nil} {
		b := setup(t)
		d := b.chain("a")
		d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			_, err := t.Ask(engine.Ask{Message: "approve 250?", Data: data})
			return engine.Output{}, err
		}}
		e := b.engine(b.compile(d))
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		q := turn.Questions[0]
		require.Equal(t, interrupt.GraphInterruptPayload{
			Kind: interrupt.Dynamic, Message: "approve 250?", Data: data, ThreadID: "t", CheckpointID: "t@2",
		}, q.Payload)
		require.Equal(t, "a", q.AskingNode)
		inbox, err := b.store.Inbox(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, q.Payload, inbox[0].Question.Payload, "the same wherever it is read")
		b.verify()
	}
}

// Case 14 of the seeds.
func TestANextTurnAsksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		a, err := t.Ask(engine.Ask{Message: "?"})
		return engine.Set("log", a.Value), err
	}}
	e := b.engine(b.compile(d))
	for i := range 2 {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status)
		turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: i})
		require.NoError(t, err)
		require.Len(t, turn.State["log"], i+1)
	}
	b.verify()
}

// Case 18 of the seeds; crewAI PR4200: to wait for a person is no end and no failure.
func TestAPausedTurnReportsItsQuestionAndNoEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var types []engine.EventType
	e := engine.New(b.gated(), b.store, engine.Options{Events: func(ev engine.Event) { types = append(types, ev.Type) }})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Contains(t, types, engine.EventQuestion)
	require.NotContains(t, types, engine.EventTurnEnded)
	require.NotContains(t, types, engine.EventTaskFailed)
}

// Case 19 of the seeds.
func TestTwoQuestionsOfOneTaskAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		var out []any
		for i := range 2 {
			a, err := t.Ask(engine.Ask{Message: fmt.Sprint("question ", i), Type: "integer"})
			if err != nil {
				return engine.Output{}, err
			}
			out = append(out, a.Value)
		}
		return engine.Set("log", out), nil
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	for i := range 2 {
		require.Equal(t, i, turn.Questions[0].Ordinal)
		_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "text"})
		require.ErrorIs(t, err, engine.ErrInvalid)
		turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: 10 + i})
		require.NoError(t, err)
	}
	require.Equal(t, []any{int64(10), int64(11)}, turn.State["log"])
	b.verify()
}

// Case 21 of the seeds.
func TestAFanOutBehindAGateRunsEachOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	for _, to := range []string{"b", "c"} {
		d.Nodes[to] = b.node()
		d.Edges = append(d.Edges, engine.Edge{From: "a", To: to})
	}
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, view.Base().Next)
	_, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b", "c"}, b.takeRuns())
	b.verify()
}

// Cases 24 and 79 of the seeds.
func TestACheckpointOfAnotherThreadOrOfNobodyIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.gated())
	for _, id := range []string{"t", "u"} {
		_, err := e.Start(t.Context(), id, engine.Input{})
		require.NoError(t, err)
	}
	b.takeRuns()
	for _, question := range []string{"u@3", "t@17"} {
		yes := approve()
		yes.Question = question
		_, err := e.Resume(t.Context(), "t", yes)
		require.ErrorIs(t, err, engine.ErrNotFound)
	}
	_, err := e.State(t.Context(), "t", 17)
	require.ErrorIs(t, err, engine.ErrNotFound)
	require.ErrorContains(t, err, "t@17")
	require.Empty(t, b.takeRuns())
	require.Len(t, b.kinds("t"), 3)
	b.verify()
}

// Case 27 of the seeds; langgraph#8764, eino#347.
func TestEveryStepIsStoredAndTheInputBeforeIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	look := func(want int) engine.Node {
		return engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
			view, err := b.store.At(ctx, t.Thread(), 0)
			if err != nil {
				return engine.Output{}, err
			}
			if n := len(view.State["log"].([]any)); n != want {
				return engine.Output{}, fmt.Errorf("the file has %d writes", n)
			}
			return engine.Set("log", t.Node()), nil
		}}
	}
	d.Nodes["a"], d.Nodes["b"] = look(1), look(2)
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"log": "input"}})
	require.NoError(t, err)
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Base().Next)
	b.verify()
}
