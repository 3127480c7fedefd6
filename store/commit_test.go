package store

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

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
