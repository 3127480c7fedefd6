package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// panicError is the panic of a callback of the caller's: a mistake in the
// program, and not in the turn.
type panicError struct{ error }

func panicked(where string, p any) panicError {
	return panicError{fmt.Errorf("%s panicked: %v\n%s", where, p, debug.Stack())}
}

// catch makes a panic of Options.Events stop the work: on a task's goroutine it
// would end the process, and elsewhere leave the turn in the middle of a step.
func (r *run) catch() {
	if p := recover(); p != nil {
		r.deaf = panicked("Options.Events", p)
		r.kill(r.deaf)
	}
}

// moved is what a call gives that moved the turn: with the panic of its Events,
// if there was one.
func (r *run) moved(turn *Turn, err error) (*Turn, error) {
	r.events.Lock()
	defer r.events.Unlock()
	if r.deaf == nil {
		return turn, err
	}
	return turn, errors.Join(r.deaf, err)
}

// askPerson keeps a dialog, on a goroutine of its own.
func (r *run) askPerson(ctx context.Context, q interrupt.Question) (a interrupt.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked("Options.Ask", p)
		}
	}()
	return r.e.o.Ask(ctx, q)
}
