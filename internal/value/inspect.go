package value

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Equal reports whether two normalized values are the same, which is when
// their canonical JSON is. An int64 never equals a float64: a number that
// could be either is always the int64 (see the package comment).
func Equal(a, b any) bool {
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) || (x == nil) != (y == nil) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) || (x == nil) != (y == nil) {
			return false
		}
		for key, member := range x {
			other, ok := y[key]
			if !ok || !Equal(member, other) {
				return false
			}
		}
		return true
	}
	// A list or object on the right only is of another type than a, which is
	// compared before anything that cannot be.
	return a == b
}

// Kind names the kind of a normalized value for messages: "null", "boolean",
// "integer", "number", "string", "list" or "object". Of any other it gives the
// Go type.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// Size is the length of the canonical JSON of a normalized value in bytes,
// exactly, without building it. Like [Append] it panics on what is not
// normalized.
func Size(v any) int {
	// No call of Append: its result would move a buffer from here to the heap.
	var buffer [32]byte
	switch x := v.(type) {
	case nil:
		return len("null")
	case bool:
		return len(strconv.AppendBool(buffer[:0], x))
	case int64:
		return len(strconv.AppendInt(buffer[:0], x, 10))
	case float64:
		mustBeFinite(x)
		return len(appendFloat(buffer[:0], x, 64))
	case string:
		return stringSize(x)
	case []any:
		if x == nil {
			return len("null")
		}
		size := 2 + max(0, len(x)-1) // brackets and commas
		for _, element := range x {
			size += Size(element)
		}
		return size
	case map[string]any:
		if x == nil {
			return len("null")
		}
		size := 2 + max(0, len(x)-1) + len(x) // and colons
		for key, member := range x {
			size += stringSize(key) + Size(member)
		}
		return size
	default:
		panic(notNormalized(v))
	}
}

func stringSize(s string) int {
	size := 2 + len(s)
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if !plain[b] {
				switch b {
				case '"', '\\', '\b', '\f', '\n', '\r', '\t':
					size++
				default:
					size += 5
				}
			}
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && width == 1 {
			size += 2
		}
		i += width
	}
	return size
}
