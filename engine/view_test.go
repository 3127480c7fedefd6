package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// roomyStore gives views whose results have room behind them, which is the log's.
type roomyStore struct {
	engine.Store
	rooms [][]engine.Result
}

func (s *roomyStore) Open(ctx context.Context, thread string) (engine.Log, error) {
	log, err := s.Store.Open(ctx, thread)
	return roomyLog{log, s}, err
}

type roomyLog struct {
	engine.Log
	store *roomyStore
}

func (l roomyLog) View() *engine.View {
	v := l.Log.View()
	room := make([]engine.Result, 8)
	v.Results = room[:copy(room, v.Results)]
	l.store.rooms = append(l.store.rooms, room[len(v.Results):])
	return v
}

// Log and run append at the same time, and one would overwrite the other's.
func TestARunAppendsNothingBehindTheResultsOfAView(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := &roomyStore{Store: b.store}
	fails := true
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(ctx context.Context, _ *engine.Task) (engine.Output, error) {
		for _, key := range []string{"one", "two"} {
			if key == "two" && fails {
				return engine.Output{}, errors.New("not yet")
			}
			if _, err := engine.Step(ctx, key, func(context.Context) (int, error) { return 1, nil }); err != nil {
				return engine.Output{}, err
			}
		}
		return engine.Output{}, nil
	}}
	e := engine.New(b.compile(d), s, engine.Options{})
	_, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "not yet")
	fails = false
	turn, err := e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.NotEmpty(t, s.rooms)
	for _, room := range s.rooms {
		for _, res := range room {
			require.Zero(t, res)
		}
	}
}
