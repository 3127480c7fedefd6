package spans_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/engine/spans"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

func TestATurnAndItsTasksAreSpansAlsoWhenItPausesAndFails(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	recorder := spans.New(sdk.NewTracerProvider(sdk.WithSyncer(exporter)).Tracer("test"))
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })

	fails := true
	fine := engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, nil }}
	child := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {}},
		Nodes: map[string]engine.Node{"inner": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
			if fails {
				return engine.Output{}, errors.New("broken")
			}
			return engine.Set("n", 1), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "inner"}},
	})
	graph := engine.MustCompile(engine.Definition{
		Channels: map[string]engine.Channel{"n": {}},
		Nodes:    map[string]engine.Node{"a": fine, "sub": {Subgraph: &engine.Subgraph{Graph: child}}},
		Edges:    []engine.Edge{{From: engine.Start, To: "a"}, {From: "a", To: "sub"}}, InterruptBefore: []engine.Gate{{Node: "sub"}},
	})
	e := engine.New(graph, s, engine.Options{Events: recorder.Send})

	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	got := named(exporter)
	require.Len(t, got, 3)
	require.Equal(t, got["turn"].SpanContext.SpanID(), got["task a"].Parent.SpanID())
	require.Equal(t, got["turn"].SpanContext.SpanID(), got["question"].Parent.SpanID())
	require.Equal(t, "paused", attributes(got["turn"])["holdfast.status"])
	require.Equal(t, "t", attributes(got["task a"])["holdfast.thread"])

	exporter.Reset()
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Choice: interrupt.Approve})
	require.Error(t, err)
	got = named(exporter)
	require.Len(t, got, 3)
	require.Equal(t, got["task sub"].SpanContext.SpanID(), got["task inner"].Parent.SpanID(), "below the task that runs the subgraph")
	require.Equal(t, got["turn"].SpanContext.SpanID(), got["task sub"].Parent.SpanID())
	for _, name := range []string{"turn", "task sub", "task inner"} {
		require.Equal(t, codes.Error, got[name].Status.Code, name)
		require.Contains(t, got[name].Status.Description, "broken")
		require.False(t, got[name].EndTime.Before(got[name].StartTime))
	}

	exporter.Reset()
	fails = false
	_, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	got = named(exporter)
	require.Equal(t, "done", attributes(got["turn"])["holdfast.status"])
	require.Equal(t, codes.Unset, got["turn"].Status.Code)
}

// With a dialog the turn goes on in the same call: what comes after the answer
// is a span of the same trace.
func TestATurnThatGoesOnAfterADialogStaysInItsTrace(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	recorder := spans.New(sdk.NewTracerProvider(sdk.WithSyncer(exporter)).Tracer("test"))
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	graph := engine.MustCompile(engine.Definition{
		Nodes: map[string]engine.Node{"ask": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			_, err := t.Ask(engine.Ask{Message: "well?"})
			return engine.Output{}, err
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "ask"}},
	})
	e := engine.New(graph, s, engine.Options{Events: recorder.Send, Ask: func(context.Context, interrupt.Question) (interrupt.Answer, error) {
		return interrupt.Answer{Value: "yes"}, nil
	}})
	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	all := exporter.GetSpans()
	require.Len(t, all, 5, "turn and task, question, turn and task")
	unfinished := 0
	for _, span := range all {
		require.Equal(t, all[0].SpanContext.TraceID(), span.SpanContext.TraceID())
		if attributes(span)["holdfast.unfinished"] == "true" {
			unfinished++
		}
	}
	require.Equal(t, 1, unfinished)
}

func named(exporter *tracetest.InMemoryExporter) map[string]tracetest.SpanStub {
	out := map[string]tracetest.SpanStub{}
	for _, span := range exporter.GetSpans() {
		out[span.Name] = span
	}
	return out
}

func attributes(span tracetest.SpanStub) map[attribute.Key]string {
	out := map[attribute.Key]string{}
	for _, kv := range span.Attributes {
		out[kv.Key] = kv.Value.String()
	}
	return out
}
