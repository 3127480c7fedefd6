package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// threadJSON is a thread in a listing.
type threadJSON struct {
	Thread  string        `json:"thread_id"`
	Status  engine.Status `json:"status"`
	Graph   string        `json:"graph"`
	Turn    int64         `json:"turn"`
	Head    int64         `json:"head"`
	Updated string        `json:"updated_at"`
	WakeAt  string        `json:"wake_at,omitempty"` // the first deadline or timer
	Mode    string        `json:"mode,omitempty"`    // of a session in an editor
}

func newThreadJSON(t engine.Thread) threadJSON {
	out := threadJSON{
		Thread: t.ID, Status: t.Status, Graph: t.GraphName, Turn: t.Turn, Head: t.Head, Updated: jsonTime(t.UpdatedAt), Mode: t.Mode,
	}
	if at := wakes(t); at != nil {
		out.WakeAt = jsonTime(*at)
	}
	return out
}

// wakes is when a thread at rest goes on, or is decided, by itself.
func wakes(t engine.Thread) *time.Time {
	if t.Status == engine.Paused || t.Status == engine.Sleeping {
		return t.WakeAt
	}
	return nil
}

// statuses are those that a person can ask for.
var statuses = []engine.Status{
	engine.Running, engine.Paused, engine.Sleeping, engine.Done, engine.Rejected, engine.Failed, engine.Cancelled, engine.Deleted,
}

func (a *app) threadsCommand() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:     "threads",
		Short:   "List the threads, those first that changed last",
		Example: "  agent threads --status paused --status running",
		Args:    cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringArrayVar(&only, "status", nil, "only threads with this `STATUS`; may be repeated")
	cmd.RunE = a.does(func(cmd *cobra.Command, _ []string) error {
		wanted, err := wantedStatuses(only)
		if err != nil {
			return err
		}
		return a.listing(cmd.Context(), func(s *store.Store) error {
			threads, err := threadsOf(cmd.Context(), s, wanted)
			if err != nil {
				return err
			}
			if *asJSON {
				for _, t := range threads {
					if err := a.out.json(newThreadJSON(t.Thread)); err != nil {
						return nil // kept by out, and said at the end
					}
				}
				return nil
			}
			if len(threads) == 0 {
				a.screen.line("no threads")
				return nil
			}
			table := a.out.table("THREAD", "STATUS", "GRAPH", "TURN", "HEAD", "UPDATED", "TITLE")
			for _, t := range threads {
				table.row(t.ID, statusText(t.Thread), t.GraphName, fmt.Sprint(t.Turn), fmt.Sprint(t.Head), localTime(t.UpdatedAt), shorten(t.Title, 50))
			}
			return table.flush()
		})
	})
	return cmd
}

// statusText is a status for a person: running may mean that somebody moves
// the thread, or that nobody does any more; sleeping, until when.
func statusText(t engine.Thread) string {
	at := wakes(t)
	switch {
	case t.Status == engine.Running && t.Owner == nil:
		return "running (waits for resume)" // stopped, or forked, edited or answered and not gone on with
	case t.Status == engine.Running && !t.Owner.Alive:
		return "running (cut short)"
	case t.Status == engine.Sleeping && at == nil:
		return "sleeping until a signal"
	case t.Status == engine.Sleeping:
		return "sleeping until " + localTime(*at)
	}
	return string(t.Status)
}

func wantedStatuses(only []string) ([]engine.Status, error) {
	var wanted []engine.Status
	for _, name := range only {
		status := engine.Status(name)
		if !slices.Contains(statuses, status) {
			all := make([]string, len(statuses))
			for i, s := range statuses {
				all[i] = string(s)
			}
			hint := ""
			if near := engine.Nearest(name, all); near != "" {
				hint = "; " + near
			}
			return nil, usage("--status %s: there is no such status; there are %s%s", quote(name), strings.Join(all, ", "), hint)
		}
		if !slices.Contains(wanted, status) {
			wanted = append(wanted, status)
		}
	}
	return wanted, nil
}

// threadsOf lists the threads that have one of these statuses; none: all.
func threadsOf(ctx context.Context, s *store.Store, wanted []engine.Status) ([]store.Listed, error) {
	if len(wanted) == 0 {
		return s.Threads(ctx, store.Filter{})
	}
	var out []store.Listed
	for _, status := range wanted {
		threads, err := s.Threads(ctx, store.Filter{Status: status})
		if err != nil {
			return nil, err
		}
		out = append(out, threads...)
	}
	slices.SortFunc(out, func(a, b store.Listed) int {
		if d := b.Cursor.UpdatedAt - a.Cursor.UpdatedAt; d != 0 {
			return sign(d)
		}
		return sign(b.Cursor.No - a.Cursor.No)
	})
	return out, nil
}

func sign(n int64) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
