package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Case 26 of the seeds; faults 16 of the first and 1 of the second.
func TestAThreadTakesManyTurnsAndKeepsItsState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Channels = map[string]engine.Channel{"messages": {Reducer: engine.Messages}, "n": {Reducer: engine.Sum}}
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Set("messages", map[string]any{"role": "assistant", "content": "hi"}).Set("n", 1), nil
	}}
	e := b.engine(b.compile(d))
	for i := range 3 {
		turn, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"messages": map[string]any{"role": "user", "content": "hello"}}})
		require.NoError(t, err)
		require.Equal(t, int64(i+1), turn.Number)
		require.Equal(t, int64(1), turn.Step, "steps count within the turn")
		require.Len(t, turn.State["messages"], 2*(i+1))
		require.Equal(t, int64(i+1), turn.State["n"])
	}
	turn, err := e.Start(t.Context(), "other", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.State["messages"], 1)
	b.verify()
}

// Cases 20 and 22 of the seeds.
func TestResumeOfAFinishedTurnChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.compile(b.chain("a")))
	first, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	again, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, []string{"a"}, b.takeRuns())
	_, err = e.Cancel(t.Context(), "t", engine.By{})
	require.ErrorIs(t, err, engine.ErrInvalid)
	_, err = e.Resume(t.Context(), "nobody")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

// Case 32 of the seeds.
func TestAFinishedSiblingIsNotRunAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	var fail atomic.Bool
	fail.Store(true)
	for _, name := range []string{"b", "c", "d"} {
		d.Nodes[name] = b.node()
		d.Edges = append(d.Edges, engine.Edge{From: "a", To: name})
	}
	d.Nodes["c"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("c")
		if fail.Load() {
			return engine.Output{}, errors.New("no luck")
		}
		return engine.Set("log", "c"), nil
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	var turnErr *engine.TurnError
	require.ErrorAs(t, err, &turnErr)
	require.Equal(t, "c", turnErr.Node)
	require.Equal(t, engine.Failed, turn.Status)
	require.Equal(t, []any{"a"}, turn.State["log"], "a failed step leaves nothing of its output")
	b.takeRuns()

	_, err = e.Resume(t.Context(), "t")
	require.ErrorContains(t, err, "no luck")
	require.Equal(t, []string{"c"}, b.takeRuns())
	fail.Store(false)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, b.takeRuns())
	require.Equal(t, []any{"a", "b", "c", "d"}, turn.State["log"], "in task order, not in the order of finishing")
	b.verify()
}

// Fault 1 of the first seed, and 6 of the second.
func TestAFinishedSiblingIsNotRunAgainAfterAQuestion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "after_a")
	d.Nodes["b"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("b")
		a, err := t.Ask(engine.Ask{Message: "well?"})
		return engine.Set("log", a.Value), err
	}}
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "b"})
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "fine"})
	require.NoError(t, err)
	require.Equal(t, 1, b.count("a"))
	require.Equal(t, 1, b.count("after_a"), "siblings keep writes and successors")
	require.Equal(t, []any{"a", "fine", "after_a"}, turn.State["log"])
	b.verify()
}

// Case 64 of the seeds.
// Fault 2 of the second seed.
func TestTheStepLimitFailsTheTurnAndResumeGrantsAsManyAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Edges = append(d.Edges, engine.Edge{From: "a", To: "a"})
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 3})
	require.ErrorIs(t, err, engine.ErrStepLimit)
	require.Equal(t, engine.Failed, turn.Status)
	require.Equal(t, 3, b.count("a"))
	_, err = e.Resume(t.Context(), "t")
	require.ErrorIs(t, err, engine.ErrStepLimit)
	require.Equal(t, 6, b.count("a"))
	b.verify()
}

func TestAnAnswerGrantsStepsAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "c", "d")
	d.InterruptBefore = []engine.Gate{{Node: "c"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{MaxSteps: 2})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
}

func TestTwoWritersOfAnOverwriteChannelAreAnErrorNamingBoth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["b"] = b.node()
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "b"})
	d.Channels = map[string]engine.Channel{"log": {}}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "tasks a and b both write channel log")
}

// Case 62 of the seeds; langgraph#8834.
func TestARouteThatFailsLeavesTheResults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	key := "nowhere"
	d.Nodes["good"] = b.node()
	d.ConditionalEdges = []engine.ConditionalEdge{{From: "a",
		Route:  func(engine.State) ([]string, error) { return []string{key}, nil },
		Routes: map[string]string{"yes": "good", "no": engine.End}}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `"nowhere", which leads nowhere; known keys are no, yes`)
	_, err = e.Resume(t.Context(), "t")
	require.ErrorContains(t, err, "nowhere", "langgraph#8834: the router runs again")
	key = "yes"
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a", "good"}, b.takeRuns())
	b.verify()
}

// Case 57 of the seeds, and fault 8 of the first.
func TestAGotoReplacesTheEdgesOfItsNodeOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "wrong")
	for _, name := range []string{"right", "sibling", "next"} {
		d.Nodes[name] = b.node()
	}
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "sibling"}, engine.Edge{From: "sibling", To: "next"})
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		return engine.Set("log", "a").GoTo("right"), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"a", "sibling", "next", "right"}, turn.State["log"])
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}.GoTo("rihgt"), nil
	}}
	_, err = b.engine(b.compile(d)).Start(t.Context(), "u", engine.Input{})
	require.ErrorContains(t, err, `goto "rihgt"`)
}

// Fault 28 of the first seed.
func TestBadInputIsRefusedAndStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.compile(b.chain("a")))
	for _, in := range []engine.Values{{"lgo": 1}, {"log": func() {}}, {"log": string(make([]byte, engine.MaxValue))}} {
		_, err := e.Start(t.Context(), "t", engine.Input{Values: in})
		require.Error(t, err)
	}
	_, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"lgo": 1}})
	require.ErrorContains(t, err, `no channel "lgo"; declared are log; did you mean log?`)
	for _, id := range []string{"", "a b", "a@1", "a\n"} {
		_, err := e.Start(t.Context(), id, engine.Input{})
		require.Error(t, err, id)
	}
	_, err = b.store.Open(t.Context(), "t")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

func TestAPanicIsAFailedTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) { panic("oh no") }}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "panic: oh no")
	require.Equal(t, engine.Failed, turn.Status)
	b.verify()
}

// Case 8 of the seeds, as the design has it: no gate is run through.
func TestAnInterruptWithoutAStoreEndsTheTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.InterruptBefore = []engine.Gate{{Node: "a"}}
	_, err := engine.New(b.compile(d), nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrNoStore)
	require.Empty(t, b.takeRuns(), "and the gated node did not run")
}

func TestACancelEndsAPausedTurnAndItsQuestions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Cancel(t.Context(), "t", engine.By{Actor: "ada", Reason: "changed my mind"})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	require.Equal(t, []any{"a"}, turn.State["log"])
	yes := approve()
	yes.Question = "t@3"
	_, err = e.Resume(t.Context(), "t", yes)
	require.ErrorIs(t, err, engine.ErrVoid)
	turn, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err, "a cancelled thread takes another turn")
	require.Equal(t, engine.Paused, turn.Status)
	b.verify()
}

func TestACancelFromElsewhereKillsRunningWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	started := make(chan struct{})
	d.Nodes["a"] = engine.Node{OnCrash: engine.CrashAsk, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		close(started)
		<-ctx.Done()
		return engine.Output{}, ctx.Err()
	}}
	g := b.compile(d)
	type ended struct {
		turn *engine.Turn
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		turn, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
		done <- ended{turn, err}
	}()
	<-started
	other := engine.New(g, b.open(), engine.Options{})
	_, err := other.Resume(t.Context(), "t")
	require.ErrorIs(t, err, engine.ErrBusy)
	_, err = other.Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrBusy)
	turn, err := other.Cancel(t.Context(), "t", engine.By{Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	end := <-done
	require.NoError(t, end.err)
	require.Equal(t, engine.Cancelled, end.turn.Status)
	require.Empty(t, b.takeRuns())
	b.verify()
}

func TestATurnMovedByOneGoroutineIsBusyForAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	started, release := make(chan struct{}), make(chan struct{})
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		close(started)
		<-release
		return engine.Set("log", "a"), nil
	}}
	e := b.engine(b.compile(d))
	done := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), "t", engine.Input{})
		done <- err
	}()
	<-started
	_, err := e.Resume(t.Context(), "t")
	require.ErrorIs(t, err, engine.ErrBusy)
	close(release)
	require.NoError(t, <-done)
	b.verify()
}

func TestAStoppedTurnGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	d := b.chain("a", "b", "c")
	d.Nodes["b"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		b.ran("b")
		if b.count("b") == 1 {
			stop()
			return engine.Output{}, ctx.Err()
		}
		return engine.Set("log", "b"), nil
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(ctx, "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrStopped)
	require.Equal(t, engine.Running, turn.Status)

	// A new input finishes the turn that was cut short, then takes its own.
	turn, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(2), turn.Number)
	require.Equal(t, []any{"a", "b", "c", "a", "b", "c"}, turn.State["log"])
	require.Equal(t, []string{"a", "b", "b", "c", "a", "b", "c"}, b.takeRuns())
	b.verify()
}

func TestATurnIsPinnedToTheGraphItBeganWith(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	old := b.compile(d)
	_, err := b.engine(old).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	changed := b.compile(b.chain("a", "x"))
	turn, err := b.engine(changed).Resume(t.Context(), "t", approve())
	require.ErrorIs(t, err, engine.ErrGraphChanged)
	require.ErrorContains(t, err, "the answer is stored")
	require.Equal(t, engine.Running, turn.Status)

	loaded := engine.New(changed, b.store, engine.Options{Load: func(name string, definition []byte) (*engine.Graph, error) {
		require.Equal(t, "chain", name)
		require.Equal(t, old.Canonical(), definition)
		return old, nil
	}})
	turn, err = loaded.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b"}, turn.State["log"])

	// A new turn takes the graph given now.
	turn, err = loaded.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b", "a", "x"}, turn.State["log"])
	b.verify()
}

func TestTheHistoryTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{Actor: "bob"})
	require.NoError(t, err)
	_, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	var story []string
	require.NoError(t, e.History(t.Context(), "t", func(entry engine.Entry) error {
		story = append(story, fmt.Sprintf("%d %s base %d step %d tasks %v next %v by %q", entry.Seq, entry.Kind, entry.Base, entry.Step, entry.Tasks, entry.Next, entry.Actor))
		return nil
	}))
	require.Equal(t, []string{
		`1 input base 1 step 0 tasks [] next [a] by "bob"`,
		`2 step base 2 step 1 tasks [a] next [b] by ""`,
		`3 pause base 2 step 1 tasks [a] next [] by ""`,
		`4 answer base 2 step 1 tasks [] next [] by "ada"`,
		`5 step base 5 step 2 tasks [b] next [] by ""`,
	}, story)
	for seq, want := range map[int64][]any{1: {}, 2: {"a"}, 4: {"a"}, 5: {"a", "b"}, 0: {"a", "b"}} {
		view, err := e.State(t.Context(), "t", seq)
		require.NoError(t, err)
		require.Equal(t, want, view.State["log"])
	}
	_, err = e.State(t.Context(), "t", 6)
	require.ErrorIs(t, err, engine.ErrNotFound)
}
