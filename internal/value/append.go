package value

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// Append appends the canonical JSON of a normalized value to dst. What is not
// normalized is a mistake of the caller, and writing a guess would put it into
// the log for good: Append panics on any other type and on NaN and infinities.
func Append(dst []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, x)
	case int64:
		return strconv.AppendInt(dst, x, 10)
	case float64:
		mustBeFinite(x)
		return appendFloat(dst, x, 64)
	case string:
		return appendString(dst, x)
	case []any:
		if x == nil {
			return append(dst, "null"...)
		}
		dst = append(dst, '[')
		for i, element := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = Append(dst, element)
		}
		return append(dst, ']')
	case map[string]any:
		if x == nil {
			return append(dst, "null"...)
		}
		return appendObject(dst, x)
	default:
		panic(notNormalized(v))
	}
}

func mustBeFinite(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		panic(fmt.Sprintf("package value: %v is not a channel value; call value.Normalize first", f))
	}
}

func notNormalized(v any) string {
	return fmt.Sprintf("package value: a %T is not a channel value; call value.Normalize first", v)
}

func appendObject(dst []byte, object map[string]any) []byte {
	var few [12]string // on the stack: most objects are small
	keys := few[:0]
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, key)
		dst = append(dst, ':')
		dst = Append(dst, object[key])
	}
	return append(dst, '}')
}

// appendFloat writes the shortest form that reads back as the same number, in
// digits between 1e-6 and 1e21 and with an exponent outside, as JavaScript and
// encoding/json do.
func appendFloat(dst []byte, f float64, bits int) []byte {
	format := byte('f')
	if magnitude := math.Abs(f); magnitude != 0 {
		small, large := magnitude < 1e-6, magnitude >= 1e21
		if bits == 32 {
			small, large = float32(magnitude) < 1e-6, float32(magnitude) >= 1e21
		}
		if small || large {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is written e-9
		dst = dst[:n-1]
	}
	return dst
}

// plain tells which bytes below 0x80 stand for themselves inside a JSON string.
var plain = func() (table [utf8.RuneSelf]bool) {
	for b := range table {
		table[b] = b >= 0x20 && b != '"' && b != '\\'
	}
	return table
}()

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if plain[b] {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xF])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			// Not possible in a normalized string; the output stays valid anyway.
			dst = append(dst, s[start:i]...)
			dst = utf8.AppendRune(dst, utf8.RuneError)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
