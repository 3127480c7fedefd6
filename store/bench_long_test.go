package store

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// BenchmarkLongTurn is W2: a list that grows by 200 bytes a step. A step must
// cost the same at the end as at the beginning, the file must hold little more
// than the data, and neither memory nor the write-ahead log may grow. It is
// NORMAL, so that it is the work that is measured and not the disk.
//
// Each op is one long turn: run it with -benchtime 1x.
func BenchmarkLongTurn(b *testing.B) {
	for _, steps := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d steps", steps), func(b *testing.B) {
			for b.Loop() {
				longTurn(b, steps)
			}
		})
	}
}

func longTurn(b *testing.B, steps int) {
	s := benchStore(b, Options{Synchronous: "NORMAL"})
	l := benchLog(b, s, "x")
	list := []any{}
	took := make([]time.Duration, 0, steps)
	wal, before := int64(0), heap()
	for n := range steps {
		list = append(list, text200)
		took = append(took, timed(func() { benchStep(b, l, int64(n+1), map[string]any{"log": list}, push("log", text200)) }))
		if n%1000 == 0 {
			wal = max(wal, walSize(b, s.path))
		}
	}
	// The list is the benchmark's own, of words that point to one text.
	grown := heap() - before - int64(cap(list)+2*cap(took))*8
	runtime.KeepAlive(l)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		b.Fatal(err)
	}
	tail := took[len(took)-min(len(took), 1000):]
	b.ReportMetric(float64(quantile(tail, 0.5).Nanoseconds()), "last-p50-ns")
	b.ReportMetric(float64(quantile(took, 0.5).Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(quantile(took, 0.99).Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(info.Size())/float64(200*steps), "file-bytes/byte")
	b.ReportMetric(float64(wal)/(1<<20), "wal-MB")
	b.ReportMetric(float64(grown)/(1<<20), "heap-MB")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStepBesideALargeSnapshot is how long a step of one thread takes
// while another one writes the snapshot of a state of 20 MB, against one that
// is alone with the file.
func BenchmarkStepBesideALargeSnapshot(b *testing.B) {
	s := benchStore(b, Options{})
	small, large := benchLog(b, s, "small"), benchLog(b, s, "large")
	list := make([]any, 20<<10)
	for i := range list {
		list[i] = strings.Repeat("x", 1<<10)
	}
	state := map[string]any{"list": list}
	var p pair
	var snapshots []time.Duration
	n := int64(0)
	one := func() {
		n++
		benchCommit(b, small, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", text200))}})
	}
	for b.Loop() {
		for range 200 {
			p.timeBare(one)
		}
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(done)
			snapshots = append(snapshots, timed(func() {
				if err := large.Snapshot(b.Context(), state); err != nil {
					b.Error(err)
				}
			}))
		})
		for open := true; open; {
			select {
			case <-done:
				open = false
			default:
				p.timeOurs(one)
			}
		}
		wg.Wait()
		benchCommit(b, large, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", text200))}})
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(quantile(p.bare, 0.99).Nanoseconds()), "alone-p99-ns")
	b.ReportMetric(float64(quantile(p.ours, 0.5).Nanoseconds()), "beside-p50-ns")
	b.ReportMetric(float64(quantile(p.ours, 0.99).Nanoseconds()), "beside-p99-ns")
	b.ReportMetric(float64(quantile(p.ours, 1).Nanoseconds()), "beside-max-ns")
	b.ReportMetric(float64(quantile(p.ours, 0.99))/float64(quantile(p.bare, 0.99)), "x-alone-p99")
	b.ReportMetric(float64(quantile(snapshots, 0.5).Nanoseconds()), "snapshot-ns")
	b.ReportMetric(float64(len(p.ours))/float64(len(snapshots)), "steps/snapshot")
}
