package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestAThousandSendsAndAGraphOfFiveHundredNodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turn, err := b.engine(b.compile(b.mapReduce(1000))).Start(t.Context(), "sends", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.State["results"], 1000)
	require.Equal(t, 1, b.count("reduce"))

	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	turn, err = b.engine(b.compile(b.chain(names...))).Start(t.Context(), "nodes", engine.Input{MaxSteps: 1000})
	require.NoError(t, err)
	require.Len(t, turn.State["log"], 500)
	b.verify()
}

func TestAnEffectInsideAnEffectAndOneKeySideBySide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	fail := true
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		nested, err := engine.Step(ctx, "outer", func(ctx context.Context) (int, error) {
			b.ran("outer")
			return engine.Step(ctx, "inner", func(context.Context) (int, error) { b.ran("inner"); return 7, nil }, engine.CrashAsk)
		})
		if err != nil {
			return engine.Output{}, err
		}
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = engine.Step(ctx, "same", func(context.Context) (int, error) { b.ran("same"); return 1, nil }, engine.CrashAsk)
			})
		}
		wg.Wait()
		if fail {
			errs = append(errs, errors.New("no luck"))
		}
		return engine.Set("log", nested), errors.Join(errs...)
	}}
	e := b.engine(b.compile(d))
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no luck")
	fail = false
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []any{int64(7)}, turn.State["log"])
	require.Equal(t, []int{1, 1, 8}, []int{b.count("outer"), b.count("inner"), b.count("same")})
	b.verify()
}

func TestAskFromTwoGoroutinesAsksOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		var wg sync.WaitGroup
		errs, values := make([]error, 2), make([]any, 2)
		for i := range errs {
			wg.Go(func() {
				a, err := t.Ask(engine.Ask{Message: "which?"})
				errs[i], values[i] = err, a.Value
			})
		}
		wg.Wait()
		return engine.Set("log", values), errors.Join(errs...)
	}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	for i := range 2 {
		require.NoError(t, err)
		require.Len(t, turn.Questions, 1)
		turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: i})
	}
	require.NoError(t, err)
	require.ElementsMatch(t, []any{int64(0), int64(1)}, turn.State["log"])
	b.verify()
}

// A stop, or a cancel, at every event of a turn: it goes on, or is over, and
// nothing is done twice.
func TestATurnIsStoppedOrCancelledAtEveryEvent(t *testing.T) {
	t.Parallel()
	for _, cancels := range []bool{false, true} {
		for at := 1; ; at++ {
			b := setup(t)
			cd := b.chain("c1", "c2")
			d := b.chain("a", "sub", "z")
			d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(cd)}}
			d.Nodes["sibling"] = b.node()
			d.Edges = append(d.Edges, engine.Edge{From: "a", To: "sibling"})
			g := b.compile(d)
			ctx, stop := context.WithCancelCause(t.Context())
			n := 0
			e := engine.New(g, b.store, engine.Options{Events: func(engine.Event) {
				if n++; n != at {
					return
				}
				if cancels {
					stop(&engine.CancelError{By: engine.By{Actor: "ada"}})
				} else {
					stop(nil)
				}
			}})
			turn, err := e.Start(ctx, "t", engine.Input{})
			stop(nil)
			if n < at {
				break
			}
			switch {
			case err != nil:
				require.ErrorIs(t, err, engine.ErrStopped, at)
				turn, err = b.engine(g).Resume(t.Context(), "t")
				require.NoError(t, err)
				require.Equal(t, engine.Done, turn.Status, at)
			case cancels && turn.Status == engine.Cancelled:
			default:
				require.Equal(t, engine.Done, turn.Status, at)
			}
			for _, node := range g.Nodes() {
				require.LessOrEqual(t, b.count(node), 1, "%s, event %d", node, at)
			}
			if turn.Status == engine.Done {
				require.Equal(t, []any{"a", "sibling", "c1", "c2", "z"}, turn.State["log"])
			}
			b.verify()
		}
	}
}

func TestTakingOverUnderAnOpenDialogEndsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.gated()
	open := make(chan struct{})
	e := b.withDialog(g, func(ctx context.Context, _ interrupt.Question) (interrupt.Answer, error) {
		close(open)
		<-ctx.Done()
		return approve(), nil // too late: its context has ended
	})
	done := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), "t", engine.Input{})
		done <- err
	}()
	<-open
	asked := 0
	other := engine.New(g, b.open(), engine.Options{Ask: func(context.Context, interrupt.Question) (interrupt.Answer, error) {
		if asked++; asked == 1 {
			<-done
		}
		return approve(), nil
	}})
	turn, err := other.TakeOver(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a", "b", "c"}, b.takeRuns())
	b.verify()
}

// Whatever others do to a thread at the same time, each call succeeds or says
// who was first, and the file is whole.
func TestEverythingAtOnceOnOneThread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "c")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	d.Nodes["c"] = b.asks()
	g := b.compile(d)
	engines := []*engine.Engine{b.engine(g), b.engine(g), engine.New(g, b.open(), engine.Options{}), engine.New(g, b.open(), engine.Options{})}
	var wg sync.WaitGroup
	for i, e := range engines {
		wg.Go(func() {
			for round := range 12 {
				var err error
				switch (i + round) % 6 {
				case 0:
					_, err = e.Start(t.Context(), "t", engine.Input{})
				case 1:
					_, err = e.Resume(t.Context(), "t", approve())
				case 2:
					_, err = e.Update(t.Context(), "t", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: "edit"}}})
				case 3:
					_, err = e.Fork(t.Context(), "t@1", fmt.Sprint("fork", i, "-", round), engine.By{})
				case 4:
					_, err = e.Answer(t.Context(), "t", interrupt.Answer{Value: "yes"})
				case 5:
					_, err = e.Cancel(t.Context(), "t", engine.By{})
				}
				for _, fine := range []error{nil, engine.ErrPaused, engine.ErrBusy, engine.ErrConflict, engine.ErrInvalid, engine.ErrNotFound, engine.ErrAnswered, engine.ErrVoid} {
					if errors.Is(err, fine) {
						err = nil
						break
					}
				}
				if err != nil {
					t.Errorf("engine %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	wg.Wait()
	b.verify()
}
