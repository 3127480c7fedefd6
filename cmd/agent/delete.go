package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) deleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete THREAD",
		Short: "Delete a thread, with its log",
		Long: `Deletes a thread for good: its log, its state, its questions. Only its id stays, as
deleted, so that no other thread gets it. On a terminal it asks first, unless --yes is
given. A thread that another process moves, or waits with, gives exit code 4.`,
		Example: `  agent delete release-7 --yes`,
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			thread, err := threadArg(args[0])
			if err != nil {
				return err
			}
			ctx, stop := a.interruptible(cmd.Context())
			defer stop()
			return a.working(ctx, func(s *store.Store) error {
				return a.deleteThread(ctx, s, thread, yes)
			})
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) deleteThread(ctx context.Context, s *store.Store, thread string, yes bool) error {
	view, err := s.At(ctx, thread, 0)
	if errors.Is(err, engine.ErrDeleted) {
		a.screen.line("thread %s was deleted before", thread)
		return nil
	}
	// What cannot be read can be deleted all the same, by whoever says so.
	if err != nil && (errors.Is(err, engine.ErrNotFound) || !yes) {
		return err
	}
	if !yes && a.dialog {
		if sure, err := a.sure(ctx, view.Thread); err != nil || !sure {
			return err
		}
	}
	err = s.Delete(ctx, thread)
	if errors.Is(err, engine.ErrBusy) {
		return &exitError{code: exitConflict, err: err, hint: "to end its turn first: " + a.command("cancel", thread)}
	}
	if err == nil {
		a.screen.line("thread %s is deleted", thread)
	}
	return err
}

// sure asks whether a thread is to be deleted.
func (a *app) sure(ctx context.Context, t engine.Thread) (bool, error) {
	a.resting.Store(true)
	defer a.resting.Store(false)
	a.lines.discard()
	a.screen.line("thread %s: %s, %s, %s; last changed %s", t.ID, statusText(t),
		count(t.Turn, "turn", "turns"), count(t.Head, "entry", "entries"), localTime(t.UpdatedAt))
	if t.Title != "" {
		a.screen.block(t.Title, 1)
	}
	line, err := a.typed(ctx, "delete it for good? (y or n):")
	switch {
	case a.stopping():
		a.screen.line("nothing was deleted")
		return false, said(exitStopped)
	case err != nil && !errors.Is(err, errLeft):
		return false, err
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		return true, nil
	}
	a.screen.line("nothing was deleted")
	return false, said(exitFailed)
}
