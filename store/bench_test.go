package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

var text200 = strings.Repeat("x", 200)

// stepBytes is what a step that pushes text200 stores.
var stepBytes = func() int {
	e := step(1, 1, push("log", text200))
	payload, err := appendPayload(newSalt(), &e.Payload)
	if err != nil {
		panic(err)
	}
	return len(payload)
}()

// BenchmarkStep is W1: one thread, a step with its commit.
func BenchmarkStep(b *testing.B) {
	for _, sync := range []string{"FULL", "NORMAL"} {
		b.Run(sync, func(b *testing.B) {
			y, l := newBare(b, sync), benchLog(b, benchStore(b, Options{Synchronous: sync}), "x")
			var p pair
			n := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				p.timeBare(func() { y.row(1, n, stepBytes) })
				p.timeOurs(func() { benchStep(b, l, n, nil, push("log", text200)) })
			}
			p.report(b)
		})
	}
}

// BenchmarkStepOf64Threads is W3: 64 threads at once. Its yardstick inserts
// the same number of rows for the same threads, in transactions of the sizes
// that ours had.
func BenchmarkStepOf64Threads(b *testing.B) {
	const threads, rounds = 64, 8
	y, s := newBare(b, "FULL"), benchStore(b, Options{})
	var groups []int
	s.write.grouped = func(n int) { groups = append(groups, n) }
	logs := make([]*Log, threads)
	for i := range logs {
		logs[i] = benchLog(b, s, fmt.Sprintf("t%d", i))
	}
	var p pair
	n, next := int64(0), 0
	seqs := make([]int64, threads)
	transactions, steps := 0, 0
	for b.Loop() {
		groups = nil
		p.timeOurs(func() {
			var wg sync.WaitGroup
			for _, l := range logs {
				wg.Go(func() {
					for i := range int64(rounds) {
						if err := l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, n+i+1, push("log", text200))}}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
		n += rounds
		p.timeBare(func() {
			for _, size := range groups {
				if size > 1 {
					y.exec(y.begin)
				}
				for range size {
					seqs[next]++
					y.row(int64(next+1), seqs[next], stepBytes)
					next = (next + 1) % threads
				}
				if size > 1 {
					y.exec(y.commit)
				}
			}
		})
		transactions, steps = transactions+len(groups), steps+threads*rounds
	}
	p.report(b)
	b.ReportMetric(float64(total(p.ours).Nanoseconds())/float64(steps), "ours-ns/step")
	b.ReportMetric(float64(total(p.bare).Nanoseconds())/float64(steps), "bare-ns/step")
	b.ReportMetric(float64(steps)/float64(transactions), "steps/commit")
}

// BenchmarkTurnWithAQuestion is W6: an input, a step that pauses, an answer and
// the last step, on a new thread each time; its yardstick is four commits.
func BenchmarkTurnWithAQuestion(b *testing.B) {
	y, s := newBare(b, "FULL"), benchStore(b, Options{})
	var p pair
	n := int64(0)
	for b.Loop() {
		n++
		p.timeBare(func() {
			for i := range int64(4) {
				y.row(1, n*4+i, stepBytes)
			}
		})
		p.timeOurs(func() { benchTurn(b, s, fmt.Sprintf("t%d", n)) })
	}
	p.report(b)
}

// benchTurn is what an engine does for a turn with a question in one process
// and the answer from another.
func benchTurn(b *testing.B, s *Store, id string) {
	b.Helper()
	l, err := s.newLog(b.Context(), engine.Thread{ID: id})
	if err != nil {
		b.Fatal(err)
	}
	benchCommit(b, l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1, push("log", text200))}, Graph: graph("g")})
	asks := step(1, 1, push("log", text200))
	asks.Status = engine.Paused
	benchCommit(b, l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{asks, pause(1, 1, "b")}})
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	opened, err := s.Open(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	l = opened.(*Log)
	benchCommit(b, l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{answer(engine.CheckpointID(id, 3), 1, 1, engine.Running, "approve")}})
	benchCommit(b, l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 2, push("log", text200)), engine.Done)}})
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen is W5: open a file and read a thread's newest state; its
// yardstick opens a file and reads one row.
func BenchmarkOpen(b *testing.B) {
	for _, steps := range []int64{100, 10_000, 10_063} {
		b.Run(fmt.Sprintf("%d checkpoints", steps), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "bench.db")
			s, err := Open(b.Context(), path, Options{Synchronous: "NORMAL"})
			if err != nil {
				b.Fatal(err)
			}
			l := benchLog(b, s, "x")
			for n := range steps {
				benchStep(b, l, n+1, map[string]any{"x": n}, set("x", n))
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			var p pair
			var opens, loads, closes []time.Duration
			for b.Loop() {
				p.timeBare(func() {
					db, err := sql.Open("sqlite", path)
					if err != nil {
						b.Fatal(err)
					}
					var n int64
					if err := db.QueryRow(`SELECT seq FROM checkpoints WHERE no = 1 AND seq = ?`, steps).Scan(&n); err != nil {
						b.Fatal(err)
					}
					if err := db.Close(); err != nil {
						b.Fatal(err)
					}
				})
				p.timeOurs(func() {
					var s *Store
					opens = append(opens, timed(func() {
						if s, err = Open(b.Context(), path, Options{}); err != nil {
							b.Fatal(err)
						}
					}))
					loads = append(loads, timed(func() {
						v, err := s.At(b.Context(), "x", 0)
						if err != nil || v.State["x"] != steps-1 {
							b.Fatal(v, err)
						}
					}))
					closes = append(closes, timed(func() {
						if err := s.Close(); err != nil {
							b.Fatal(err)
						}
					}))
				})
			}
			p.report(b)
			b.ReportMetric(float64(quantile(opens, 0.5).Nanoseconds()), "open-ns")
			b.ReportMetric(float64(quantile(loads, 0.5).Nanoseconds()), "load-ns")
			b.ReportMetric(float64(quantile(closes, 0.5).Nanoseconds()), "close-ns")
		})
	}
}
