package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

var answerTypes = interrupt.Types()

var choiceKinds = []string{"allow_once", "allow_always", "reject_once", "reject_always"}

func askType() Type {
	return Type{
		Name: "ask", Version: 1,
		Doc: "Asks a person and pauses the turn until there is an answer, days later if need be. With choices the answer is the id of one of them, or with answer_type list a list of such ids; with answer_type alone it is a value of that type; with neither any JSON value, and text typed in a client is a string. The answer's value is written to output.",
		Schema: schema([]any{"message"}, map[string]any{
			"message": textSchema("what is asked; ${{ expression }} is replaced in it"),
			"data":    map[string]any{"description": "a JSON value shown with the question; ${{ expression }} is replaced in its texts"},
			"choices": map[string]any{
				"type": "array", "minItems": 1, "description": "the possible answers",
				"items": map[string]any{"anyOf": []any{
					map[string]any{"type": []any{"string", "number", "boolean"}},
					map[string]any{
						"type": "object", "required": []any{"id"}, "additionalProperties": false,
						"properties": map[string]any{
							"id":   textSchema("the answer"),
							"name": textSchema("what a person reads; absent: the id"),
							"kind": map[string]any{"enum": anys(choiceKinds), "description": "how a client shows it; absent: allow_once"},
						},
					},
				}},
			},
			"answer_type": map[string]any{"enum": anys(answerTypes), "description": "the type of the answer; together with choices it is string (one of them, in a form where a client has forms) or list (several of them)"},
			"format":      map[string]any{"enum": anys(interrupt.Formats()), "description": "what an answer of type string must be"},
			"minimum":     map[string]any{"type": "number", "description": "the least that an answer of type integer or number may be, or how many choices at least"},
			"maximum":     map[string]any{"type": "number", "description": "the most that it may be"},
			"output":      textSchema("the channel that the answer's value is written to; absent: none"),
			"deadline":    durationSchema("how long the question may stay open before default is the answer"),
			"default":     map[string]any{"description": "the answer at the deadline: one of the choices, or a value of answer_type; ${{ expression }} is replaced in its texts"},
		}),
		careful: true, New: buildAsk,
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func buildAsk(b *Config) engine.Node {
	var message *template
	if t := b.get("message"); t != nil {
		if text, ok := b.d.text(t, b.what("message")); ok {
			b.config["message"] = text
			message = b.d.template(t, inQuestion)
		}
	}
	var data *jsonTemplate
	if t := b.get("data"); t != nil {
		b.config["data"] = b.d.data(t)
		data = b.d.jsonTemplate(t, inQuestion)
	}
	asked := b.asked()
	choices, answerType := asked.Choices, asked.Type
	deadline, otherwise := b.deadline(asked)
	output := b.output(func(reducer string) bool {
		// What the answer is decides whether the channel can take it.
		switch reducer {
		case engine.Merge, engine.Messages:
			return len(choices) == 0 && (answerType == "" || answerType == "object" || answerType == "list" && reducer == engine.Messages)
		case engine.Sum, engine.Min, engine.Max:
			return len(choices) == 0 && (answerType == "" || answerType == "integer" || answerType == "number")
		}
		return true
	})
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		env := envOf(t)
		text, err := message.text(t.State(), env)
		if err != nil {
			return engine.Output{}, fmt.Errorf("message: %w", err)
		}
		shown, err := data.make(t.State(), env)
		if err != nil {
			return engine.Output{}, fmt.Errorf("data: %w", err)
		}
		byDefault, err := otherwise.make(t.State(), env)
		if err != nil {
			return engine.Output{}, fmt.Errorf("default: %w", err)
		}
		answer, err := t.Ask(engine.Ask{
			Message: text, Data: shown, Deadline: deadline, Default: byDefault,
			Choices: choices, Type: answerType, Format: asked.Format, Minimum: asked.Minimum, Maximum: asked.Maximum,
		})
		if err != nil || output == "" {
			return engine.Output{}, err
		}
		return engine.Set(output, answer.Value), nil
	}}
}

// asked reads what the answer may be.
func (b *Config) asked() (q interrupt.Question) {
	q.Choices, q.Type = b.choices(), b.answerType()
	if t := b.get("format"); t != nil {
		var ok bool
		if q.Format, ok = b.d.oneOf(t, "format", interrupt.Formats()); ok {
			b.config["format"] = q.Format
		}
	}
	q.Minimum, q.Maximum = b.bound("minimum"), b.bound("maximum")
	field, problem := q.Mistake()
	if problem == "" {
		return q
	}
	at := b.get(map[string]string{"type": "answer_type"}[field])
	if at == nil {
		at = b.get(field)
	}
	if at == nil {
		at = b.get("maximum") // one of both is there
	}
	if at != nil && !b.d.bad[at.pointer] {
		b.d.wrong(at, "", "%s", problem)
	}
	return interrupt.Question{Choices: q.Choices}
}

func (b *Config) bound(key string) *float64 {
	t := b.get(key)
	if t == nil {
		return nil
	}
	var n float64
	switch v := t.value.(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		b.d.wrong(t, "", "%s is a number, not %s", b.what(key), t.what())
		return nil
	}
	b.config[key] = t.value
	return &n
}

func (b *Config) choices() []interrupt.Choice {
	t := b.get("choices")
	if t == nil {
		return nil
	}
	if t.kind != listKind || len(t.items) == 0 {
		hint := "write [yes, no]"
		if near := engine.Nearest(t.raw, answerTypes); t.kind == textKind && near != "" {
			hint = "for an answer of a type write answer_type: " + t.raw
		} else if len(t.items) == 0 && t.kind == listKind {
			hint = "leave choices out for a free answer, and say its type with answer_type"
		}
		b.d.wrong(t, hint, "%s is a list of the possible answers, not %s", b.what("choices"), emptyOr(t))
		return nil
	}
	var out []interrupt.Choice
	var config []any
	seen := map[string]bool{}
	for _, item := range t.items {
		var c interrupt.Choice
		if item.kind == objectKind {
			c = b.choice(item)
		} else {
			c.ID, _ = b.d.word(item, "a choice")
		}
		if c.ID == "" {
			if !b.d.followsFromBad(item.pointer) && !b.d.bad[below(item.pointer, "id")] {
				b.d.wrong(item, "", "a choice cannot be empty")
			}
			continue
		}
		if seen[c.ID] {
			b.d.wrong(item, "", "the choice %s is there twice", c.ID)
			continue
		}
		seen[c.ID] = true
		out = append(out, c)
		config = append(config, choiceConfig(c))
	}
	b.config["choices"] = config
	return out
}

func choiceConfig(c interrupt.Choice) any {
	if c.Name == "" && c.Kind == "" {
		return c.ID
	}
	m := map[string]any{"id": c.ID}
	if c.Name != "" {
		m["name"] = c.Name
	}
	if c.Kind != "" {
		m["kind"] = c.Kind
	}
	return m
}

func (b *Config) choice(t *tree) (c interrupt.Choice) {
	b.d.only(t, "a choice", []string{"id", "name", "kind"})
	if v := b.d.need(t, "id", "a choice"); v != nil {
		c.ID, _ = b.d.word(v, "id of a choice")
	}
	if v := t.get("name"); v != nil {
		c.Name, _ = b.d.word(v, "name of a choice")
	}
	if v := t.get("kind"); v != nil {
		c.Kind, _ = b.d.oneOf(v, "kind of a choice", choiceKinds)
	}
	return c
}

func (b *Config) answerType() string {
	t := b.get("answer_type")
	if t == nil {
		return ""
	}
	if t.kind == listKind || t.kind == textKind && strings.ContainsAny(t.raw, "|,/") {
		b.d.wrong(t, "for a list of possible answers write choices", "%s is one of %s", b.what("answer_type"), joinNames(answerTypes))
		return ""
	}
	name, ok := b.d.oneOf(t, "answer_type", answerTypes)
	if ok {
		b.config["answer_type"] = name
	}
	return name
}

// deadline reads until when the question may be answered, and the answer that
// it has then.
func (b *Config) deadline(asked interrupt.Question) (time.Duration, *jsonTemplate) {
	t, otherwise := b.get("deadline"), b.t.get("default")
	switch {
	case t == nil && otherwise == nil:
		return 0, nil
	case t == nil:
		b.d.wrong(otherwise, "add a deadline", "a default is the answer at a deadline, and node %s has none", b.name)
		return 0, nil
	case otherwise == nil:
		b.d.wrong(t, "add default", "%s needs a default: the answer when nobody has given one until then", b.what("deadline"))
		return 0, nil
	}
	d, text, ok := b.d.duration(t, b.what("deadline"))
	if !ok {
		return 0, nil
	}
	b.config["deadline"], b.config["default"] = text, b.d.data(otherwise)
	if choices := asked.Options(); len(choices) > 0 {
		// As in choices, an id counts as it is written.
		id, ok := b.d.word(otherwise, b.what("default"))
		if ok && !slices.ContainsFunc(choices, func(c interrupt.Choice) bool { return c.ID == id }) {
			b.d.wrong(otherwise, "", "%s is none of the choices", b.what("default"))
		}
		b.config["default"] = id
		return d, &jsonTemplate{value: id}
	}
	made := b.d.jsonTemplate(otherwise, inQuestion)
	if made.literal() {
		v, _ := made.make(nil, nil) // nothing in it can fail
		if _, err := asked.Check(interrupt.Answer{Value: v}); err != nil {
			b.d.wrong(otherwise, "", "%s is %s, and the answer is %s", b.what("default"), otherwise.what(), asked.Wants())
		}
	}
	return d, made
}

// output reads the channel that a node writes; takes says which reducers can
// take what it writes. A command must not run only for its result to be
// refused.
func (b *Config) output(takes func(reducer string) bool) string {
	t := b.get("output")
	if t == nil {
		return ""
	}
	name, ok := b.d.channel(t, b.what("output"))
	if !ok {
		return ""
	}
	b.config["output"] = name
	b.d.effects.Writes = append(b.d.effects.Writes, name)
	if reducer := b.d.def.Channels[name].Reducer; !takes(reducer) {
		b.d.wrong(t, "", "channel %s has reducer %s and cannot take what node %s writes", name, reducer, b.name)
	}
	return name
}
