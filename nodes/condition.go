package nodes

import (
	"fmt"

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

// closed are the keys of a condition that is true or false.
var closed = []string{engine.RouteTrue, engine.RouteFalse}

// condition reads a named condition or an expression.
func (d *decoder) condition(t *tree, e *engine.ConditionalEdge) {
	switch t.raw {
	case hasToolCalls:
		e.Route, e.Labels, e.Reads = engine.HasToolCalls(messagesName), closed, []string{messagesName}
		return
	case routeChannel:
		e.Route, e.Reads = byRouteChannel, []string{routeName}
		return
	}
	p := d.expression(t, span{text: t.raw}, inCondition)
	if p == nil {
		return
	}
	from := e.From
	e.Route = func(s engine.State) ([]string, error) {
		v, err := p.run(s, nil)
		if err != nil {
			return nil, fmt.Errorf("condition of node %s: %w", from, err)
		}
		return engine.Keys(v), nil
	}
	e.Reads = append([]string{}, p.reads...)
	if p.boolean {
		e.Labels = closed
	}
}

func byRouteChannel(s engine.State) ([]string, error) {
	if key, ok := s[routeName].(string); ok && key != "" {
		return []string{key}, nil
	}
	return []string{engine.DefaultRoute}, nil
}

// asText is how a value stands inside a text: a string as it is, anything else
// as JSON.
func asText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(value.Append(nil, v))
}
