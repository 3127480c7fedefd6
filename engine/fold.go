package engine

import (
	"fmt"
	"math"
)

// OpKind says how an operation changes a channel.
type OpKind string

// The operations that the log knows. A Go reducer is stored as OpSet of its result.
const (
	OpSet    OpKind = "set"
	OpAppend OpKind = "append"
	OpMerge  OpKind = "merge"
	OpUpsert OpKind = "upsert"
	OpAdd    OpKind = "add"
	OpMin    OpKind = "min"
	OpMax    OpKind = "max"
)

// Op is one change of one channel. The state at an entry is the fold of all
// operations up to it: no graph and no Go code is needed to compute it.
type Op struct {
	Task    string `json:"task,omitempty"` // empty: the input, an initial value, an edit by hand
	Channel string `json:"channel"`
	Op      OpKind `json:"op"`
	Value   any    `json:"value"`
	Keep    int    `json:"keep,omitempty"` // afterwards only the last so many items stay; 0: all
	// Raw holds, in a subgraph, the one value that was written to a channel with
	// a Go reducer: it goes to the parent's reducer, and not the result.
	Raw []any `json:"raw,omitempty"`
}

// Apply gives the channel's value after the operation. It never changes
// current, but an append may use spare room behind it: of one list, only one
// lineage may be carried on.
func (op Op) Apply(current any) (any, error) {
	out, err := op.apply(current)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", op.Channel, err)
	}
	if list, ok := out.([]any); ok && op.Keep > 0 && len(list) > op.Keep {
		// A copy, so that what was cut off can be freed.
		out = append([]any(nil), list[len(list)-op.Keep:]...)
	}
	return out, nil
}

func (op Op) apply(current any) (any, error) {
	switch op.Op {
	case OpSet:
		return op.Value, nil
	case OpAppend:
		list, err := asList(current, "append to")
		if err != nil {
			return nil, err
		}
		if more, ok := op.Value.([]any); ok {
			return append(list, more...), nil
		}
		return append(list, op.Value), nil
	case OpMerge:
		old, ok := current.(map[string]any)
		if current != nil && !ok {
			return nil, fmt.Errorf("cannot merge into %s; its value must be an object", kindOf(current))
		}
		more, ok := op.Value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("cannot merge %s; write an object", kindOf(op.Value))
		}
		return mergeDeep(old, more), nil
	case OpUpsert:
		return upsert(current, op.Value)
	case OpAdd:
		return add(current, op.Value)
	case OpMin, OpMax:
		return extreme(op.Op, current, op.Value)
	}
	return nil, fmt.Errorf("unknown operation %q: this log was written by a newer version", op.Op)
}

func asList(v any, verb string) ([]any, error) {
	switch list := v.(type) {
	case nil:
		return []any{}, nil
	case []any:
		return list, nil
	}
	return nil, fmt.Errorf("cannot %s %s; its value must be a list", verb, kindOf(v))
}

// mergeDeep joins objects level by level; anything that is not an object on
// both sides is replaced. Neither argument is changed.
func mergeDeep(old, more map[string]any) map[string]any {
	out := make(map[string]any, len(old)+len(more))
	for k, v := range old {
		out[k] = v
	}
	for k, v := range more {
		below, ok := v.(map[string]any)
		if oldBelow, okOld := out[k].(map[string]any); ok && okOld {
			out[k] = mergeDeep(oldBelow, below)
			continue
		}
		out[k] = v
	}
	return out
}

// upsert appends messages; one with the id of an earlier one replaces it.
func upsert(current, v any) (any, error) {
	list, err := asList(current, "add messages to")
	if err != nil {
		return nil, err
	}
	more, ok := v.([]any)
	if !ok {
		more = []any{v}
	}
	copied := false
	for _, m := range more {
		object, ok := m.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a message is an object, not %s", kindOf(m))
		}
		at := -1
		switch id := object["id"].(type) {
		case string, int64:
			at = findMessage(list, id)
		}
		if at < 0 {
			list = append(list, m)
			continue
		}
		if !copied {
			list, copied = append([]any(nil), list...), true
		}
		list[at] = m
	}
	return list, nil
}

// findMessage looks from the end: what is replaced is nearly always recent.
func findMessage(list []any, id any) int {
	for i := len(list) - 1; i >= 0; i-- {
		m, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		switch other := m["id"].(type) {
		case string, int64:
			if other == id {
				return i
			}
		}
	}
	return -1
}

func add(current, v any) (any, error) {
	if current == nil {
		current = int64(0)
	}
	switch a := current.(type) {
	case int64:
		switch b := v.(type) {
		case int64:
			sum := a + b
			if (sum > a) != (b > 0) && b != 0 {
				return nil, fmt.Errorf("%d + %d does not fit a 64-bit integer", a, b)
			}
			return sum, nil
		case float64:
			return addFloat(float64(a), b)
		}
	case float64:
		switch b := v.(type) {
		case int64:
			return addFloat(a, float64(b))
		case float64:
			return addFloat(a, b)
		}
	}
	return nil, fmt.Errorf("cannot add %s to %s; both must be numbers", kindOf(v), kindOf(current))
}

// addFloat keeps the rule that a number without a fraction is an integer, so
// that the sum is the same live and reloaded.
func addFloat(a, b float64) (any, error) {
	sum := a + b
	if math.IsInf(sum, 0) {
		return nil, fmt.Errorf("%v + %v is too large for a number", a, b)
	}
	return normalizeNumber(sum), nil
}

func extreme(kind OpKind, current, v any) (any, error) {
	if !isNumber(v) {
		return nil, fmt.Errorf("cannot take the %s of %s; write a number", kind, kindOf(v))
	}
	if current == nil {
		return v, nil
	}
	if !isNumber(current) {
		return nil, fmt.Errorf("cannot take the %s with %s; its value must be a number", kind, kindOf(current))
	}
	c := compareNumbers(v, current)
	if (kind == OpMin && c < 0) || (kind == OpMax && c > 0) {
		return v, nil
	}
	return current, nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// compareNumbers is exact also where an integer is beyond a float's precision.
func compareNumbers(a, b any) int {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
		return compareIntFloat(x, b.(float64))
	}
	if y, ok := b.(int64); ok {
		return -compareIntFloat(y, a.(float64))
	}
	x, y := a.(float64), b.(float64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func compareIntFloat(x int64, y float64) int {
	switch {
	case y >= math.MaxInt64: // 2^63 as a float
		return -1
	case y < math.MinInt64:
		return 1
	}
	whole := int64(math.Floor(y))
	switch {
	case x < whole:
		return -1
	case x > whole:
		return 1
	case float64(whole) < y:
		return -1
	}
	return 0
}

// Fold applies an entry's effect on the state, in place. It is the one
// definition of what the log means.
func Fold(state map[string]any, p *Payload, kind Kind) error {
	if kind == KindFork {
		clear(state)
		for k, v := range p.State {
			state[k] = v
		}
	}
	for _, op := range p.Ops {
		v, err := op.Apply(state[op.Channel])
		if err != nil {
			return err
		}
		state[op.Channel] = v
	}
	return nil
}
