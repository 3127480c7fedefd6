package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// retentionFlags are the flags that say what a thread keeps.
func retentionFlags(flags *pflag.FlagSet, keep *store.Retention) {
	flags.IntVar(&keep.Turns, "keep-turns", 0, "how many of a thread's newest turns keep their payloads (`N`)")
	flags.Var((*ageFlag)(&keep.Age), "max-age", "how long after its end a turn keeps its payloads, such as 90d, 2w or 12h (`AGE`)")
}

func checkRetention(flags *pflag.FlagSet, keep store.Retention) error {
	if flags.Changed("keep-turns") && keep.Turns < 1 {
		return usage("--keep-turns %d: the newest turn is always kept, so 1 is the least", keep.Turns)
	}
	return nil
}

// ageFlag is a duration that knows days and weeks, which is what ages are in.
type ageFlag time.Duration

func (f *ageFlag) Type() string   { return "age" }
func (f *ageFlag) String() string { return time.Duration(*f).String() }

func (f *ageFlag) Set(text string) error {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > 36500 {
				return fmt.Errorf("expected a number of days or weeks from 1, such as 90d")
			}
			*f = ageFlag(time.Duration(n) * length)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("expected an age such as 90d, 2w or 12h")
	}
	*f = ageFlag(d)
	return nil
}

func (a *app) pruneCommand() *cobra.Command {
	var keep store.Retention
	var dry bool
	by := engine.By{Via: "cli", Client: client()}
	cmd := &cobra.Command{
		Use:   "prune [THREAD...] (--keep-turns N | --max-age AGE)",
		Short: "Remove the payloads of old turns, of all threads or of those that are named",
		Long: `Removes what the inputs, steps and edits of old turns hold: of turns that are not among
the newest N, and of those that ended longer than AGE ago. The newest turn of a thread
always keeps all of it, and every turn its questions and answers: who decided what. The
rows and their hashes stay, so agent audit verify goes on to check the whole log, and
the state behind what was removed is kept, so the thread goes on as before. States in
the turns that were pruned cannot be shown any more, nor forked from.

Nothing is removed where the state that has to be kept takes more than what would go.
Threads that a process holds are passed over; named ones give exit code 4.`,
		Example: `  agent prune --keep-turns 20 --dry-run
  agent prune --max-age 90d
  agent prune release-7 --keep-turns 1 --json`,
	}
	asJSON := jsonFlag(cmd)
	retentionFlags(cmd.Flags(), &keep)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	cmd.Flags().StringVar(&by.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		if err := checkRetention(cmd.Flags(), keep); err != nil {
			return err
		}
		if !keep.Limits() {
			return usage("say what is kept: --keep-turns N, --max-age AGE, or both")
		}
		for _, thread := range args {
			if _, err := threadArg(thread); err != nil {
				return err
			}
		}
		ctx, stop := a.interruptible(cmd.Context())
		defer stop()
		return a.working(ctx, func(s *store.Store) error {
			return a.prune(ctx, s, args, keep, by, dry, *asJSON)
		})
	})
	return cmd
}

func (a *app) prune(ctx context.Context, s *store.Store, threads []string, keep store.Retention, by engine.By, dry, asJSON bool) error {
	var entries, bytes, kept int64
	done := "removed"
	if dry {
		done = "would be removed"
	}
	say := func(p store.Pruned) error {
		entries, bytes, kept = entries+p.Entries, bytes+p.Bytes, kept+p.Kept
		if asJSON {
			return a.out.json(p)
		}
		fmt.Fprintf(a.out, "%s: %s up to %s, %s; the state kept for them: %s\n", oneLine(p.Thread),
			count(p.Entries, "payload", "payloads"), engine.CheckpointID(p.Thread, p.UpTo), size(p.Bytes), size(p.Kept))
		return a.out.err
	}
	if len(threads) == 0 {
		if err := s.PruneAll(ctx, keep, by, dry, say); err != nil && a.out.err == nil {
			return err
		}
	}
	for _, thread := range threads {
		p, err := s.Prune(ctx, thread, keep, by, dry)
		if errors.Is(err, engine.ErrBusy) {
			return &exitError{code: exitConflict, err: err}
		}
		if err != nil {
			return err
		}
		if p.Entries > 0 {
			_ = say(p) // kept by out, and said at the end
		}
	}
	if !asJSON {
		fmt.Fprintf(a.out, "%s: %s, %s\n", done, count(entries, "payload", "payloads"), size(bytes))
	}
	return nil
}
