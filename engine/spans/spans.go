// Package spans makes OpenTelemetry spans of the engine's events: one of each
// turn, as far as it ran in this process, and below it one of each task; the
// tasks of a subgraph are below the task that runs it.
//
//	recorder := spans.New(otel.Tracer("agent"))
//	e := engine.New(graph, store, engine.Options{Events: recorder.Send})
//
// It knows the API of OpenTelemetry only: which exporter there is, and whether
// there is one, is the program's business. Channel values are not recorded.
package spans

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-agent/holdfast/engine"
)

// Recorder makes spans of events. It may be used by several engines at once.
type Recorder struct {
	tracer trace.Tracer

	mu    sync.Mutex
	turns map[string]*turn // by thread: one process has one turn of it at a time
}

type turn struct {
	ctx   context.Context
	span  trace.Span
	rests bool            // it paused, and its span has ended
	tasks map[string]task // by the namespace that a subgraph in it would have
}

type task struct {
	ctx  context.Context
	span trace.Span
}

// New makes a recorder whose spans come from a tracer.
func New(tracer trace.Tracer) *Recorder {
	return &Recorder{tracer: tracer, turns: map[string]*turn{}}
}

// Send takes an event; it is what Options.Events is set to, or calls.
func (r *Recorder) Send(ev engine.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev.Type {
	case engine.EventTurnStarted:
		if t := r.turns[ev.Thread]; t != nil {
			t.end(ev)
		}
		r.begin(context.Background(), ev)
		return
	case engine.EventAnswer, engine.EventTaskStarted:
		// A turn that paused with an open dialog goes on.
		if t := r.turns[ev.Thread]; t == nil || t.rests {
			ctx := context.Background()
			if t != nil {
				ctx = t.ctx
			}
			r.begin(ctx, ev)
		}
	}
	t := r.turns[ev.Thread]
	if t == nil {
		return
	}
	at := trace.WithTimestamp(ev.At)
	switch ev.Type {
	case engine.EventTaskStarted:
		if _, again := t.tasks[visit(ev)]; again {
			return // another attempt
		}
		parent := t.ctx
		if above, ok := t.above(ev.Namespace); ok {
			parent = above.ctx
		}
		ctx, span := r.tracer.Start(parent, "task "+ev.Node, at, trace.WithAttributes(
			attribute.String("holdfast.thread", ev.Thread), attribute.String("holdfast.task", ev.Task),
			attribute.Int64("holdfast.step", ev.Step)))
		t.tasks[visit(ev)] = task{ctx, span}
	case engine.EventRetry:
		if task, ok := t.tasks[visit(ev)]; ok {
			task.span.AddEvent("retry", at, trace.WithAttributes(
				attribute.Int("holdfast.attempt", ev.Attempt), attribute.String("error", ev.Err.Error())))
		}
	case engine.EventTaskFinished, engine.EventTaskFailed:
		if task, ok := t.tasks[visit(ev)]; ok {
			failed(task.span, ev.Err)
			task.span.End(at)
			delete(t.tasks, visit(ev))
		}
	case engine.EventQuestion, engine.EventSleep:
		// A span of its own, without length: the turn's ends with the first of
		// them, as nobody knows whether anybody will answer.
		_, span := r.tracer.Start(t.ctx, string(ev.Type), at, trace.WithAttributes(
			attribute.String("holdfast.checkpoint", ev.Question.ID()), attribute.String("holdfast.node", ev.Node)))
		span.End(at)
		t.end(ev)
	case engine.EventAnswer:
		t.span.AddEvent(string(ev.Type), at, trace.WithAttributes(
			attribute.String("holdfast.checkpoint", ev.Answer.Question), attribute.String("holdfast.via", ev.Answer.Via)))
	case engine.EventTurnEnded:
		t.end(ev)
		delete(r.turns, ev.Thread)
	}
}

func (r *Recorder) begin(ctx context.Context, ev engine.Event) {
	ctx, span := r.tracer.Start(ctx, "turn", trace.WithTimestamp(ev.At), trace.WithAttributes(
		attribute.String("holdfast.thread", ev.Thread), attribute.Int64("holdfast.turn", ev.Turn)))
	r.turns[ev.Thread] = &turn{ctx: ctx, span: span, tasks: map[string]task{}}
}

// above is the task that runs the graph of a namespace. One that was called has
// the name of the call behind that of its task.
func (t *turn) above(ns string) (task, bool) {
	for ns != "" {
		if above, ok := t.tasks[ns]; ok {
			return above, true
		}
		ns = ns[:max(strings.LastIndexByte(ns, '/'), 0)]
	}
	return task{}, false
}

// end ends what is open of a turn: tasks that paused, or were killed, tell
// nothing more.
func (t *turn) end(ev engine.Event) {
	if t.rests {
		return
	}
	t.rests = true
	at := trace.WithTimestamp(ev.At)
	for _, task := range t.tasks {
		task.span.SetAttributes(attribute.Bool("holdfast.unfinished", true))
		task.span.End(at)
	}
	clear(t.tasks)
	t.span.SetAttributes(attribute.String("holdfast.status", string(ev.Status)))
	failed(t.span, ev.Err)
	t.span.End(at)
}

func failed(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// visit names a task as the namespace of a subgraph in it does.
func visit(ev engine.Event) string {
	ns := fmt.Sprintf("%d:%s@%d", len(ev.Task), ev.Task, ev.Base)
	if ev.Namespace != "" {
		ns = ev.Namespace + "/" + ns
	}
	return ns
}
