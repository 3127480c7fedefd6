package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Check that nobody changed what happened", a.auditVerifyCommand(), a.auditHeadCommand())
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var against string
	cmd := &cobra.Command{
		Use:   "verify [THREAD...]",
		Short: "Recompute the hash chains, and name the first row that does not fit",
		Long: `Recomputes the hash chain of every thread, or of those that are named, compares the
working tables with it, and names for each thread the first row that does not fit.
The exit code is 1 if there is any.

The chain alone cannot show that somebody rewrote all of it. Keep what agent audit
head prints in another place, and check it with --against.`,
		Example: `  agent audit verify
  agent audit verify release-7 --json
  agent audit verify --against heads.txt`,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&against, "against", "", "a `FILE` that audit head wrote, or - for stdin: its rows must still be there")
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		if against != "" && len(args) > 0 {
			return usage("--against looks at all threads: leave out %s", strings.Join(args, " "))
		}
		for _, thread := range args {
			if _, err := threadArg(thread); err != nil {
				return err
			}
		}
		var heads []store.Head
		if against != "" {
			var err error
			if heads, err = a.readHeads(against); err != nil {
				return err
			}
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			report, err := verified(cmd.Context(), s, args, against != "", heads)
			if err != nil {
				return err
			}
			return a.verifyReport(report, *asJSON)
		})
	})
	return cmd
}

func verified(ctx context.Context, s *store.Store, threads []string, kept bool, heads []store.Head) (*store.Report, error) {
	if kept {
		return s.VerifyAgainst(ctx, heads)
	}
	if len(threads) == 0 {
		return s.Verify(ctx, "")
	}
	sum := new(store.Report)
	for _, thread := range threads {
		report, err := s.Verify(ctx, thread)
		if err != nil {
			return nil, err
		}
		sum.Threads += report.Threads
		sum.Entries += report.Entries
		sum.Removed += report.Removed
		sum.Problems = append(sum.Problems, report.Problems...)
	}
	return sum, nil
}

func (a *app) verifyReport(r *store.Report, asJSON bool) error {
	code := exitDone
	if !r.OK() {
		code = exitFailed
	}
	if asJSON {
		_ = a.out.json(r) // kept by out, and said at the end
		return said(code)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(a.out, oneLine(p.String()))
	}
	text := fmt.Sprintf("%s, %s", count(int64(r.Threads), "thread", "threads"), count(r.Entries, "entry", "entries"))
	if r.Removed > 0 {
		text += fmt.Sprintf(" (%d with their payload removed)", r.Removed)
	}
	if r.OK() {
		fmt.Fprintln(a.out, "ok: "+text)
	} else {
		fmt.Fprintf(a.out, "%s in %s\n", count(int64(len(r.Problems)), "row does not fit", "rows do not fit"), text)
	}
	return said(code)
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a *app) auditHeadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "head [THREAD...]",
		Short: "Print thread, seq and hash of each log's newest entry, to keep elsewhere",
		Long: `Prints a line THREAD SEQ HASH for each thread. Kept where nobody who can write the
database can write, it shows later (audit verify --against) that the log up to there
is still the same.`,
		Example: "  agent audit head > heads.txt\n  agent audit head release-7",
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		wanted := map[string]bool{}
		for _, thread := range args {
			if _, err := threadArg(thread); err != nil {
				return err
			}
			wanted[thread] = true
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			heads, err := s.Heads(cmd.Context())
			if err != nil {
				return err
			}
			for _, h := range heads {
				if len(args) > 0 && !wanted[h.Thread] {
					continue
				}
				delete(wanted, h.Thread)
				if *asJSON {
					_ = a.out.json(h) // kept by out, and said at the end
				} else {
					fmt.Fprintf(a.out, "%s %d %s\n", h.Thread, h.Seq, h.Hash)
				}
			}
			for _, thread := range args {
				if wanted[thread] {
					return fmt.Errorf("thread %s: %w", thread, engine.ErrNotFound)
				}
			}
			return nil
		})
	})
	return cmd
}

// readHeads reads what audit head wrote.
func (a *app) readHeads(path string) ([]store.Head, error) {
	in := io.Reader(a.stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usage("--against: %w", err)
		}
		defer f.Close()
		in = f
	}
	var heads []store.Head
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		h, err := parseHead(text)
		if err != nil {
			return nil, usage("--against: %s:%d: %w", path, n, err)
		}
		heads = append(heads, h)
	}
	if err := lines.Err(); err != nil {
		return nil, usage("--against: %s: %w", path, err)
	}
	if len(heads) == 0 {
		return nil, usage("--against: %s has no line THREAD SEQ HASH", path)
	}
	return heads, nil
}

func parseHead(line string) (store.Head, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return store.Head{}, errors.New("expected THREAD SEQ HASH, as agent audit head writes it")
	}
	seq, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || seq < 1 {
		return store.Head{}, fmt.Errorf("%q is no seq", fields[1])
	}
	if hash, err := hex.DecodeString(fields[2]); err != nil || len(hash) != 32 {
		return store.Head{}, fmt.Errorf("%q is no hash", fields[2])
	}
	return store.Head{Thread: fields[0], Seq: seq, Hash: fields[2]}, nil
}
