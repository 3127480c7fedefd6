package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// startValue is the channel's value before its first write.
func (c *channel) startValue() (any, error) {
	if c.Initial == nil {
		if c.Reduce != nil {
			return nil, nil
		}
		switch c.Reducer {
		case Append, Messages:
			return []any{}, nil
		case Merge:
			return map[string]any{}, nil
		case Sum:
			return int64(0), nil
		}
		return nil, nil
	}
	v, _, err := value.Normalize(c.Initial)
	if err != nil {
		return nil, fmt.Errorf("initial value of channel %s: %w", c.name, err)
	}
	if c.Reduce != nil {
		return v, nil
	}
	kind, want := value.Kind(v), ""
	switch c.Reducer {
	case Append, Messages:
		want = "list"
	case Merge:
		want = "object"
	case Sum, Min, Max:
		if !isNumber(v) {
			return nil, fmt.Errorf("initial value of channel %s is %s; reducer %s needs a number", c.name, kindOf(v), c.Reducer)
		}
	}
	if want != "" && kind != want {
		return nil, fmt.Errorf("initial value of channel %s is %s; reducer %s needs %s", c.name, kindOf(v), c.Reducer, article(want))
	}
	return v, nil
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// op makes the log's operation of a normalized write. A Go reducer is
// recognized by an empty Op: its result is only known when the step commits.
func (c *channel) op(task string, v any, overwrite bool) (Op, error) {
	op := Op{Task: task, Channel: c.name, Value: v, Keep: c.Keep}
	if overwrite {
		op.Op = OpSet
		return op, nil
	}
	if c.Reduce != nil {
		return op, nil
	}
	switch c.Reducer {
	case Overwrite:
		op.Op = OpSet
	case Append:
		op.Op = OpAppend
	case Merge:
		op.Op = OpMerge
		if _, ok := v.(map[string]any); !ok {
			return op, fmt.Errorf("channel %s merges objects; it was written %s", c.name, kindOf(v))
		}
	case Messages:
		op.Op = OpUpsert
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, m := range list {
			if _, ok := m.(map[string]any); !ok {
				return op, fmt.Errorf("channel %s takes messages, which are objects; it was written %s", c.name, kindOf(m))
			}
		}
	default:
		op.Op = map[string]OpKind{Sum: OpAdd, Min: OpMin, Max: OpMax}[c.Reducer]
		if !isNumber(v) {
			return op, fmt.Errorf("channel %s takes numbers (reducer %s); it was written %s", c.name, c.Reducer, kindOf(v))
		}
	}
	return op, nil
}

// unknownChannel is the error for a write, or an input, to no channel.
func (g *Graph) unknownChannel(name string) error {
	hint := ""
	if near := Nearest(name, g.Channels()); near != "" {
		hint = "; " + near
	}
	if len(g.channels) == 0 {
		return fmt.Errorf("there is no channel %q: the graph declares none", name)
	}
	return fmt.Errorf("there is no channel %q; declared are %s%s", name, strings.Join(g.Channels(), ", "), hint)
}

// opOf makes the operation of one write of a node or an input, and reports
// whether invalid UTF-8 was replaced in it.
func (g *Graph) opOf(task string, w Write) (Op, bool, error) {
	ch := g.channels[w.Channel]
	if ch == nil {
		return Op{}, false, g.unknownChannel(w.Channel)
	}
	v, replaced, err := value.Normalize(w.Value)
	if err != nil {
		return Op{}, false, fmt.Errorf("channel %s: %w", w.Channel, err)
	}
	if size := value.Size(v); size > g.limits.Value {
		return Op{}, false, g.tooLarge(w.Channel, size)
	}
	op, err := ch.op(task, v, w.Overwrite)
	return op, replaced, err
}

// stored leaves out what is never stored.
func (g *Graph) stored(ops []Op) []Op {
	if !g.ephemeral {
		return ops
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return g.channels[op.Channel].Ephemeral })
}

// refresh gives ephemeral channels their initial value, as a thread at rest
// has them.
func (r *run) refresh() {
	if r.graph == nil || !r.graph.ephemeral {
		return
	}
	for name, ch := range r.graph.channels {
		if ch.Ephemeral {
			r.state[name] = ch.initial
		}
	}
}

// durable is the state without what is never stored.
func (r *run) durable() map[string]any {
	if !r.graph.ephemeral {
		return r.state
	}
	out := maps.Clone(r.state)
	for name, ch := range r.graph.channels {
		if ch.Ephemeral {
			delete(out, name)
		}
	}
	return out
}
