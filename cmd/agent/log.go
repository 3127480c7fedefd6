package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// numberedJSON is an entry among those of all threads.
type numberedJSON struct {
	ID       int64  `json:"id"`
	ThreadID string `json:"thread_id"`
	entryJSON
}

func (a *app) logCommand() *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List the entries of all threads in the order in which they were committed",
		Long: `Lists the entries of all threads in the order in which they were committed, each with
a number that counts up and is never used again. With --after those behind a number:
who keeps the number of the last entry that was carried elsewhere, and goes on behind
it, misses none. Those of deleted threads are gone.`,
		Example: "  agent log\n  agent log --after 1200 --json",
		Args:    cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().Int64Var(&after, "after", 0, "only the entries behind the one with this `NUMBER`")
	cmd.RunE = a.does(func(cmd *cobra.Command, _ []string) error {
		if after < 0 {
			return usage("--after %d: expected the number of an entry, or 0", after)
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			table := a.out.table("ID", "CHECKPOINT", "KIND", "STATUS", "TASKS", "ACTOR", "AT")
			err := s.EntriesSince(cmd.Context(), after, 0, func(e store.Numbered) error {
				if *asJSON {
					return a.out.json(numberedJSON{ID: e.ID, ThreadID: e.Thread, entryJSON: newEntryJSON(e.Entry, e.Payload.Answer)})
				}
				table.row(fmt.Sprint(e.ID), engine.CheckpointID(e.Thread, e.Seq), string(e.Kind), string(e.Status),
					strings.Join(e.Tasks, ", "), onWhoseWord(e.Actor, e.Payload.Answer), localTime(e.At))
				return a.out.err
			})
			if err != nil && a.out.err == nil {
				return err
			}
			if *asJSON {
				return nil // what stdout did not take is kept by out, and said at the end
			}
			return table.flush()
		})
	})
	return cmd
}
