package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// answerEntries makes the log's entries of answers to open questions. An
// answer that was given already, and is the same, is fine and makes none.
func (r *run) answerEntries(answers []interrupt.Answer) ([]*Entry, error) {
	var open []asked
	if r.thread.Status == Paused {
		open = r.waiting()
	}
	var entries []*Entry
	for _, a := range answers {
		if a.Question == "" {
			switch len(open) {
			case 0:
				return nil, fmt.Errorf("thread %s (%s) has no open question: %w", r.thread.ID, r.thread.Status, ErrNotFound)
			case 1:
				a.Question = open[0].question.ID()
			default:
				ids := make([]string, len(open))
				for i, q := range open {
					ids[i] = q.question.ID()
				}
				return nil, fmt.Errorf("thread %s has %d open questions, say which one is answered: %s: %w", r.thread.ID, len(open), strings.Join(ids, ", "), ErrInvalid)
			}
		}
		at := -1
		for i, q := range open {
			if q.question.ID() == a.Question {
				at = i
			}
		}
		if at < 0 {
			if err := r.settledAlready(a); err != nil {
				return nil, err
			}
			continue
		}
		a, err := open[at].question.Check(a)
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", err, ErrInvalid)
		}
		a.Question, a.At = open[at].question.ID(), r.e.now()
		if a.Via == "" {
			a.Via = "go"
		}
		a.OSUser = osUser()
		if a.Actor == "" {
			a.Actor = a.OSUser
		}
		ns := open[at].ns
		open = append(open[:at:at], open[at+1:]...)
		status := Paused
		if len(open) == 0 {
			status = Running
		}
		stored := a
		entries = append(entries, &Entry{
			Kind: KindAnswer, Status: status, Namespace: ns, Step: r.head.Step, Actor: a.Actor, At: a.At,
			Payload: Payload{Answer: &stored},
		})
	}
	return entries, nil
}

// settledAlready says what became of a question that is not open: nil if this
// very answer was given before.
func (r *run) settledAlready(a interrupt.Answer) error {
	thread, seq, err := ParseCheckpointID(a.Question)
	if err != nil {
		return fmt.Errorf("%w (%w)", err, ErrInvalid)
	}
	if thread != r.thread.ID || seq == 0 {
		return fmt.Errorf("%s is no question of thread %s: %w", a.Question, r.thread.ID, ErrNotFound)
	}
	record, err := r.e.store.Question(context.Background(), thread, seq)
	if err != nil {
		return fmt.Errorf("question %s: %w", a.Question, err)
	}
	if record.Answer != nil && record.State == QuestionAnswered {
		checked, err := record.Question.Check(a)
		if err == nil && checked.Same(*record.Answer) {
			return nil
		}
	}
	return &AnsweredError{Record: record}
}

// storeAtRest appends answers without the lease and moves nobody.
func (r *run) storeAtRest(entries []*Entry, elsewhere bool) (*Turn, error) {
	if len(entries) > 0 {
		r.take = TakeNone
		if err := r.commit(LeaseFree, entries, nil, Commit{}); err != nil {
			if errors.Is(err, ErrConflict) {
				return nil, errAgain{err}
			}
			return r.result(), fmt.Errorf("store the answer: %w", err)
		}
		r.answerEvents(entries)
	}
	res := r.result()
	res.Elsewhere = elsewhere
	return res, nil
}

// answerAtRest stores answers and says whether a waiting process takes them in.
func (r *run) answerAtRest(_ context.Context, answers []interrupt.Answer) (*Turn, error) {
	entries, err := r.answerEntries(answers)
	if err != nil {
		return r.result(), err
	}
	owner := r.thread.Owner
	return r.storeAtRest(entries, owner != nil && owner.Alive)
}

// wait keeps an open dialog for one question, and looks whether it is decided
// elsewhere. It reports whether the turn goes on.
func (r *run) wait(q interrupt.Question) (goOn bool, err error) {
	r.stopWatching()
	if r.log == nil {
		return false, fmt.Errorf("%s: %w", q.Payload.Reason(), ErrNoStore)
	}
	if r.e.o.Ask == nil {
		if !r.held {
			return false, nil
		}
		return false, r.commit(LeaseFree, nil, nil, Commit{})
	}
	if !r.held || r.lease != LeaseWaiting {
		if err := r.commit(LeaseWaiting, nil, nil, Commit{}); err != nil {
			return false, err
		}
	}
	ctx, withdraw := context.WithCancel(r.ctx)
	answers, changes := make(chan interrupt.Answer, 1), make(chan error, 1)
	failed := make(chan error, 1)
	dialog := make(chan struct{})
	go func() {
		defer close(dialog)
		a, err := r.e.o.Ask(ctx, q)
		if err != nil {
			failed <- err
			return
		}
		answers <- a
	}()
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		_, err := r.log.Wait(ctx)
		changes <- err
	}()
	// Both end before anything else happens on the log, and before the caller
	// can show something else.
	end := func() { withdraw(); <-dialog; <-looking }
	select {
	case a := <-answers:
		end()
		return r.dialogAnswer(q, a)
	case <-failed:
		end()
		return r.detach()
	case err := <-changes:
		end()
		if r.ctx.Err() != nil {
			return r.detach()
		}
		if err != nil {
			return false, fmt.Errorf("wait for the answer to %s: %w", q.ID(), err)
		}
		select {
		case a := <-answers:
			// The person answered at the same moment: whoever was first in the
			// file wins, and that is decided there.
			return r.dialogAnswer(q, a)
		default:
		}
		return r.decidedElsewhere()
	}
}

// detach leaves the dialog: nothing is logged, the turn stays paused.
func (r *run) detach() (bool, error) {
	if err := r.commit(LeaseFree, nil, nil, Commit{}); err != nil && !errors.Is(err, ErrConflict) {
		return false, err
	}
	return false, r.reload()
}

func (r *run) reload() error {
	if err := r.log.Reload(context.WithoutCancel(r.ctx)); err != nil {
		return fmt.Errorf("read thread %s again: %w", r.thread.ID, err)
	}
	r.read()
	return nil
}

// dialogAnswer stores what the dialog gave. If somebody else was first, what
// they said counts, and the turn goes on with it.
func (r *run) dialogAnswer(q interrupt.Question, a interrupt.Answer) (bool, error) {
	a.Question = q.ID()
	for {
		entries, err := r.answerEntries([]interrupt.Answer{a})
		if err != nil {
			var answered *AnsweredError
			if errors.As(err, &answered) {
				r.emit(Event{Type: EventNote, Text: answered.Error()})
				return r.decidedElsewhere()
			}
			// Not an acceptable answer: say so, and ask again.
			r.emit(Event{Type: EventNote, Text: err.Error(), Err: err, Question: &q})
			return true, nil
		}
		if len(entries) == 0 {
			return r.decidedElsewhere()
		}
		leave := LeaseWaiting
		if entries[0].Status == Running {
			leave = LeaseMoving
		}
		err = r.commit(leave, entries, nil, Commit{})
		if errors.Is(err, ErrConflict) {
			if goOn, err := r.decidedElsewhere(); err != nil || !goOn {
				return goOn, err
			}
			continue
		}
		if err != nil {
			return false, fmt.Errorf("store the answer to %s: %w", q.ID(), err)
		}
		r.answerEvents(entries)
		return true, nil
	}
}

// decidedElsewhere reads what others appended while this process waited.
func (r *run) decidedElsewhere() (bool, error) {
	fence, head := r.thread.Fence, r.thread.Head
	if err := r.reload(); err != nil {
		return false, err
	}
	if r.thread.Fence != fence {
		r.held = false
		return false, fmt.Errorf("thread %s was taken over by another process: %w", r.thread.ID, ErrConflict)
	}
	for _, entry := range r.log.View().Tail {
		if entry.Seq > head {
			r.answerEvents([]*Entry{&entry})
		}
	}
	if r.thread.Status.Over() {
		_, err := r.over()
		return false, err
	}
	if r.thread.Status == Running && r.lease == LeaseWaiting {
		if err := r.commit(LeaseMoving, nil, nil, Commit{}); err != nil {
			if errors.Is(err, ErrConflict) {
				return r.decidedElsewhere()
			}
			return false, err
		}
	}
	return true, nil
}

// cancelFromOutside ends the turn of a thread at rest, or asks the process
// that moves it to end it.
func (r *run) cancelFromOutside(ctx context.Context, by By) (*Turn, error) {
	if r.thread.Status.Over() {
		return r.result(), fmt.Errorf("the turn of thread %s is over (%s): there is nothing to cancel: %w", r.thread.ID, r.thread.Status, ErrInvalid)
	}
	owner := r.thread.Owner
	if owner != nil && owner.Alive && r.thread.Lease == LeaseMoving {
		return r.cancelRunning(ctx)
	}
	if owner != nil && !owner.Alive {
		r.take = TakeFree
	}
	if by.Via == "" {
		by.Via = "go"
	}
	entry := &Entry{
		Kind: KindEnd, Status: Cancelled, Step: r.head.Step, Actor: or(by.Actor, osUser()),
		Payload: Payload{End: &EndRecord{Cause: "cancelled by " + or(by.Actor, osUser()), Code: "cancelled", Reason: by.Reason, Via: by.Via}},
	}
	if err := r.commit(LeaseFree, []*Entry{entry}, nil, Commit{}); err != nil {
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrBusy) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("cancel thread %s: %w", r.thread.ID, err)
	}
	return r.over()
}

// cancelRunning sets the flag and waits until the owner has obeyed or is gone.
func (r *run) cancelRunning(ctx context.Context) (*Turn, error) {
	if err := r.log.Commit(context.WithoutCancel(ctx), &Commit{RequestCancel: true}); err != nil {
		if errors.Is(err, ErrConflict) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("cancel thread %s: %w", r.thread.ID, err)
	}
	for {
		if err := r.log.Reload(ctx); err != nil {
			return r.result(), fmt.Errorf("cancel thread %s: the request is stored, but it was not seen to take effect: %w", r.thread.ID, err)
		}
		r.read()
		owner := r.thread.Owner
		switch {
		case r.thread.Status.Over():
			return r.result(), nil
		case owner == nil || !owner.Alive || r.thread.Lease != LeaseMoving:
			return nil, errAgain{ErrConflict} // nobody is left to obey: end the turn ourselves
		}
		if _, err := r.log.Wait(ctx); err != nil {
			return r.result(), fmt.Errorf("cancel thread %s: the request is stored, and %s has not obeyed yet: %w", r.thread.ID, (&BusyError{Thread: r.thread.ID, Owner: *owner}).Error(), err)
		}
	}
}
