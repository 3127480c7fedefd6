package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the database file; writes nothing",
		Long: `Examines the database file as far as it can be read, damaged or not: SQLite's own
check, rows that belong to nothing, the hash chains, the tables against the log, the
versions, the clock, the lock files of processes, modes, the write-ahead log and the
disk. It writes nothing, and says of each finding what to do. The exit code is 1 if there is an error, 0 if there are only warnings.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, _ []string) error {
		path, source, err := a.database()
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return &errNoDatabase{path: path}
		}
		h, err := store.Doctor(cmd.Context(), path)
		if err != nil {
			return err
		}
		code := exitDone
		if !h.OK() {
			code = exitFailed
		}
		if *asJSON {
			_ = a.out.json(h) // kept by out, and said at the end
			return said(code)
		}
		a.health(h, source)
		return said(code)
	})
	return cmd
}

func (a *app) health(h *store.Health, source string) {
	row := func(name, text string) { fmt.Fprintf(a.out, "%-9s %s\n", name, oneLine(text)) }
	row("file", fmt.Sprintf("%s (%s), %s", h.Path, source, size(h.Size)))
	if h.WAL > 0 {
		row("log", size(h.WAL)+" in the write-ahead log")
	}
	if h.Free > 0 {
		row("disk", size(h.Free)+" free")
	}
	row("program", version())
	if h.SQLite != "" {
		row("sqlite", h.SQLite)
		row("schema", fmt.Sprintf("version %d (this program writes %d)", h.Schema, h.Latest))
		row("owners", count(int64(h.Owners), "living process", "living processes"))
	}
	if v := h.Verified; v != nil {
		row("verified", fmt.Sprintf("%s, %s", count(int64(v.Threads), "thread", "threads"), count(v.Entries, "entry", "entries")))
	}
	for _, f := range h.Findings {
		row(f.Severity, f.What)
		row("", f.Advice)
	}
	if len(h.Findings) == 0 {
		row("ok", "nothing is wrong")
	}
}

// size is a number of bytes for a person.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, []string{"KiB", "MiB", "GiB", "TiB"}
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}
