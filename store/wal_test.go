package store

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

func walSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// idleness is a bundle whose idleness the test makes.
func idleness(t *testing.T) (*bundle, *clock.Fake) {
	t.Helper()
	b, idle := setup(t), clock.NewFake(start)
	b.s.tidy.clock = idle
	return b, idle
}

func waitForTimer(t *testing.T, idle *clock.Fake) {
	t.Helper()
	if err := idle.WaitForTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

func TestTheWriteAheadLogIsEmptyAfterABurstAndIdleness(t *testing.T) {
	t.Parallel()
	b, idle := idleness(t)
	grow(b, b.begin("x"), 100)
	waitForTimer(t, idle)
	if n := walSize(t, b.path); n == 0 {
		t.Fatal("the log is empty before anybody was idle")
	}
	// Commits came after the first one, so that the first look finds nobody idle.
	idle.Advance(walIdle)
	waitForTimer(t, idle)
	idle.Advance(walIdle)
	<-b.s.tidy.done
	if n := walSize(t, b.path); n != 0 {
		t.Errorf("the log has %d bytes", n)
	}
	// And once more, by a goroutine of its own.
	if err := b.s.Create(t.Context(), engine.Thread{ID: "y"}); err != nil {
		t.Fatal(err)
	}
	waitForTimer(t, idle)
	idle.Advance(walIdle)
	<-b.s.tidy.done
	if n := walSize(t, b.path); n != 0 {
		t.Errorf("the log has %d bytes", n)
	}
}

func TestAReaderThatStaysOpenKeepsTheLogButNobodyFromCommitting(t *testing.T) {
	t.Parallel()
	b, idle := idleness(t)
	l := b.begin("x")
	reader, err := b.s.read.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.Get(&n, `SELECT count(*) FROM checkpoints`); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	grow(b, l, 100)
	for range 3 {
		waitForTimer(t, idle)
		idle.Advance(walIdle)
	}
	waitForTimer(t, idle)
	if n := walSize(t, b.path); n == 0 {
		t.Error("the log was emptied under a reader")
	}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 101, push("log", "x"))}})
	if err := reader.Get(&n, `SELECT count(*) FROM checkpoints`); err != nil || n != 1 {
		t.Error("the reader sees another moment:", n, err)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		waitForTimer(t, idle)
		idle.Advance(walIdle)
	}
	<-b.s.tidy.done
	if n := walSize(t, b.path); n != 0 {
		t.Errorf("the log has %d bytes", n)
	}
}

func TestTheWriteAheadLogStaysBoundedWhileSomebodyWrites(t *testing.T) {
	t.Parallel()
	b, _ := idleness(t)
	l := b.begin("x")
	for range 10 {
		grow(b, l, 300)
		if n := walSize(t, b.path); n > walLimit {
			t.Fatalf("the log has %d bytes", n)
		}
	}
}

func TestClosingAStoreEndsWhatEmptiesItsLog(t *testing.T) {
	t.Parallel()
	b, _ := idleness(t)
	b.begin("x")
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	<-b.s.tidy.done
	if _, err := b.s.Open(context.Background(), "x"); err == nil {
		t.Error("a closed store was read")
	}
}
