package value

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PathError says where in a value something cannot be stored.
type PathError struct {
	Path string // a JSON pointer, "" for the whole value
	Err  error
}

func (e *PathError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	path := e.Path
	// A cycle has a path of MaxDepth parts; both of its ends are enough.
	if len(path) > 120 {
		path = strings.ToValidUTF8(path[:60], "") + "..." + strings.ToValidUTF8(path[len(path)-40:], "")
	}
	return "at " + path + ": " + e.Err.Error()
}

func (e *PathError) Unwrap() error { return e.Err }

// Normalize turns any Go value into a normalized one, as if it went through
// encoding/json and [Decode]: struct tags, json.Marshaler and
// encoding.TextMarshaler count, a []byte becomes base64, a nil slice, map or
// pointer becomes nil. The result shares no slice or map with v.
//
// replaced reports that a string or key held invalid UTF-8, which is U+FFFD
// now. (A json.Marshaler behind a Go type unknown here that writes the escape
// \ufffd itself is reported too.) An error is a *[PathError].
//
// JSON text from outside is best read by Normalize(json.RawMessage(text)),
// which also holds it to [MaxDepth].
func Normalize(v any) (out any, replaced bool, err error) {
	var n normalizer
	out, err = n.value(v, 0)
	if err != nil {
		return nil, false, err
	}
	return out, n.replaced, nil
}

// Marshal is [Normalize], then [Append].
func Marshal(v any) ([]byte, error) {
	out, _, err := Normalize(v)
	if err != nil {
		return nil, err
	}
	return Append(nil, out), nil
}

type normalizer struct {
	replaced bool
}

func (n *normalizer) value(v any, depth int) (any, error) {
	switch x := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if utf8.ValidString(x) {
			return v, nil // the same interface: no new allocation
		}
		return n.text(x), nil
	case map[string]any:
		if x == nil {
			return nil, nil
		}
		return object(n, x, depth)
	case []any:
		if x == nil {
			return nil, nil
		}
		return list(n, x, depth)
	case float64:
		if number, ok := fromFloat(x); ok {
			return number, nil
		}
		return nil, notFinite(x)
	case int:
		return int64(x), nil
	case int32:
		return int64(x), nil
	case int16:
		return int64(x), nil
	case int8:
		return int64(x), nil
	case uint:
		return fromUint(uint64(x)), nil
	case uint64:
		return fromUint(x), nil
	case uint32:
		return int64(x), nil
	case uint16:
		return int64(x), nil
	case uint8:
		return int64(x), nil
	case uintptr:
		return fromUint(uint64(x)), nil
	case float32:
		return fromFloat32(x)
	case json.Number:
		return fromNumber(x)
	case json.RawMessage:
		if x == nil {
			return nil, nil
		}
		return n.raw(x, depth)
	case []byte:
		if x == nil {
			return nil, nil
		}
		return base64.StdEncoding.EncodeToString(x), nil
	case []string:
		if x == nil {
			return nil, nil
		}
		return list(n, x, depth)
	case []map[string]any:
		if x == nil {
			return nil, nil
		}
		return list(n, x, depth)
	case []int:
		if x == nil {
			return nil, nil
		}
		return list(n, x, depth)
	case []float64:
		if x == nil {
			return nil, nil
		}
		return list(n, x, depth)
	case map[string]string:
		if x == nil {
			return nil, nil
		}
		return object(n, x, depth)
	default:
		return n.other(v, depth)
	}
}

func list[T any](n *normalizer, in []T, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, tooDeep()
	}
	out := make([]any, len(in))
	for i := range in {
		element, err := n.value(in[i], depth+1)
		if err != nil {
			return nil, below(strconv.Itoa(i), err)
		}
		out[i] = element
	}
	return out, nil
}

func object[T any](n *normalizer, in map[string]T, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, tooDeep()
	}
	out := make(map[string]any, len(in))
	for key, member := range in {
		if !utf8.ValidString(key) {
			return repairedObject(n, in, depth)
		}
		element, err := n.value(member, depth+1)
		if err != nil {
			return nil, below(key, err)
		}
		out[key] = element
	}
	return out, nil
}

// repairedObject is for a map that has invalid keys. Two of them may become
// the same key; going through them in sorted order makes the winner the same
// one every time, and the one that encoding/json would choose.
func repairedObject[T any](n *normalizer, in map[string]T, depth int) (any, error) {
	keys := make([]string, 0, len(in))
	for key := range in {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := make(map[string]any, len(in))
	for _, key := range keys {
		element, err := n.value(in[key], depth+1)
		if err != nil {
			return nil, below(n.text(key), err)
		}
		out[n.text(key)] = element
	}
	return out, nil
}

// text repairs a string. The conversion to runes gives one U+FFFD for each
// invalid byte, as encoding/json does; strings.ToValidUTF8 would give one for
// a whole run of them.
func (n *normalizer) text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	n.replaced = true
	return string([]rune(s))
}

func (n *normalizer) raw(text []byte, depth int) (any, error) {
	d := decoder{data: text, depth: depth, limit: MaxDepth}
	out, err := d.document()
	if err != nil {
		return nil, &PathError{Err: err}
	}
	n.replaced = n.replaced || d.replaced
	return out, nil
}

func (n *normalizer) other(v any, depth int) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, &PathError{Err: fmt.Errorf("a %T cannot be stored as JSON: %w", v, err)}
	}
	d := decoder{data: text, depth: depth, limit: MaxDepth}
	out, err := d.document()
	if err != nil {
		return nil, &PathError{Err: fmt.Errorf("a %T cannot be stored as JSON: %w", v, err)}
	}
	// encoding/json writes a valid U+FFFD as itself and an invalid byte as the
	// escape, so the escape is how a replacement is known from here.
	n.replaced = n.replaced || d.replaced || d.escapedReplacement
	return out, nil
}

// fromFloat gives the normalized form of a float64: what its shortest decimal
// form reads as. ok is false for NaN and the infinities.
func fromFloat(f float64) (number any, ok bool) {
	const exact, beyond = 1 << 53, 1 << 63
	switch magnitude := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, false
	case f != math.Trunc(f) || magnitude >= beyond:
		return f, true
	case magnitude < exact:
		return int64(f), true // also -0, which reads as 0
	}
	// The shortest form pads with zeros here, so it is not int64(f).
	var buffer [24]byte
	if integer, err := strconv.ParseInt(string(strconv.AppendFloat(buffer[:0], f, 'f', -1, 64)), 10, 64); err == nil {
		return integer, true
	}
	return f, true
}

// fromFloat32 goes through the shortest decimal form that is right for 32
// bits: float32(0.1) is 0.1, not 0.10000000149011612.
func fromFloat32(f float32) (any, error) {
	wide := float64(f)
	if math.IsNaN(wide) || math.IsInf(wide, 0) {
		return nil, notFinite(wide)
	}
	var buffer [32]byte
	d := decoder{data: appendFloat(buffer[:0], wide, 32)}
	return d.number()
}

func fromUint(u uint64) any {
	if u <= math.MaxInt64 {
		return int64(u)
	}
	return float64(u)
}

func fromNumber(x json.Number) (any, error) {
	if x == "" {
		return int64(0), nil // as encoding/json does
	}
	d := decoder{data: []byte(x)}
	number, err := d.number()
	if err == nil && d.pos != len(d.data) {
		err = d.fail(d.pos, "this does not belong to a number")
	}
	if err != nil {
		return nil, &PathError{Err: fmt.Errorf("json.Number %q: %w", string(x), err)}
	}
	return number, nil
}

func notFinite(f float64) error {
	return &PathError{Err: fmt.Errorf("%v cannot be stored: JSON has no such number; write null or a string instead", f)}
}

func tooDeep() error {
	return &PathError{Err: fmt.Errorf("nested deeper than %d levels: flatten it, or look for a list or object that holds itself", MaxDepth)}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// below puts a key in front of the path of an error on its way up, so that the
// good case pays nothing for paths.
func below(key string, err error) error {
	key = "/" + pointerEscapes.Replace(key)
	if at, ok := err.(*PathError); ok {
		at.Path = key + at.Path
		return at
	}
	return &PathError{Path: key, Err: err}
}
