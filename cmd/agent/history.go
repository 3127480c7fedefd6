package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// entryJSON is an entry of a thread's log.
type entryJSON struct {
	Seq    int64         `json:"seq"`
	Kind   engine.Kind   `json:"kind"`
	Turn   int64         `json:"turn"`
	Step   int64         `json:"step"`
	Status engine.Status `json:"status"`
	Tasks  []string      `json:"tasks"`
	Next   []string      `json:"next"`
	Actor  string        `json:"actor"`
	At     string        `json:"at"`
	Answer *answerJSON   `json:"answer,omitempty"`
}

// answerJSON says what was answered, and on whose word.
type answerJSON struct {
	Question string          `json:"question"`
	Choice   string          `json:"choice,omitempty"`
	Value    json.RawMessage `json:"value"`
	Via      string          `json:"via"`
	Reason   string          `json:"reason,omitempty"`
	OSUser   string          `json:"os_user,omitempty"`
	Client   string          `json:"client,omitempty"`
	Origin   string          `json:"origin,omitempty"` // the question at which it was decided for always
}

// answerAt reads what an entry answers; nil if it answers nothing, or what it
// says was removed.
func answerAt(ctx context.Context, s *store.Store, thread string, e engine.Entry) (a *interrupt.Answer, err error) {
	if e.Kind != engine.KindAnswer {
		return nil, nil
	}
	err = s.Entries(ctx, thread, e.Seq-1, 1, func(e engine.Entry) error {
		a = e.Payload.Answer
		return nil
	})
	return a, err
}

func newEntryJSON(e engine.Entry, a *interrupt.Answer) entryJSON {
	out := entryJSON{
		Seq: e.Seq, Kind: e.Kind, Turn: e.Turn, Step: e.Step, Status: e.Status,
		Tasks: list(e.Tasks), Next: list(e.Next), Actor: e.Actor, At: jsonTime(e.At),
	}
	if a != nil {
		out.Answer = &answerJSON{
			Question: a.Question, Choice: a.Choice, Value: json.RawMessage(compact(a.Value)), Via: a.Via,
			Reason: a.Reason, OSUser: a.OSUser, Client: a.Client, Origin: a.Origin,
		}
	}
	return out
}

// onWhoseWord is an actor with what was answered, where that is a choice, and
// how the answer came.
func onWhoseWord(actor string, a *interrupt.Answer) string {
	if a == nil || a.Choice == "" {
		return howAnswered(actor, a)
	}
	return a.Choice + " by " + howAnswered(actor, a)
}

// howAnswered is an actor with how the answer came.
func howAnswered(actor string, a *interrupt.Answer) string {
	if a == nil {
		return actor
	}
	text := strings.TrimSpace(actor + " via " + a.Via)
	if a.Origin != "" && a.Origin != a.Question {
		text += " (" + a.Origin + ")"
	}
	return text
}

func (a *app) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history THREAD",
		Short: "List the entries of a thread's log, oldest first",
		Long: `Lists the entries of a thread's log, oldest first; with --turns its turns, one a
line: how each began, on whose word, and how it ended.`,
		Example: "  agent history release-7\n  agent history release-7 --turns --json",
		Args:    cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	turns := cmd.Flags().Bool("turns", false, "the turns, and not their entries")
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		thread, err := threadArg(args[0])
		if err != nil {
			return err
		}
		return a.looking(cmd.Context(), func(s *store.Store) error {
			if *turns {
				return a.turns(cmd.Context(), s, thread, *asJSON)
			}
			table := a.out.table("SEQ", "KIND", "TURN", "STEP", "STATUS", "TASKS", "NEXT", "ACTOR", "AT")
			var unread error
			err := eachEntry(cmd.Context(), s, thread, func(e engine.Entry) error {
				given, err := answerAt(cmd.Context(), s, thread, e)
				if err != nil {
					unread = err
					return err
				}
				if *asJSON {
					return a.out.json(newEntryJSON(e, given))
				}
				table.row(fmt.Sprint(e.Seq), string(e.Kind), fmt.Sprint(e.Turn), fmt.Sprint(e.Step), string(e.Status),
					strings.Join(e.Tasks, ", "), strings.Join(e.Next, ", "), onWhoseWord(e.Actor, given), localTime(e.At))
				return a.out.err
			})
			if err := errors.Join(err, unread); err != nil || *asJSON {
				return err
			}
			return table.flush()
		})
	})
	return cmd
}

// list is never null in JSON.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// eachEntry gives a thread's log to fn, some entries at a time: a log may be
// long. It ends without error when stdout takes no more.
func eachEntry(ctx context.Context, s *store.Store, thread string, fn func(engine.Entry) error) error {
	const chunk = 1000
	for after := int64(0); ; {
		entries, err := s.History(ctx, thread, after, chunk)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return nil // kept by out, and said at the end
			}
			after = e.Seq
		}
		if len(entries) < chunk {
			return nil
		}
	}
}
