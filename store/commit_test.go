package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

func TestRule1AStepThatAsksIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("one")
	if err := l.Put(t.Context(), engine.Result{Task: "a", Kind: engine.ResultTask}); err != nil {
		t.Fatal(err)
	}
	// The answer is to a question that nobody asked, so nothing of it is stored.
	err := l.Commit(t.Context(), &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{
		step(1, 1, set("x", int64(1))), pause(1, 1, "a"), answer("one@1", 1, 1, engine.Paused, "approve"),
	}})
	want(t, err, engine.ErrConflict)
	v := b.load(b.s, "one").View()
	if v.Thread.Head != 1 || len(v.Results) != 1 || v.Thread.Owner == nil {
		t.Errorf("something of it was stored: %+v", v.Thread)
	}
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{step(1, 1, set("x", int64(1))), pause(1, 1, "a")}})
	v = b.load(b.s, "one").View()
	if v.Thread.Head != 3 || len(v.Results) != 0 || v.Thread.Owner != nil || v.Thread.Status != engine.Paused {
		t.Errorf("not all of it was stored: %+v", v.Thread)
	}
	b.verify()
}

func TestRule3TheSecondAtTheSamePlaceLosesAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("q")
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a"), pause(1, 0, "b")}})
	first, second := b.load(b.s, "q"), b.load(b.open(), "q")
	b.commit(first, &engine.Commit{Entries: []*engine.Entry{answer("q@2", 1, 0, engine.Paused, "approve")}})
	a := answer("q@3", 1, 0, engine.Paused, "approve")
	want(t, second.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{a}}), engine.ErrConflict)
	if a.Seq != 0 {
		t.Error("a lost entry was given a place")
	}
	// Different questions commute; the same question fails on its own state.
	if err := second.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.commit(second, &engine.Commit{Entries: []*engine.Entry{a}})
	again := answer("q@2", 1, 0, engine.Running, "reject")
	want(t, second.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{again}}), engine.ErrConflict)
	rec, err := b.s.Question(t.Context(), "q", 2)
	if err != nil || rec.Answer.Value != "approve" {
		t.Errorf("the answer is %+v, %v", rec, err)
	}
	b.verify()
}

func TestRule3OneWinnerForEveryPlaceOfOneThread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("race")
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}})
	var won atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			mine := b.load(b.s, "race")
			for range 20 {
				u := step(1, 0, push("log", "x"))
				u.Kind, u.Status = engine.KindUpdate, engine.Paused
				switch err := mine.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{u}}); {
				case err == nil:
					won.Add(1)
					if n := int(u.Seq) - 2; n%50 == 0 { // or the loads would cost the square
						state := map[string]any{"log": slices.Repeat([]any{"x"}, n)}
						if err := mine.Snapshot(t.Context(), state); err != nil {
							t.Error(err)
						}
					}
				default:
					want(t, err, engine.ErrConflict)
					if err := mine.Reload(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	v := b.load(b.s, "race").View()
	if n := won.Load(); n == 0 || v.Thread.Head != 2+n || int64(len(v.State["log"].([]any))) != n {
		t.Errorf("%d won, and the head is %d", n, v.Thread.Head)
	}
	b.verify()
}

func TestAThousandCommitsFrom50GoroutinesAllArrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			l := b.begin(fmt.Sprintf("t%d", i))
			for n := range 19 {
				if n == 7 {
					if err := l.Put(t.Context(), engine.Result{Task: "x", Value: []byte(`1`)}); err != nil {
						t.Error(err)
					}
				}
				b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, int64(n+1), push("log", int64(n)))}})
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if r := b.verify(); r.Entries != 1000 || r.Threads != 50 {
		t.Errorf("got %d entries of %d threads", r.Entries, r.Threads)
	}
}

func TestAGuardThatFailsSpoilsOnlyItsOwnCommitOfAGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var logs []engine.Log
	for i := range 20 {
		logs = append(logs, b.begin(fmt.Sprintf("t%d", i)))
	}
	stale := make([]engine.Log, len(logs))
	for i := range logs {
		stale[i] = b.load(b.s, fmt.Sprintf("t%d", i))
	}
	// The first commit is held, so that all others wait and are one group.
	held, release := make(chan struct{}), make(chan struct{})
	failpoint.SetFunc(t, "store.commit.begin", b.s.Path(), func(hit int) error {
		if hit == 1 {
			close(held)
			<-release
		}
		return nil
	})
	var all sync.WaitGroup
	all.Go(func() { b.commit(logs[0], &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}) })
	<-held
	for i := 1; i < len(logs); i++ {
		all.Go(func() {
			b.commit(logs[i], &engine.Commit{Entries: []*engine.Entry{step(1, 1)}, Leave: engine.Lease(i % 3)})
		})
		all.Go(func() {
			err := stale[i].Commit(t.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{step(1, 1)}})
			if err == nil {
				t.Errorf("t%d was taken from its holder", i)
			}
		})
	}
	waitUntil(t, func() bool {
		b.s.write.mu.Lock()
		defer b.s.write.mu.Unlock()
		return len(b.s.write.queue) == 2*(len(logs)-1)
	})
	close(release)
	all.Wait()
	b.verify()
	for i := range logs {
		if v := b.load(b.s, fmt.Sprintf("t%d", i)).View(); v.Thread.Head != 2 {
			t.Errorf("t%d: head %d", i, v.Thread.Head)
		}
	}
}

func TestAGroupThatFailsIsTriedOneByOne(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.before", "store.commit.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var logs []engine.Log
			for i := range 10 {
				logs = append(logs, b.begin(fmt.Sprintf("t%d", i)))
			}
			held, release := make(chan struct{}), make(chan struct{})
			failpoint.SetFunc(t, "store.commit.begin", b.s.Path(), func(hit int) error {
				if hit == 1 {
					close(held)
					<-release
				}
				return nil
			})
			failpoint.SetIn(t, point, b.s.Path(), "2*error")
			var all sync.WaitGroup
			all.Go(func() { b.commit(logs[0], &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}) })
			<-held
			for _, l := range logs[1:] {
				all.Go(func() { b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}) })
			}
			waitUntil(t, func() bool {
				b.s.write.mu.Lock()
				defer b.s.write.mu.Unlock()
				return len(b.s.write.queue) == len(logs)-1
			})
			close(release)
			all.Wait()
			if r := b.verify(); r.Entries != 20 {
				t.Errorf("got %d entries, want 20", r.Entries)
			}
		})
	}
}

// waitUntil looks until it holds; the test's own deadline ends it.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatal("it never came to hold")
		}
	}
}

func TestRule4ACommitThatFailedAndWasAppliedIsOurs(t *testing.T) {
	t.Parallel()
	commits := map[string]*engine.Commit{
		"step":    {Entries: []*engine.Entry{step(1, 1, set("x", int64(1)))}},
		"pause":   {Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}},
		"release": {Leave: engine.LeaseFree},
		"wait":    {Leave: engine.LeaseWaiting},
	}
	for name, c := range commits {
		for _, point := range []string{"store.commit.after", "store.commit.before"} {
			t.Run(name+point, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				l := b.begin("x")
				failpoint.SetIn(t, point, b.s.Path(), "error")
				c := *c
				for i, e := range c.Entries {
					copied := *e
					c.Entries = append([]*engine.Entry(nil), c.Entries...)
					c.Entries[i] = &copied
				}
				b.commit(l, &c)
				live := l.View()
				v := b.load(b.s, "x").View()
				if int(v.Thread.Head) != 1+len(c.Entries) || !reflect.DeepEqual(v.Thread, live.Thread) {
					t.Errorf("stored %+v\nlive %+v", v.Thread, live.Thread)
				}
				b.verify()
			})
		}
	}
}

func TestRule4ATakeAndANewThreadThatFailedAndWereAppliedAreOurs(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.after", "store.commit.before"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			failpoint.SetIn(t, point, b.s.Path(), "error")
			l := b.begin("x")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = b.load(b.s, "x")
			failpoint.SetIn(t, point, b.s.Path(), "error")
			b.commit(l, &engine.Commit{Take: engine.TakeFree})
			if v := l.View(); v.Thread.Fence != 2 || v.Thread.Owner == nil || !v.Thread.Owner.Self {
				t.Errorf("thread: %+v", v.Thread)
			}
			failpoint.SetIn(t, "store.put.after", b.s.Path(), "error")
			if err := l.Put(t.Context(), engine.Result{Task: "a", Value: []byte("1")}); err != nil {
				t.Error(err)
			}
			failpoint.SetIn(t, "store.put.before", b.s.Path(), "error")
			if err := l.Put(t.Context(), engine.Result{Task: "b", Value: []byte("1")}); err != nil {
				t.Error(err)
			}
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
			failpoint.SetIn(t, point, b.s.Path(), "error")
			if err := b.s.Create(t.Context(), engine.Thread{ID: "y"}); err != nil {
				t.Error(err)
			}
			b.verify()
		})
	}
}

func TestRule4AnUnresolvedCommitSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	failpoint.SetIn(t, "store.commit.before", b.s.Path(), "1+*error")
	err := l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
	want(t, err, failpoint.ErrInjected)
	if v := b.load(b.s, "x").View(); v.Thread.Head != 1 {
		t.Errorf("head %d", v.Thread.Head)
	}
}

func TestRule5ATakeSeesResultsThatCameAfterItWasRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	late := b.load(b.s, "x")
	if err := l.Put(t.Context(), engine.Result{Task: "a", Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, late.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrConflict)
	if err := late.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.commit(late, &engine.Commit{Take: engine.TakeFree})
	if n := len(late.View().Results); n != 1 {
		t.Errorf("%d results", n)
	}
	err := late.Put(t.Context(), engine.Result{Task: "a", Value: []byte("2")})
	want(t, err, engine.ErrConflict)
	want(t, l.Put(t.Context(), engine.Result{Task: "z"}), engine.ErrConflict)
}

func TestRule8ACommitIsNotGivenUpWithItsCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	ctx, cancel := context.WithCancel(t.Context())
	failpoint.SetFunc(t, "store.commit.before", b.s.Path(), func(int) error {
		cancel()
		return nil
	})
	if err := l.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}); err != nil {
		t.Fatal(err)
	}
	b.verify()
}

func TestACancelRequestStopsEveryEntryButTheCancelItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	other := b.load(b.open(), "x")
	b.commit(other, &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}})
	want(t, l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrCancelRequested)
	want(t, l.Commit(t.Context(), &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}}), engine.ErrCancelRequested)
	if err := l.Put(t.Context(), engine.Result{Task: "a", Value: []byte("1")}); err != nil {
		t.Error(err)
	}
	end := last(step(1, 1), engine.Cancelled)
	end.Kind = engine.KindEnd
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{end}})
	if v := b.load(b.s, "x").View(); v.Thread.CancelRequested || v.Thread.Status != engine.Cancelled {
		t.Errorf("thread: %+v", v.Thread)
	}
	want(t, other.Commit(t.Context(), &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}}), engine.ErrConflict)
	b.verify()
}

func TestOpenQuestionsEndWithTheTurnAndBecomeVoidWithTheirBase(t *testing.T) {
	t.Parallel()
	state := func(b *bundle, seq int64) engine.QuestionState {
		rec, err := b.s.Question(t.Context(), "q", seq)
		if err != nil {
			t.Fatal(err)
		}
		return rec.State
	}
	b := setup(t)
	l := b.begin("q")
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a"), pause(1, 0, "b")}})
	up := step(1, 0, set("x", int64(2)))
	up.Kind, up.Status = engine.KindUpdate, engine.Paused
	voids := pause(1, 0, "c")
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{up, voids}})
	if state(b, 2) != engine.QuestionVoid || state(b, 3) != engine.QuestionVoid || state(b, 5) != engine.QuestionPending {
		t.Error("the old base's questions are not void")
	}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{answer("q@5", 1, 0, engine.Paused, "x")}})
	anew := pause(1, 0, "c")
	anew.Payload.Question.Voids = "q@5"
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{anew}})
	if rec, _ := b.s.Question(t.Context(), "q", 5); rec.State != engine.QuestionVoid || rec.Answer == nil {
		t.Errorf("question made void: %+v", rec)
	}
	end := last(step(1, 0), engine.Cancelled)
	end.Kind = engine.KindEnd
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{end}})
	if state(b, 7) != engine.QuestionCancelled {
		t.Errorf("after the cancel it is %s", state(b, 7))
	}
	b.verify()
}

func TestOrderIsTheSequenceAlsoWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	for i := range 5 {
		b.clock.Advance(-time.Hour)
		e := step(1, int64(i+1), push("log", int64(i)))
		e.At = b.clock.Now()
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{e}})
	}
	v := b.load(b.s, "x").View()
	if v.Thread.Head != 6 || v.Head.Step != 5 {
		t.Errorf("head: %+v", v.Head)
	}
	b.verify()
}

func TestAPanicInACommitIsItsErrorAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, other := b.begin("x"), b.begin("y")
	for _, point := range []string{"store.commit.begin", "store.commit.before", "store.commit.after"} {
		failpoint.SetIn(t, point, b.s.Path(), "panic")
		// A step is one statement, the other kind of commit a transaction.
		head := l.View().Thread.Head
		err := l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, head)}})
		if stored := point == "store.commit.after"; stored != (err == nil) {
			t.Errorf("%s: %v", point, err)
		}
		failpoint.SetIn(t, point, b.s.Path(), "panic")
		err = b.s.write.do(t.Context(), &job{apply: func(context.Context, *conn) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), "panic in a commit") {
			t.Errorf("%s: %v", point, err)
		}
		b.commit(other, &engine.Commit{Entries: []*engine.Entry{step(1, head)}})
	}
	err := b.s.write.do(t.Context(), &job{single: true, apply: func(context.Context, *conn) error { panic("oops") }})
	if err == nil || !strings.Contains(err.Error(), "oops") {
		t.Error(err)
	}
	b.commit(other, &engine.Commit{Entries: []*engine.Entry{step(1, 9)}})
	b.verify()
}
