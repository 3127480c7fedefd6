package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestASlowConsumerBlocksNoTurnAndMissesNoEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["a"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		for range 10_000 {
			t.Print("x")
		}
		return engine.Output{}, nil
	}}
	stream := engine.NewStream(16, nil)
	e := engine.New(b.compile(d), b.store, engine.Options{Events: stream.Send})
	for range 3 { // nobody listens yet
		_, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
	}
	stream.Close()
	events := slices.Collect(stream.Events(t.Context()))
	require.LessOrEqual(t, len(events), 16)
	ends, missed := 0, 0
	for _, ev := range events {
		missed += ev.Missed
		if ev.Type == engine.EventTurnEnded {
			ends++
			require.Equal(t, engine.Done, ev.Status)
		}
	}
	require.Equal(t, 3, ends)
	require.Equal(t, 3*(10_000+5), missed+len(events), "started, task, 10,000 pieces, task, step, end")
}

func TestAStreamGivesTheEventsOfATurnInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stream := engine.NewStream(0, func(ev engine.Event) bool { return ev.Type != engine.EventTaskStarted })
	e := engine.New(b.compile(b.chain("a", "b")), b.store, engine.Options{Events: stream.Send})
	go func() {
		defer stream.Close()
		_, _ = e.Start(t.Context(), "t", engine.Input{})
	}()
	var got []engine.EventType
	for ev := range stream.Events(t.Context()) {
		require.Equal(t, "t", ev.Thread)
		require.Equal(t, int64(1), ev.Turn)
		got = append(got, ev.Type)
	}
	require.Equal(t, []engine.EventType{
		engine.EventTurnStarted, engine.EventTaskFinished, engine.EventStep, engine.EventTaskFinished, engine.EventStep, engine.EventTurnEnded,
	}, got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Empty(t, slices.Collect(engine.NewStream(0, nil).Events(ctx)))
}
