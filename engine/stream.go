package engine

import (
	"context"
	"iter"
	"sync"
)

// Stream hands events to a consumer that may be slow. The turn never waits for
// it: when the buffer is full, the oldest event that may be missed is dropped.
// Questions, answers and the ends of turns are never dropped.
//
//	stream := engine.NewStream(256, nil)
//	e := engine.New(graph, store, engine.Options{Events: stream.Send})
//	go func() { e.Start(ctx, "t1", in); stream.Close() }()
//	for ev := range stream.Events(ctx) { ... }
type Stream struct {
	keep  func(Event) bool
	limit int

	mu      sync.Mutex
	queue   []Event
	dropped int
	closed  bool
	changed chan struct{} // closed when the queue or closed has changed
}

// NewStream makes a stream that holds up to limit events that may be missed (0:
// 1,024). A filter, if given, says which events are of interest; the ends of
// turns always are.
func NewStream(limit int, filter func(Event) bool) *Stream {
	if limit <= 0 {
		limit = 1024
	}
	return &Stream{keep: filter, limit: limit, changed: make(chan struct{})}
}

// Send takes an event; it is what Options.Events is set to.
func (s *Stream) Send(ev Event) {
	if s.keep != nil && ev.Type != EventTurnEnded && !s.keep(ev) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.queue = append(s.queue, ev)
	if len(s.queue) > s.limit {
		for i := range s.queue {
			if !s.queue[i].Type.lasting() {
				s.queue = append(s.queue[:i], s.queue[i+1:]...)
				s.dropped++
				break
			}
		}
	}
	s.tell()
}

// lasting reports whether an event must not be missed.
func (t EventType) lasting() bool {
	return t == EventTurnEnded || t == EventQuestion || t == EventAnswer
}

func (s *Stream) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Close ends the stream: the consumer gets what is left, and then the end.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.tell()
	}
}

// Events gives the events in order until the stream is closed or ctx ends. An
// event says in Missed how many were dropped right before it.
func (s *Stream) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, changed, ok := s.next()
			switch {
			case ok:
				if !yield(ev) {
					return
				}
			case changed == nil:
				return
			default:
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func (s *Stream) next() (ev Event, changed <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		ev = s.queue[0]
		s.queue = s.queue[1:]
		ev.Missed, s.dropped = s.dropped, 0
		return ev, nil, true
	}
	if s.closed {
		return ev, nil, false
	}
	return ev, s.changed, false
}
