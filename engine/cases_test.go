package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// asks is a node that asks what its name says, and writes the answer.
func (b *bundle) asks() engine.Node {
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.Node())
		a, err := t.Ask(engine.Ask{Message: t.Node() + "?"})
		return engine.Set("log", []any{t.Node(), a.Value}), err
	}}
}

// parallel is a definition of nodes that all run in the first step.
func (b *bundle) parallel(nodes map[string]engine.Node) engine.Definition {
	d := engine.Definition{Name: "parallel", Nodes: nodes}
	for name := range nodes {
		d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: name})
	}
	return d
}

// langgraph#8837: an answer feeds one question, and going on feeds none.
func TestAnAnswerIsNotHandedToALaterQuestion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("one", "two")
	d.Nodes["one"], d.Nodes["two"] = b.asks(), b.asks()
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "first"})
	require.NoError(t, err)
	for range 2 {
		turn, err := e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status)
		require.Equal(t, "two?", turn.Questions[0].Payload.Message)
	}
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"two"}, view.Base().Next, "langgraph#6956: next names the paused node")
	b.verify()
}

// langgraph#6626, #6624, #5952, #4028, PR6542; mastra#15552, #9288, #6418, #19083; adk-python#7108.
func TestParallelQuestionsKeepTheirIdsPayloadsAndAnswers(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprintf("together %v", together), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.engine(b.compile(b.parallel(map[string]engine.Node{"a": b.asks(), "b": b.asks(), "c": b.asks(), "free": b.node()})))
			turn, err := e.Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			require.Len(t, turn.Questions, 3)
			require.Equal(t, engine.Paused, turn.Status)
			ids := map[string]bool{}
			var answers []interrupt.Answer
			for _, q := range turn.Questions {
				ids[q.ID()] = true
				require.Equal(t, q.AskingNode+"?", q.Payload.Message)
				answers = append([]interrupt.Answer{{Question: q.ID(), Value: "to " + q.AskingNode}}, answers...)
			}
			require.Len(t, ids, 3)
			b.takeRuns()
			if together {
				turn, err = e.Resume(t.Context(), "t", answers...)
				require.NoError(t, err)
			} else {
				for i, a := range answers {
					require.Equal(t, engine.Paused, turn.Status)
					require.Len(t, turn.Questions, 3-i)
					turn, err = e.Resume(t.Context(), "t", a)
					require.NoError(t, err)
				}
			}
			require.Equal(t, engine.Done, turn.Status)
			require.Equal(t, []any{"a", "to a", "b", "to b", "c", "to c", "free"}, turn.State["log"])
			require.ElementsMatch(t, []string{"a", "b", "c"}, b.takeRuns(), "what was finished is not run again")
			b.verify()
		})
	}
}

// ag-ui PR1747: every JSON value is an answer.
func TestEveryJSONValueIsAnAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = b.asks()
	e := b.engine(b.compile(d))
	for i, v := range []any{false, int64(0), "", nil, []any{}, map[string]any{}, 0.5} {
		thread := fmt.Sprint("t", i)
		_, err := e.Start(t.Context(), thread, engine.Input{})
		require.NoError(t, err)
		turn, err := e.Resume(t.Context(), thread, interrupt.Answer{Value: v})
		require.NoError(t, err)
		require.Equal(t, []any{"a", v}, turn.State["log"])
	}
	b.verify()
}

// aegra#253, mastra#20443, dify#42103, heym#563: two that answer and go on at
// once; one wins and what follows runs once.
func TestOfManyThatAnswerAtOnceOneGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "a"}}
	g := b.compile(d)
	turn, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	yes := approve()
	yes.Question = turn.Questions[0].ID()
	var wg sync.WaitGroup
	var wins atomic.Int64
	errs := make([]error, 8)
	for i := range errs {
		e := b.engine(g)
		if i%2 == 1 {
			e = engine.New(g, b.open(), engine.Options{})
		}
		wg.Go(func() {
			a := yes
			if i >= 4 {
				a.Choice = interrupt.Reject
			}
			turn, err := e.Resume(t.Context(), "t", a)
			if errs[i] = err; err == nil && turn.Status.Over() {
				wins.Add(1)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, wins.Load())
	for _, err := range errs {
		if err != nil && !errors.Is(err, engine.ErrAnswered) && !errors.Is(err, engine.ErrBusy) && !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a loser is told %v", err)
		}
	}
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.True(t, view.Thread.Status.Over())
	if view.Thread.Status == engine.Done {
		require.Equal(t, []string{"a", "b"}, b.takeRuns())
	} else {
		require.Empty(t, b.takeRuns())
	}
	b.verify()
}

// openai-agents-js PR1418 and openai-agents-python PR2021: the decision is
// stored; a crash after it asks no more, and the work is done once.
func TestADecisionIsStoredAndNotAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	g := b.compile(d)
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = b.engine(g).Answer(t.Context(), "t", approve())
	require.NoError(t, err)
	turn, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 1, b.count("b"))
	b.verify()
}

// n8n PR32958: what a turn produced before it was cancelled stays in its history.
func TestACancelledTurnKeepsWhatItHadDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.gated())
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Cancel(t.Context(), "t", engine.By{Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, []string{"input running", "step running", "pause paused", "end cancelled"}, b.kinds("t"))
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, []any{"a"}, view.State["log"])
	b.verify()
}

// langgraph#8115: no result of many parallel tasks is lost, when one fails late.
func TestNoResultOfAHundredParallelTasksIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(100)
	var fail atomic.Bool
	fail.Store(true)
	d.Nodes["worker"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.ID())
		if t.ID() == "worker[99]" && fail.Load() {
			return engine.Output{}, errors.New("no luck")
		}
		return engine.Set("results", t.Get("x")), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	require.Len(t, b.takeRuns(), 100)
	fail.Store(false)
	turn, err := engine.New(b.compile(d), b.open(), engine.Options{}).Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, turn.State["results"], 100)
	require.Equal(t, []string{"worker[99]", "reduce"}, b.takeRuns())
	b.verify()
}

// langgraph#4168: to change a value after it was written changes nothing.
func TestAValueIsTakenAsItWasWhenItWasWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	kept := map[string]any{"list": []any{"one"}}
	input := []any{map[string]any{"k": "v"}}
	d.Nodes["a"] = writes(engine.Set("log", kept))
	d.Nodes["b"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		kept["list"].([]any)[0] = "changed"
		kept["more"] = true
		input[0].(map[string]any)["k"] = "changed"
		return engine.Output{}, nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{Values: engine.Values{"log": input}})
	require.NoError(t, err)
	want := []any{map[string]any{"k": "v"}, map[string]any{"list": []any{"one"}}}
	require.Equal(t, want, turn.State["log"])
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, want, view.State["log"])
	b.verify()
}

// Two nodes that append to the list that they were given do not meet.
func TestAppendingToAListThatANodeReadMakesANewOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("p1", "p2", "p3")
	d.Channels = map[string]engine.Channel{"a": {}, "b": {}}
	var both sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"a", "b"} {
		d.Nodes[name] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			list := append(t.Get("log").([]any), t.Node())
			both.Done()
			both.Wait()
			return engine.Set(t.Node(), list), nil
		}}
		d.Edges = append(d.Edges, engine.Edge{From: "p3", To: name})
	}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"p1", "p2", "p3", "a"}, turn.State["a"])
	require.Equal(t, []any{"p1", "p2", "p3", "b"}, turn.State["b"])
}

// crewAI-examples#202: a failure at the last step loses nothing that was done.
func TestAFailureAtTheLastStepLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("one", "two", "a")
	d.Nodes["a"] = b.failing(1)
	g := b.compile(d)
	_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
	require.Error(t, err)
	b.mu.Lock()
	b.runs = []string{"a"} // it has failed once
	b.mu.Unlock()
	turn, err := engine.New(g, b.open(), engine.Options{}).Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"one", "two", "a"}, turn.State["log"])
	require.Equal(t, []string{"a", "a"}, b.takeRuns())
	b.verify()
}

// agent-framework#3938: the key for services is the same for every attempt and
// of no other effect.
func TestAnIdempotencyKeyIsStableAndOfOneEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	var keys []string
	collect := engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		keys = append(keys, t.IdempotencyKey("refund"), t.IdempotencyKey("mail"))
		if t.Node() == "a" && len(keys) == 2 {
			return engine.Output{}, errors.New("timed out")
		}
		return engine.Output{}, nil
	}}
	d.Nodes["a"], d.Nodes["b"] = collect, collect
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.Error(t, err)
	_, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, keys, 10)
	require.Equal(t, keys[:2], keys[2:4], "the same after a failure")
	seen := map[string]bool{}
	for _, key := range keys[2:] {
		require.False(t, seen[key])
		seen[key] = true
	}
}

// langgraph4j#111: a turn that is over is not resumed from an older checkpoint.
func TestAFinishedTurnIsNotResumedFromItsMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.compile(b.chain("a", "b")))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	b.takeRuns()
	for range 2 {
		turn, err := e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Done, turn.Status)
	}
	require.Empty(t, b.takeRuns())
	require.Len(t, b.kinds("t"), 3)
}

// langgraph#7206: a write that comes late does not bring a deleted thread back.
func TestALateWriteDoesNotBringADeletedThreadBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.gated())
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	late, err := b.store.Open(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, b.store.Delete(t.Context(), "t"))
	require.ErrorIs(t, late.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrDeleted)
	for _, call := range []func() error{
		func() error { _, err := e.Start(t.Context(), "t", engine.Input{}); return err },
		func() error { _, err := e.Resume(t.Context(), "t", approve()); return err },
		func() error { _, err := e.Cancel(t.Context(), "t", engine.By{}); return err },
		func() error { _, err := e.Update(t.Context(), "t", engine.Edit{}); return err },
		func() error { _, err := e.Fork(t.Context(), "t@1", "u", engine.By{}); return err },
	} {
		require.ErrorIs(t, call(), engine.ErrDeleted)
	}
	b.verify()
}
