package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// turns appends turns of three entries each to a thread, an hour apart: input,
// a step of about 1 KiB, and the step that ends it. The first one makes the thread.
func turns(b *bundle, id string, from, to int) {
	b.t.Helper()
	for n := from; n <= to; n++ {
		b.clock.Advance(time.Hour)
		turn(b, id, n)
	}
}

func turn(b *bundle, id string, n int) {
	b.t.Helper()
	var l engine.Log
	in := input(int64(n), set("turn", int64(n)))
	if n == 1 {
		l, _ = b.s.New(b.t.Context(), engine.Thread{ID: id})
	} else {
		l = b.load(b.s, id)
	}
	text := fmt.Sprintf("%d %s", n, strings.Repeat("x", 1000))
	work, end := step(int64(n), 1, set("text", text), push("log", int64(n))), last(step(int64(n), 2), engine.Done)
	for _, e := range []*engine.Entry{in, work, end} {
		e.At = b.clock.Now()
	}
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{in}, Graph: graph("g")})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{work}})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{end}})
	if err := l.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) prune(id string, keep Retention) Pruned {
	b.t.Helper()
	p, err := b.s.Prune(b.t.Context(), id, keep, engine.By{Actor: "ada", Via: "cli"}, false)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bundle) stateAt(id string, seq int64) (map[string]any, error) {
	return b.s.State(b.t.Context(), id, seq)
}

func TestAPruneLeavesEveryLaterStateAsItWas(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]Retention{"count": {Turns: 2}, "age": {Age: 90 * time.Minute}, "both": {Turns: 5, Age: 90 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			turns(b, "x", 1, 8)
			var before []map[string]any
			for seq := int64(19); seq <= 24; seq++ {
				s, err := b.stateAt("x", seq)
				if err != nil {
					t.Fatal(err)
				}
				before = append(before, s)
			}
			said, err := b.s.Prune(t.Context(), "x", keep, engine.By{}, true)
			if err != nil || b.verify().Removed != 0 {
				t.Errorf("a dry run: %+v, %v", said, err)
			}
			p := b.prune("x", keep)
			if p != said || p.UpTo != 18 || p.Entries != 18 || p.Bytes < 6000 || p.Kept > 1500 {
				t.Errorf("pruned: %+v, and before it said %+v", p, said)
			}
			for i, want := range before {
				if got, err := b.stateAt("x", int64(19+i)); err != nil || !value.Equal(got, want) {
					t.Errorf("state at %d: %v, %v", 19+i, got, err)
				}
			}
			if _, err := b.stateAt("x", 18); err != nil {
				t.Errorf("the state at the cut is kept: %v", err)
			}
			_, err = b.stateAt("x", 17)
			want(t, err, ErrRemoved)
			if r := b.verify(); r.Removed != 18 || r.Entries != 25 {
				t.Errorf("verified: %+v", r)
			}
			if again := b.prune("x", keep); again.Entries != 0 || again.Bytes != 0 {
				t.Errorf("again: %+v", again)
			}
			// The thread goes on, and is pruned again: one state is kept, not two.
			turns(b, "x", 9, 16)
			b.clock.Advance(-time.Hour) // the last turn ended just now
			p = b.prune("x", keep)
			if p.UpTo <= 18 {
				t.Errorf("the next prune: %+v", p)
			}
			if s, err := b.stateAt("x", 0); err != nil || len(s["log"].([]any)) != 16 || s["turn"] != int64(16) {
				t.Errorf("state: %v, %v", s, err)
			}
			var states int
			if err := b.s.read.QueryRow(`SELECT count(*) FROM checkpoints WHERE kind = 'prune' AND payload IS NOT NULL`).Scan(&states); err != nil || states != 1 {
				t.Errorf("%d states are kept, %v", states, err)
			}
			b.verify()
		})
	}
}

// Case 71 of the seeds.
func TestAPruneLeavesTheNewestTurnAndWhoDecidedWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	big := strings.Repeat("y", 4000)
	l := b.begin("x", set("x", big))
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{answer("x@2", 1, 0, engine.Running, "approve")}})
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 1, set("x", "small")), engine.Done)}})
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(2, set("y", big))}, Graph: graph("g")})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{step(2, 1), pause(2, 1, "b")}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := b.load(b.s, "x").View()
	p := b.prune("x", Retention{Turns: 1})
	if p.Entries != 2 || p.UpTo != 4 {
		t.Errorf("pruned: %+v", p)
	}
	v := b.load(b.s, "x").View()
	if !value.Equal(v.State, before.State) || v.InputSeq != 5 || v.MaxSteps != 100 || len(v.Open()) != 1 || v.Open()[0].ID() != before.Open()[0].ID() ||
		v.Thread.Status != engine.Paused || v.Head.Kind != engine.KindPrune || v.Head.Actor != "ada" || v.Base().Seq != before.Base().Seq {
		t.Errorf("view: %+v", v)
	}
	rec, err := b.s.Question(t.Context(), "x", 2)
	if err != nil || rec.Answer == nil || rec.Answer.Actor != "ann" {
		t.Errorf("who approved it: %+v, %v", rec, err)
	}
	// The open question is answered as if nothing had been.
	b.commit(b.load(b.s, "x"), &engine.Commit{Entries: []*engine.Entry{answer("x@7", 2, 1, engine.Running, "approve")}})
	b.verify()
}

func TestAPruneIsRefusedWhileSomebodyHoldsTheThread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turns(b, "x", 1, 4)
	l := b.load(b.open(), "x")
	for _, leave := range []engine.Lease{engine.LeaseMoving, engine.LeaseWaiting} {
		b.commit(l, &engine.Commit{Take: engine.TakeFree, Leave: leave})
		_, err := b.s.Prune(t.Context(), "x", Retention{Turns: 1}, engine.By{}, false)
		want(t, err, engine.ErrBusy)
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree})
	}
	turns(b, "y", 1, 4)
	b.commit(l, &engine.Commit{Take: engine.TakeFree})
	var pruned []string
	err := b.s.PruneAll(t.Context(), Retention{Turns: 1}, engine.By{}, false, func(p Pruned) error {
		pruned = append(pruned, p.Thread)
		return nil
	})
	if err != nil || fmt.Sprint(pruned) != "[y]" {
		t.Errorf("pruned: %v, %v", pruned, err)
	}
	_, err = b.s.Prune(t.Context(), "none", Retention{Turns: 1}, engine.By{}, false)
	want(t, err, engine.ErrNotFound)
}

func TestAPruneThatWouldKeepMoreThanItRemovesRemovesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x", set("x", strings.Repeat("y", 50000)))
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 1), engine.Done)}})
	turns(b, "x", 2, 3)
	if p := b.prune("x", Retention{Turns: 1}); p.Entries != 5 {
		t.Errorf("pruned: %+v", p)
	}
	// The state of 50 KB is kept already, and a turn is 1 KB.
	turns(b, "x", 4, 5)
	if p := b.prune("x", Retention{Turns: 1}); p.Entries != 0 || p.Kept != 0 {
		t.Errorf("pruned: %+v", p)
	}
	if r := b.verify(); r.Entries != 15 || r.Removed != 5 {
		t.Errorf("verified: %+v", r)
	}
}

func TestAPruneThatWasCutShortIsEndedByTheNext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turns(b, "x", 1, 6)
	failpoint.SetIn(t, "store.prune.rest", b.s.Path(), "error")
	_, err := b.s.Prune(t.Context(), "x", Retention{Turns: 1}, engine.By{}, false)
	want(t, err, failpoint.ErrInjected)
	if r := b.verify(); r.Removed != 0 || r.Entries != 19 {
		t.Errorf("verified: %+v", r)
	}
	if p := b.prune("x", Retention{Turns: 1}); p.Entries != 15 || p.Kept != 0 {
		t.Errorf("pruned: %+v", p)
	}
	if r := b.verify(); r.Removed != 15 || r.Entries != 19 {
		t.Errorf("verified: %+v", r)
	}
}

func TestACommitThatPrunedAndSaidItFailedIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.before", "store.commit.after"} {
		b := setup(t)
		turns(b, "x", 1, 4)
		failpoint.SetIn(t, point, b.s.Path(), "error")
		if p := b.prune("x", Retention{Turns: 1}); p.Entries != 9 {
			t.Errorf("pruned: %+v", p)
		}
		failpoint.SetIn(t, point, b.s.Path(), "error")
		if _, err := b.s.Redact(t.Context(), "x@11", engine.By{Actor: "ada"}); err != nil {
			t.Error(err)
		}
		if r := b.verify(); r.Removed != 10 || r.Entries != 14 {
			t.Errorf("%s: %+v", point, r)
		}
	}
}

// Case 72 of the seeds.
func TestRetentionGoesByTheOrderAndNotByTheClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turns(b, "x", 1, 2)
	b.clock.Advance(-1000 * time.Hour) // the next turns look old
	turns(b, "x", 3, 6)
	b.clock.Advance(1002 * time.Hour)
	if p := b.prune("x", Retention{Age: 100 * time.Hour}); p.Entries != 0 {
		t.Errorf("a turn went that is behind a young one: %+v", p)
	}
}

func TestAForkSurvivesThePruneAndTheEndOfItsSource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turns(b, "x", 1, 5)
	fork := step(1, 0)
	fork.Kind, fork.Status = engine.KindFork, engine.Done
	state, err := b.stateAt("x", 3)
	if err != nil {
		t.Fatal(err)
	}
	fork.Payload = engine.Payload{State: state, From: "x@3"}
	l, err := b.s.New(t.Context(), engine.Thread{ID: "y"})
	if err != nil {
		t.Fatal(err)
	}
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Leave: engine.LeaseFree, Entries: []*engine.Entry{fork}})
	turns(b, "y", 2, 5)
	b.prune("x", Retention{Turns: 1})
	check := func() {
		t.Helper()
		if s, err := b.stateAt("y", 0); err != nil || fmt.Sprint(s["log"]) != "[1 2 3 4 5]" {
			t.Errorf("state: %v, %v", s, err)
		}
		b.verify()
	}
	check()
	b.prune("y", Retention{Turns: 1})
	check()
	if err := b.s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	check()
	b.prune("y", Retention{Turns: 1})
	check()
}

func TestAStoreThatKeepsPrunesAtOnceAndEveryHour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turns(b, "x", 1, 3)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.s.Keep(ctx, Retention{Turns: 1}, engine.By{Actor: "retention"})
	}()
	wait := func() {
		if err := b.clock.WaitForTimers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	wait()
	if r := b.verify(); r.Removed != 6 {
		t.Errorf("at once: %+v", r)
	}
	turn(b, "x", 4)
	turn(b, "x", 5)
	b.clock.Advance(keepEvery)
	wait()
	// The state that the first kept is not needed any more.
	if r := b.verify(); r.Removed != 6+1+6 {
		t.Errorf("an hour later: %+v", r)
	}
	stop()
	<-ended
}
