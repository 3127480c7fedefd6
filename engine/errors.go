package engine

import (
	"errors"
	"fmt"
	"time"
)

// The errors that a caller can act on; test with errors.Is.
var (
	ErrNotFound        = errors.New("not found")
	ErrExists          = errors.New("exists already")
	ErrDeleted         = errors.New("deleted")
	ErrConflict        = errors.New("conflict: somebody else was first")
	ErrBusy            = errors.New("busy: another process moves the thread")
	ErrPaused          = errors.New("paused: questions are open")
	ErrAnswered        = errors.New("already answered")
	ErrVoid            = errors.New("question is void")
	ErrNoStore         = errors.New("no store: an interrupt cannot be kept")
	ErrStopped         = errors.New("stopped: the turn can be resumed")
	ErrCancelled       = errors.New("the turn was cancelled")
	ErrCancelRequested = errors.New("cancel was requested")
	ErrTimeout         = errors.New("timed out")
	ErrDeadline        = errors.New("the turn's deadline has passed")
	ErrStepLimit       = errors.New("step limit reached")
	ErrBudget          = errors.New("the budget is spent") // wrapped by a node: the turn ends with code budget
	ErrRefusal         = errors.New("the model refused")   // wrapped by a node: the turn ends with code refusal
	ErrGraphChanged    = errors.New("the graph changed in the middle of a turn")
	ErrInvalid         = errors.New("invalid")
)

// BusyError names the process that holds a thread.
type BusyError struct {
	Thread string
	Owner  Owner
}

func (e *BusyError) Error() string {
	who := "another process"
	if e.Owner.Self {
		who = "this process"
	} else if e.Owner.PID != 0 {
		who = fmt.Sprintf("process %d", e.Owner.PID)
		if e.Owner.Program != "" {
			who += " (" + e.Owner.Program + ", since " + e.Owner.Since.Format(time.RFC3339) + ")"
		}
	}
	return fmt.Sprintf("thread %s is being moved by %s; wait for it, or take the thread over with --take-over if it hangs", e.Thread, who)
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// AnsweredError says who was first.
type AnsweredError struct {
	Record QuestionRecord
}

func (e *AnsweredError) Error() string {
	a := e.Record.Answer
	if a == nil {
		return fmt.Sprintf("question %s is %s", e.Record.Question.ID(), e.Record.State)
	}
	return fmt.Sprintf("question %s is already answered: %s, by %s via %s at %s",
		e.Record.Question.ID(), jsonText(a.Value), a.Actor, a.Via, a.At.Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrAnswered) true, or ErrVoid for a question that
// nobody can answer any more.
func (e *AnsweredError) Is(target error) bool {
	if e.Record.State == QuestionAnswered {
		return target == ErrAnswered
	}
	return target == ErrVoid
}

// codeStepLimit is the code of a turn that ran too many steps.
const codeStepLimit = "step_limit"

// codes are those of ends that a caller can act on, with their errors.
var codes = map[string]error{codeStepLimit: ErrStepLimit, "budget": ErrBudget, "refusal": ErrRefusal}

// codeOf is the code of a turn that ends with the error of a task.
func codeOf(err error) string {
	for code, kind := range codes {
		if errors.Is(err, kind) {
			return code
		}
	}
	return "task"
}

// ofCode is the error that an end with this code tells.
func ofCode(text, code string) error {
	if kind := codes[code]; kind != nil {
		return storedError{text, kind}
	}
	return errors.New(text)
}

// storedError is an error that was read back from the log, of a kind that a
// caller can act on.
type storedError struct {
	text string
	kind error
}

func (e storedError) Error() string        { return e.text }
func (e storedError) Is(target error) bool { return target == e.kind }

// TurnError is why a turn failed.
type TurnError struct {
	Thread string
	Node   string // empty if no node is to blame
	Task   string
	Code   string // as in EndRecord
	Cause  error
}

func (e *TurnError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("turn of thread %s failed: %v", e.Thread, e.Cause)
	}
	return fmt.Sprintf("turn of thread %s failed at node %s: %v", e.Thread, e.Node, e.Cause)
}

// Unwrap gives the cause.
func (e *TurnError) Unwrap() error { return e.Cause }

// closing does something with a run and gives its handle back, also when an
// Events or Ask of the caller panics: the thread would be busy for ever.
func closing[T any](r *run, f func() (T, error)) (out T, err error) {
	defer func() { err = closeErr(err, r.close()) }()
	return f()
}

// closeErr keeps the first error: what happened matters more than that
// closing failed too.
func closeErr(err, closing error) error {
	if err != nil {
		return err
	}
	return closing
}
