package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) resumeCommand() *cobra.Command {
	var takeOver bool
	var as string
	cmd := &cobra.Command{
		Use:   "resume THREAD",
		Short: "Go on with a turn after a crash, a stop or a failure",
		Long: `Goes on with a turn that a crash, a stop or a failure cut short: what finished is
not done again. If questions are open it asks them in the terminal. What a sleeping
turn waits for and has come is handed over; what has not is waited for. A turn that
is over, and did not fail, stays as it is; the exit code is that of the turn.`,
		Example: `  agent resume release-7
  agent resume release-7 --take-over`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			thread, err := threadArg(args[0])
			if err != nil {
				return err
			}
			ctx, stop := a.interruptible(cmd.Context())
			defer stop()
			return a.working(ctx, func(s *store.Store) error {
				before, err := s.At(ctx, thread, 0)
				if err != nil {
					return err
				}
				if status := before.Thread.Status; status.Over() && status != engine.Failed {
					a.screen.line("the turn of thread %s is over (%s): nothing was changed", thread, status)
				}
				a.screen.waits(before.Waits())
				e := a.engine(nil, s, engine.Options{Ask: a.asker(as, false), Sleep: true})
				move := func() (*engine.Turn, error) { return e.Resume(ctx, thread) }
				if takeOver {
					move = func() (*engine.Turn, error) { return e.TakeOver(ctx, thread) }
				}
				turn, err := move()
				return a.conclude(ctx, s, thread, turn, err)
			})
		}),
	}
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "take the thread from a living process that hangs; what it still writes is refused")
	cmd.Flags().StringVar(&as, "as", "", "the `NAME` that the log gets for answers given here")
	return cmd
}

func (a *app) cancelCommand() *cobra.Command {
	var by engine.By
	cmd := &cobra.Command{
		Use:   "cancel THREAD",
		Short: "End a turn; its last committed state stays",
		Long: `Ends the turn of a thread: work that runs is killed, open questions end with it,
and the last committed state stays. If another process moves the thread, this waits
until that process has obeyed. A turn that is over gives exit code 4.`,
		Example: `  agent cancel release-7 --reason 'wrong version' --as alice`,
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			thread, err := threadArg(args[0])
			if err != nil {
				return err
			}
			by.Via, by.Client = "cli", client()
			ctx, stop := a.interruptible(cmd.Context())
			defer stop()
			return a.working(ctx, func(s *store.Store) error {
				turn, err := a.engine(nil, s, engine.Options{}).Cancel(ctx, thread, by)
				if turn != nil && err != nil && turn.Status.Over() {
					return &exitError{code: exitConflict, err: err} // it ended before it could be cancelled
				}
				if err == nil && turn.Status != engine.Cancelled {
					a.screen.line("the turn of thread %s ended before it could be cancelled: %s", thread, turn.Status)
					return said(exitConflict)
				}
				if err == nil {
					a.screen.line("the turn of thread %s is cancelled", thread)
				}
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&by.Reason, "reason", "", "why, for the log (`TEXT`)")
	cmd.Flags().StringVar(&by.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	return cmd
}
