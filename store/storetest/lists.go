package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

var listCases = []testCase{
	{"threads are listed in pages across equal times", func(b *bundle) {
		for i := range 25 {
			if i%5 == 0 {
				b.clock.Advance(time.Second)
			}
			b.ok(b.s.Create(b.Context(), engine.Thread{ID: fmt.Sprintf("t%02d", i)}))
		}
		in := input(1)
		in.At = b.clock.Now().Add(time.Minute)
		b.commit(b.load(b.s, "t03"), &engine.Commit{Take: engine.TakeFree, Leave: engine.LeaseFree, Entries: []*engine.Entry{ended(in, engine.Done)}})
		b.ok(b.s.Delete(b.Context(), "t10"))
		var ids []string
		for cursor := ""; ; {
			page, next, err := b.backend.List(b.Context(), b.s, cursor, 4)
			b.ok(err)
			for _, t := range page {
				ids = append(ids, t.ID)
			}
			if len(ids) == 8 {
				// What comes meanwhile is newer, and moves nothing.
				b.clock.Advance(time.Hour)
				b.ok(b.s.Create(b.Context(), engine.Thread{ID: "late"}))
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		sorted := slices.Clone(ids)
		slices.Sort(sorted)
		if len(ids) != 24 || len(slices.Compact(sorted)) != 24 || ids[0] != "t03" || ids[1] != "t24" || ids[23] != "t00" || slices.Contains(ids, "t10") {
			b.Errorf("got %v", ids)
		}
	}},
	{"a name is taken once", func(b *bundle) {
		fresh, err := b.s.New(b.Context(), engine.Thread{ID: "x"})
		b.ok(err)
		b.begin("x")
		b.want(fresh.Commit(b.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}}), engine.ErrExists)
		b.want(b.s.Create(b.Context(), engine.Thread{ID: "x"}), engine.ErrExists)
		if v := b.at("x", 0); v.Thread.Head != 1 {
			b.Errorf("head %d", v.Thread.Head)
		}
	}},
}
