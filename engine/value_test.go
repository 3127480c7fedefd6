package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// anyValue draws what a node may write: every JSON value, and what Go has
// beside: small integers, floats, bytes that are no UTF-8, numbers as text.
func anyValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(v bool) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Int(), func(v int) any { return v }),
		rapid.Map(rapid.Uint64(), func(v uint64) any { return v }),
		rapid.Map(rapid.Float64(), func(v float64) any { return v }),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(v int64) any { return float64(v) }),
		rapid.Map(rapid.String(), func(v string) any { return v }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(v []byte) any { return string(v) }),
		rapid.Map(rapid.StringMatching(`-?[1-9][0-9]{15,40}`), func(v string) any { return json.Number(v) }),
	}
	if depth > 0 {
		below := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) })
		leaves = append(leaves,
			rapid.Map(rapid.SliceOfN(below, 0, 4), func(v []any) any { return v }),
			rapid.Map(rapid.MapOfN(rapid.String(), below, 0, 4), func(v map[string]any) any { return v }),
		)
	}
	return rapid.OneOf(leaves...)
}

func TestAValueIsTheSameLiveAndReloaded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var write, seen any
	d := b.chain("write", "look")
	d.Channels = map[string]engine.Channel{"v": {}, "list": {Reducer: engine.Append}}
	d.Nodes["write"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("v", write).Set("list", []any{write}), nil
	}}
	d.Nodes["look"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		seen = t.Get("v")
		return engine.Output{}, nil
	}}
	g := b.compile(d)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		thread := fmt.Sprint("t", n)
		write = anyValue(3).Draw(rt, "value")
		turn, err := b.engine(g).Start(context.Background(), thread, engine.Input{})
		if f, ok := write.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			if err == nil || !strings.Contains(err.Error(), "channel v") {
				rt.Fatalf("%v was taken: %v", f, err)
			}
			return
		}
		if err != nil {
			rt.Fatalf("%v", err)
		}
		view, err := b.store.At(context.Background(), thread, 0)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if !value.Equal(seen, turn.State["v"]) || !value.Equal(seen, view.State["v"]) {
			rt.Fatalf("live %#v, at the end %#v, reloaded %#v", seen, turn.State["v"], view.State["v"])
		}
		if !value.Equal(turn.State["list"], view.State["list"]) {
			rt.Fatalf("live %#v, reloaded %#v", turn.State["list"], view.State["list"])
		}
	})
	b.verify()
}

func TestNumbersThatAreNoneAreErrorsThatSayWhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, v := range map[string]any{"NaN": math.NaN(), "inside": map[string]any{"a": []any{1, math.Inf(1)}}} {
		d := b.chain("a")
		d.Nodes["a"] = writes(engine.Set("log", v))
		_, err := b.engine(b.compile(d)).Start(t.Context(), name, engine.Input{})
		require.ErrorContains(t, err, "channel log")
		if name == "inside" {
			require.ErrorContains(t, err, "/a/1")
		}
	}
}

func TestReplacedBytesAreNotedInTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = writes(engine.Set("log", "a\xffb"))
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{Values: engine.Values{"log": "\xfe"}})
	require.NoError(t, err)
	require.Equal(t, []any{"\uFFFD", "a\uFFFDb"}, turn.State["log"])
	var notes []string
	require.NoError(t, b.store.Entries(t.Context(), "t", 0, 0, func(e engine.Entry) error {
		notes = append(notes, e.Payload.Notes...)
		return nil
	}))
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], "input for channel log")
	require.Contains(t, notes[1], "task a")
}
