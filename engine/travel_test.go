package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestAForkDoesNotInheritWhatItsSourceWasAllowed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.compile(b.chain("a")))
	require.NoError(t, b.store.Create(t.Context(), engine.Thread{ID: "t1", Cwd: "/work", Title: "t", Mode: "auto-approve", Options: map[string]any{"allowed": true}}))
	_, err := e.Start(t.Context(), "t1", engine.Input{})
	require.NoError(t, err)
	_, err = e.Fork(t.Context(), "t1@1", "t2", engine.By{})
	require.NoError(t, err)
	fork, err := b.store.Thread(t.Context(), "t2")
	require.NoError(t, err)
	require.Equal(t, "/work t", fork.Cwd+" "+fork.Title)
	require.Empty(t, fork.Mode)
	require.Empty(t, fork.Options)
}

// Cases 77 and 78 of the seeds.
func TestAForkGoesOnFromACheckpointAndLeavesItsSourceAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.compile(b.chain("a", "b", "c")))
	_, err := e.Start(t.Context(), "t1", engine.Input{})
	require.NoError(t, err)
	before := b.kinds("t1")
	turn, err := e.Fork(t.Context(), "t1@2", "t2", engine.By{Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, engine.Running, turn.Status)
	require.Equal(t, []any{"a"}, turn.State["log"])
	b.takeRuns()
	turn, err = e.Resume(t.Context(), "t2")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"b", "c"}, b.takeRuns())
	require.Equal(t, before, b.kinds("t1"))
	require.Equal(t, []string{"fork running", "step running", "step done"}, b.kinds("t2"))

	// A fork of the end takes another turn.
	_, err = e.Fork(t.Context(), "t1@4", "t3", engine.By{})
	require.NoError(t, err)
	turn, err = e.Start(t.Context(), "t3", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(2), turn.Number)
	require.Len(t, turn.State["log"], 6)

	for from, want := range map[string]error{"t1@9": engine.ErrNotFound, "nobody@1": engine.ErrNotFound, "t1@x": engine.ErrInvalid} {
		_, err = e.Fork(t.Context(), from, "t9", engine.By{})
		require.ErrorIs(t, err, want, from)
	}
	_, err = e.Fork(t.Context(), "t1@2", "t2", engine.By{})
	require.ErrorIs(t, err, engine.ErrExists)
	b.verify()
}

func TestAForkWhilePausedAsksItsGatesAnew(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		b := setup(t)
		d := b.chain("a", "b")
		if after {
			d.InterruptAfter = []engine.Gate{{Node: "a"}}
		} else {
			d.InterruptBefore = []engine.Gate{{Node: "b"}}
		}
		e := b.engine(b.compile(d))
		_, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		_, err = e.Answer(t.Context(), "t", approve())
		require.NoError(t, err)
		for _, at := range []string{"t@2", "t@3", "t@4"} { // the step, its question, its answer
			into := "fork-of-" + at[2:]
			turn, err := e.Fork(t.Context(), at, into, engine.By{})
			require.NoError(t, err)
			require.Equal(t, engine.Paused, turn.Status, at)
			require.Equal(t, into+"@2", turn.Questions[0].ID())
			turn, err = e.Resume(t.Context(), into, approve())
			require.NoError(t, err)
			require.Equal(t, []any{"a", "b"}, turn.State["log"])
		}
		b.verify()
	}
}

func TestAThreadGoesBackInPlaceAndItsOldBranchStaysReadable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "c")
	var fail atomic.Bool
	fail.Store(true)
	d.Nodes["c"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		b.ran("c")
		v, err := engine.Step(ctx, "pay", func(context.Context) (string, error) { b.ran("pay"); return "paid", nil })
		if err == nil && fail.Load() {
			err = errors.New("no")
		}
		return engine.Set("log", v), err
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.Error(t, err)
	fail.Store(false)
	turn, err := e.Fork(t.Context(), "t@3", "t", engine.By{Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, engine.Running, turn.Status)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b", "paid"}, turn.State["log"])
	require.Equal(t, 2, b.count("pay"), "nothing stored for the old base leaks")
	require.Equal(t, []string{"input running", "step running", "step running", "end failed", "fork running", "step done"}, b.kinds("t"))
	view, err := e.State(t.Context(), "t", 2)
	require.NoError(t, err)
	require.Equal(t, []any{"a"}, view.State["log"])
	var parents []int64
	require.NoError(t, e.History(t.Context(), "t", func(entry engine.Entry) error {
		parents = append(parents, entry.Parent)
		return nil
	}))
	require.Equal(t, []int64{0, 1, 2, 3, 3, 5}, parents, "ancestry is in the parent")
	b.verify()
}

func TestArrivalsAreForkedToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Fork(t.Context(), "t@2", "u", engine.By{})
	require.NoError(t, err)
	b.takeRuns()
	turn, err := e.Resume(t.Context(), "u")
	require.NoError(t, err)
	require.Equal(t, []string{"s2", "j"}, b.takeRuns())
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

// Case 80 of the seeds; and the gate is asked again, for what it shows changed.
func TestAnUpdateOfAPausedThreadAsksItsGateAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	edited, err := e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "edited"}}, By: engine.By{Actor: "ada"}})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, edited.Turn.Status)
	require.Equal(t, "t@5", edited.Turn.Questions[0].ID())
	old := approve()
	old.Question = "t@3"
	_, err = e.Answer(t.Context(), "t", old)
	require.ErrorIs(t, err, engine.ErrVoid)
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{"a", "edited", "b"}, turn.State["log"])
	b.verify()
}

func TestAnUpdateAsANodeLeadsWhereThatNodeLeads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Nodes["x"], d.Nodes["y"] = b.node(), b.node()
	d.Edges = append(d.Edges, engine.Edge{From: "x", To: "y"})
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	edited, err := e.Update(t.Context(), "t", engine.Edit{Node: "x", Writes: []engine.Write{{Channel: "log", Value: "as x"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, edited.Dropped)
	require.Equal(t, engine.Running, edited.Turn.Status)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "as x", "y"}, turn.State["log"])

	_, err = e.Update(t.Context(), "t", engine.Edit{Node: "nope"})
	require.ErrorIs(t, err, engine.ErrInvalid)
	_, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "lgo", Value: 1}}})
	require.ErrorContains(t, err, "did you mean log?")
	edited, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "after the end"}}})
	require.NoError(t, err)
	require.Equal(t, engine.Done, edited.Turn.Status)
	b.verify()
}

// Fault 12 of the first seed.
func TestAnUpdateLetsANodeThatAskedRunFromItsTop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("a")
		answer, err := t.Ask(engine.Ask{Message: "well?", Data: t.Get("log")})
		return engine.Set("log", answer.Value), err
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	edited, err := e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "new"}}})
	require.NoError(t, err)
	require.Equal(t, engine.Running, edited.Turn.Status)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"new"}, turn.Questions[0].Payload.Data)
	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "ok"})
	require.NoError(t, err)
	require.Equal(t, []any{"new", "ok"}, turn.State["log"])
	b.verify()
}

func TestADiffNamesWhatChanged(t *testing.T) {
	t.Parallel()
	a := engine.State{"n": int64(1), "same": "x", "log": []any{"a", map[string]any{"k": int64(1)}}, "gone": nil}
	b := engine.State{"n": int64(2), "same": "x", "log": []any{"a", map[string]any{"k": int64(2)}, "b"}, "new/1": true}
	require.Equal(t, []engine.Change{
		{Pointer: "/gone", Removed: true},
		{Pointer: "/log/1/k", Before: int64(1), After: int64(2)},
		{Pointer: "/log/2", After: "b", Added: true},
		{Pointer: "/n", Before: int64(1), After: int64(2)},
		{Pointer: "/new~11", After: true, Added: true},
	}, engine.Diff(a, b))
	require.Empty(t, engine.Diff(a, a))
}

func TestADialogThatLosesItsTurnToAnEarlierOneGoesOnWithThatTurnsGraph(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.compile(b.chain("a", "b"))
	_, err := b.engine(old).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	d := b.chain("x", "y")
	d.InterruptBefore = []engine.Gate{{Node: "y"}}
	asked := make(chan struct{})
	e := engine.New(b.compile(d), b.store, engine.Options{
		Load: func(string, []byte) (*engine.Graph, error) { return old, nil },
		Ask: func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
			close(asked)
			<-ctx.Done()
			return interrupt.Answer{}, ctx.Err()
		},
	})
	done := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), "t", engine.Input{})
		done <- err
	}()
	<-asked
	b.takeRuns()
	turn, err := engine.New(old, b.open(), engine.Options{}).Fork(t.Context(), "t@2", "t", engine.By{})
	require.NoError(t, err)
	require.True(t, turn.Elsewhere)
	require.NoError(t, <-done)
	require.Equal(t, []string{"b"}, b.takeRuns())
	b.verify()
}
