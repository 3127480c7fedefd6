package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) redactCommand() *cobra.Command {
	by := engine.By{Via: "cli", Client: client()}
	cmd := &cobra.Command{
		Use:   "redact THREAD@SEQ --reason TEXT",
		Short: "Remove the payload of one entry for good",
		Long: `Removes what one entry of a log holds: a text that was put in, what a step wrote, a
question, an answer. Its row and its hashes stay, and an entry is appended that says who
removed it and why, so agent audit verify still checks the whole log.

The newest state stays what it is: what must not be in it either has to be overwritten
first, with agent update. States between the entry and the newest cannot be shown any
more if they needed it. What the turn under way needs cannot be removed (exit code 4).

It is not removed from backups, nor from what other programs kept of it.`,
		Example: `  agent redact release-7@3 --reason 'a password in the output'`,
		Args:    cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&by.Reason, "reason", "", "why, for the log (`TEXT`); it must be given")
	cmd.Flags().StringVar(&by.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		thread, seq, err := checkpoint(args[0])
		switch {
		case err != nil:
			return err
		case seq == 0:
			return usage("%s is a thread: say which entry, as THREAD@SEQ; agent history %s lists them", args[0], quote(thread))
		case by.Reason == "":
			return usage("--reason is missing: the log says why a payload was removed")
		}
		return a.working(cmd.Context(), func(s *store.Store) error {
			p, err := s.Redact(cmd.Context(), args[0], by)
			switch {
			case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrBusy):
				return &exitError{code: exitConflict, err: err, hint: "to end the turn: " + a.command("cancel", thread)}
			case err != nil:
				return err
			case *asJSON:
				_ = a.out.json(p) // kept by out, and said at the end
			case p.Entries == 0:
				a.screen.line("the payload of %s was removed before", args[0])
			default:
				fmt.Fprintf(a.out, "the payload of %s is removed, %s\n", oneLine(args[0]), size(p.Bytes))
			}
			return nil
		})
	})
	return cmd
}
