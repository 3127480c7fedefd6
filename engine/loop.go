package engine

import (
	"context"
	"errors"
	"fmt"
)

// loop moves the thread until its turn ends, pauses or is stopped.
func (r *run) loop() (*Turn, error) {
	if r.head.Kind != KindInput {
		r.refresh() // it comes from rest
	}
	for {
		if r.log == nil || r.held && r.lease == LeaseMoving {
			if err := context.Cause(r.ctx); err != nil {
				return r.broken(err)
			}
			if r.thread.CancelRequested {
				// Who was asked to cancel died before it obeyed.
				return r.broken(&CancelError{By: r.thread.CancelBy})
			}
		}
		if r.thread.Status.Over() {
			return r.over()
		}
		if open := r.waiting(); len(open) > 0 {
			settled, err := r.settleDue()
			if err == nil && !settled {
				var goOn bool
				if goOn, err = r.wait(open); !goOn && err == nil {
					return r.result(), nil
				}
			}
			if err != nil {
				return r.result(), err
			}
			continue
		}
		p := r.plan(r.base(), r.asked())
		switch {
		case p.err != nil:
			return r.end(Failed, &EndRecord{Cause: p.err.Error(), Code: "gate", Task: p.task, Node: nodeOf(p.task)}, "", nil)
		case len(p.ask) > 0:
			if err := r.pause(r.own(p.ask), nil); err != nil {
				return r.broken(err)
			}
		case len(p.tasks) == 0 && (p.refused || r.graph.rejectedBranch(p.frontier)):
			return r.end(Rejected, &EndRecord{Cause: or(p.why, "a join waits for a branch that was rejected: "+r.graph.starved(p.arrivals)), Code: "rejected"}, "", nil)
		case len(p.tasks) == 0 && len(p.arrivals) > 0:
			return r.end(Failed, &EndRecord{Cause: "nothing is left to run, but " + r.graph.starved(p.arrivals), Code: "starved"}, "", nil)
		case len(p.tasks) == 0:
			return r.end(Done, &EndRecord{Cause: "nothing is left to run", Code: "done"}, "", nil)
		case r.head.Step-r.outside >= int64(r.limit):
			return r.end(Failed, &EndRecord{
				Code:  codeStepLimit,
				Cause: fmt.Sprintf("%v: %d steps since the last event from outside; next would be %v. Resume grants as many again", ErrStepLimit, r.limit, p.tasks),
			}, "", nil)
		default:
			if res, err := r.step(p); err != nil || res != nil {
				return res, err
			}
		}
	}
}

// over reports a turn that the newest entry ended.
func (r *run) over() (*Turn, error) {
	r.stopWatching()
	res := r.result()
	var err error
	if r.thread.Status == Failed && r.head.Payload.End != nil {
		end := r.head.Payload.End
		err = &TurnError{Thread: r.thread.ID, Node: end.Node, Task: end.Task, Code: end.Code, Cause: ofCode(end.Cause, end.Code)}
	}
	last := r.head
	r.emit(Event{Type: EventTurnEnded, Status: r.thread.Status, Seq: last.Seq, Entry: &last, Err: err})
	return res, err
}

// end ends the turn with an entry of its own.
func (r *run) end(status Status, end *EndRecord, actor string, results []Result) (*Turn, error) {
	return r.endWith(r.endEntry(status, end, actor), results)
}

func (r *run) endEntry(status Status, end *EndRecord, actor string) *Entry {
	return &Entry{Kind: KindEnd, Status: status, Step: r.head.Step, Actor: actor, Payload: Payload{End: end}}
}

func (r *run) endWith(entry *Entry, results []Result) (*Turn, error) {
	if err := r.commit(LeaseFree, []*Entry{entry}, results, Commit{}); err != nil {
		if errors.Is(err, ErrCancelRequested) && entry.Status != Cancelled {
			return r.broken(ErrCancelled)
		}
		return r.result(), fmt.Errorf("end the turn of thread %s: %w", r.thread.ID, err)
	}
	return r.over()
}

// broken ends work that was killed, or could not be committed: by a cancel,
// which ends the turn; by a stop, after which it can be resumed; or because
// the lease was lost.
func (r *run) broken(err error) (*Turn, error) {
	r.stopWatching()
	switch {
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrCancelRequested):
		return r.endWith(r.cancelEntry(r.cancelledBy(err)), nil)
	case errors.Is(err, ErrDeadline):
		return r.end(Failed, &EndRecord{Cause: err.Error(), Code: "deadline"}, "", nil)
	case errors.Is(err, ErrConflict):
		return r.result(), fmt.Errorf("thread %s was taken over by another process: %w", r.thread.ID, ErrConflict)
	case errors.As(err, new(storeError)):
		return r.result(), fmt.Errorf("thread %s: %w", r.thread.ID, err)
	}
	if r.log == nil {
		if r.ctx.Err() == nil {
			return r.result(), err
		}
		return r.result(), fmt.Errorf("%w: %w", ErrStopped, err)
	}
	if err := r.commit(LeaseFree, nil, nil, Commit{}); err != nil {
		return r.result(), fmt.Errorf("stop thread %s: %w", r.thread.ID, err)
	}
	r.emit(Event{Type: EventTurnEnded, Status: r.thread.Status, Err: ErrStopped})
	return r.result(), fmt.Errorf("thread %s: %w", r.thread.ID, ErrStopped)
}
