package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestAnEffectIsNotDoneAgainWhenItsNodeIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	fail := true
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		var out []any
		for range 3 { // one key several times is told apart by order
			v, err := engine.Step(ctx, "pay", func(context.Context) (int, error) {
				b.ran("pay")
				return b.count("pay"), nil
			})
			if err != nil {
				return engine.Output{}, err
			}
			out = append(out, v)
		}
		if fail {
			return engine.Output{}, errors.New("broken afterwards")
		}
		return engine.Set("log", out), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "broken afterwards")
	require.Equal(t, 3, b.count("pay"))
	fail = false
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 3, b.count("pay"))
	require.Equal(t, []any{int64(1), int64(2), int64(3)}, turn.State["log"])
	b.verify()
}

func TestWorkInDoubtIsAskedAboutOrNot(t *testing.T) {
	t.Parallel()
	for _, policy := range []engine.OnCrash{engine.CrashAsk, engine.CrashRetry, engine.CrashFail} {
		for _, inner := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, effect %v", policy, inner), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				ctx, stop := context.WithCancel(t.Context())
				d := b.chain("a", "b")
				work := func(ctx context.Context) (string, error) {
					b.ran("work")
					if b.count("work") == 1 {
						stop() // the process is stopped while the work runs
						return "", ctx.Err()
					}
					return "worked", nil
				}
				n := engine.Node{OnCrash: policy, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
					v, err := work(ctx)
					return engine.Set("log", v), err
				}}
				if inner {
					n = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
						v, err := engine.Step(ctx, "work", work, policy)
						return engine.Set("log", v), err
					}}
				}
				d.Nodes["a"] = n
				e := b.engine(b.compile(d))
				turn, err := e.Start(ctx, "t", engine.Input{})
				require.ErrorIs(t, err, engine.ErrStopped)
				require.Equal(t, engine.Running, turn.Status)

				turn, err = e.Resume(t.Context(), "t")
				switch policy {
				case engine.CrashRetry:
					require.NoError(t, err)
					require.Equal(t, engine.Done, turn.Status)
					require.Equal(t, 2, b.count("work"))
				case engine.CrashFail:
					require.ErrorContains(t, err, "on_crash is fail")
					require.Equal(t, 1, b.count("work"))
					turn, err = e.Resume(t.Context(), "t")
					require.NoError(t, err, "resuming a failed turn is somebody's decision")
					require.Equal(t, engine.Done, turn.Status)
				case engine.CrashAsk:
					require.NoError(t, err)
					require.Equal(t, engine.Paused, turn.Status)
					require.Equal(t, 1, b.count("work"))
					q := turn.Questions[0]
					require.True(t, q.IsDoubt())
					require.Equal(t, interrupt.Dynamic, q.Payload.Kind)
					require.Empty(t, q.Payload.Node)
					require.NotEmpty(t, q.Payload.Message)
					_, err = e.Resume(t.Context(), "t", interrupt.Answer{Choice: interrupt.Approve})
					require.ErrorContains(t, err, "run_again, done, fail")
					turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Choice: interrupt.RunAgain})
					require.NoError(t, err)
					require.Equal(t, engine.Done, turn.Status)
					require.Equal(t, 2, b.count("work"))
				}
				require.Equal(t, []any{"worked", "b"}, turn.State["log"])
				b.verify()
			})
		}
	}
}

func TestADoubtTakesDoneWithAResultAndFail(t *testing.T) {
	t.Parallel()
	for _, inner := range []bool{true, false} {
		for _, choice := range []string{interrupt.DoneIt, interrupt.FailIt} {
			t.Run(fmt.Sprintf("%s, effect %v", choice, inner), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				ctx, stop := context.WithCancel(t.Context())
				d := b.chain("a")
				work := func(ctx context.Context) (string, error) {
					b.ran("work")
					stop()
					return "", ctx.Err()
				}
				n := engine.Node{OnCrash: engine.CrashAsk, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
					v, err := work(ctx)
					return engine.Set("log", v), err
				}}
				given := any(map[string]any{"log": "by hand"})
				if inner {
					n = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
						v, err := engine.Step(ctx, "work", work, engine.CrashAsk)
						return engine.Set("log", v), err
					}}
					given = "by hand"
				}
				d.Nodes["a"] = n
				e := b.engine(b.compile(d))
				_, err := e.Start(ctx, "t", engine.Input{})
				require.ErrorIs(t, err, engine.ErrStopped)
				_, err = e.Resume(t.Context(), "t")
				require.NoError(t, err)
				a := interrupt.Answer{Choice: choice, Actor: "ada"}
				if choice == interrupt.DoneIt {
					a.Value = given
				}
				turn, err := e.Resume(t.Context(), "t", a)
				if choice == interrupt.FailIt {
					require.ErrorContains(t, err, "ada answered fail")
					require.Equal(t, engine.Failed, turn.Status)
				} else {
					require.NoError(t, err)
					require.Equal(t, []any{"by hand"}, turn.State["log"])
				}
				require.Equal(t, 1, b.count("work"))
				b.verify()
			})
		}
	}
}

func TestAnAttemptThatBrokeOffIsInDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{OnCrash: engine.CrashAsk, Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		if b.count("a") == 1 {
			return engine.Output{}, fmt.Errorf("timed out after 1s: %w", engine.ErrInDoubt)
		}
		return engine.Set("log", "a"), nil
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.True(t, turn.Questions[0].IsDoubt())
	require.Contains(t, turn.Questions[0].Payload.Message, "did its work: it broke off (timed out after 1s). Run it again")
	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Choice: interrupt.RunAgain})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 2, b.count("a"))
	b.verify()
}

func TestAnAttemptThatBrokeOffFailsAndIsRunAgainByTheFirstResume(t *testing.T) {
	t.Parallel()
	for _, effect := range []bool{false, true} {
		b := setup(t)
		d := b.chain("a")
		work := func(context.Context) (string, error) {
			b.ran("work")
			if b.count("work") == 1 {
				return "", fmt.Errorf("the connection is gone: %w", engine.ErrInDoubt)
			}
			return "a", nil
		}
		d.Nodes["a"] = engine.Node{OnCrash: engine.CrashFail, Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
			v, err := work(ctx)
			return engine.Set("log", v), err
		}}
		if effect {
			d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
				v, err := engine.Step(ctx, "work", work, engine.CrashFail)
				return engine.Set("log", v), err
			}}
		}
		e := b.engine(b.compile(d))
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.ErrorContains(t, err, "the connection is gone")
		require.Equal(t, engine.Failed, turn.Status)
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Done, turn.Status)
		require.Equal(t, 2, b.count("work"))
		b.verify()
	}
}

func TestAFailureThatIsKnownLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{OnCrash: engine.CrashAsk, Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		if b.count("a") == 1 {
			return engine.Output{}, errors.New("refused")
		}
		return engine.Set("log", "a"), nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "refused")
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

func TestAsksAreMatchedByOrderAndByWhatTheyAsk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	first := "name?"
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("a")
		name, err := t.Ask(engine.Ask{Message: first})
		if err != nil {
			return engine.Output{}, err
		}
		age, err := t.Ask(engine.Ask{Message: "age?", Type: "integer"})
		if err != nil {
			return engine.Output{}, err
		}
		return engine.Set("log", []any{name.Value, age.Value}), nil
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "name?", turn.Questions[0].Payload.Message)

	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: ""})
	require.NoError(t, err, "an empty string is an answer")
	require.Equal(t, "age?", turn.Questions[0].Payload.Message)

	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "old"})
	require.ErrorIs(t, err, engine.ErrInvalid)
	require.ErrorContains(t, err, "takes an integer, not string")
	require.Equal(t, engine.Paused, turn.Status)

	first = "full name?" // the node changes its mind: the first answer is void
	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: 7})
	require.NoError(t, err)
	require.Equal(t, "full name?", turn.Questions[0].Payload.Message)
	require.Equal(t, "t@2", turn.Questions[0].Voids)
	record, err := b.store.Question(t.Context(), "t", 2)
	require.NoError(t, err)
	require.Equal(t, engine.QuestionVoid, record.State)

	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: nil})
	require.NoError(t, err, "null is an answer")
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []any{nil, int64(7)}, turn.State["log"])
	b.verify()
}

func TestANodeThatKeepsChangingItsQuestionFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("a")
		_, err := t.Ask(engine.Ask{Message: fmt.Sprintf("question %d", b.count("a"))})
		return engine.Output{}, err
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: 1})
	require.NoError(t, err)
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: 2})
	require.ErrorContains(t, err, `"question 2"`)
	require.ErrorContains(t, err, `"question 3"`)
}

func TestANodeMayReturnItsQuestionAndAskAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		if a := t.Answer(); a != nil && a.Value == "please" {
			return engine.Set("log", a.Actor), nil
		}
		return engine.Output{Ask: &engine.Ask{Message: "the magic word?"}}, nil
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	turn, err := e.Resume(t.Context(), "t", interrupt.Answer{Value: "now"})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "please", Actor: "bob"})
	require.NoError(t, err)
	require.Equal(t, []any{"bob"}, turn.State["log"])
	b.verify()
}

func TestSwallowingTheErrorOfAskPausesAllTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		_, _ = t.Ask(engine.Ask{Message: "?"})
		return engine.Set("log", "went on"), nil
	}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Empty(t, turn.State["log"])
}
