package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

func signalType() Type {
	return Type{
		Name: "signal", Version: 1,
		Doc: "Waits for a signal with a name, durably, and writes its value to output. A signal comes from agent signal or Engine.Signal, and may come before the node waits for it. With a timeout the node goes on with default; without a default it fails then.",
		Schema: schema([]any{"name"}, map[string]any{
			"name":    map[string]any{"type": "string", "minLength": 1, "description": "the signal's name"},
			"timeout": durationSchema("how long to wait"),
			"default": map[string]any{"description": "with timeout: the value if no signal came in time; ${{ }} is replaced in its texts"},
			"output":  textSchema("the channel that the value is written to; absent: none"),
		}),
		New: newSignal,
	}
}

func newSignal(c *Config) engine.Node {
	timeout := c.Duration("timeout")
	_, defaulted := c.d.keys[below(c.t.pointer, "default")]
	if defaulted && !c.Has("timeout") {
		c.Wrong("default", "add timeout", "a default is the value after a timeout, and node %s has none", c.name)
	}
	output := c.Output("output", nil)
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		w, err := engine.Resolved[struct {
			Name    string
			Default any
		}](t)
		if err != nil {
			return engine.Output{}, err
		}
		v, came, err := t.AwaitSignal(w.Name, timeout)
		switch {
		case err != nil:
			return engine.Output{}, err
		case !came && !defaulted:
			return engine.Output{}, fmt.Errorf("no signal %s came within %s", w.Name, timeout.Round(time.Millisecond))
		case !came:
			resolved, _ := t.Resolved().(map[string]any)
			v = resolved["default"] // not w's, whose integers are floats
		}
		if output == "" {
			return engine.Output{}, nil
		}
		v, _, err = value.Normalize(v)
		return engine.Set(output, v), err
	}}
}
