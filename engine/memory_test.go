package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func chain(t testing.TB) *engine.Graph {
	add := func(n int64) engine.Func {
		return func(_ context.Context, t *engine.Task) (engine.Output, error) {
			return engine.Set("n", n).Set("log", t.Node()), nil
		}
	}
	g, err := engine.Compile(engine.Definition{
		Name:     "chain",
		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}, "log": {Reducer: engine.Append}},
		Nodes:    map[string]engine.Node{"a": {Run: add(1)}, "b": {Run: add(10)}, "c": {Run: add(100)}},
		Edges:    []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "b"}, {From: "a", To: "c"}},
	})
	require.NoError(t, err)
	return g
}

func TestATurnRunsInMemoryWithoutAStore(t *testing.T) {
	t.Parallel()
	turn, err := engine.New(chain(t), nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"n": 1000}})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, int64(1111), turn.State["n"])
	require.Equal(t, []any{"a", "b", "c"}, turn.State["log"])
	require.Equal(t, int64(2), turn.Step)
}
