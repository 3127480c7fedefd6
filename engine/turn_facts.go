package engine

import (
	"context"
	"fmt"
	"time"
)

// graphOf finds the graph of the thread's turn.
func (e *Engine) graphOf(ctx context.Context, t Thread) (*Graph, error) {
	if e.graph != nil && e.graph.fingerprint == t.Graph {
		return e.graph, nil
	}
	definition, err := e.store.Graph(ctx, t.Graph)
	if err != nil {
		return nil, fmt.Errorf("graph %.12s of thread %s: %w", t.Graph, t.ID, err)
	}
	if e.o.Load == nil {
		refused := &GraphChangedError{Thread: t.ID, Graph: t.GraphName}
		if e.graph != nil {
			change, err := newGraphChange(definition, e.graph)
			if err != nil {
				return nil, fmt.Errorf("graph %s of thread %s: %w", t.GraphName, t.ID, err)
			}
			refused.Changes = change.lines
		}
		return nil, refused
	}
	g, err := e.o.Load(t.GraphName, definition)
	if err != nil {
		return nil, fmt.Errorf("thread %s: graph %s, which its turn began with, cannot be loaded here: %w", t.ID, t.GraphName, err)
	}
	if g.fingerprint != t.Graph {
		return nil, fmt.Errorf("thread %s: graph %s (%.12s) loads as %.12s: a node type has another version here than when the turn began: %w", t.ID, t.GraphName, t.Graph, g.fingerprint, ErrGraphChanged)
	}
	return g, nil
}

func deadline(in Input) *time.Time {
	if in.Deadline.IsZero() {
		return nil
	}
	at := in.Deadline.UTC().Truncate(time.Millisecond)
	return &at
}

// turnDeadline is the deadline of the turn under way. One that has ended the
// turn does not count for whoever resumes it after that.
func (r *run) turnDeadline(ctx context.Context) (*time.Time, error) {
	if end := r.head.Payload.End; end != nil && end.Code == "deadline" {
		return nil, nil
	}
	seq := r.log.View().InputSeq
	if seq == 0 {
		return nil, nil
	}
	input, err := r.e.inputAt(ctx, r.thread.ID, seq)
	if err != nil {
		return nil, err
	}
	return input.Deadline, nil
}
