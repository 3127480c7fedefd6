package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// Every figure of this package is a ratio to a yardstick: the same bytes,
// inserted by a prepared statement into a file of the same layout, with the
// same durability, in turn with the work that is measured. So whatever else
// the machine does meanwhile hits both.

// bare is the yardstick: a file of the store's layout, and nothing of the store.
type bare struct {
	b      *testing.B
	conn   *sql.Conn
	insert *sql.Stmt
	begin  *sql.Stmt
	commit *sql.Stmt
}

func newBare(b *testing.B, synchronous string) *bare {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bare.db")
	s, err := Open(b.Context(), path, Options{})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	opts, _ := Options{Synchronous: synchronous}.withDefaults()
	db, err := sql.Open("sqlite", dsn(path, false, opts))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	y := &bare{b: b}
	if y.conn, err = db.Conn(b.Context()); err != nil {
		b.Fatal(err)
	}
	y.insert = y.prepare(`INSERT INTO checkpoints (no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	y.begin, y.commit = y.prepare("BEGIN IMMEDIATE"), y.prepare("COMMIT")
	if _, err := y.conn.ExecContext(b.Context(), `INSERT INTO threads (thread_id, status, created_at, updated_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64) SELECT 't' || i, 'running', 0, 0 FROM n`); err != nil {
		b.Fatal(err)
	}
	return y
}

func (y *bare) prepare(query string) *sql.Stmt {
	y.b.Helper()
	s, err := y.conn.PrepareContext(y.b.Context(), query)
	if err != nil {
		y.b.Fatal(err)
	}
	return s
}

func (y *bare) exec(s *sql.Stmt, args ...any) {
	y.b.Helper()
	// A caller's context would cost a goroutine a statement.
	if _, err := s.ExecContext(context.Background(), args...); err != nil {
		y.b.Fatal(err)
	}
}

// row inserts one entry that has size bytes of payload.
func (y *bare) row(no, seq int64, size int) {
	y.b.Helper()
	y.exec(y.insert, no, seq, seq, "", "step", "running", int64(1), seq, seq-1, `["a"]`, `["a"]`, "", int64(1893553445000), bytes32, bytes32, bytesMax[:size])
}

var (
	bytes32  = make([]byte, 32)
	bytesMax = make([]byte, 64<<10)
)

// pair is how long two ways of doing the same took, in turn.
type pair struct {
	bare, ours []time.Duration
}

func (p *pair) timeBare(f func()) { p.bare = append(p.bare, timed(f)) }
func (p *pair) timeOurs(f func()) { p.ours = append(p.ours, timed(f)) }

func timed(f func()) time.Duration {
	from := time.Now()
	f()
	return time.Since(from)
}

// report gives medians and their ratio. One op is one of each, which says
// nothing, so that ns/op is left out.
func (p *pair) report(b *testing.B) {
	b.Helper()
	ours, bare := quantile(p.ours, 0.5), quantile(p.bare, 0.5)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours.Nanoseconds()), "ours-ns")
	b.ReportMetric(float64(bare.Nanoseconds()), "bare-ns")
	b.ReportMetric(float64(ours)/float64(bare), "x-bare")
	b.ReportMetric(float64(quantile(p.ours, 0.99))/float64(quantile(p.bare, 0.99)), "x-bare-p99")
	b.ReportMetric(float64(total(p.ours))/float64(total(p.bare)), "x-bare-mean")
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func total(d []time.Duration) (out time.Duration) {
	for _, x := range d {
		out += x
	}
	return out
}

func benchStore(b *testing.B, opts Options) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// benchLog is a thread in the middle of a turn.
func benchLog(b *testing.B, s *Store, id string) *Log {
	b.Helper()
	l, err := s.newLog(b.Context(), engine.Thread{ID: id})
	if err != nil {
		b.Fatal(err)
	}
	benchCommit(b, l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}})
	return l
}

func benchCommit(b *testing.B, l *Log, c *engine.Commit) {
	b.Helper()
	if err := l.Commit(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}

// benchStep commits a step, and a snapshot when one is due, as the engine does.
func benchStep(b *testing.B, l *Log, n int64, state map[string]any, ops ...engine.Op) {
	b.Helper()
	benchCommit(b, l, &engine.Commit{Entries: []*engine.Entry{step(1, n, ops...)}})
	if l.SnapshotDue() {
		if err := l.Snapshot(b.Context(), state); err != nil {
			b.Fatal(err)
		}
	}
}
