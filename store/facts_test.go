package store

import (
	"errors"
	"sync"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// count adds one to an option of a thread.
func count(t *engine.Thread) error {
	n, _ := t.Options["n"].(int64)
	t.Options = map[string]any{"n": n + 1}
	return nil
}

func TestFactsAreChangedWhileAThreadMovesAndNoneIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	other := b.open()
	var all sync.WaitGroup
	for i := range 20 {
		s := []*Store{b.s, other}[i%2]
		all.Go(func() {
			if _, err := s.ChangeFacts(t.Context(), "x", count); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range int64(20) {
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n+1, set("x", n))}})
	}
	all.Wait()
	// A commit that changes the row writes it as it is, not as the handle knew it.
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Title: "another"})
	thread, err := b.s.Thread(t.Context(), "x")
	if err != nil || thread.Options["n"] != int64(20) || thread.Title != "title" || thread.Mode != "auto" || thread.Head != 21 {
		t.Errorf("%+v, %v", thread, err)
	}
	b.verify()
}

func TestAChangeOfFactsThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.begin("x")
	if _, err := b.s.ChangeFacts(t.Context(), "x", count); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	_, err := b.s.ChangeFacts(t.Context(), "x", func(t *engine.Thread) error { t.Mode = "m"; return broken })
	want(t, err, broken)
	want(t, err, engine.ErrInvalid)
	_, err = b.s.ChangeFacts(t.Context(), "x", func(t *engine.Thread) error { t.Options = map[string]any{"f": func() {}}; return nil })
	want(t, err, engine.ErrInvalid)
	_, err = b.s.ChangeFacts(t.Context(), "nobody", count)
	want(t, err, engine.ErrNotFound)
	_, err = b.s.Thread(t.Context(), "nobody")
	want(t, err, engine.ErrNotFound)
	thread, err := b.s.Thread(t.Context(), "x")
	if err != nil || thread.Mode != "auto" || thread.Options["n"] != int64(1) {
		t.Errorf("%+v, %v", thread, err)
	}
}

func TestATitleNamesAThreadThatHasNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.s.Create(t.Context(), engine.Thread{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"first", "second", ""} {
		b.commit(b.load(b.s, "x"), &engine.Commit{Title: title})
		if thread, err := b.s.Thread(t.Context(), "x"); err != nil || thread.Title != "first" {
			t.Errorf("%+v, %v", thread, err)
		}
	}
}

func TestFactsSurviveACommitThatFailed(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.after", "store.commit.before"} {
		b := setup(t)
		b.begin("x")
		failpoint.SetIn(t, point, b.s.Path(), "error")
		if _, err := b.s.ChangeFacts(t.Context(), "x", func(t *engine.Thread) error { t.Mode = "m"; return nil }); err != nil {
			t.Fatal(err)
		}
		if thread, err := b.s.Thread(t.Context(), "x"); err != nil || thread.Mode != "m" {
			t.Errorf("%s: %+v, %v", point, thread, err)
		}
	}
}

func TestTheFactsOfADeletedThreadAreGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.s.Create(t.Context(), engine.Thread{ID: "x", Mode: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	_, err := b.s.ChangeFacts(t.Context(), "x", count)
	want(t, err, engine.ErrDeleted)
	_, err = b.s.Thread(t.Context(), "x")
	want(t, err, engine.ErrDeleted)
}
