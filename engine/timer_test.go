package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func (b *bundle) sleeper() *engine.Graph {
	d := b.chain("a", "sleep", "b")
	d.Nodes["sleep"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("sleep")
		return engine.Set("log", "slept"), t.Sleep(time.Hour)
	}}
	return b.compile(d)
}

func TestATimerFiresLateAndOnceForWhoeverOpensTheThread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.sleeper(), b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	require.Empty(t, turn.Questions, "a timer asks nobody")
	inbox, err := b.store.Inbox(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, inbox)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), *view.Thread.WakeAt)

	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status, "too early")
	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrPaused)
	_, err = e.Answer(t.Context(), "t", interrupt.Answer{Question: "t@3", Value: 1})
	require.ErrorContains(t, err, "nobody answers it")

	fake.Advance(5 * time.Hour)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{"a", "slept", "b"}, turn.State["log"])
	require.Equal(t, 2, b.count("sleep"))
	b.verify()
}

func TestACallThatSleepsAlongWakesUpInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.sleeper(), b.store, engine.Options{Clock: fake, Sleep: true})
	done := make(chan *engine.Turn, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		if err != nil {
			turn = nil
		}
		done <- turn
	}()
	require.NoError(t, fake.WaitForTimers(t.Context(), 1))
	fake.Advance(time.Hour)
	turn := <-done
	require.NotNil(t, turn)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

func (b *bundle) signalled(timeout time.Duration) *engine.Graph {
	d := b.chain("a", "wait", "b")
	d.Nodes["wait"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, came, err := t.AwaitSignal("go", timeout)
		return engine.Set("log", []any{v, came}), err
	}}
	return b.compile(d)
}

func TestASignalIsHandedToTheNodeThatWaitsForIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine(b.signalled(0))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	require.NoError(t, e.Signal(t.Context(), "t", "other", nil, engine.By{}))
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	require.NoError(t, e.Signal(t.Context(), "t", "go", map[string]any{"n": 1}, engine.By{Actor: "ada"}))
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", map[string]any{"n": int64(1)}, true, "b"}, turn.State["log"])
	require.ErrorIs(t, e.Signal(t.Context(), "t", "go", nil, engine.By{}), engine.ErrInvalid, "the turn is over")
	require.ErrorIs(t, e.Signal(t.Context(), "nobody", "go", nil, engine.By{}), engine.ErrNotFound)

	// Signals belong to their turn: the unused one does not reach the next.
	turn, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status)
	b.verify()
}

func TestASignalMayComeBeforeTheWaitAndCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "wait")
	d.InterruptBefore = []engine.Gate{{Node: "wait"}}
	d.Nodes["wait"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		first, _, err := t.AwaitSignal("go", 0)
		if err != nil {
			return engine.Output{}, err
		}
		second, _, err := t.AwaitSignal("go", 0)
		return engine.Set("log", []any{first, second}), err
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.NoError(t, e.Signal(t.Context(), "t", "go", 1, engine.By{}))
	turn, err := e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status, "the one signal is used up by the first wait")
	require.NoError(t, e.Signal(t.Context(), "t", "go", 2, engine.By{}))
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", int64(1), int64(2)}, turn.State["log"])
	b.verify()
}

func TestASignalWakesACallThatSleepsAlong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.signalled(0)
	asleep := make(chan struct{})
	e := engine.New(g, b.store, engine.Options{Sleep: true, Events: func(ev engine.Event) {
		if ev.Type == engine.EventSleep {
			close(asleep)
		}
	}})
	done := make(chan *engine.Turn, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		if err != nil {
			turn = nil
		}
		done <- turn
	}()
	<-asleep
	require.NoError(t, engine.New(nil, b.open(), engine.Options{}).Signal(t.Context(), "t", "go", "x", engine.By{}))
	turn := <-done
	require.NotNil(t, turn)
	require.Equal(t, []any{"a", "x", true, "b"}, turn.State["log"])
	b.verify()
}

func TestAWaitForASignalEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.signalled(time.Minute), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	fake.Advance(time.Minute)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", nil, false, "b"}, turn.State["log"])
}

// LibreChat#15284, meho#2367, octos#1451.
func TestADeadlineDecidesWithTheDefaultAndALateAnswerIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b", Deadline: time.Hour}}
	g := b.compile(d)
	e := engine.New(g, b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), *turn.Questions[0].Deadline)
	fake.Advance(time.Hour)
	turn, err = e.Answer(t.Context(), "t", func() interrupt.Answer { a := approve(); a.Question = "t@3"; return a }())
	require.ErrorIs(t, err, engine.ErrAnswered)
	require.ErrorContains(t, err, "via deadline")
	require.Equal(t, engine.Running, turn.Status, "the default is stored in the same transaction")
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	require.Equal(t, []string{"a"}, b.takeRuns())
	record, err := b.store.Question(t.Context(), "t", 3)
	require.NoError(t, err)
	require.Equal(t, "deadline", record.Answer.Via)

	// An answer in time counts, and a question with a default of its own.
	d.InterruptBefore = []engine.Gate{{Node: "b", Deadline: time.Hour, Default: interrupt.Approve}}
	e = engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	_, err = e.Start(t.Context(), "in time", engine.Input{})
	require.Error(t, err)
	_, err = e.Start(t.Context(), "in-time", engine.Input{})
	require.NoError(t, err)
	turn, err = e.Resume(t.Context(), "in-time", reject())
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	_, err = e.Start(t.Context(), "late", engine.Input{})
	require.NoError(t, err)
	fake.Advance(2 * time.Hour)
	turn, err = e.Resume(t.Context(), "late")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

func TestADialogEndsAtTheDeadlineOfItsQuestion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("ask")
	d.Nodes["ask"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		a, err := t.Ask(engine.Ask{Message: "how many?", Type: "integer", Deadline: time.Minute, Default: 7})
		return engine.Set("log", a.Value), err
	}}
	open := make(chan struct{})
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake, Ask: func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
		close(open)
		<-ctx.Done()
		return interrupt.Answer{}, ctx.Err()
	}})
	done := make(chan *engine.Turn, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		if err != nil {
			turn = nil
		}
		done <- turn
	}()
	<-open
	require.NoError(t, fake.WaitForTimers(t.Context(), 1))
	fake.Advance(time.Minute)
	turn := <-done
	require.NotNil(t, turn)
	require.Equal(t, []any{int64(7)}, turn.State["log"])
	b.verify()
}

func TestTheTurnsDeadlineKillsItsWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("a", "b")
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		b.ran("a")
		if b.count("a") == 1 {
			fake.Advance(time.Hour)
			<-ctx.Done()
			return engine.Output{}, context.Cause(ctx)
		}
		return engine.Set("log", "a"), nil
	}}
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{Deadline: noon.Add(time.Minute)})
	require.ErrorContains(t, err, "deadline has passed")
	require.Equal(t, engine.Failed, turn.Status)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err, "resuming is somebody's decision")
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

func TestACancelIsInTheLogWithItsActorAlsoWhenAnotherProcessObeysIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	started := make(chan struct{})
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		close(started)
		<-ctx.Done()
		return engine.Output{}, ctx.Err()
	}}
	g := b.compile(d)
	done := make(chan error, 1)
	go func() {
		_, err := b.engine(g).Start(t.Context(), "t", engine.Input{})
		done <- err
	}()
	<-started
	_, err := engine.New(g, b.open(), engine.Options{}).Cancel(t.Context(), "t", engine.By{Actor: "ada", Via: "cli", Reason: "wrong version", Client: "ssh 9"})
	require.NoError(t, err)
	require.NoError(t, <-done)
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, "ada", view.Head.Actor)
	require.Equal(t, "wrong version", view.Head.Payload.End.Reason)
	require.Equal(t, "cli", view.Head.Payload.End.Via)
	require.Equal(t, "ssh 9", view.Head.Payload.End.Client)
	require.Equal(t, engine.OSUser(), view.Head.Payload.End.OSUser, "the actor is a claim")
}

func TestAnInputFindsATurnWhoseTimerIsDueFinished(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.sleeper(), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrPaused, "it still sleeps")
	fake.Advance(time.Hour)
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(2), turn.Number)
	require.Equal(t, engine.Sleeping, turn.Status, "the new turn sleeps")
	require.Equal(t, []any{"a", "slept", "b", "a"}, turn.State["log"])

	// A question that its deadline has decided is no reason to refuse either.
	d := b.chain("a")
	d.InterruptBefore = []engine.Gate{{Node: "a", Deadline: time.Hour}}
	e = engine.New(b.compile(d), b.store, engine.Options{Clock: fake})
	_, err = e.Start(t.Context(), "gated", engine.Input{})
	require.NoError(t, err)
	fake.Advance(time.Hour)
	turn, err = e.Start(t.Context(), "gated", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, int64(2), turn.Number)
	require.Equal(t, []string{"input running", "pause paused", "answer running", "end rejected", "input running", "pause paused"}, b.kinds("gated"))
	b.verify()
}

func TestASleepingThreadThatIsEditedGoesOnFromTheNodeThatSlept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	e := engine.New(b.sleeper(), b.store, engine.Options{Clock: fake})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	edited, err := e.Update(t.Context(), "t", engine.Edit{
		Writes: []engine.Write{{Channel: "log", Value: "by hand"}}, By: engine.By{Actor: "ada", Via: "cli", Reason: "late"},
	})
	require.NoError(t, err)
	require.Equal(t, engine.Running, edited.Turn.Status, "the timer stands on a base that is gone")
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Empty(t, view.Waits())
	require.Equal(t, "ada", view.Head.Actor)
	require.Equal(t, "late", view.Head.Payload.Edit.Reason)
	require.Equal(t, "cli", view.Head.Payload.Edit.Via)
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Sleeping, turn.Status, "it sleeps anew")
	view, err = e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), *view.Waits()[0].Wait.Until)
	fake.Advance(time.Hour)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "by hand", "slept", "b"}, turn.State["log"])
	b.verify()
}

func TestAQuestionThatNobodyHereCanBeAskedIsNotSleptOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	d := b.chain("a")
	d.InterruptBefore = []engine.Gate{{Node: "a", Deadline: time.Hour}}
	e := engine.New(b.compile(d), b.store, engine.Options{Clock: fake, Sleep: true})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Nil(t, view.Thread.Owner)
	b.verify()
}
