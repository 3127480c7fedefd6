package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// changeJSON is one difference between two states.
type changeJSON struct {
	Pointer string          `json:"pointer"`
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
	Added   bool            `json:"added"`
	Removed bool            `json:"removed"`
}

func (a *app) diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show how the state differs between two checkpoints",
		Long: `Shows what is different in the state of checkpoint B, by JSON pointer: the channel,
and then the way into its value. A and B are THREAD@SEQ, of one thread or of two;
THREAD alone is its newest. The exit code is 0 whether they differ or not.`,
		Example: `  agent diff release-7@2 release-7@5
  agent diff release-7 release-7b --json`,
		Args: cobra.ExactArgs(2),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		var at [2]place
		for i, arg := range args {
			var err error
			if at[i].thread, at[i].seq, err = checkpoint(arg); err != nil {
				return err
			}
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			return a.diff(cmd.Context(), s, at, *asJSON)
		})
	})
	return cmd
}

// place is a thread at an entry of its log; 0 is the newest.
type place struct {
	thread string
	seq    int64
}

func (a *app) diff(ctx context.Context, s *store.Store, at [2]place, asJSON bool) error {
	var states [2]engine.State
	for i, p := range at {
		view, err := s.At(ctx, p.thread, p.seq)
		if err != nil {
			return err
		}
		states[i], at[i].seq = view.State, view.Head.Seq
	}
	changes := engine.Diff(states[0], states[1])
	for _, c := range changes {
		if asJSON {
			err := a.out.json(changeJSON{
				Pointer: c.Pointer, Before: json.RawMessage(compact(c.Before)), After: json.RawMessage(compact(c.After)),
				Added: c.Added, Removed: c.Removed,
			})
			if err != nil {
				return nil // kept by out, and said at the end
			}
			continue
		}
		if !c.Added {
			fmt.Fprintf(a.out, "- %s %s\n", oneLine(c.Pointer), oneLine(compact(c.Before)))
		}
		if !c.Removed {
			fmt.Fprintf(a.out, "+ %s %s\n", oneLine(c.Pointer), oneLine(compact(c.After)))
		}
	}
	if len(changes) == 0 && !asJSON {
		a.screen.line("no difference between %s and %s", engine.CheckpointID(at[0].thread, at[0].seq), engine.CheckpointID(at[1].thread, at[1].seq))
	}
	return nil
}
