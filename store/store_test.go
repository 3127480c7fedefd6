package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

var start = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is what a test works with: a store on a file of its own and a clock
// that stands still.
type bundle struct {
	t     *testing.T
	s     *Store
	path  string
	clock *clock.Fake
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupAt(t, filepath.Join(t.TempDir(), "agent.db"))
}

func setupAt(t *testing.T, path string) *bundle {
	t.Helper()
	b := &bundle{t: t, path: path, clock: clock.NewFake(start)}
	b.s = b.open()
	return b
}

// open opens the bundle's file once more, as another process would.
func (b *bundle) open() *Store {
	b.t.Helper()
	s, err := Open(b.t.Context(), b.path, Options{Clock: b.clock})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Errorf("close: %v", err)
		}
	})
	return s
}

func (b *bundle) reopen() {
	b.t.Helper()
	if err := b.s.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.s = b.open()
}

func graph(name string) *engine.GraphRecord {
	def := []byte(fmt.Sprintf(`{"name":%q}`, name))
	sum := sha256.Sum256(def)
	return &engine.GraphRecord{Fingerprint: hex.EncodeToString(sum[:]), Name: name, Definition: def}
}

func input(turn int64, ops ...engine.Op) *engine.Entry {
	g := graph("g")
	return &engine.Entry{
		Kind: engine.KindInput, Status: engine.Running, Turn: turn, Next: []string{"a"}, Actor: "tester", At: start,
		Payload: engine.Payload{Ops: ops, Input: &engine.InputRecord{Graph: g.Fingerprint, Name: g.Name, Text: "hello", MaxSteps: 100, Via: "cli"}},
	}
}

func step(turn, n int64, ops ...engine.Op) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindStep, Status: engine.Running, Turn: turn, Step: n, Tasks: []string{"a"}, Next: []string{"a"}, At: start,
		Payload: engine.Payload{Ops: ops},
	}
}

func last(e *engine.Entry, status engine.Status) *engine.Entry {
	e.Status, e.Next = status, nil
	return e
}

func pause(turn, n int64, task string) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindPause, Status: engine.Paused, Turn: turn, Step: n, Next: []string{"a"}, At: start,
		Payload: engine.Payload{
			Question:  &interrupt.Question{AskingNode: "a", Task: task, Digest: "d-" + task, AskedAt: start, Shows: map[string]any{"n": int64(7), "f": 1.5}},
			Interrupt: &engine.InterruptRecord{Kind: interrupt.Before, Node: task, Message: "really?", Data: []any{int64(1), "x"}},
		},
	}
}

func answer(question string, turn, n int64, status engine.Status, v any) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindAnswer, Status: status, Turn: turn, Step: n, Next: []string{"a"}, Actor: "ann", At: start,
		Payload: engine.Payload{Answer: &interrupt.Answer{Question: question, Value: v, Actor: "ann", Via: "cli", At: start}},
	}
}

func set(channel string, v any) engine.Op {
	return engine.Op{Task: "a", Channel: channel, Op: engine.OpSet, Value: v}
}

func push(channel string, v any) engine.Op {
	return engine.Op{Task: "a", Channel: channel, Op: engine.OpAppend, Value: v}
}

// begin creates a thread that is moved by the returned handle.
func (b *bundle) begin(id string, ops ...engine.Op) engine.Log {
	b.t.Helper()
	l, err := b.s.New(b.t.Context(), engine.Thread{ID: id, Cwd: "/work", Roots: []string{"/a", "/b"}, Title: "title", Mode: "auto", Options: map[string]any{"k": int64(1)}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1, ops...)}, Graph: graph("g")})
	return l
}

func (b *bundle) commit(l engine.Log, c *engine.Commit) {
	b.t.Helper()
	if err := l.Commit(b.t.Context(), c); err != nil {
		b.t.Fatalf("commit: %v", err)
	}
}

func (b *bundle) load(s *Store, id string) engine.Log {
	b.t.Helper()
	l, err := s.Open(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}

func (b *bundle) verify() *Report {
	b.t.Helper()
	r, err := b.s.Verify(b.t.Context(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range r.Problems {
		b.t.Errorf("verify: %s", p)
	}
	return r
}

func TestADeletedThreadLeavesNothingAndComesBackByNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	if err := b.s.Signal(t.Context(), "x", engine.Signal{Name: "go"}); err != nil {
		t.Fatal(err)
	}
	want(t, b.open().Delete(t.Context(), "x"), engine.ErrBusy)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	late := b.load(b.s, "x")
	if err := b.s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Delete(t.Context(), "x"); err != nil {
		t.Fatal("again is fine: ", err)
	}
	want(t, b.s.Delete(t.Context(), "nobody"), engine.ErrNotFound)
	want(t, late.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{step(1, 1)}}), engine.ErrDeleted)
	want(t, b.s.Signal(t.Context(), "x", engine.Signal{Name: "go"}), engine.ErrDeleted)
	_, err := b.s.Open(t.Context(), "x")
	want(t, err, engine.ErrDeleted)
	want(t, b.s.Create(t.Context(), engine.Thread{ID: "x"}), engine.ErrDeleted)
	db := raw(t, b.path)
	for _, table := range []string{"checkpoints", "snapshots", "results", "interrupts", "signals"} {
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s has %d rows left (%v)", table, n, err)
		}
	}
	report, err := b.s.Verify(t.Context(), "")
	if err != nil || len(report.Problems) > 0 {
		t.Error(report, err)
	}
}
