package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// When the last answer is in, only the paused tasks run.
func TestAHandledFailureIsNotRunAgainAfterASiblingsQuestion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	n := b.failing(1)
	n.OnError = "handler"
	d.Nodes["a"] = n
	d.Nodes["handler"] = b.node()
	d.Nodes["asks"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		_, err := t.Ask(engine.Ask{Message: "?"})
		return engine.Output{}, err
	}}
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "asks"})
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", interrupt.Answer{Value: 1})
	require.NoError(t, err)
	require.Equal(t, 1, b.count("a"), "only the paused task runs")
	require.Equal(t, []any{"handler"}, turn.State["log"])
	b.verify()
}

// A cancel was stored, and its thread stopped before it obeyed.
func TestAStoredCancelIsObeyedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	ctx, stop := context.WithCancel(t.Context())
	first := true
	d.Nodes["a"] = engine.Node{Run: func(c context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("a")
		if !first {
			return engine.Output{}, nil
		}
		first = false
		log, err := b.store.Open(c, "t")
		if err == nil {
			err = log.Commit(c, &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}})
		}
		stop()
		if err == nil {
			err = ctx.Err()
		}
		return engine.Output{}, err
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(ctx, "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrStopped)
	b.takeRuns()
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	require.Empty(t, b.takeRuns())
}

// What an approver is shown is what will be checked.
func TestResolveSeesTheSameTurnAndStepAtTheGateAndAtWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	for _, name := range []string{"a", "b"} {
		n := b.node()
		n.Type, n.Resolve = "test", func(t *engine.Task) (any, error) {
			return fmt.Sprint("turn ", t.Turn(), " step ", t.Step()), nil
		}
		d.Nodes[name] = n
	}
	d.InterruptBefore = []engine.Gate{{Node: "a"}, {Node: "b"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "turn 1 step 1", turn.Questions[0].Shows)
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, "turn 1 step 2", turn.Questions[0].Shows)
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
}

// The same again is fine, also in one call.
func TestTwoAnswersToOneQuestionInOneCallMustBeTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.gated())
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	yes := approve()
	yes.Question = turn.Questions[0].ID()
	no := reject()
	no.Question = yes.Question
	_, err = e.Answer(t.Context(), "t", yes, no)
	require.ErrorIs(t, err, engine.ErrInvalid)
	_, err = e.Answer(t.Context(), "t", yes, yes)
	require.NoError(t, err)
}

// The process that waits goes on with the graph of the turn it finds.
func TestAForkInPlaceUnderAnOpenDialogGoesOnWithItsOwnGraph(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := b.compile(b.chain("a", "b"))
	two := b.gatedLast("x", "y")
	load := func(name string, definition []byte) (*engine.Graph, error) {
		if string(definition) == string(one.Canonical()) {
			return one, nil
		}
		return two, nil
	}
	_, err := b.engine(one).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	open := make(chan struct{})
	e := engine.New(two, b.store, engine.Options{Load: load, Ask: func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
		close(open)
		<-ctx.Done()
		return interrupt.Answer{}, ctx.Err()
	}})
	done := make(chan struct{})
	var turn *engine.Turn
	go func() {
		defer close(done)
		turn, err = e.Start(t.Context(), "t", engine.Input{})
	}()
	<-open
	other := engine.New(two, b.open(), engine.Options{Load: load})
	_, ferr := other.Fork(t.Context(), "t@2", "t", engine.By{})
	require.NoError(t, ferr)
	<-done
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "b"}, turn.State["log"])
}

func (b *bundle) gatedLast(names ...string) *engine.Graph {
	d := b.chain(names...)
	d.InterruptBefore = []engine.Gate{{Node: names[len(names)-1]}}
	return b.compile(d)
}

// A question is no crash: nothing broke off.
func TestGuardedWorkThatAsksIsNotInDoubt(t *testing.T) {
	t.Parallel()
	for _, policy := range []engine.OnCrash{engine.CrashAsk, engine.CrashFail} {
		for _, how := range []string{"ask", "return", "swallow", "effect", "subgraph"} {
			t.Run(string(policy)+how, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				d := b.chain("a")
				d.Nodes["a"] = engine.Node{OnCrash: policy, Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
					switch how {
					case "return":
						if t.Answer() == nil {
							return engine.Output{Ask: &engine.Ask{Message: "?"}}, nil
						}
						return engine.Set("log", t.Answer().Value), nil
					case "effect":
						v, err := engine.Step(ctx, "e", func(context.Context) (any, error) {
							a, err := t.Ask(engine.Ask{Message: "?"})
							return a.Value, err
						})
						return engine.Set("log", v), err
					}
					a, err := t.Ask(engine.Ask{Message: "?"})
					if how == "swallow" {
						err = nil
					}
					return engine.Set("log", a.Value), err
				}}
				if how == "subgraph" {
					cd := b.chain("x")
					cd.Nodes["x"] = d.Nodes["a"]
					d.Nodes["a"] = engine.Node{OnCrash: policy, Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
				}
				e := b.engine(b.compile(d))
				_, err := e.Start(t.Context(), "t", engine.Input{})
				require.NoError(t, err)
				turn, err := e.Resume(t.Context(), "t", interrupt.Answer{Value: "ok"})
				require.NoError(t, err)
				require.Empty(t, turn.Questions)
				require.Equal(t, []any{"ok"}, turn.State["log"])
				b.verify()
			})
		}
	}
}

// The name of a repeated key may be a key of its own.
func TestKeysOfEffectsNeverMeet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		var out []any
		for _, key := range []string{"pay", "pay", "pay#2", "pay"} {
			v, err := engine.Step(ctx, key, func(context.Context) (int, error) { b.ran("pay"); return b.count("pay"), nil })
			if err != nil {
				return engine.Output{}, err
			}
			out = append(out, v)
		}
		return engine.Set("log", out), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(2), int64(3), int64(4)}, turn.State["log"])
}

// It would leave results of one step on the base of another.
func TestATaskThatIsUsedAfterItsNodeReturnedChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "a2")
	var late *engine.Task
	var lateCtx context.Context
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		late, lateCtx = t, ctx
		return engine.Set("log", "a"), nil
	}}
	d.Nodes["b"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		_, err := engine.Step(lateCtx, "late", func(context.Context) (int, error) { return 1, nil })
		b.ran(fmt.Sprint("late: ", err != nil))
		_, err = late.Ask(engine.Ask{Message: "late?"})
		b.ran(fmt.Sprint("ask: ", err != nil))
		return engine.Output{}, errors.New("stop here")
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "stop here")
	require.Equal(t, []string{"late: true", "ask: true"}, b.takeRuns())
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Results)
}

// It does not run the join past the others that it waits for.
func TestARejectionThatLeadsIntoAJoinIsAnArrivalThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.InterruptBefore = []engine.Gate{{Node: "a", OnReject: "j"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"s1", "s2", "j"}, turn.State["log"])
	b.verify()
}

// Its attempt broke off.
func TestAGuardedNodeThatTimesOutIsInDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{OnCrash: engine.CrashAsk, Timeout: &engine.Timeout{Run: time.Minute}, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		<-ctx.Done()
		return engine.Output{}, ctx.Err()
	}}
	ctx, done := context.WithCancel(t.Context())
	jumped := make(chan struct{})
	go func() {
		defer close(jumped)
		for fake.WaitForTimers(ctx, 1) == nil {
			fake.Next()
		}
	}()
	turn, err := engine.New(b.compile(d), b.store, engine.Options{Clock: fake}).Start(t.Context(), "t", engine.Input{})
	done()
	<-jumped
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.True(t, turn.Questions[0].IsDoubt())
}

// To go on is an event from outside.
func TestResumeAfterAStopGrantsStepsAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "c", "d")
	ctx, stop := context.WithCancel(t.Context())
	var once atomic.Bool
	d.Nodes["b"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		if once.CompareAndSwap(false, true) {
			stop()
		}
		return engine.Set("log", "b"), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(ctx, "t", engine.Input{MaxSteps: 3})
	require.ErrorIs(t, err, engine.ErrStopped)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
}

// Else it would end the process on a task's goroutine, and elsewhere keep the
// thread busy until the process ends.
func TestAPanicInEventsStopsTheTurnAndGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	for _, typ := range []engine.EventType{
		engine.EventTurnStarted, engine.EventTaskStarted, engine.EventOutput, engine.EventTaskFinished, engine.EventStep, engine.EventTurnEnded,
	} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a", "b")
			for _, name := range []string{"b", "c", "d"} { // side by side, behind a
				d.Nodes[name] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
					t.Print("working")
					return engine.Set("log", t.Node()), nil
				}}
			}
			d.Edges = append(d.Edges, engine.Edge{From: "a", To: "c"}, engine.Edge{From: "a", To: "d"})
			g := b.compile(d)
			bad := engine.New(g, b.store, engine.Options{Events: func(ev engine.Event) {
				if ev.Type == typ {
					panic("events")
				}
			}})
			for _, call := range []func() (*engine.Turn, error){
				func() (*engine.Turn, error) { return bad.Start(t.Context(), "t", engine.Input{}) },
				func() (*engine.Turn, error) { return bad.Resume(t.Context(), "t") },
			} {
				turn, err := call()
				if turn.Status == engine.Done {
					continue // it came to its end, and the second call had nothing to tell
				}
				require.ErrorContains(t, err, "Options.Events panicked: events")
				require.ErrorIs(t, err, engine.ErrStopped)
				require.Equal(t, engine.Running, turn.Status)
			}
			turn, err := b.engine(g).Resume(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, engine.Done, turn.Status)
			require.Equal(t, []any{"a", "b", "c", "d"}, turn.State["log"])
			b.verify()
		})
	}
}

func TestAPanicInADialogLeavesTheTurnPaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.InterruptBefore = []engine.Gate{{Node: "a"}}
	g := b.compile(d)
	bad := engine.New(g, b.store, engine.Options{Ask: func(context.Context, interrupt.Question) (interrupt.Answer, error) {
		panic("dialog")
	}})
	turn, err := bad.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "Options.Ask panicked: dialog")
	require.Equal(t, engine.Paused, turn.Status)
	turn, err = b.engine(g).Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

// The queue goes on: the step has not failed.
func TestAHandledFailureDoesNotLoseQueuedTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(10)
	d.Nodes["worker"] = engine.Node{OnError: "handler", Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		if t.ID() == "worker[2]" {
			return engine.Output{}, errors.New("no")
		}
		return engine.Set("results", t.Get("x")), nil
	}}
	d.Nodes["handler"] = b.node()
	e := engine.New(b.compile(d), b.store, engine.Options{MaxConcurrency: 1})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.State["results"], 9)
}

// A gate behind a subgraph has nothing to approve if a gate inside was rejected,
// Tasks that find a place at once all start, however fast one of them fails.
func TestAFastFailureKeepsNoneOfItsSiblingsFromStarting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.mapReduce(engine.DefaultMaxConcurrency)
	d.Nodes["worker"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.ID())
		return engine.Output{}, errors.New("no")
	}}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.Error(t, err)
	require.Len(t, b.takeRuns(), engine.DefaultMaxConcurrency)
	b.verify()
}

// No way leads into a join past its barrier: no failure, rejection or Goto.
func TestNothingLeadsIntoAJoinThatDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append}}
	s1 := d.Nodes["s1"]
	s1.OnError = "j"
	d.Nodes["s1"] = s1
	d.InterruptBefore = []engine.Gate{{Node: "s1", OnReject: "j"}}
	_, err := engine.Compile(d)
	require.ErrorContains(t, err, "/nodes/s1/on_error: a failure of s1 leads into join j, which does not wait for it")
	require.ErrorContains(t, err, "/interrupt_before/0/on_reject: a rejection of s1 leads into join j, which does not wait for it")
	d.InterruptBefore = nil
	d.Nodes["s1"] = writes(engine.Output{}.GoTo("j"))
	_, err = b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `goto "j": it is a join, which does not wait for s1`)
	require.Zero(t, b.count("j"))
}
