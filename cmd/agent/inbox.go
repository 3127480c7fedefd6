package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// questionJSON is an open question: the payload's own names, and what stands
// beside them.
type questionJSON struct {
	interrupt.Question
	mode string // of its thread, where that will decide it
}

func newQuestionJSON(q interrupt.Question) questionJSON { return questionJSON{Question: q} }

// MarshalJSON writes the names of the payload and those of the question side by
// side. asking_node, choices, deadline and asked_at are always there.
func (q questionJSON) MarshalJSON() ([]byte, error) {
	payload, err := q.Payload.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var deadline *string
	if q.Deadline != nil {
		text := jsonTime(*q.Deadline)
		deadline = &text
	}
	beside := struct {
		AskingNode string             `json:"asking_node"`
		Choices    []interrupt.Choice `json:"choices"`
		Type       string             `json:"type,omitempty"`
		Format     string             `json:"format,omitempty"`
		Minimum    *float64           `json:"minimum,omitempty"`
		Maximum    *float64           `json:"maximum,omitempty"`
		Shows      json.RawMessage    `json:"shows,omitempty"`
		Doubt      *interrupt.Doubt   `json:"doubt,omitempty"`
		Deadline   *string            `json:"deadline"`
		Default    json.RawMessage    `json:"default,omitempty"`
		AskedAt    string             `json:"asked_at"`
		Mode       string             `json:"mode,omitempty"`
	}{Mode: q.mode, AskingNode: q.AskingNode, Choices: q.Options(), Type: q.Type, Format: q.Format, Minimum: q.Minimum, Maximum: q.Maximum, Doubt: q.Doubt, Deadline: deadline, AskedAt: jsonTime(q.AskedAt)}
	if q.Multi() {
		beside.Choices = q.Choices
	}
	if beside.Choices == nil {
		beside.Choices = []interrupt.Choice{}
	}
	if q.Shows != nil {
		if beside.Shows, err = value.Marshal(q.Shows); err != nil {
			return nil, err
		}
	}
	if q.Deadline != nil {
		if beside.Default, err = value.Marshal(q.Default); err != nil {
			return nil, err
		}
	}
	rest, err := json.Marshal(beside)
	if err != nil {
		return nil, err
	}
	return append(append(payload[:len(payload)-1:len(payload)-1], ','), rest[1:]...), nil
}

func (a *app) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inbox",
		Short:   "List the open questions of all threads, oldest first",
		Example: "  agent inbox\n  agent inbox --json",
		Args:    cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(cmd *cobra.Command, _ []string) error {
		return a.listing(cmd.Context(), func(s *store.Store) error {
			items, err := s.Inbox(cmd.Context(), 0)
			if err != nil {
				return err
			}
			if !*asJSON && len(items) == 0 {
				a.screen.line("no open questions")
			}
			for _, item := range items {
				q := item.Question
				q.AskedAt = item.AskedAt
				mode, err := approvingMode(cmd.Context(), s, q)
				if err != nil {
					return err
				}
				if *asJSON {
					if err := a.out.json(questionJSON{q, mode}); err != nil {
						return nil // kept by out, and said at the end
					}
					continue
				}
				a.inboxItem(q, mode)
			}
			return nil
		})
	})
	return cmd
}

// approvingMode is the mode of a gate's session, if that would approve it.
func approvingMode(ctx context.Context, s *store.Store, q interrupt.Question) (string, error) {
	if !q.IsGate() {
		return "", nil
	}
	t, err := s.Thread(ctx, q.Payload.ThreadID)
	if errors.Is(err, engine.ErrDeleted) || err == nil && t.Mode != acp.ModeAutoApprove {
		return "", nil
	}
	return t.Mode, err
}

func (a *app) inboxItem(q interrupt.Question, mode string) {
	fmt.Fprintf(a.out, "%s  %s, asked %s (%s ago)\n", oneLine(q.ID()), oneLine(where(q)), localTime(q.AskedAt), age(time.Since(q.AskedAt)))
	fmt.Fprintf(a.out, "  %s\n", oneLine(q.Payload.Reason()))
	a.whatRuns(q)
	if m, _ := q.Payload.Data.(map[string]any); m["tool"] != nil && m["call_id"] != nil {
		// A call of a tool is what will run: all of it.
		fmt.Fprintf(a.out, "  data: %s\n", oneLine(told(m)))
	} else if q.Payload.Data != nil && !q.IsDoubt() {
		fmt.Fprintf(a.out, "  data: %s\n", oneLine(shorten(told(q.Payload.Data), 200)))
	}
	if q.Deadline != nil {
		fmt.Fprintf(a.out, "  until %s\n", oneLine(deadline(q)))
	}
	if mode != "" {
		fmt.Fprintf(a.out, "  mode %s: the next prompt in an editor approves it\n", mode)
	}
	for _, c := range a.answerCommands(q) {
		fmt.Fprintf(a.out, "  %s\n", c)
	}
}

// whatRuns shows what a question will let run, in few lines and all of it: beside
// the command the folder, the variables whose values stand in no line, what goes
// into it. Who approves here must see as much as in a dialog.
func (a *app) whatRuns(q interrupt.Question) {
	text := work(q.Shows)
	if text == "" {
		return
	}
	fmt.Fprintf(a.out, "  runs: %s\n", oneLine(text))
	m, ok := q.Shows.(map[string]any)
	if !ok || text == compact(m) {
		return
	}
	for _, name := range workFields(m) {
		switch name {
		case "line", "command", "method", "url":
			continue
		case "cwd":
			fmt.Fprintf(a.out, "  folder: %s\n", oneLine(told(m[name])))
			continue
		case "env":
			if env, ok := m[name].(map[string]any); ok {
				for _, variable := range slices.Sorted(maps.Keys(env)) {
					fmt.Fprintf(a.out, "  env: %s=%s\n", oneLine(variable), oneLine(quote(told(env[variable]))))
				}
				continue
			}
		}
		fmt.Fprintf(a.out, "  %s: %s\n", oneLine(name), oneLine(told(m[name])))
	}
}

// ahead is how far away something in the future is.
func ahead(at time.Time) string {
	d := time.Until(at)
	if d < time.Second {
		return "now"
	}
	return "in " + age(d)
}

// age is how long ago something was, in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
