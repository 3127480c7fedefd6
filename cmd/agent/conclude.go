package main

import (
	"context"
	"errors"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

const retryHint = "to try again what is missing: "

// conclude says how a command that moved a turn left it, and gives the exit
// code: the reply on stdout, all else on stderr, and of a paused turn the
// command that answers as the last line.
func (a *app) conclude(ctx context.Context, s *store.Store, thread string, turn *engine.Turn, err error) error {
	ctx = context.WithoutCancel(ctx) // after a stop there is still something to say
	var paused *engine.PausedError
	switch {
	case errors.As(err, &paused) && len(paused.Questions) == 0:
		a.screen.line("thread %s sleeps and took no input: wait for its end, or end the turn with %s", thread, a.command("cancel", thread))
		return a.asleep(ctx, s, thread)
	case errors.As(err, &paused):
		a.screen.line("thread %s is paused and took no input: answer first, or end the turn with %s", thread, a.command("cancel", thread))
		return a.pausedAt(paused.Questions)
	case errors.Is(err, engine.ErrStopped):
		a.screen.line("stopped; this goes on with the turn:\n%s", a.command("resume", thread))
		return said(exitStopped)
	case errors.As(err, new(*engine.TurnError)):
		return &exitError{code: exitFailed, err: err, hint: retryHint + a.command("resume", thread)}
	case err != nil:
		return err
	}
	switch turn.Status {
	case engine.Paused:
		if turn.Elsewhere {
			a.screen.line("another process waits for the answer, and goes on with it")
		}
		return a.pausedAt(turn.Questions)
	case engine.Sleeping:
		if turn.Elsewhere {
			a.screen.line("another process sleeps along, and goes on with it")
		}
		return a.asleep(ctx, s, thread)
	case engine.Running:
		if turn.Elsewhere {
			a.screen.line("another process goes on with thread %s", thread)
		}
		return nil
	}
	return a.over(ctx, s, thread, turn)
}

// pausedAt shows the open questions, and then the commands that answer them.
func (a *app) pausedAt(questions []interrupt.Question) error {
	for _, q := range questions {
		if !a.screen.seen(q.ID()) {
			a.screen.ask(q)
		}
	}
	if len(questions) > 0 {
		a.screen.line("\nthe turn is paused; answer with one of these:")
	}
	for _, q := range questions {
		a.answers(q)
	}
	return said(exitPaused)
}

// asleep says what a turn waits for that no person answers, and what goes on
// with it.
func (a *app) asleep(ctx context.Context, s *store.Store, thread string) error {
	view, err := s.At(ctx, thread, 0)
	if err != nil {
		return err
	}
	a.screen.line("\nthe turn sleeps:")
	waits := view.Waits()
	a.screen.waits(waits)
	for _, q := range waits {
		if q.Wait.Signal != "" {
			a.screen.line("to send the signal: %s", a.command("signal", thread, q.Wait.Signal))
		}
	}
	a.screen.line("to wait with it, and go on:\n%s", a.command("resume", thread))
	return said(exitPaused)
}

// stands says where a turn stands on which nothing was run, and what goes on
// with it.
func (a *app) stands(turn *engine.Turn) error {
	resume := a.command("resume", turn.Thread)
	switch {
	case turn.Status == engine.Paused:
		if turn.Elsewhere {
			a.screen.line("another process waits for the answer, and goes on with it")
		}
		return a.pausedAt(turn.Questions)
	case turn.Status == engine.Failed:
		a.screen.line("its turn is failed; %s%s", retryHint, resume)
	case turn.Status.Over():
		a.screen.line("its turn is over (%s): the next input begins another", turn.Status)
	case turn.Elsewhere:
		a.screen.line("another process waits with the thread, and goes on with it")
	default:
		a.screen.line("nothing was run; this goes on with the turn:\n%s", resume)
	}
	return nil
}

// over says how a turn ended.
func (a *app) over(ctx context.Context, s *store.Store, thread string, turn *engine.Turn) error {
	if turn.Status == engine.Done || turn.Status == engine.Rejected {
		text, err := reply(ctx, s, turn)
		if err != nil {
			return err
		}
		if text != "" {
			a.out.text(text)
		}
	}
	if turn.Status == engine.Done {
		return nil
	}
	view, err := s.At(ctx, thread, 0)
	if err != nil {
		return err
	}
	text := "the turn of thread " + thread + " is " + string(turn.Status)
	if end := view.Head.Payload.End; end != nil && end.Cause != "" {
		text += ": " + end.Cause
		if end.Reason != "" {
			text += " (" + end.Reason + ")"
		}
	}
	a.screen.line("%s", text)
	if turn.Status == engine.Failed {
		a.screen.line("%s%s", retryHint, a.command("resume", thread))
	}
	return said(exitFailed)
}
