package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

func waitType() Type {
	return Type{
		Name: "wait", Version: 1,
		Doc: "Waits for a time or until a date, durably: the turn sleeps, and whichever process has the thread then goes on, once, and late if nobody has it.",
		Schema: oneOfKeys(schema([]any{}, map[string]any{
			"for":   lengthSchema("how long, such as 30s, 5m or 1h30m"),
			"until": map[string]any{"type": "string", "minLength": 1, "description": "a date and time as in 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00; one that has passed is not waited for"},
		}), "for", "until"),
		New: newWait,
	}
}

// oneOfKeys lets an object have exactly one of some keys. What else it breaks is
// said in better words by whoever reads it.
func oneOfKeys(schema map[string]any, keys ...string) map[string]any {
	var forms []any
	for _, key := range keys {
		forms = append(forms, map[string]any{"required": []any{key}})
	}
	schema["oneOf"] = forms
	return schema
}

func newWait(c *Config) engine.Node {
	if t := c.get("until"); t != nil && c.d.template(t, inCommand).literal() {
		if _, err := parseTime(t.raw); err != nil {
			c.Wrong("until", "write it as 2026-12-24T18:00:00Z", "until of node %s: %v", c.name, err)
		}
	}
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		w, err := engine.Resolved[struct{ For, Until string }](t)
		if err != nil {
			return engine.Output{}, err
		}
		if w.Until != "" {
			at, err := parseTime(w.Until)
			if err != nil {
				return engine.Output{}, fmt.Errorf("until: %w", err)
			}
			return engine.Output{}, t.SleepUntil(at)
		}
		d, err := time.ParseDuration(w.For)
		if err != nil || d <= 0 {
			return engine.Output{}, fmt.Errorf("for: %q is no duration greater than zero, such as 30s, 5m or 1h30m", shorten(w.For, 60))
		}
		return engine.Output{}, t.Sleep(d)
	}}
}

func parseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is no date with a time and a zone, such as 2026-12-24T18:00:00Z", shorten(text, 60))
	}
	return at, nil
}
