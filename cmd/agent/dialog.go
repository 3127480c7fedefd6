package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// errLeft says that the person left the dialog: the turn stays paused.
var errLeft = errors.New("the dialog was left")

// asker gives the engine's dialog, or nil if there is nobody to ask.
//
// With yes a gate is approved, by the mode of this run. Other questions,
// doubts above all, need a person: with nobody there the turn stays paused.
func (a *app) asker(actor string, yes bool) func(context.Context, interrupt.Question) (interrupt.Answer, error) {
	if !a.dialog && !yes {
		return nil
	}
	return func(ctx context.Context, q interrupt.Question) (interrupt.Answer, error) {
		switch {
		case yes && q.IsGate():
			a.screen.ask(q)
			return interrupt.Answer{Choice: interrupt.Approve, Actor: actor, Via: "mode", Reason: "agent run --yes", Client: client()}, nil
		case !a.dialog:
			return interrupt.Answer{}, errLeft
		}
		answer, err := a.converse(ctx, q)
		answer.Actor, answer.Via, answer.Client = actor, "cli", client()
		return answer, err
	}
}

// converse asks in the terminal until there is an acceptable answer. It ends
// with ctx: the question was decided elsewhere, or the program is to stop.
func (a *app) converse(ctx context.Context, q interrupt.Question) (interrupt.Answer, error) {
	a.resting.Store(true)
	defer a.resting.Store(false)
	// What was typed before the question could be read does not answer it.
	a.lines.discard()
	a.screen.ask(q)
	choices := options(q)
	for _, o := range choices {
		label := oneLine(o.Label())
		if o.Name != "" && !strings.EqualFold(o.Name, o.ID) {
			label += " (" + oneLine(o.ID) + ")"
		}
		a.screen.line("  %s  %s", oneLine(o.keys[0]), label)
	}
	for {
		line, err := a.typed(ctx, "answer ("+accepted(q, choices)+"):")
		if err != nil {
			return interrupt.Answer{}, err
		}
		answer, err := read(q, choices, line)
		if err == nil {
			_, err = q.Check(answer)
		}
		if err != nil {
			a.screen.line("%v", err)
			continue
		}
		return a.more(ctx, q, answer)
	}
}

// more asks what an answer may carry: the result of what is done, and why
// something is refused.
func (a *app) more(ctx context.Context, q interrupt.Question, answer interrupt.Answer) (interrupt.Answer, error) {
	if q.IsDoubt() && answer.Choice == interrupt.DoneIt {
		for {
			line, err := a.typed(ctx, "its result as JSON (Enter for none):")
			if err != nil || line == "" {
				return answer, err
			}
			if answer.Value, err = value.Decode([]byte(line)); err == nil {
				return answer, nil
			}
			a.screen.line("that is not JSON: %v", err)
		}
	}
	if answer.Choice == interrupt.Reject || answer.Choice == interrupt.FailIt && q.IsDoubt() {
		line, err := a.typed(ctx, "reason (Enter for none):")
		answer.Reason = line
		return answer, err
	}
	return answer, nil
}

// typed reads one line behind a prompt.
func (a *app) typed(ctx context.Context, prompt string) (string, error) {
	a.screen.prompt(prompt)
	line, err := a.lines.read(ctx)
	switch {
	case err == nil:
		return strings.TrimSpace(line), nil
	case ctx.Err() == nil:
		a.screen.line("")
		return "", errLeft
	case a.stopping():
		a.screen.line("")
	default:
		a.screen.line("\nthis question is withdrawn: the thread was changed elsewhere, or the time is up")
	}
	return "", context.Cause(ctx)
}

// accepted says what may be typed.
func accepted(q interrupt.Question, choices []option) string {
	if len(choices) == 0 {
		switch {
		case q.Format != "", q.Multi(), q.Minimum != nil, q.Maximum != nil:
			return q.Wants()
		case q.FreeText():
			return "text"
		case q.Type == "boolean":
			return "true or false"
		}
		return q.Type
	}
	keys := make([]string, len(choices))
	for i, o := range choices {
		keys[i] = o.keys[0]
	}
	if n := len(keys); n > 2 && keys[0] == "1" && keys[n-1] == strconv.Itoa(n) {
		return "1 to " + keys[n-1]
	}
	return strings.Join(keys, " or ")
}

// read makes an answer of a line. Text is a JSON string as it is: nobody wants
// to type quotes.
func read(q interrupt.Question, choices []option, line string) (interrupt.Answer, error) {
	if len(choices) > 0 {
		o, ok := pick(choices, line)
		if !ok {
			return interrupt.Answer{}, fmt.Errorf("%q is none of the answers: type %s, or one of %s", line, accepted(q, choices), names(choices))
		}
		return interrupt.Answer{Choice: o.ID}, nil
	}
	if q.FreeText() {
		switch line {
		case "":
			return interrupt.Answer{}, errors.New(`an empty answer is typed as ""`)
		case `""`:
			line = ""
		}
		return interrupt.Answer{Value: line}, nil
	}
	v, err := q.Read(line)
	return interrupt.Answer{Value: v}, err
}

func names(choices []option) string {
	ids := make([]string, len(choices))
	for i, o := range choices {
		ids[i] = o.ID
	}
	return strings.Join(ids, ", ")
}
