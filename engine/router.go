package engine

import (
	"fmt"
	"strconv"
)

// Router decides where a conditional edge leads: it gives keys, which the
// edge's Routes map to nodes.
type Router = func(s State) (keys []string, err error)

// The keys of ByBool and HasToolCalls, of MaxIterations, and of OnError.
const (
	RouteTrue     = "true"
	RouteFalse    = "false"
	RouteContinue = "continue"
	RouteStop     = "stop"
	RouteError    = "error"
	RouteOK       = "ok"
)

// Keys turns a value into keys of routes: a text is itself, a list gives a key
// for each of its elements, anything else is its JSON text, such as true, 3 or
// null. The value must be one of a channel, or made of such.
func Keys(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	keys := make([]string, len(list))
	for i, element := range list {
		if text, ok := element.(string); ok {
			keys[i] = text
		} else {
			keys[i] = jsonText(element)
		}
	}
	return keys
}

// ByField leads by the value of a channel, or of a field in it: see Keys. What
// is missing is null.
func ByField(channel string, path ...string) Router {
	return func(s State) ([]string, error) {
		v, err := field(s, channel, path)
		if err != nil {
			return nil, err
		}
		return Keys(v), nil
	}
}

// ByBool leads by a channel, or a field in it, that holds a boolean: to
// RouteTrue or RouteFalse. What is missing is false.
func ByBool(channel string, path ...string) Router {
	return func(s State) ([]string, error) {
		v, err := field(s, channel, path)
		if err != nil {
			return nil, err
		}
		if v == nil {
			v = false
		}
		is, ok := v.(bool)
		if !ok {
			return nil, fmt.Errorf("channel %s holds %s where a route needs a boolean", channel, kindOf(v))
		}
		return []string{strconv.FormatBool(is)}, nil
	}
}

// HasToolCalls leads to RouteTrue if the last message of a channel of messages
// has tool calls, else to RouteFalse.
func HasToolCalls(channel string) Router {
	return func(s State) ([]string, error) {
		list, _ := s[channel].([]any)
		if len(list) == 0 {
			return []string{RouteFalse}, nil
		}
		last, _ := list[len(list)-1].(map[string]any)
		calls, _ := last["tool_calls"].([]any)
		return []string{strconv.FormatBool(len(calls) > 0)}, nil
	}
}

// MaxIterations bounds a loop: it leads to RouteContinue while the number in a
// channel is less than limit, then to RouteStop. A node of the loop counts,
// best by writing 1 to a channel with the reducer sum.
func MaxIterations(channel string, limit int) Router {
	return func(s State) ([]string, error) {
		n := s[channel]
		if n == nil {
			n = int64(0)
		}
		if !isNumber(n) {
			return nil, fmt.Errorf("channel %s holds %s where a route counts", channel, kindOf(n))
		}
		less := false
		switch n := n.(type) {
		case int64:
			less = n < int64(limit)
		case float64:
			less = n < float64(limit)
		}
		if less {
			return []string{RouteContinue}, nil
		}
		return []string{RouteStop}, nil
	}
}

// OnError leads to RouteError if a channel for errors holds something, else to
// RouteOK: null, "" and an empty list or object are nothing. It is for nodes
// that write their errors; a node that fails has Node.OnError.
func OnError(channel string) Router {
	return func(s State) ([]string, error) {
		empty := false
		switch v := s[channel].(type) {
		case nil:
			empty = true
		case string:
			empty = v == ""
		case []any:
			empty = len(v) == 0
		case map[string]any:
			empty = len(v) == 0
		}
		if empty {
			return []string{RouteOK}, nil
		}
		return []string{RouteError}, nil
	}
}

// field is a value inside a channel; nil where a part of the path is missing.
func field(s State, channel string, path []string) (any, error) {
	v := s[channel]
	for _, name := range path {
		if v == nil {
			return nil, nil
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("channel %s holds %s where a route reads the field %s", channel, kindOf(v), name)
		}
		v = object[name]
	}
	return v, nil
}
