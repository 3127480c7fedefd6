// Package storetest is what every store of threads must pass, whatever it keeps
// them in. A backend's own tests call Run with a Backend, and go on from there
// with what only they know: damage, limits, speed.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Backend{Open: open})
//	}
//
// Each case has a place of its own and runs beside the others. Nothing waits
// for time to pass.
package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Store is a store of threads as the suite sees it.
type Store interface {
	engine.Store
	// Create makes a thread that has no turn yet. ErrExists, ErrDeleted.
	Create(ctx context.Context, t engine.Thread) error
	// Delete removes a thread for good, but for its id. ErrBusy, ErrNotFound.
	Delete(ctx context.Context, thread string) error
	Close() error
}

// Backend is a kind of store, and what the interface has no word for.
type Backend struct {
	// Open opens a place, a file's path in a folder that exists; once more for
	// the same place is what another process does. c gives the times that are
	// stored.
	Open func(t testing.TB, place string, c clock.Clock) Store
	// List gives the threads that are not deleted, those first whose turn
	// changed last, at most limit, from the one behind the cursor on. next is
	// empty where no more follow.
	List func(ctx context.Context, s Store, cursor string, limit int) (threads []engine.Thread, next string, err error)
	// Inbox gives the open questions, oldest first.
	Inbox func(ctx context.Context, s Store) ([]interrupt.Question, error)
	// Prune removes the payloads of all but the newest turns of a thread, and
	// says of how many entries.
	Prune func(ctx context.Context, s Store, thread string, turns int) (int64, error)
	// Verify says what does not fit in the place.
	Verify func(ctx context.Context, s Store) error
	// Look opens a place that nobody may change.
	Look func(t testing.TB, place string) Store
	// Fail makes the next commit at a place fail once, after it was applied or
	// before.
	Fail func(t testing.TB, place string, applied bool)
	// Child makes a process that runs Child with these arguments. Nil: the
	// system has no such processes, and the cases with several are skipped.
	Child func(t testing.TB, args ...string) *exec.Cmd
}

// Run runs the whole suite.
func Run(t *testing.T, b Backend) {
	for _, group := range [][]testCase{valueCases, logCases, listCases, leaseCases, careCases, crowdCases} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(setup(t, &b))
			})
		}
	}
}

type testCase struct {
	name string
	run  func(b *bundle)
}

// bundle is what a case works with: a place of its own, a store on it, and a
// clock that stands still.
type bundle struct {
	*testing.T
	backend *Backend
	place   string
	clock   *clock.Fake
	s       Store
}

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func setup(t *testing.T, backend *Backend) *bundle {
	b := &bundle{T: t, backend: backend, place: filepath.Join(t.TempDir(), "agent.db"), clock: clock.NewFake(start)}
	b.s = b.open()
	return b
}

// open opens the place once more.
func (b *bundle) open() Store {
	b.Helper()
	s := b.backend.Open(b.T, b.place, b.clock)
	b.Cleanup(func() { b.ok(s.Close()) })
	return s
}

func (b *bundle) reopen() {
	b.Helper()
	b.ok(b.s.Close())
	b.s = b.open()
}

func (b *bundle) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) want(err, target error) {
	b.Helper()
	if !errors.Is(err, target) {
		b.Errorf("got %v, want %v", err, target)
	}
}

func (b *bundle) commit(l engine.Log, c *engine.Commit) {
	b.Helper()
	b.ok(l.Commit(b.Context(), c))
}

func (b *bundle) load(s Store, thread string) engine.Log {
	b.Helper()
	l, err := s.Open(b.Context(), thread)
	b.ok(err)
	return l
}

func (b *bundle) at(thread string, seq int64) *engine.View {
	b.Helper()
	v, err := b.s.At(b.Context(), thread, seq)
	b.ok(err)
	return v
}

func (b *bundle) verify() {
	b.Helper()
	if err := b.backend.Verify(b.Context(), b.s); err != nil {
		b.Error(err)
	}
}

// begin makes a thread that the returned handle moves.
func (b *bundle) begin(thread string, ops ...engine.Op) engine.Log {
	b.Helper()
	l, err := b.s.New(b.Context(), engine.Thread{ID: thread, Cwd: "/work", Roots: []string{"/a", "/b"}, Title: "title", Options: map[string]any{"k": int64(1)}})
	b.ok(err)
	b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1, ops...)}, Graph: graph()})
	return l
}

// turn is a whole turn of three entries.
func (b *bundle) turn(s Store, thread string, n int64) error {
	var l engine.Log
	var err error
	if n == 1 {
		l, err = s.New(b.Context(), engine.Thread{ID: thread})
	} else {
		l, err = s.Open(b.Context(), thread)
	}
	if err != nil {
		return err
	}
	for _, c := range []*engine.Commit{
		{Take: engine.TakeFree, Entries: []*engine.Entry{input(n, set("turn", n))}, Graph: graph()},
		{Entries: []*engine.Entry{step(n, 1, push("log", n), set("text", fmt.Sprintf("%d %0500d", n, n)))}},
		{Leave: engine.LeaseFree, Entries: []*engine.Entry{ended(step(n, 2), engine.Done)}},
	} {
		if err := l.Commit(b.Context(), c); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return l.Close()
}

func graph() *engine.GraphRecord {
	def := []byte(`{"name":"g"}`)
	sum := sha256.Sum256(def)
	return &engine.GraphRecord{Fingerprint: hex.EncodeToString(sum[:]), Name: "g", Definition: def}
}

func input(turn int64, ops ...engine.Op) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindInput, Status: engine.Running, Turn: turn, Next: []string{"a"}, Actor: "tester", At: start,
		Payload: engine.Payload{Ops: ops, Input: &engine.InputRecord{Graph: graph().Fingerprint, Name: "g", Text: "hello", MaxSteps: 100}},
	}
}

func step(turn, n int64, ops ...engine.Op) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindStep, Status: engine.Running, Turn: turn, Step: n, Tasks: []string{"a"}, Next: []string{"a"}, At: start,
		Payload: engine.Payload{Ops: ops},
	}
}

func ended(e *engine.Entry, status engine.Status) *engine.Entry {
	e.Status, e.Next = status, nil
	return e
}

func pause(turn, n int64, task string) *engine.Entry {
	return &engine.Entry{
		Kind: engine.KindPause, Status: engine.Paused, Turn: turn, Step: n, Next: []string{"a"}, At: start,
		Payload: engine.Payload{
			Question:  &interrupt.Question{AskingNode: "a", Task: task, Digest: "d-" + task, AskedAt: start},
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
