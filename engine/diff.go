package engine

import (
	"slices"
	"strconv"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// Change is one difference between two states.
type Change struct {
	Pointer string // RFC 6901: the channel, then the way into its value
	Before  any    // nil with Added
	After   any    // nil with Removed
	Added   bool
	Removed bool
}

// Diff gives what is different in b, in the order of the pointers. Objects are
// compared key by key and lists item by item; anything else is replaced as a
// whole.
func Diff(a, b State) []Change {
	return diff(nil, "", map[string]any(a), map[string]any(b))
}

func diff(out []Change, at string, a, b any) []Change {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := sortedKeys(x)
		for key := range y {
			if _, both := x[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			before, had := x[key]
			after, has := y[key]
			out = item(out, at+"/"+EscapePointer(key), before, after, had, has)
		}
		return out
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			var before, after any
			if i < len(x) {
				before = x[i]
			}
			if i < len(y) {
				after = y[i]
			}
			out = item(out, at+"/"+strconv.Itoa(i), before, after, i < len(x), i < len(y))
		}
		return out
	}
	if !value.Equal(a, b) {
		out = append(out, Change{Pointer: at, Before: a, After: b})
	}
	return out
}

func item(out []Change, at string, before, after any, had, has bool) []Change {
	switch {
	case !had:
		return append(out, Change{Pointer: at, After: after, Added: true})
	case !has:
		return append(out, Change{Pointer: at, Before: before, Removed: true})
	}
	return diff(out, at, before, after)
}
