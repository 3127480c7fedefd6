package store

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// grow appends n steps of about 1 KiB, with snapshots when they are due, and
// gives the state after each.
func grow(b *bundle, l engine.Log, n int) []map[string]any {
	b.t.Helper()
	state := l.View().State
	states := []map[string]any{{}}
	for i := range n {
		op := push("log", fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, int64(i+1), op)}})
		if err := engine.Fold(state, &engine.Payload{Ops: []engine.Op{op}}, engine.KindStep); err != nil {
			b.t.Fatal(err)
		}
		copied := map[string]any{"log": append([]any(nil), state["log"].([]any)...)}
		states = append(states, copied)
		if l.SnapshotDue() {
			if err := l.Snapshot(b.t.Context(), state); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return states
}

func TestASnapshotIsACacheThatChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	states := grow(b, l, 600)
	count := func() (seqs, parts int) {
		if err := b.s.read.QueryRow(`SELECT count(DISTINCT seq), count(*) FROM snapshots`).Scan(&seqs, &parts); err != nil {
			t.Fatal(err)
		}
		return seqs, parts
	}
	if seqs, parts := count(); seqs != snapshotsKept || parts <= snapshotsKept {
		t.Errorf("%d snapshots in %d parts", seqs, parts)
	}
	same := func(what string) {
		t.Helper()
		for _, seq := range []int64{0, 1, 2, 17, 300, 599, 600} {
			at := seq
			if seq == 0 {
				at = 601
			}
			v, err := b.s.At(t.Context(), "x", seq)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if !value.Equal(v.State["log"], states[at-1]["log"]) || v.MaxSteps != 100 || v.OutsideStep != 0 || v.Head.Seq != at {
				t.Errorf("%s: the state at %d is another", what, at)
			}
		}
	}
	same("with snapshots")
	b.verify()
	db := raw(t, b.path)
	defer db.Close()
	for _, change := range []string{
		`UPDATE snapshots SET data = CAST(substr(data, 1, length(data) - 1) AS BLOB) WHERE seq = (SELECT max(seq) FROM snapshots) AND part = 0`,
		`DELETE FROM snapshots WHERE part = 1`,
		`UPDATE snapshots SET seq = seq - 1`,
		`UPDATE snapshots SET hash = X'00'`,
	} {
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
		same(change)
		r, err := b.s.Verify(t.Context(), "x")
		if err != nil || r.OK() || r.Problems[0].Table != "snapshots" {
			t.Errorf("%s: verify found %v, %v", change, r, err)
		}
	}
	if _, err := db.Exec(`DELETE FROM snapshots`); err != nil {
		t.Fatal(err)
	}
	same("without snapshots")
	b.verify()
}

func TestALoadReadsAboutTwiceTheStateAtMost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	grow(b, l, 700)
	var since, size int64
	if err := b.s.read.QueryRow(`SELECT coalesce(sum(length(payload)), 0), (SELECT sum(length(data)) FROM snapshots WHERE seq = (SELECT max(seq) FROM snapshots))
		FROM checkpoints WHERE seq > (SELECT max(seq) FROM snapshots)`).Scan(&since, &size); err != nil {
		t.Fatal(err)
	}
	if since > size+2000 {
		t.Errorf("%d bytes of payloads after a snapshot of %d", since, size)
	}
	if _, err := l.View(), l.Close(); err != nil {
		t.Fatal(err)
	}
	// A list of 700 KB costs its own size a few times over, not its square.
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(b.path)
	if err != nil || info.Size() > 4*700*1100 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

func TestASnapshotOfALostHeadIsNotWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	db := raw(t, b.path, `UPDATE checkpoints SET hash = X'00'`)
	defer db.Close()
	if err := l.Snapshot(t.Context(), map[string]any{}); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM snapshots`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d snapshots, %v", n, err)
	}
}

func TestALoadOfSmallStepsReadsFewHoweverManyThereWere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	for n := range int64(3*snapshotRows + 7) {
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n+1, set("n", n))}})
		if l.SnapshotDue() {
			if err := l.Snapshot(t.Context(), map[string]any{"n": n}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	opened, err := b.s.Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if read := opened.(*Log).entries; read > snapshotRows {
		t.Errorf("%d entries were read, more than %d", read, snapshotRows)
	}
	if got := opened.View().State["n"]; got != int64(3*snapshotRows+6) {
		t.Errorf("n = %v", got)
	}
}

func TestALargeSnapshotIsManySmallTransactions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x").(*Log)
	parts := func() (n int) {
		if err := b.s.read.QueryRow(`SELECT count(*) FROM snapshots`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	written := 0
	b.s.write.grouped = func(int) {
		if now := parts(); now > written+1 {
			t.Errorf("one transaction wrote %d parts", now-written)
		} else {
			written = now
		}
	}
	state := map[string]any{"text": strings.Repeat("x", 5*snapshotPart)}
	if err := l.Snapshot(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if n := parts(); n != 6 {
		t.Errorf("%d parts, not 6", n)
	}
}

func TestWhatACrashLeftOfASnapshotIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	states := grow(b, l, 600)
	db := raw(t, b.path, `DELETE FROM snapshots WHERE seq = (SELECT max(seq) FROM snapshots) AND part = 0`)
	defer db.Close()
	v, err := b.s.At(t.Context(), "x", 0)
	if err != nil || !value.Equal(v.State, states[len(states)-1]) {
		t.Errorf("another state, %v", err)
	}
	if r, err := b.s.Verify(t.Context(), "x"); err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
	// The next ones leave nothing of it behind.
	for range 2 {
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 601, push("log", "x"))}})
		if err := l.Snapshot(t.Context(), v.State); err != nil {
			t.Fatal(err)
		}
	}
	var seqs, torn int
	if err := db.QueryRow(`SELECT count(DISTINCT seq), count(DISTINCT seq) - sum(part = 0) FROM snapshots`).Scan(&seqs, &torn); err != nil || seqs != snapshotsKept || torn != 0 {
		t.Errorf("%d snapshots, %d of them torn, %v", seqs, torn, err)
	}
}
