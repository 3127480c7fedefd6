package nodes

import (
	"context"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
)

func transformType() Type {
	return Type{
		Name: "transform", Version: 1,
		Doc: "Makes one JSON value of others, written as JSON with ${{ }} in its texts, and writes it to output. With a schema the value is checked, so that what comes behind can rely on its shape: what does not fit fails the task, and on_error can lead elsewhere. For several channels by expressions there is set.",
		Schema: schema([]any{"value", "output"}, map[string]any{
			"value":  map[string]any{"description": "the value; a text that is nothing but one ${{ }} becomes the value itself"},
			"schema": map[string]any{"type": []any{"object", "boolean"}, "description": "a JSON Schema of the value"},
			"output": textSchema("the channel that the value is written to"),
		}),
		New: newTransform,
	}
}

func newTransform(c *Config) engine.Node {
	made, output := c.Template("value"), c.Output("output", nil)
	var checks *jsonschema.Schema
	shape := Type{Schema: map[string]any{}}
	if t := c.take("schema"); t != nil {
		var err error
		raw := c.d.data(t)
		if checks, err = compileSchema(raw); err != nil {
			c.Wrong("schema", "", "schema of node %s: %v", c.name, err)
		}
		shape.Schema, _ = raw.(map[string]any)
	}
	shape.checks = checks
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, err := made.Value(t)
		if err != nil {
			return engine.Output{}, err
		}
		if checks != nil {
			if list := shape.misfits(v, "value", ""); len(list) > 0 {
				var says []string
				for _, m := range list {
					says = append(says, m.message)
				}
				return engine.Output{}, fmt.Errorf("the value does not fit schema: %s; it is %s", strings.Join(says, "; "), preview(v, 200))
			}
		}
		return engine.Set(output, v), nil
	}}
}
