package nodes

import (
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

var commandKeys = []string{"name", "description", "hint", "input"}

// inInput is where nothing is known but what was written behind the command.
var inInput = where{names: []string{"text"}, alone: "the input of a command is made before its turn begins, of text alone: what is written behind its name"}

// commands reads what a person can say instead of a text.
func (d *decoder) commands(t *tree) {
	if t == nil || t.kind == nullKind {
		return
	}
	items, ok := d.list(t, "commands")
	if !ok {
		return
	}
	for _, item := range items {
		// The place in the list stays the same for Compile, whatever is wrong.
		d.def.Commands = append(d.def.Commands, d.command(item))
	}
}

func (d *decoder) command(t *tree) engine.SlashCommand {
	const what = "a command"
	c := engine.SlashCommand{Input: func(string) (engine.Values, error) { return nil, nil }, Config: map[string]any{}}
	if !d.object(t, what, commandKeys) {
		return c
	}
	read := func(key string, into *string) {
		v := t.get(key)
		if key != "hint" {
			v = d.need(t, key, what)
		}
		switch {
		case v == nil || v.kind == nullKind:
			d.bad[below(t.pointer, key)] = true
		case key == "name":
			*into, _ = d.word(v, key+" of "+what)
		default:
			*into, _ = d.text(v, key+" of "+what)
		}
	}
	read("name", &c.Name)
	read("description", &c.Description)
	read("hint", &c.Hint)
	v := d.need(t, "input", what)
	if v == nil {
		return c
	}
	if v.kind != objectKind || len(v.keys) == 0 {
		d.wrong(v, `write {prompt: "${{ text }}"}`, "input of %s is an object of channels and values, not %s", what, emptyOr(v))
		return c
	}
	values := map[string]*jsonTemplate{}
	for _, k := range v.keys {
		if d.declared(k.at, k.value.pointer, k.name) {
			d.def.Outside = append(d.def.Outside, k.name)
		}
		values[k.name] = d.jsonTemplate(k.value, inInput)
	}
	c.Config["input"] = d.data(v)
	name := c.Name
	c.Input = func(text string) (engine.Values, error) {
		out := engine.Values{}
		for channel, value := range values {
			v, err := value.make(nil, map[string]any{"text": text})
			if err != nil {
				return nil, fmt.Errorf("command %s: channel %s: %w", name, channel, err)
			}
			out[channel] = v
		}
		return out, nil
	}
	return c
}

func commandSchema() map[string]any {
	return objectSchema("what a person can say instead of a text, as /name", []any{"name", "description", "input"}, map[string]any{
		"name":        wordSchema("what is written behind the slash: letters, digits, - and _"),
		"description": map[string]any{"type": "string", "minLength": 1, "description": "what it does; a person chooses by it"},
		"hint":        map[string]any{"type": []any{"string", "null"}, "description": "what may be written behind the name; absent: nothing is asked for"},
		"input": map[string]any{
			"type": "object", "minProperties": 1,
			"description": "channel to value: what the turn begins with, instead of the text; in texts ${{ text }} is what was written behind the name",
		},
	})
}
