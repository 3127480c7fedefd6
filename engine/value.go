package engine

import (
	"unicode"

	"github.com/holdfast-agent/holdfast/internal/value"
)

func printable(r rune) bool { return unicode.IsPrint(r) && !unicode.IsSpace(r) }

func kindOf(v any) string {
	switch k := value.Kind(v); k {
	case "integer", "object":
		return "an " + k
	case "null":
		return k
	default:
		return "a " + k
	}
}

func jsonText(v any) string { return string(value.Append(nil, v)) }

// normalizeNumber gives a float its type in a channel: an integer where JSON
// would read one.
func normalizeNumber(f float64) any {
	v, _, err := value.Normalize(f)
	if err != nil {
		return f
	}
	return v
}
