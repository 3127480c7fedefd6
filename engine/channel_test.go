package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func writes(out engine.Output) engine.Node {
	return engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) { return out, nil }}
}

// Cases 47 and 69 of the seeds; fault 28 of the second.
func TestReducersCombineWrites(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reducer string
		initial any
		writes  []any
		want    any
	}{
		{engine.Overwrite, nil, nil, nil},
		{engine.Overwrite, "x", []any{1, nil}, nil},
		{engine.Append, nil, nil, []any{}},
		{engine.Append, nil, []any{1, []any{2, 3}, nil, map[string]any{"a": 1}}, []any{int64(1), int64(2), int64(3), nil, map[string]any{"a": int64(1)}}},
		{engine.Append, []any{0}, []any{1}, []any{int64(0), int64(1)}},
		{engine.Merge, nil, []any{map[string]any{"a": map[string]any{"x": 1}}, map[string]any{"a": map[string]any{"y": 2}, "b": nil}},
			map[string]any{"a": map[string]any{"x": int64(1), "y": int64(2)}, "b": nil}},
		{engine.Sum, nil, []any{1, 2}, int64(3)},
		{engine.Sum, nil, []any{1, 0.5}, 1.5},
		{engine.Sum, nil, []any{0.5, 0.5}, int64(1)},
		{engine.Min, nil, []any{3, 2.5, 4}, 2.5},
		{engine.Max, 10, []any{3, 11, 4}, int64(11)},
		{engine.Max, nil, []any{int64(1)<<53 + 1, float64(int64(1) << 53)}, int64(1)<<53 + 1},
		{engine.Messages, nil, []any{map[string]any{"id": "1", "t": "a"}, []any{map[string]any{"id": "2"}, map[string]any{"id": "1", "t": "b"}}, map[string]any{"t": "c"}},
			[]any{map[string]any{"id": "1", "t": "b"}, map[string]any{"id": "2"}, map[string]any{"t": "c"}}},
	} {
		t.Run(fmt.Sprintf("%s %v", tc.reducer, tc.writes), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a")
			d.Channels = map[string]engine.Channel{"c": {Reducer: tc.reducer, Initial: tc.initial}}
			var out engine.Output
			for _, v := range tc.writes {
				out = out.Set("c", v)
			}
			d.Nodes["a"] = writes(out)
			turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			require.Equal(t, tc.want, turn.State["c"])
			view, err := b.store.At(t.Context(), "t", 0)
			require.NoError(t, err)
			require.Equal(t, tc.want, view.State["c"], "the same reloaded")
		})
	}
}

func TestAWriteThatDoesNotFitItsReducerIsAnError(t *testing.T) {
	t.Parallel()
	for reducer, bad := range map[string]any{
		engine.Merge: 1, engine.Sum: "x", engine.Min: nil, engine.Max: []any{}, engine.Messages: "text",
	} {
		b := setup(t)
		d := b.chain("a")
		d.Channels = map[string]engine.Channel{"c": {Reducer: reducer}}
		d.Nodes["a"] = writes(engine.Set("c", bad))
		_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
		require.ErrorContains(t, err, "channel c", reducer)
	}
	b := setup(t)
	d := b.chain("a")
	d.Channels = map[string]engine.Channel{"c": {Reducer: engine.Sum}}
	d.Nodes["a"] = writes(engine.Set("c", int64(1)<<62).Set("c", int64(1)<<62))
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "does not fit a 64-bit integer")
}

// Cases 35 and 70 of the seeds.
func TestAnOverwriteGoesPastTheReducer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = writes(engine.Output{Writes: []engine.Write{
		{Channel: "log", Value: "before"}, {Channel: "log", Value: []any{"replacement"}, Overwrite: true}, {Channel: "log", Value: "after"},
	}})
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"replacement", "after"}, turn.State["log"])
}

// Case 67 of the seeds.
func TestABoundedChannelKeepsItsLastItems(t *testing.T) {
	t.Parallel()
	for keep, want := range map[int][]any{1: {int64(5)}, 3: {int64(3), int64(4), int64(5)}} {
		b := setup(t)
		d := b.chain("a")
		d.Channels = map[string]engine.Channel{"c": {Reducer: engine.Append, Keep: keep}}
		var out engine.Output
		for i := range 5 {
			out = out.Set("c", i+1)
		}
		d.Nodes["a"] = writes(out)
		turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, want, turn.State["c"])
		view, err := b.store.At(t.Context(), "t", 0)
		require.NoError(t, err)
		require.Equal(t, want, view.State["c"])
	}
}

func TestAnEphemeralChannelEndsAtRestWithoutAStoreToo(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	d := b.chain("a", "b")
	d.Channels = map[string]engine.Channel{"secret": {Ephemeral: true, Initial: "none"}, "seen": {Reducer: engine.Append}}
	d.Nodes["a"] = writes(engine.Set("secret", "s3cret"))
	d.Nodes["b"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		return engine.Set("seen", t.Get("secret")), nil
	}}
	turn, err := engine.New(b.compile(d), nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, []any{"s3cret"}, turn.State["seen"])
	require.Equal(t, "none", turn.State["secret"])
}

func TestAnEphemeralChannelIsNeverStoredAndEndsAtRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b", "c")
	d.Channels = map[string]engine.Channel{"secret": {Ephemeral: true, Initial: "none"}, "seen": {Reducer: engine.Append}}
	d.Nodes["a"] = writes(engine.Set("secret", "hunter2"))
	look := engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		if t.Get("secret") == "hunter2" {
			return engine.Set("seen", "set"), nil
		}
		return engine.Set("seen", t.Get("secret")), nil
	}}
	d.Nodes["b"], d.Nodes["c"] = look, look
	d.InterruptBefore = []engine.Gate{{Node: "c"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "none", turn.State["secret"])
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{"set", "none"}, turn.State["seen"])
	require.NoError(t, b.store.Entries(t.Context(), "t", 0, 0, func(entry engine.Entry) error {
		for _, op := range entry.Payload.Ops {
			require.NotEqual(t, "secret", op.Channel)
		}
		return nil
	}))
}

func TestAGoReducerCombinesAndItsResultIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["b"] = writes(engine.Set("max", "bb"))
	d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: "b"})
	d.Nodes["a"] = writes(engine.Set("max", "aaa"))
	d.Channels = map[string]engine.Channel{"max": {Reducer: "longest", Reduce: func(current, write any) (any, error) {
		if c, ok := current.(string); ok && len(c) >= len(write.(string)) {
			return c, nil
		}
		return write, nil
	}}}
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "aaa", turn.State["max"])
	view, err := b.store.At(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, "aaa", view.State["max"], "no Go code is needed to read it")
}

func TestAGoReducerMayRefuseAValueAndTheStepIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	least := int64(18)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		b.ran("a")
		return engine.Set("age", 12), nil
	}}
	d.Channels = map[string]engine.Channel{"age": {Reducer: "adult", Reduce: func(_, write any) (any, error) {
		if n, ok := write.(int64); !ok || n < least {
			return nil, fmt.Errorf("%v is too young", write)
		}
		return write, nil
	}}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "channel age: its reducer: 12 is too young")
	require.Equal(t, engine.Failed, turn.Status)
	require.Nil(t, turn.State["age"])
	least = 10
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, int64(12), turn.State["age"])
	require.Equal(t, 1, b.count("a"), "the node had finished")
	b.verify()
}
