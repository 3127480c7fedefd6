package nodes

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// finishWithin turns what an expression gave into a normalized value. A list that
// is there a million times in the memory of one, which an expression can make, is
// a million lists as JSON: hence the bound.
func finishWithin(v any, size int) (any, error) {
	f := finisher{left: size, size: size}
	return f.value(v, 0)
}

type finisher struct {
	left, size int
}

func (f *finisher) take(n int) error {
	if f.left -= n; f.left < 0 {
		return fmt.Errorf("its value has more than %d bytes of JSON", f.size)
	}
	return nil
}

func (f *finisher) value(v any, depth int) (any, error) {
	if depth > value.MaxDepth {
		return nil, fmt.Errorf("its value is nested deeper than %d levels", value.MaxDepth)
	}
	switch x := v.(type) {
	case nil:
		return nil, f.take(4)
	case bool:
		return x, f.take(4)
	case int64:
		return x, f.take(1)
	case string:
		if err := f.take(len(x) + 2); err != nil {
			return nil, err
		}
		out, _, err := value.Normalize(x)
		return out, err
	case []any:
		out := make([]any, 0, min(len(x), f.size))
		for _, e := range x {
			if err := f.take(1); err != nil {
				return nil, err
			}
			e, err := f.value(e, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, f.take(2)
	case map[string]any:
		out := make(map[string]any)
		for k, e := range x {
			if err := f.take(len(k) + 4); err != nil {
				return nil, err
			}
			e, err := f.value(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[k] = e
		}
		return out, f.take(2)
	}
	return f.other(v, depth)
}

// other is for what only the language itself makes: []string, map[any][]any,
// int and the like.
func (f *finisher) other(v any, depth int) (any, error) {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Slice, reflect.Array:
		list := make([]any, 0, r.Len())
		for i := range r.Len() {
			list = append(list, r.Index(i).Interface())
		}
		return f.value(list, depth)
	case reflect.Map:
		object := make(map[string]any, r.Len())
		for _, k := range r.MapKeys() {
			name, err := finishWithin(k.Interface(), f.size)
			if err != nil {
				return nil, err
			}
			object[asText(name)] = r.MapIndex(k).Interface()
		}
		return f.value(object, depth)
	case reflect.Func, reflect.Chan, reflect.Struct, reflect.Pointer:
		return nil, fmt.Errorf("its value is a %s, which is no JSON", r.Kind())
	}
	if err := f.take(8); err != nil {
		return nil, err
	}
	out, _, err := value.Normalize(v)
	return out, err
}

// preview is a value as JSON for a message, cut without building all of it.
func preview(v any, limit int) string {
	var b strings.Builder
	writePreview(&b, v, limit)
	return shorten(b.String(), limit)
}

func writePreview(b *strings.Builder, v any, limit int) {
	if b.Len() > limit {
		return
	}
	switch x := v.(type) {
	case []any:
		// The end of a list is what happened last.
		if skip := len(x) - 3; skip > 0 {
			b.WriteString("[(" + strconv.Itoa(skip) + " more),")
			x = x[skip:]
		} else {
			b.WriteByte('[')
		}
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			writePreview(b, e, limit)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		for i, k := range sortStrings(keys) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Quote(shorten(k, limit)) + ":")
			if writePreview(b, x[k], limit); b.Len() > limit {
				return
			}
		}
		b.WriteByte('}')
	case string:
		b.WriteString(strconv.Quote(shorten(x, limit)))
	default:
		out, _, err := value.Normalize(v)
		if err != nil {
			fmt.Fprintf(b, "%T", v)
			return
		}
		b.Write(value.Append(nil, out))
	}
}

// shorten cuts a text at a rune.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
