package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// showJSON is a thread at one entry of its log.
type showJSON struct {
	threadJSON
	State     json.RawMessage `json:"state"`
	Next      []string        `json:"next"`
	Questions []questionJSON  `json:"questions"`
	Waits     []waitJSON      `json:"waits,omitempty"`
	Answer    *answerJSON     `json:"answer,omitempty"` // that the entry gives
	Always    []acp.Standing  `json:"always,omitempty"` // what was decided for always, in an editor
}

// waitJSON is something that a sleeping turn waits for.
type waitJSON struct {
	Checkpoint string `json:"checkpoint_id"`
	Node       string `json:"asking_node"`
	Signal     string `json:"signal,omitempty"`
	Until      string `json:"until,omitempty"`
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show THREAD[@SEQ]",
		Short: "Show a thread, or what it was at one checkpoint",
		Long: `Shows a thread: its status, all channels, what is ready to run next and the open
questions; with @SEQ as they were right after that entry of its log.`,
		Example: "  agent show release-7\n  agent show release-7@3 --json",
		Args:    cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		thread, seq, err := checkpoint(args[0])
		if err != nil {
			return err
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			view, err := s.At(cmd.Context(), thread, seq)
			if err != nil {
				return err
			}
			shown := newShowJSON(view, seq)
			if seq > 0 {
				// Another turn may have had another graph.
				if shown.Graph, err = graphAt(cmd.Context(), s, view); err != nil {
					return err
				}
			}
			if *asJSON {
				return a.shownAsJSON(shown)
			}
			return a.show(view, shown, seq)
		})
	})
	return cmd
}

func (a *app) shownAsJSON(v any) error {
	_ = a.out.json(v) // kept by out, and said at the end
	return nil
}

// graphAt is the name of the graph of the turn that an entry belongs to.
func graphAt(ctx context.Context, s *store.Store, view *engine.View) (name string, err error) {
	name = view.Thread.GraphName
	err = s.Entries(ctx, view.Thread.ID, view.InputSeq-1, 1, func(e engine.Entry) error {
		if in := e.Payload.Input; in != nil {
			name = in.Name
		}
		return nil
	})
	return name, err
}

func newShowJSON(view *engine.View, seq int64) showJSON {
	out := showJSON{threadJSON: newThreadJSON(view.Thread), State: json.RawMessage(compact(view.State)), Next: []string{}, Questions: []questionJSON{}}
	if view.State == nil {
		out.State = json.RawMessage("{}")
	}
	if seq > 0 {
		out.Status, out.Turn, out.Head, out.Updated, out.WakeAt = view.Head.Status, view.Head.Turn, view.Head.Seq, jsonTime(view.Head.At), ""
	}
	if base := view.Base(); base != nil && !view.Head.Status.Over() && base.Next != nil {
		out.Next = base.Next
	}
	out.Answer = newEntryJSON(view.Head, view.Head.Payload.Answer).Answer
	if seq == 0 {
		out.Always = acp.Standings(view.Thread)
	} else {
		out.Mode = "" // it is that of today
	}
	for _, q := range view.Open() {
		out.Questions = append(out.Questions, newQuestionJSON(q))
	}
	for _, q := range view.Waits() {
		w := waitJSON{Checkpoint: q.ID(), Node: q.AskingNode, Signal: q.Wait.Signal}
		if at := q.Wakes(); at != nil {
			w.Until = jsonTime(*at)
		}
		out.Waits = append(out.Waits, w)
	}
	return out
}

func (a *app) show(view *engine.View, shown showJSON, seq int64) error {
	t := view.Thread
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(a.out, "%-9s %s\n", name, oneLine(text))
		}
	}
	status := string(shown.Status)
	if seq == 0 {
		status = statusText(t)
	}
	row("thread", t.ID)
	row("status", status)
	row("title", t.Title)
	if seq > 0 {
		row("graph", shown.Graph)
	} else {
		row("graph", fmt.Sprintf("%s (%.12s)", t.GraphName, t.Graph))
	}
	row("turn", fmt.Sprintf("%d, step %d", shown.Turn, view.Head.Step))
	row("head", engine.CheckpointID(t.ID, view.Head.Seq))
	row("folder", t.Cwd)
	if seq > 0 {
		row("at", localTime(view.Head.At))
	} else {
		row("updated", localTime(t.UpdatedAt))
		if t.Mode != "" {
			actor, client, at := acp.ModeBy(t)
			row("mode", fmt.Sprintf("%s, set by %s (%s) %s", t.Mode, actor, client, localTime(at)))
		}
		for _, s := range shown.Always {
			row("always", fmt.Sprintf("%s: %s, by %s at %s", s.ID(), s.Label, s.Actor, s.Origin))
		}
		if o := t.Owner; o != nil && o.Alive {
			row("held by", fmt.Sprintf("process %d (%s), since %s", o.PID, t.Lease, localTime(o.Since)))
		}
	}
	row("next", strings.Join(shown.Next, ", "))
	if end := view.Head.Payload.End; end != nil {
		row("ended", strings.TrimSpace(end.Cause))
		row("reason", end.Reason)
	}
	if given := view.Head.Payload.Answer; given != nil {
		text := given.Choice
		if text == "" {
			text = compact(given.Value)
		}
		row("answer", fmt.Sprintf("%s to %s, by %s", text, given.Question, howAnswered(view.Head.Actor, given)))
		row("client", given.Client)
		row("os user", given.OSUser)
		row("reason", given.Reason)
	}
	if edit := view.Head.Payload.Edit; edit != nil {
		row("changed", string(view.Head.Kind)+" by "+view.Head.Actor+" via "+edit.Via)
		row("from", view.Head.Payload.From)
		row("reason", edit.Reason)
	}
	fmt.Fprintln(a.out, "state")
	for _, name := range slices.Sorted(maps.Keys(view.State)) {
		fmt.Fprintf(a.out, "  %s: %s\n", oneLine(name), indented(view.State[name]))
	}
	questions := view.Open()
	for _, q := range questions {
		fmt.Fprintf(a.out, "question %s, %s\n  %s\n", oneLine(q.ID()), oneLine(where(q)), oneLine(q.Payload.Reason()))
		a.whatRuns(q)
		if q.Deadline != nil {
			fmt.Fprintf(a.out, "  until %s\n", oneLine(deadline(q)))
		}
		if seq == 0 {
			for _, c := range a.answerCommands(q) {
				fmt.Fprintf(a.out, "  %s\n", c)
			}
		}
	}
	for _, q := range view.Waits() {
		row("waits", cmp.Or(q.Task, q.AskingNode)+": "+waiting(q))
		if seq == 0 && q.Wait.Signal != "" {
			fmt.Fprintf(a.out, "to send the signal: %s\n", a.command("signal", t.ID, q.Wait.Signal))
		}
	}
	if seq == 0 && (shown.Status == engine.Failed || shown.Status == engine.Sleeping && (t.Owner == nil || !t.Owner.Alive) || shown.Status == engine.Running && (t.Owner == nil || !t.Owner.Alive)) {
		fmt.Fprintf(a.out, "to go on: %s\n", a.command("resume", t.ID))
	}
	return nil
}

// indented is a value as JSON: in one line if it is short.
func indented(v any) string {
	text := compact(v)
	var b bytes.Buffer
	if len(text) > 80 && json.Indent(&b, []byte(text), "  ", "  ") == nil {
		text = b.String()
	}
	return visible(text)
}
