package acp_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// BenchmarkOpenSessions measures the live heap that an open session costs which has
// had a turn, and beside it that of a bare connection of jsonrpc2, both ends.
func BenchmarkOpenSessions(b *testing.B) {
	const sessions, conns = 1000, 200
	for b.Loop() {
		s, err := store.Open(context.Background(), filepath.Join(b.TempDir(), "agent.db"), store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		d := &desk{t: b, dir: b.TempDir(), store: s, config: acp.Config{Store: s, Graphs: []*engine.Graph{single("echo", echo)}}}
		c := d.client(nil)
		c.Says(c.NewSession(), "hello") // what is made once
		before := liveHeap()
		for range sessions {
			c.Says(c.NewSession(), "hello")
			c.Log = nil // the client's memory is not meant
		}
		perSession := float64(liveHeap()-before) / sessions
		c.leave()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}

		before = liveHeap()
		for range conns {
			bare(b)()
		}
		perConn := float64(liveHeap()-before) / conns
		b.ReportMetric(perSession, "B/session")
		b.ReportMetric(perConn, "B/conn")
		b.ReportMetric(perSession/perConn, "x-conn")
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
