package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

// The yardstick: a prepared insert of the same bytes into the same layout.
func BenchmarkBareInsert(b *testing.B) {
	for _, sync := range []string{"FULL", "NORMAL"} {
		b.Run(sync, func(b *testing.B) {
			s := benchStore(b, sync)
			c := s.write.conn
			if _, err := c.exec(b.Context(), `INSERT INTO threads (no, thread_id, status, created_at, updated_at) VALUES (1, 'x', 'running', 0, 0)`); err != nil {
				b.Fatal(err)
			}
			payload := []byte(strings.Repeat("x", 300))
			hash := make([]byte, 32)
			seq := int64(0)
			for b.Loop() {
				seq++
				if _, err := c.exec(b.Context(), `INSERT INTO checkpoints (no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload)
					VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, 1, seq, seq, "", "step", "running", 1, seq, seq-1, `["a"]`, `["a"]`, "", 0, hash, hash, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchStore(b *testing.B, sync string) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), Options{Synchronous: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func benchLog(b *testing.B, s *Store, id string) engine.Log {
	b.Helper()
	l, err := s.New(b.Context(), engine.Thread{ID: id})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Commit(b.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}}); err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkStep(b *testing.B) {
	text := strings.Repeat("x", 200)
	for _, sync := range []string{"FULL", "NORMAL"} {
		b.Run(sync, func(b *testing.B) {
			l := benchLog(b, benchStore(b, sync), "x")
			n := int64(0)
			for b.Loop() {
				n++
				if err := l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", text))}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStepOf64Threads(b *testing.B) {
	text := strings.Repeat("x", 200)
	s := benchStore(b, "FULL")
	logs := make(chan engine.Log, 64)
	for i := range 64 {
		logs <- benchLog(b, s, fmt.Sprintf("t%d", i))
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		l := <-logs
		n := int64(0)
		for pb.Next() {
			n++
			if err := l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", text))}}); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	s, err := Open(b.Context(), path, Options{Synchronous: "NORMAL"})
	if err != nil {
		b.Fatal(err)
	}
	l := benchLog(b, s, "x")
	state := map[string]any{}
	for n := range 10000 {
		op := set("x", int64(n))
		if err := l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, int64(n), op)}}); err != nil {
			b.Fatal(err)
		}
		state["x"] = int64(n)
		if l.SnapshotDue() {
			if err := l.Snapshot(b.Context(), state); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("newest state", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(b.Context(), path, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.At(b.Context(), "x", 0); err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open and close", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(b.Context(), path, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("state of an open file", func(b *testing.B) {
		s, err := Open(b.Context(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if _, err := s.At(b.Context(), "x", 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			db := raw(b, path)
			var n int
			if err := db.QueryRow(`SELECT seq FROM checkpoints WHERE no = 1 AND seq = 10001`).Scan(&n); err != nil {
				b.Fatal(err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
