package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// The exit codes; the help of the program explains them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitPaused   = 3
	exitConflict = 4
	exitStopped  = 130
)

const exitHelp = `Exit codes:
  0    done; of fork and update: they took effect, and ask nothing; of commands
       that only look: they could
  1    the turn failed, was rejected or was cancelled; something was not found,
       or could not be read or written; audit verify, doctor and graph check
       found something
  2    the command line, a graph or an input is not right; nothing was stored
  3    the turn is paused or sleeping, or its dialog was left; the last line is
       the command that answers, or goes on
  4    somebody else was first, moves the thread, or there is nothing left to
       answer, to cancel or to signal
  130  stopped by Ctrl-C or a signal while work ran; agent resume goes on`

// exitError is an error that knows its exit code. Without err all was said.
type exitError struct {
	code int
	err  error
	hint string // what to do about it; may be empty
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// said is the exit code of a command that has written all there is to say.
func said(code int) error {
	if code == exitDone {
		return nil
	}
	return &exitError{code: code}
}

func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// report writes an error and gives the exit code of the program.
func (a *app) report(err error) int {
	if err == nil {
		return exitDone
	}
	var known *exitError
	if !errors.As(err, &known) {
		known = &exitError{code: codeOf(err), err: err}
		if errors.Is(err, engine.ErrNotFound) {
			known.hint = "agent threads lists the threads, agent history THREAD their entries"
		}
	}
	if known.err != nil {
		a.screen.problem(plain(known.err))
	}
	if known.hint != "" {
		a.screen.line("%s", known.hint)
	}
	return known.code
}

// plain is the text of an error without the name of its kind, which says no
// more than the exit code.
func plain(err error) string {
	text := err.Error()
	for _, end := range []string{" (", ": "} {
		text = strings.TrimSuffix(strings.TrimSuffix(text, end+engine.ErrInvalid.Error()+")"), end+engine.ErrInvalid.Error())
	}
	return text
}

// codeOf maps the errors that a caller can act on.
func codeOf(err error) int {
	var turn *engine.TurnError
	switch {
	case errors.As(err, &turn):
		return exitFailed
	case errors.Is(err, engine.ErrStopped), errors.Is(err, context.Canceled):
		return exitStopped
	case errors.Is(err, engine.ErrPaused):
		return exitPaused
	case errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrExists),
		errors.Is(err, engine.ErrAnswered), errors.Is(err, engine.ErrVoid):
		return exitConflict
	case errors.Is(err, engine.ErrInvalid):
		return exitUsage
	}
	return exitFailed
}
