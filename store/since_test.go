package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// since reads on behind an id, and gives the names of what came and the new id.
func (b *bundle) since(s *Store, id int64, limit int) (names []string, next int64) {
	b.t.Helper()
	next = id
	err := s.EntriesSince(b.t.Context(), id, limit, func(e Numbered) error {
		if e.ID <= next {
			b.t.Errorf("%s has number %d, behind %d", engine.CheckpointID(e.Thread, e.Seq), e.ID, next)
		}
		names, next = append(names, engine.CheckpointID(e.Thread, e.Seq)), e.ID
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return names, next
}

func (b *bundle) sees(id int64, want ...string) (next int64) {
	b.t.Helper()
	names, next := b.since(b.s, id, 0)
	if !slices.Equal(names, want) {
		b.t.Errorf("behind %d there is %v, want %v", id, names, want)
	}
	return next
}

func (b *bundle) step(l engine.Log, n int64) {
	b.t.Helper()
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, set("n", n))}})
}

func TestTheEntriesOfAllThreadsComeInTheOrderOfTheirCommitsAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x := b.begin("x", set("v", "first"))
	y := b.begin("y")
	b.step(x, 1)
	first, id := b.since(b.s, 0, 2)
	if !slices.Equal(first, []string{"x@1", "y@1"}) {
		t.Errorf("got %v", first)
	}
	b.step(y, 1)
	for _, l := range []engine.Log{x, y} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b.reopen()
	id = b.sees(id, "x@2", "y@2")
	b.sees(id)
	enough := errors.New("enough")
	err := b.s.EntriesSince(t.Context(), 0, 0, func(e Numbered) error {
		if e.Payload.Input.Text != "hello" || e.Payload.Ops[0].Value != "first" || e.Actor != "tester" {
			t.Errorf("got %+v", e)
		}
		return enough
	})
	want(t, err, enough)
}

// More than a batch, so that the reader goes on while others commit.
func TestNoEntryIsSkippedWhileManyCommitAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const threads, steps = 8, 40
	var wg sync.WaitGroup
	for i, s := range []*Store{b.s, b.open()} {
		for j := range threads / 2 {
			l, err := s.New(t.Context(), engine.Thread{ID: fmt.Sprint("t", i, "-", j)})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				err := l.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}, Graph: graph("g")})
				for n := int64(1); n < steps && err == nil; n++ {
					err = l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, n)}})
				}
				if err = errors.Join(err, l.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	got, id := []string(nil), int64(0)
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true // and once more, for what came last
		default:
		}
		names, next := b.since(b.s, id, 0)
		got, id = append(got, names...), next
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != threads*steps || len(got) != n {
		t.Errorf("%d entries of %d came, %d of them different", len(got), threads*steps, n)
	}
}

// The number of the newest entry goes with its thread, and no other gets it.
func TestNoEntryIsSkippedAfterAThreadWasDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y, z := b.begin("x"), b.begin("y"), b.begin("z")
	b.step(z, 1)
	b.step(y, 1)
	gone := func(l engine.Log, id string) {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	id := b.sees(0, "x@1", "y@1", "z@1", "z@2", "y@2")
	// y has the highest number, z the highest that is left then.
	gone(y, "y")
	gone(z, "z")
	b.sees(0, "x@1")
	b.step(x, 1) // one statement
	b.step(x, 2)
	id = b.sees(id, "x@2", "x@3")
	// Nothing is left at all, and another process goes on.
	gone(x, "x")
	b.sees(0)
	b.reopen()
	v := b.begin("v")
	id = b.sees(id, "v@1")
	// One that has not the highest number.
	w := b.begin("w")
	gone(v, "v")
	b.step(w, 1)
	b.sees(id, "w@1", "w@2")
	db := raw(t, b.path)
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM (` + selectGone + `)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d numbers are remembered for nothing (%v)", n, err)
	}
	b.verify()
	if _, err := db.Exec(`UPDATE checkpoints SET actor = 'mallory' WHERE seq = 2`); err != nil {
		t.Fatal(err)
	}
	want(t, b.s.EntriesSince(t.Context(), id, 0, func(Numbered) error { return nil }), ErrCorrupt)
}

// A commit whose answer was lost, right behind a delete, is not made twice; and
// a number that a crash left remembered is in nobody's way.
func TestACommitBehindADeleteIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.begin("x"), b.begin("y")
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Delete(t.Context(), "y"); err != nil {
		t.Fatal(err)
	}
	failpoint.SetIn(t, "store.commit.after", b.s.Path(), "error")
	b.step(x, 1)
	if _, err := raw(t, b.path).Exec(`INSERT INTO sqlite_sequence VALUES ('checkpoints', 1)`); err != nil {
		t.Fatal(err)
	}
	b.step(x, 2)
	b.step(x, 3)
	b.sees(0, "x@1", "x@2", "x@3", "x@4")
	b.verify()
}
