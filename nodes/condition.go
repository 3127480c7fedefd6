package nodes

import (
	"fmt"
	"slices"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// The conditions that have a name, and the channels that they read.
const (
	hasToolCalls = "has_tool_calls"
	routeChannel = "route_channel"

	messagesName = "messages"
	routeName    = "__route__"
)

// condition decides where a conditional edge leads.
type condition struct {
	route  func(engine.State) ([]string, error)
	labels []string // every key that it can give; nil: unknown
}

func (c *condition) gives(label string) bool { return slices.Contains(c.labels, label) }

// condition reads a named condition or an expression; nil if it is wrong.
func (d *decoder) condition(t *tree, from string) *condition {
	needs := func(channel string) {
		if _, ok := d.def.Channels[channel]; !ok {
			d.warn(d.at(t), t.pointer, "declare it under channels", "the condition %s reads the channel %s, which is not declared", t.raw, channel)
		}
	}
	switch t.raw {
	case hasToolCalls:
		needs(messagesName)
		return &condition{labels: []string{"true", "false"}, route: func(s engine.State) ([]string, error) {
			if lastHasToolCalls(s[messagesName]) {
				return []string{"true"}, nil
			}
			return []string{"false"}, nil
		}}
	case routeChannel:
		needs(routeName)
		return &condition{route: func(s engine.State) ([]string, error) {
			if key, ok := s[routeName].(string); ok && key != "" {
				return []string{key}, nil
			}
			return []string{engine.DefaultRoute}, nil
		}}
	}
	p := d.expression(t, span{text: t.raw}, inCondition)
	if p == nil {
		return nil
	}
	c := &condition{route: func(s engine.State) ([]string, error) {
		v, err := p.run(s, nil)
		if err != nil {
			return nil, fmt.Errorf("condition of node %s: %w", from, err)
		}
		return routeKeys(v), nil
	}}
	if p.boolean {
		c.labels = []string{"true", "false"}
	}
	return c
}

// routeKeys turns the value of a condition into keys: a text is itself, a list
// gives a key for each of its elements, anything else is its JSON.
func routeKeys(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	keys := make([]string, len(list))
	for i, element := range list {
		keys[i] = asText(element)
	}
	return keys
}

// asText is how a value stands inside a text: a string as it is, anything else
// as JSON.
func asText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(value.Append(nil, v))
}

func lastHasToolCalls(v any) bool {
	list, _ := v.([]any)
	if len(list) == 0 {
		return false
	}
	last, _ := list[len(list)-1].(map[string]any)
	calls, _ := last["tool_calls"].([]any)
	return len(calls) > 0
}
