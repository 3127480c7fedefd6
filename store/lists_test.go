package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestThreadsAreListedNewestFirstInPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 25 {
		if i%3 == 0 {
			b.clock.Advance(time.Second) // several have the same time
		}
		th := engine.Thread{ID: fmt.Sprintf("t%02d", i), Cwd: fmt.Sprintf("/w%d", i%2)}
		if err := b.s.Create(t.Context(), th); err != nil {
			t.Fatal(err)
		}
	}
	l := b.load(b.s, "t03")
	in := input(1)
	in.At = b.clock.Now().Add(time.Minute)
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{in}})
	var ids []string
	f := Filter{Limit: 4}
	for {
		page, err := b.s.Threads(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, th := range page {
			ids = append(ids, th.ID)
			f.After = th.Cursor
		}
		if len(page) < f.Limit {
			break
		}
	}
	if len(ids) != 25 || ids[0] != "t03" || ids[1] != "t24" || ids[24] != "t00" {
		t.Errorf("got %v", ids)
	}
	for _, c := range []struct {
		f    Filter
		want int
	}{{Filter{Cwd: "/w1"}, 12}, {Filter{Status: engine.Running}, 1}, {Filter{Status: engine.Done, Cwd: "/w0", Limit: 5}, 5}, {Filter{Status: engine.Paused}, 0}} {
		if got, err := b.s.Threads(t.Context(), c.f); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d, %v", c.f, len(got), err)
		}
	}
	if got, _ := b.s.Threads(t.Context(), Filter{Status: engine.Running}); got[0].Head != 1 || got[0].Owner == nil || !got[0].Owner.Self {
		t.Errorf("running: %+v", got[0])
	}
}

func TestListsNeverReadAPayload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plan := func(query string, args ...any) string {
		rows, err := b.s.read.Query("EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var out strings.Builder
		for rows.Next() {
			var a, p, n int
			var detail string
			if err := rows.Scan(&a, &p, &n, &detail); err != nil {
				t.Fatal(err)
			}
			out.WriteString(detail + "\n")
		}
		return out.String()
	}
	query, args := threadsQuery(Filter{After: Cursor{1, 1}, Limit: 10})
	if p := plan(query, args...); !strings.Contains(p, "COVERING INDEX checkpoints_place") || strings.Contains(p, "TEMP B-TREE") || !strings.Contains(p, "threads_recent") {
		t.Errorf("threads: %s", p)
	}
	if p := plan(inboxQuery, 10); strings.Contains(p, "checkpoints") || strings.Contains(p, "TEMP B-TREE") || !strings.Contains(p, "interrupts_open") {
		t.Errorf("inbox: %s", p)
	}
}

func TestHistoryIsTheLogWithoutPayloads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	all, err := b.s.History(t.Context(), "main", 0, 0)
	if err != nil || len(all) != 10 {
		t.Fatalf("got %d, %v", len(all), err)
	}
	if some, err := b.s.History(t.Context(), "main", 3, 2); err != nil || len(some) != 2 || some[0].Seq != 4 {
		t.Errorf("some: %v, %v", some, err)
	}
	var seqs []int64
	err = b.s.Entries(t.Context(), "main", 2, 3, func(e engine.Entry) error {
		seqs = append(seqs, e.Seq)
		return nil
	})
	if err != nil || fmt.Sprint(seqs) != "[3 4 5]" {
		t.Errorf("entries: %v, %v", seqs, err)
	}
	stop := errors.New("stop")
	want(t, b.s.Entries(t.Context(), "main", 0, 0, func(engine.Entry) error { return stop }), stop)
	_, err = b.s.History(t.Context(), "none", 0, 0)
	want(t, err, engine.ErrNotFound)
}

func TestNamesThatAreTakenOrDeletedOrImpossible(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fresh, err := b.s.New(t.Context(), engine.Thread{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	b.begin("x")
	want(t, fresh.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}}), engine.ErrExists)
	want(t, b.s.Create(t.Context(), engine.Thread{ID: "x"}), engine.ErrExists)
	want(t, b.s.Create(t.Context(), engine.Thread{ID: "a b"}), engine.ErrInvalid)
	_, err = b.s.Open(t.Context(), "y")
	want(t, err, engine.ErrNotFound)
	if _, err := b.s.At(t.Context(), "x", 2); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an entry that is not there: %v", err)
	}
	db := raw(t, b.path, `INSERT INTO threads (thread_id, status, created_at, updated_at) VALUES ('gone', 'deleted', 0, 0)`)
	defer db.Close()
	_, err = b.s.Open(t.Context(), "gone")
	want(t, err, engine.ErrDeleted)
	_, err = b.s.New(t.Context(), engine.Thread{ID: "gone"})
	want(t, err, engine.ErrDeleted)
	if got, err := b.s.Threads(t.Context(), Filter{}); err != nil || len(got) != 1 {
		t.Errorf("threads: %v, %v", got, err)
	}
}
