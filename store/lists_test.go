package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// Case 75 of the seeds.
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
	for _, f := range []Filter{{}, {Limit: 10}, {After: Cursor{1, 1}, Limit: 10}, {Status: engine.Paused, Cwd: "/w", Limit: 10}} {
		query, args := threadsQuery(f)
		if p := plan(query, args...); !strings.Contains(p, "COVERING INDEX checkpoints_place") || strings.Contains(p, "TEMP B-TREE") || !strings.Contains(p, "threads_recent") {
			t.Errorf("threads %+v: %s", f, p)
		}
	}
	if p := plan(inboxQuery, 10); strings.Contains(p, "checkpoints") || strings.Contains(p, "TEMP B-TREE") || !strings.Contains(p, "interrupts_open") {
		t.Errorf("inbox: %s", p)
	}
	// A history reads the columns in front of the payload, which stands last.
	if strings.Contains(smallColumns, "payload,") || !strings.HasSuffix(entryColumns, ", payload") {
		t.Error("a history would read payloads")
	}
	history := `SELECT ` + smallColumns + ` FROM checkpoints WHERE no = ? AND seq BETWEEN ? AND ? ORDER BY seq`
	if p := plan(history, 1, 1, 10); !strings.Contains(p, "checkpoints_place (no=? AND seq>? AND seq<?)") || strings.Contains(p, "TEMP B-TREE") {
		t.Errorf("history: %s", p)
	}
	if p := plan(`SELECT seq, kind`+wholeRows+` AND kind IN ('fork', 'prune') AND payload IS NOT NULL ORDER BY seq DESC`, 1); !strings.Contains(p, "checkpoints_turns (no=?)") || strings.Contains(p, "TEMP B-TREE") {
		t.Errorf("whole states: %s", p)
	}
}

// 10,000 threads of 64 KiB (1,000 with -short): what a list costs must not
// depend on how large they are.
func BenchmarkListsOfLargeThreads(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	s := benchStore(b, Options{Synchronous: "NORMAL"})
	c := s.write.conn
	for _, statement := range []string{
		`INSERT INTO threads (thread_id, status, updated_at, created_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 't' || i, 'paused', i, i FROM n`,
		`INSERT INTO checkpoints (no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload)
			SELECT no, 1, 1, '', 'input', 'paused', 1, 0, 0, '[]', '[]', '', 0, zeroblob(32), zeroblob(32), zeroblob(65536) FROM threads WHERE no <= %d`,
		`INSERT INTO interrupts (no, seq, base, kind, node, asking_node, task, message, data, question, choices, digest, asked_at, state)
			SELECT no, 1, 1, 'before', 'a', 'a', 'a', 'really?', 'null', '{}', '[]', '', no, 'pending' FROM threads WHERE no <= %d AND no %% 100 = 0`,
	} {
		if _, err := c.sql.ExecContext(b.Context(), fmt.Sprintf(statement, n)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("threads", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Threads(b.Context(), Filter{Limit: 50}); err != nil || len(list) != min(n, 50) {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("all threads", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Threads(b.Context(), Filter{}); err != nil || len(list) != n {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("inbox", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Inbox(b.Context(), 0); err != nil || len(list) != n/100 {
				b.Fatal(len(list), err)
			}
		}
	})
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
