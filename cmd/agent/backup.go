package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database while others work with it, and verify the copy",
		Long: `Writes a copy of the whole database as of one moment, while other processes go on with
it, and verifies it: SQLite's own check, all hash chains, and that it ends where this
file does. The copy gets its name when it is whole. A file that exists is left alone.

The copy is a database like any other: agent --db FILE works with it. To restore it, end
all processes that use the database, and move the copy into its place, without the -wal
and -shm files that lie there. A turn that was under way is there as one that was
stopped: agent resume goes on.`,
		Example: `  agent backup /backups/agent-2030-01-02.db`,
		Args:    cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		if args[0] == "" {
			return usage("the name of the copy is empty")
		}
		ctx, stop := a.interruptible(cmd.Context())
		defer stop()
		return a.working(ctx, func(s *store.Store) error {
			saved, err := s.Backup(ctx, args[0])
			if errors.Is(err, fs.ErrExist) {
				return usage("%w", err)
			}
			if err != nil {
				return err
			}
			if *asJSON {
				_ = a.out.json(saved) // kept by out, and said at the end
				return nil
			}
			fmt.Fprintf(a.out, "%s: %s, %s, %s; verified\n", oneLine(saved.Path), size(saved.Bytes),
				count(int64(saved.Threads), "thread", "threads"), count(saved.Entries, "entry", "entries"))
			return nil
		})
	})
	return cmd
}
