package storetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

var valueCases = []testCase{
	{"every value is read as it was written", func(b *bundle) {
		values := map[string]any{
			"null": nil, "true": true, "false": false, "zero": int64(0), "largest": int64(math.MaxInt64), "smallest": int64(math.MinInt64),
			"beyond a float": int64(1<<53 + 1), "fraction": 0.1, "tiny": math.SmallestNonzeroFloat64, "huge": math.MaxFloat64, "negative": -1.5,
			"empty text": "", "NUL": "a\x00b", "control": "\x01\x1b[31m\u202e\u2028", "quotes": `"'\` + "\n", "emoji": "👩‍👩‍👧 é e\u0301 語", "last": "\U0010ffff",
			"empty list": []any{}, "empty object": map[string]any{}, "nested": map[string]any{"a": []any{nil, map[string]any{"": int64(1)}, []any{[]any{}}}},
			"": "a channel without a name", "a.b/c~d": int64(1), "NUL\x00in a name": int64(2), "long": strings.Repeat("x", 1<<20),
		}
		l := b.begin("x")
		for name, v := range values {
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, set(name, v))}})
		}
		b.ok(l.Close())
		same := func() {
			b.Helper()
			if got := b.at("x", 0).State; !value.Equal(got, values) {
				for name, v := range values {
					if !value.Equal(got[name], v) {
						b.Errorf("%s: got %#v, want %#v", name, got[name], v)
					}
				}
			}
		}
		same()
		b.reopen()
		same()
		b.verify()
	}},
	{"every operation is folded", func(b *bundle) {
		l := b.begin("x", set("n", int64(1)), engine.Op{Channel: "min", Op: engine.OpMin, Value: int64(5)})
		ops := []engine.Op{
			push("log", "a"), push("log", []any{"b", "c"}), {Channel: "log", Op: engine.OpAppend, Value: "d", Keep: 3},
			{Channel: "n", Op: engine.OpAdd, Value: int64(2)}, {Channel: "min", Op: engine.OpMin, Value: int64(3)}, {Channel: "max", Op: engine.OpMax, Value: 2.5},
			{Channel: "object", Op: engine.OpMerge, Value: map[string]any{"a": map[string]any{"b": int64(1)}}},
			{Channel: "object", Op: engine.OpMerge, Value: map[string]any{"a": map[string]any{"c": nil}}},
			{Channel: "messages", Op: engine.OpUpsert, Value: map[string]any{"id": "1", "text": "old"}},
			{Channel: "messages", Op: engine.OpUpsert, Value: map[string]any{"id": "1", "text": "new"}},
		}
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, ops...)}})
		want := map[string]any{
			"n": int64(3), "min": int64(3), "max": 2.5, "log": []any{"b", "c", "d"},
			"object": map[string]any{"a": map[string]any{"b": int64(1), "c": nil}}, "messages": []any{map[string]any{"id": "1", "text": "new"}},
		}
		if got := b.at("x", 0).State; !value.Equal(got, want) {
			b.Errorf("got %v", got)
		}
	}},
	{"ids are exact", func(b *bundle) {
		ids := []string{"a", "A", "a%", "a_", "a'", `a"`, "a;--", "é", "e\u0301", "語", "a/b", "..", "a:1", strings.Repeat("z", engine.MaxThreadID)}
		for i, id := range ids {
			b.ok(b.begin(id, set("i", int64(i))).Close())
		}
		for i, id := range ids {
			if v := b.at(id, 0); v.State["i"] != int64(i) || v.Thread.ID != id {
				b.Errorf("%q is %q with %v", id, v.Thread.ID, v.State)
			}
		}
		for _, id := range []string{"", "a b", "a@1", "a\x00", "a\n", strings.Repeat("z", engine.MaxThreadID+1), "\xff"} {
			b.want(b.s.Create(b.Context(), engine.Thread{ID: id}), engine.ErrInvalid)
		}
		for _, id := range []string{"b", "a ", "a*"} {
			_, err := b.s.Open(b.Context(), id)
			b.want(err, engine.ErrNotFound)
		}
		b.verify()
	}},
	{"threads do not see each other", func(b *bundle) {
		x, y := b.begin("x", set("v", "x")), b.begin("y", set("v", "y"))
		b.ok(x.Put(b.Context(), engine.Result{Task: "t", Kind: engine.ResultTask, Value: []byte(`"x"`)}))
		b.ok(y.Put(b.Context(), engine.Result{Task: "t", Kind: engine.ResultTask, Value: []byte(`"y"`)}))
		b.ok(b.s.Signal(b.Context(), "x", engine.Signal{Name: "go"}))
		b.commit(y, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
		b.commit(x, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}})
		vx, vy := b.at("x", 0), b.at("y", 0)
		if vx.State["v"] != "x" || len(vx.Results) != 1 || string(vx.Results[0].Value) != `"x"` || len(vx.Signals) != 1 || vx.Thread.Status != engine.Paused {
			b.Errorf("x: %+v", vx)
		}
		if vy.State["v"] != "y" || len(vy.Results) != 0 || len(vy.Signals) != 0 || vy.Thread.Status != engine.Running || vy.Thread.Head != 2 {
			b.Errorf("y: %+v", vy)
		}
		_, err := b.s.Question(b.Context(), "y", 2)
		b.want(err, engine.ErrNotFound)
		b.verify()
	}},
	{"what is no value is an error of the commit and nothing is stored", func(b *bundle) {
		l := b.begin("x")
		for _, v := range []any{struct{}{}, func() {}, math.NaN()} {
			b.want(l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1, set("x", v))}}), engine.ErrInvalid)
		}
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, set("x", int64(1)))}})
		if v := b.at("x", 0); fmt.Sprint(v.State) != "map[x:1]" || v.Thread.Head != 2 {
			b.Errorf("state: %v", v.State)
		}
	}},
}
