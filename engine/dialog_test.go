package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

type dialog func(ctx context.Context, q interrupt.Question) (interrupt.Answer, error)

func (b *bundle) withDialog(g *engine.Graph, ask dialog) *engine.Engine {
	return engine.New(g, b.store, engine.Options{Ask: ask})
}

func (b *bundle) gated() *engine.Graph {
	d := b.chain("a", "b", "c")
	d.InterruptBefore = []engine.Gate{{Node: "b"}, {Node: "c"}}
	return b.compile(d)
}

func TestADialogAnswersEveryQuestionInOneCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked []string
	e := b.withDialog(b.gated(), func(_ context.Context, q interrupt.Question) (interrupt.Answer, error) {
		asked = append(asked, q.ID())
		if len(asked) == 1 {
			return interrupt.Answer{Value: "perhaps"}, nil // not acceptable: asked again
		}
		return approve(), nil
	})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"t@3", "t@3", "t@6"}, asked)
	b.verify()
}

func TestLeavingADialogLeavesTheTurnPaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.withDialog(b.gated(), func(context.Context, interrupt.Question) (interrupt.Answer, error) {
		return interrupt.Answer{}, errors.New("the person went away")
	})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Len(t, b.kinds("t"), 3, "nothing is logged")

	ctx, interruptKey := context.WithCancel(t.Context())
	e = b.withDialog(b.gated(), func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
		interruptKey()
		<-ctx.Done()
		return interrupt.Answer{}, ctx.Err()
	})
	turn, err = e.Resume(ctx, "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	view, err := b.engine(b.gated()).State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Nil(t, view.Thread.Owner, "the lease is given back")
	b.verify()
}

func TestAnAnswerFromElsewhereWithdrawsTheDialogAndTheTurnGoesOnHere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.gated()
	open := make(chan interrupt.Question)
	withdrawn := make(chan string, 2)
	e := b.withDialog(g, func(ctx context.Context, q interrupt.Question) (interrupt.Answer, error) {
		open <- q
		<-ctx.Done()
		withdrawn <- q.ID()
		return interrupt.Answer{}, ctx.Err()
	})
	type ended struct {
		turn *engine.Turn
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		done <- ended{turn, err}
	}()
	other := engine.New(g, b.open(), engine.Options{})
	for _, want := range []string{"t@3", "t@6"} {
		q := <-open
		require.Equal(t, want, q.ID())
		turn, err := other.Resume(t.Context(), "t", approve())
		require.NoError(t, err)
		require.True(t, turn.Elsewhere)
		require.Equal(t, want, <-withdrawn)
	}
	end := <-done
	require.NoError(t, end.err)
	require.Equal(t, engine.Done, end.turn.Status)
	require.Equal(t, []string{"a", "b", "c"}, b.takeRuns())
	b.verify()
}

func TestACancelFromElsewhereWithdrawsTheDialog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.gated()
	open := make(chan struct{})
	e := b.withDialog(g, func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
		close(open)
		<-ctx.Done()
		return interrupt.Answer{}, ctx.Err()
	})
	done := make(chan *engine.Turn, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		if err != nil {
			turn = nil
		}
		done <- turn
	}()
	<-open
	turn, err := engine.New(g, b.open(), engine.Options{}).Cancel(t.Context(), "t", engine.By{})
	require.NoError(t, err)
	require.Equal(t, engine.Cancelled, turn.Status)
	end := <-done
	require.NotNil(t, end)
	require.Equal(t, engine.Cancelled, end.Status)
	b.verify()
}

func TestADialogGoesOnWithTheDeadlineOfTheTurnThatTheThreadWentBackTo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fake := clock.NewFake(noon)
	g := b.gated()
	open := make(chan interrupt.Question)
	answers := make(chan bool, 1)
	e := engine.New(g, b.store, engine.Options{Clock: fake, Ask: func(ctx context.Context, q interrupt.Question) (interrupt.Answer, error) {
		open <- q
		select {
		case <-ctx.Done():
			return interrupt.Answer{}, ctx.Err()
		case <-answers:
			return approve(), nil
		}
	}})
	other := engine.New(g, b.open(), engine.Options{Clock: fake})
	_, err := other.Start(t.Context(), "t", engine.Input{}) // no deadline
	require.NoError(t, err)
	_, err = other.Resume(t.Context(), "t", reject())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		turn, err := e.Start(t.Context(), "t", engine.Input{Deadline: noon.Add(time.Minute)})
		if err == nil && turn.Status != engine.Done {
			err = errors.New(string(turn.Status))
		}
		done <- err
	}()
	<-open
	turn, err := other.Fork(t.Context(), "t@2", "t", engine.By{})
	require.NoError(t, err)
	require.True(t, turn.Elsewhere)
	for range 2 { // the gates of b and c
		fake.Advance(time.Hour)
		<-open
		answers <- true
	}
	require.NoError(t, <-done)
	b.verify()
}

func TestTheDialogsAnswerLosesToOneThatWasStoredFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.gated()
	other := engine.New(g, b.open(), engine.Options{})
	var notes []string
	e := engine.New(g, b.store, engine.Options{
		Events: func(ev engine.Event) {
			if ev.Type == engine.EventNote {
				notes = append(notes, ev.Text)
			}
		},
		Ask: func(_ context.Context, q interrupt.Question) (interrupt.Answer, error) {
			if q.ID() != "t@3" {
				return interrupt.Answer{}, errors.New("enough")
			}
			no := reject()
			no.Actor = "eve"
			_, err := other.Answer(t.Context(), "t", no)
			require.NoError(t, err)
			return approve(), nil
		},
	})
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "by eve")
	require.Equal(t, []string{"a"}, b.takeRuns())
	b.verify()
}
