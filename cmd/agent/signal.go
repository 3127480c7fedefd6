package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) signalCommand() *cobra.Command {
	by := engine.By{Via: "cli", Client: client()}
	cmd := &cobra.Command{
		Use:   "signal THREAD NAME [JSON]",
		Short: "Send a signal to a turn, for a node that waits for it",
		Long: `Stores a signal for the turn under way, with a JSON value (null if there is none).
A node that waits for a signal of this name gets it, now or later in the same turn,
once. This runs nothing: a process that waits with the thread takes the signal in,
else agent resume hands it over. A turn that is over gives exit code 4.`,
		Example: `  agent signal release-7 built
  agent signal release-7 built '{"version": "1.2"}' --as ci`,
		Args: cobra.RangeArgs(2, 3),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			thread, err := threadArg(args[0])
			if err != nil {
				return err
			}
			name := args[1]
			if name == "" {
				return usage("the name of the signal is empty: it is the one that the node waits for")
			}
			var v any
			if len(args) == 3 {
				if v, err = decodeJSON(args[2]); err != nil {
					return usage("the value of signal %s: %w", name, err)
				}
			}
			return a.working(cmd.Context(), func(s *store.Store) error {
				err := a.engine(nil, s, engine.Options{}).Signal(cmd.Context(), thread, name, v, by)
				if errors.Is(err, engine.ErrInvalid) {
					// Name and value are fine, so there is no turn to send it to.
					return &exitError{code: exitConflict, err: err}
				}
				if err != nil {
					return err
				}
				view, err := s.At(cmd.Context(), thread, 0)
				if err != nil {
					return err
				}
				if o := view.Thread.Owner; o != nil && o.Alive {
					a.screen.line("signal %s is stored; process %d has thread %s, and takes it in", name, o.PID, thread)
				} else {
					a.screen.line("signal %s is stored; this goes on with the turn:\n%s", name, a.command("resume", thread))
				}
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&by.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	return cmd
}
