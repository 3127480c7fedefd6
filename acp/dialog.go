package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// CodeInterrupted is the data.code of the error of a prompt whose question cannot
// be answered by a choice.
const CodeInterrupted = "NG.Interrupted"

// ask is the dialog of the engine. An error leaves it: the turn stays paused.
//
// ctx ends when the question was decided elsewhere, the prompt was cancelled or the
// client has left. The open request is then taken back with $/cancel_request.
func (p *prompt) ask(ctx context.Context, q interrupt.Question) (a interrupt.Answer, err error) {
	defer func() {
		// This is a goroutine of the engine: a panic would end the process.
		if cause := recover(); cause != nil {
			p.fault = Internal(fmt.Errorf("the question could not be asked because of a bug in the agent: %v", cause))
			err = errLeft
		}
	}()
	if a, ok := p.decided(ctx, q); ok {
		return a, nil
	}
	p.dialogs++
	p.always = nil
	p.fault, p.undecided, p.waits, p.s.waits = nil, "", false, ""
	if len(q.Options()) == 0 {
		return p.askText(ctx, q)
	}
	if able, _ := p.c.able(); q.Type != "" && able.Elicitation.Form != nil {
		if a, asked, err := p.askForm(ctx, q); asked {
			return a, err
		}
	}
	question, call := p.s.story.offer(q.ID())
	switch {
	case question == nil:
		p.fault = Internal(fmt.Errorf("question %s is not in the log of its turn", q.ID()))
		return a, errLeft
	case question.err != nil:
		p.fault = Internal(question.err)
		return a, errLeft
	case question.call == nil:
		p.fault = interrupted(q)
		return a, errLeft
	}
	return p.askPermission(ctx, q, call, question.options)
}

// interrupted is the error for a question that no client's dialog can answer.
func interrupted(q interrupt.Question) error {
	return NewError(CodeInternalError, "the turn is paused and waits for an answer: "+q.Payload.Reason(), map[string]any{
		"code": CodeInterrupted, "payload": q.Payload, interrupt.MetadataKey: q.Payload,
	})
}

const stillOpen = "Nothing was decided, so the question is still open; the next prompt asks again."

// askPermission asks by session/request_permission. Only an option that was offered
// is an answer: everything else leaves the question open.
func (p *prompt) askPermission(ctx context.Context, q interrupt.Question, call ToolCall, options []PermissionOption) (a interrupt.Answer, err error) {
	raw, err := p.requestPermission(ctx, call, options)
	if ctx.Err() != nil && err != nil {
		return a, err
	}
	var outcome PermissionOutcome
	if err == nil {
		outcome, err = ParsePermissionOutcome(raw)
	}
	p.undecided = stillOpen
	if err != nil {
		p.undecided = "The client could not ask: " + oneLine(AsError(err).Message, 300) + ". " + stillOpen
		return a, errLeft
	}
	if !outcome.Selected {
		return a, errLeft
	}
	at := slices.IndexFunc(options, func(o PermissionOption) bool { return o.OptionID == outcome.OptionID })
	if at < 0 {
		p.undecided = fmt.Sprintf("The client chose %q, which was not offered. %s", oneLine(outcome.OptionID, 80), stillOpen)
		return a, errLeft
	}
	v, err := p.value(q, options[at])
	if err == nil {
		a, err = q.Check(interrupt.Answer{Value: v})
	}
	if err == nil && options[at].forAlways() {
		if p.always, err = p.standing(ctx, q, options[at]); err == nil {
			a.Origin = q.ID()
		}
	}
	if err != nil {
		p.fault = Internal(err)
		return a, errLeft
	}
	p.undecided = ""
	if q.IsDoubt() && a.Choice == interrupt.DoneIt {
		a.Value = nil
	}
	return p.by(a), nil
}

func (p *prompt) requestPermission(ctx context.Context, call ToolCall, options []PermissionOption) (raw json.RawMessage, err error) {
	for _, form := range append([]ToolCallUpdate{call.Update()}, shortCalls(call.Update())...) {
		raw, err = p.c.conn.Call(ctx, MethodSessionRequestPermission, RequestPermissionRequest{
			SessionID: p.s.id, ToolCall: form, Options: options, Meta: form.Meta.with(p.trace),
		})
		if long := new(LineTooLong); !errors.As(err, &long) {
			break
		}
	}
	return raw, err
}

// askText asks for a value that is no choice: by a form, where the client has
// forms, else by a message, which the next prompt answers.
func (p *prompt) askText(ctx context.Context, q interrupt.Question) (a interrupt.Answer, err error) {
	if able, _ := p.c.able(); able.Elicitation.Form != nil {
		a, asked, err := p.askForm(ctx, q)
		if asked {
			return a, err
		}
	}
	p.say(questionText(q))
	p.waits, p.s.waits = true, q.ID()
	return a, errLeft
}

// askForm asks by elicitation/create. A client that fails at that has no forms.
func (p *prompt) askForm(ctx context.Context, q interrupt.Question) (a interrupt.Answer, asked bool, err error) {
	f := form(p.s.id, q)
	f.Meta = f.Meta.with(p.trace)
	raw, err := p.c.conn.Call(ctx, MethodElicitationCreate, f)
	if err != nil {
		return a, ctx.Err() != nil, err
	}
	answer, err := ParseElicitationResponse(raw)
	if err != nil {
		return a, false, err
	}
	p.undecided = stillOpen
	if answer.Action != ElicitationAccept {
		if answer.Action == ElicitationDecline {
			p.undecided = "You gave no answer. " + stillOpen
		}
		return a, true, errLeft
	}
	v, err := formValue(q, answer.Content["answer"])
	if err == nil {
		a, err = q.Check(interrupt.Answer{Value: v})
	}
	if err != nil {
		p.undecided = "That is no answer: " + oneLine(err.Error(), 300) + ". " + stillOpen
		return a, true, errLeft
	}
	p.undecided = ""
	return p.by(a), true, nil
}

// form is a form with the one property answer.
func form(sessionID string, q interrupt.Question) ElicitationForm {
	f := ElicitationForm{SessionID: sessionID, Message: shownText(q), RequestedSchema: ElicitationSchema{
		Properties: map[string]ElicitationProperty{"answer": formProperty(q)}, Required: []string{"answer"},
	}}
	// It is for clients that know interrupts; without it the form is the same.
	f.Meta, _ = interruptMeta(q)
	return f
}

func formProperty(q interrupt.Question) ElicitationProperty {
	property := ElicitationProperty{Type: "string", Title: "Answer", Format: q.Format}
	var choices []EnumOption
	for _, c := range q.Choices {
		choices = append(choices, EnumOption{Const: c.ID, Title: c.Label()})
	}
	switch {
	case q.Multi():
		property.Type, property.Items = "array", &ElicitationItems{AnyOf: choices}
		property.MinItems, property.MaxItems = items(q.Minimum), items(q.Maximum)
	case len(choices) > 0:
		property.OneOf = choices
	case q.Type == "integer", q.Type == "number":
		property.Type, property.Minimum, property.Maximum = q.Type, bound(q.Minimum), bound(q.Maximum)
	case q.Type == "boolean":
		property.Type = q.Type
	case q.Type == "list", q.Type == "object":
		property.Description = "a " + q.Type + ", as JSON"
	}
	return property
}

func items(n *float64) *uint64 {
	if n == nil {
		return nil
	}
	return new(uint64(*n))
}

func bound(n *float64) json.RawMessage {
	if n == nil {
		return nil
	}
	return strconv.AppendFloat(nil, *n, 'f', -1, 64)
}

func formValue(q interrupt.Question, raw json.RawMessage) (any, error) {
	if raw == nil {
		return nil, errors.New("the form has no answer")
	}
	v, err := value.Decode(raw)
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok && len(q.Choices) == 0 && (q.Type == "list" || q.Type == "object") {
		return value.Decode([]byte(strings.TrimSpace(text)))
	}
	return v, nil
}

// shownText is what a question asks, with its data.
func shownText(q interrupt.Question) string {
	text := visible(q.Payload.Reason())
	if q.Payload.Data != nil {
		text += "\n\n" + fenced("json", indented(q.Payload.Data)).Content.Text
	}
	return text
}

// questionText is a question as a message.
func questionText(q interrupt.Question) string {
	text := shownText(q)
	switch {
	case q.FreeText() && q.Format == "":
	case q.Multi():
		text += "\n"
		for _, c := range q.Choices {
			text += "\n* " + oneLine(c.Label(), 200)
			if c.Name != "" && !strings.EqualFold(c.Name, c.ID) {
				text += " (" + oneLine(c.ID, 200) + ")"
			}
		}
		text += "\n\nAnswer with those that you choose, and commas between them."
	case q.Type == "list", q.Type == "object":
		text += "\n\nAnswer with " + q.Wants() + ", as JSON."
	case q.Type == "boolean":
		text += "\n\nAnswer with true or false."
	default:
		text += "\n\nAnswer with " + q.Wants() + "."
	}
	return text
}
