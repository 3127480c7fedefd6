package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// decision is what becomes of open questions in one transaction.
type decision struct {
	entries []*Entry
	consume []int64 // signals that are used up
	late    error   // an answer came after its question's deadline: the default counts
}

// decide makes the log's entries of answers to open questions, and of whatever
// is due by now: deadlines, timers, and waits for signals that have come. One
// reading of the clock decides it all, and stands beside the decision. An
// answer that was given already, and is the same, is fine and makes none.
func (r *run) decide(answers []interrupt.Answer) (d decision, err error) {
	var open []asked
	if r.thread.Status == Paused || r.thread.Status == Sleeping {
		open = r.waiting()
	}
	now := r.e.now()
	due := map[string]interrupt.Answer{}
	add := func(q asked, a interrupt.Answer) {
		a.Question, a.At, a.Digest = q.question.ID(), now, q.question.Digest
		open = slices.DeleteFunc(open, func(other asked) bool { return other.seq == q.seq })
		d.entries = append(d.entries, &Entry{
			Kind: KindAnswer, Status: waitingStatus(open), Namespace: q.ns, Step: q.step, Actor: a.Actor, At: now,
			Payload: Payload{Answer: &a},
		})
	}
	all := slices.Clone(open)
	for _, q := range all {
		if a, signal, ok := r.due(q.question, now, d.consume); ok {
			due[q.question.ID()] = a
			if signal != 0 {
				d.consume = append(d.consume, signal)
			}
			add(q, a)
		}
	}
	for _, a := range answers {
		if a.Question == "" {
			if a.Question, err = r.theOne(open); err != nil {
				return decision{}, err
			}
		}
		if taken, late := due[a.Question]; late {
			record, err := r.e.store.Question(context.Background(), r.thread.ID, mustSeq(a.Question))
			if err != nil {
				return decision{}, err
			}
			record.State, record.Answer = QuestionAnswered, &taken
			d.late = &AnsweredError{Record: record}
			continue
		}
		if i := slices.IndexFunc(d.entries, func(e *Entry) bool { return e.Payload.Answer.Question == a.Question }); i >= 0 {
			if !again(all, a, *d.entries[i].Payload.Answer) {
				return decision{}, fmt.Errorf("question %s is answered twice in one call, and not the same: %w", a.Question, ErrInvalid)
			}
			continue
		}
		at := slices.IndexFunc(open, func(q asked) bool { return q.question.ID() == a.Question })
		if at < 0 {
			if err := r.settledAlready(a); err != nil {
				return decision{}, err
			}
			continue
		}
		q := open[at]
		if q.question.Wait != nil {
			return decision{}, fmt.Errorf("%s waits for %s, and nobody answers it: %w", a.Question, q.question.Payload.Message, ErrInvalid)
		}
		checked, err := q.question.Check(a)
		if err != nil {
			return decision{}, fmt.Errorf("%w (%w)", err, ErrInvalid)
		}
		checked.Via, checked.OSUser = or(a.Via, "go"), osUser()
		checked.Actor = or(a.Actor, checked.OSUser)
		add(q, checked)
	}
	return d, nil
}

// again reports whether a says the same to its question as what was given.
func again(open []asked, a, given interrupt.Answer) bool {
	for _, q := range open {
		if q.question.ID() == a.Question {
			checked, err := q.question.Check(a)
			return err == nil && checked.Same(given)
		}
	}
	return false
}

// theOne is the id of the one open question that a person can answer.
func (r *run) theOne(open []asked) (string, error) {
	var ids []string
	for _, q := range open {
		if q.question.Wait == nil {
			ids = append(ids, q.question.ID())
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("thread %s (%s) has no open question: %w", r.thread.ID, r.thread.Status, ErrNotFound)
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("thread %s has %d open questions, say which one is answered: %s: %w", r.thread.ID, len(ids), strings.Join(ids, ", "), ErrInvalid)
}

func mustSeq(id string) int64 {
	_, seq, _ := ParseCheckpointID(id)
	return seq
}

// waitingStatus is the status of a thread with these open questions.
func waitingStatus(open []asked) Status {
	status := Running
	for _, q := range open {
		if q.question.Wait == nil {
			return Paused
		}
		status = Sleeping
	}
	return status
}

// due is the answer that time, or a signal, gives to a question by now.
func (r *run) due(q interrupt.Question, now time.Time, consumed []int64) (a interrupt.Answer, signal int64, ok bool) {
	if q.Wait != nil && q.Wait.Signal != "" {
		for _, s := range r.signals {
			if s.Name == q.Wait.Signal && !slices.Contains(consumed, s.ID) {
				return interrupt.Answer{Value: s.Value, Actor: s.Actor, Via: "signal"}, s.ID, true
			}
		}
	}
	at := q.Wakes()
	if at == nil || now.Before(*at) {
		return a, 0, false
	}
	if q.Wait != nil && q.Wait.Until != nil {
		return interrupt.Answer{Via: "clock"}, 0, true
	}
	a, err := q.Check(interrupt.Answer{Value: q.Default})
	if err != nil || q.Wait != nil {
		a = interrupt.Answer{Value: q.Default}
	}
	a.Via = "deadline"
	return a, 0, true
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
		return err
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
func (r *run) storeAtRest(d decision, elsewhere bool) (*Turn, error) {
	if len(d.entries) > 0 {
		r.take = TakeNone
		if err := r.commit(LeaseFree, d.entries, nil, Commit{Consume: d.consume}); err != nil {
			if errors.Is(err, ErrConflict) {
				return nil, errAgain{err}
			}
			return r.result(), fmt.Errorf("store the answer: %w", err)
		}
		r.answerEvents(d.entries)
	}
	res := r.result()
	res.Elsewhere = elsewhere
	return res, d.late
}

// answerAtRest stores answers and says whether a waiting process takes them in.
func (r *run) answerAtRest(answers []interrupt.Answer) (*Turn, error) {
	d, err := r.decide(answers)
	if err != nil {
		return r.result(), err
	}
	owner := r.thread.Owner
	return r.storeAtRest(d, owner != nil && owner.Alive)
}

// stays reports whether this process waits with a thread of this status: with
// a dialog for a person, or asleep. A question that it cannot ask is not slept
// over, deadline or not: whoever can answer it may be away for days.
func (r *run) stays(status Status) bool {
	switch status {
	case Paused:
		return r.e.o.Ask != nil
	case Sleeping:
		return r.e.o.Sleep
	}
	return false
}

// wait keeps a dialog for the first question that a person can answer, looks
// whether something is decided elsewhere, and wakes up at the first deadline
// or timer. It reports whether the turn goes on.
func (r *run) wait(open []asked) (goOn bool, err error) {
	r.stopWatching()
	if r.log == nil {
		return false, fmt.Errorf("%s: %w", open[0].question.Payload.Reason(), ErrNoStore)
	}
	if !r.stays(waitingStatus(open)) {
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
	answers, failed := make(chan interrupt.Answer, 1), make(chan error, 1)
	changes := make(chan error, 1)
	var both sync.WaitGroup
	at := slices.IndexFunc(open, func(q asked) bool { return q.question.Wait == nil })
	var q interrupt.Question
	if at >= 0 && r.e.o.Ask != nil {
		q = open[at].question
		both.Go(func() {
			a, err := r.askPerson(ctx, q)
			if err != nil {
				failed <- err
				return
			}
			answers <- a
		})
	}
	both.Go(func() {
		_, err := r.log.Wait(ctx)
		changes <- err
	})
	due, stop := r.firstDue(open)
	defer stop()
	// The dialog ends before anything else happens on the log, and before the
	// caller can show something else.
	end := func() { withdraw(); both.Wait() }
	select {
	case a := <-answers:
		end()
		return r.dialogAnswer(q, a)
	case err := <-failed:
		end()
		goOn, detached := r.detach()
		if panicked := (panicError{}); errors.As(err, &panicked) {
			return false, errors.Join(panicked, detached)
		}
		return goOn, detached
	case <-due:
		end()
		return true, nil // the loop decides what is due
	case err := <-changes:
		end()
		if r.ctx.Err() != nil {
			return r.detach()
		}
		if err != nil {
			return false, fmt.Errorf("wait on thread %s: %w", r.thread.ID, err)
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

// firstDue fires at the first deadline or timer of what is open.
func (r *run) firstDue(open []asked) (<-chan time.Time, func()) {
	var first *time.Time
	for _, q := range open {
		if at := q.question.Wakes(); at != nil && (first == nil || at.Before(*first)) {
			first = at
		}
	}
	if first == nil {
		return nil, func() {}
	}
	return r.e.o.Clock.At(*first)
}

// settleDue stores what time and signals have decided, if anything.
func (r *run) settleDue() (settled bool, err error) {
	d, err := r.decide(nil)
	if err != nil || len(d.entries) == 0 {
		return false, err
	}
	leave, status := LeaseMoving, d.entries[len(d.entries)-1].Status
	if status != Running {
		leave = r.paused(status)
	}
	err = r.commit(leave, d.entries, nil, Commit{Consume: d.consume})
	if errors.Is(err, ErrConflict) {
		_, err = r.decidedElsewhere()
		return true, err
	}
	if err == nil {
		r.answerEvents(d.entries)
	}
	return true, err
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
		d, err := r.decide([]interrupt.Answer{a})
		if err == nil && d.late != nil && len(d.entries) == 0 {
			err = d.late
		}
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
		if len(d.entries) == 0 {
			return r.decidedElsewhere()
		}
		leave := LeaseWaiting
		if d.entries[len(d.entries)-1].Status == Running {
			leave = LeaseMoving
		}
		err = r.commit(leave, d.entries, nil, Commit{Consume: d.consume})
		if errors.Is(err, ErrConflict) {
			if goOn, err := r.decidedElsewhere(); err != nil || !goOn {
				return goOn, err
			}
			continue
		}
		if err != nil {
			return false, fmt.Errorf("store the answer to %s: %w", q.ID(), err)
		}
		if d.late != nil {
			r.emit(Event{Type: EventNote, Text: d.late.Error()})
		}
		r.answerEvents(d.entries)
		return true, nil
	}
}

// decidedElsewhere reads what others appended while this process waited.
func (r *run) decidedElsewhere() (bool, error) {
	fence, head, input := r.thread.Fence, r.thread.Head, r.log.View().InputSeq
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
	if now := r.log.View().InputSeq; now != input {
		// It went back in place to another turn, or takes another graph now.
		ctx := context.WithoutCancel(r.ctx)
		var err error
		if r.graph, err = r.e.graphOf(ctx, r.thread); err != nil {
			return false, err
		}
		if r.deadline, err = r.turnDeadline(ctx); err != nil {
			return false, err
		}
		r.refresh()
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
	by.Via, by.Actor, by.OSUser = or(by.Via, "go"), or(by.Actor, osUser()), osUser()
	owner := r.thread.Owner
	if owner != nil && owner.Alive && r.thread.Lease == LeaseMoving {
		return r.cancelRunning(ctx, by)
	}
	if owner != nil && !owner.Alive {
		r.take = TakeFree
	}
	entry := r.cancelEntry(by)
	if err := r.commit(LeaseFree, []*Entry{entry}, nil, Commit{}); err != nil {
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrBusy) {
			return nil, errAgain{err}
		}
		return r.result(), fmt.Errorf("cancel thread %s: %w", r.thread.ID, err)
	}
	return r.over()
}

// cancelRunning sets the flag and waits until the owner has obeyed or is gone.
func (r *run) cancelRunning(ctx context.Context, by By) (*Turn, error) {
	if err := r.log.Commit(context.WithoutCancel(ctx), &Commit{RequestCancel: &by}); err != nil {
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
			return r.result(), fmt.Errorf("cancel thread %s: the request is stored, and was not obeyed yet (%w): %s", r.thread.ID, err, (&BusyError{Thread: r.thread.ID, Owner: *owner}).Error())
		}
	}
}

// cancelEntry ends the turn on somebody's word.
func (r *run) cancelEntry(by By) *Entry {
	return r.endEntry(Cancelled, &EndRecord{
		Cause: "cancelled by " + or(by.Actor, "somebody"), Code: "cancelled", Reason: by.Reason, Via: by.Via,
		OSUser: or(by.OSUser, osUser()), Client: by.Client,
	}, by.Actor)
}
