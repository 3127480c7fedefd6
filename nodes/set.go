package nodes

import (
	"context"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

func setType() Type {
	return Type{
		Name: "set", Version: 1,
		Doc: "Writes channels. Each value is an expression over the channels as the step began, so that the order does not matter and two channels can be exchanged. An expression sees answer, failure, thread, turn and step beside the channels.",
		Schema: schema([]any{"values"}, map[string]any{
			"values": map[string]any{
				"type": "object", "minProperties": 1, "description": "channel to expression",
				"additionalProperties": map[string]any{"type": []any{"string", "number", "boolean", "null"}, "description": "an expression; a text in it needs quotes of its own"},
			},
		}),
		careful: true, New: buildSet,
	}
}

func buildSet(b *Config) engine.Node {
	t := b.get("values")
	if t == nil {
		return engine.Node{}
	}
	if t.kind != objectKind || len(t.keys) == 0 {
		b.d.wrong(t, `write {channel: 'expression'}`, "%s is an object of expressions by channel, not %s", b.what("values"), emptyOr(t))
		return engine.Node{}
	}
	config := map[string]any{}
	programs := map[string]*program{}
	var names []string
	for _, k := range t.keys {
		if b.d.declared(k.at, k.value.pointer, k.name) {
			b.d.effects.Writes = append(b.d.effects.Writes, k.name)
		}
		source, ok := b.expressionText(k.value)
		if !ok {
			continue
		}
		config[k.name] = source
		names = append(names, k.name)
		e := *k.value
		e.raw = source
		programs[k.name] = b.d.expression(&e, span{text: source}, inSet)
	}
	b.config["values"] = config
	sortStrings(names)
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		var out engine.Output
		env := envOf(t)
		for _, name := range names {
			v, err := programs[name].run(t.State(), env)
			if err != nil {
				return engine.Output{}, fmt.Errorf("value of channel %s: %w", name, err)
			}
			out.Writes = append(out.Writes, engine.Write{Channel: name, Value: v})
		}
		return out, nil
	}}
}

// expressionText reads an expression. A number, a boolean and null are
// expressions without quotes too.
func (b *Config) expressionText(t *tree) (string, bool) {
	switch t.kind {
	case textKind:
		return t.raw, true
	case nullKind:
		return "nil", true
	case numberKind, boolKind:
		if t.broken == "" {
			return asText(t.value), true
		}
		b.d.wrong(t, "", "%s", t.broken)
		return "", false
	}
	b.d.wrong(t, `write it as an expression in quotes, such as '["a", "b"]'`, "a value of node %s is an expression, not %s", b.name, t.what())
	return "", false
}

func emptyOr(t *tree) string {
	if t.kind == objectKind && len(t.keys) == 0 || t.kind == listKind && len(t.items) == 0 {
		return "an empty one"
	}
	return t.what()
}
