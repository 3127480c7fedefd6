package nodes

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// functions replace those of the language whose result depends on the order of
// a Go map, is not JSON, loses digits, or has no bound.
var functions = []expr.Option{
	expr.Function("$add", two(add), new(func(a, b any) any)),
	expr.Function("$sub", two(arithmeticOp("-")), new(func(a, b any) any)),
	expr.Function("$mul", two(arithmeticOp("*")), new(func(a, b any) any)),
	expr.Function("$div", two(arithmeticOp("/")), new(func(a, b any) any)),
	expr.Function("$mod", two(arithmeticOp("%")), new(func(a, b any) any)),
	expr.Function("$pow", two(arithmeticOp("**")), new(func(a, b any) any)),
	expr.Function("string", func(args ...any) (any, error) { return text(args[0]) }, new(func(any) string)),
	expr.Function("toJSON", toJSON, new(func(any) string)),
	expr.Function("fromJSON", fromJSON, new(func(string) any)),
	expr.Function("keys", keysOf, new(func(any) []any)),
	expr.Function("values", valuesOf, new(func(any) []any)),
	expr.Function("toPairs", pairsOf, new(func(any) []any)),
	expr.Function("join", join, new(func([]any, string) string), new(func([]any) string), new(func([]string, string) string), new(func([]string) string)),
	expr.Function("repeat", repeat, new(func(string, int) string)),
	expr.Function("replace", replace, strings.ReplaceAll, strings.Replace),
	expr.Function("uniq", uniq, new(func(any) []any)),
}

func two(fn func(a, b any) (any, error)) func(...any) (any, error) {
	return func(args ...any) (any, error) { return fn(args[0], args[1]) }
}

func add(a, b any) (any, error) {
	x, left := a.(string)
	y, right := b.(string)
	if left && right {
		if len(x)+len(y) > maxMade {
			return nil, tooLarge()
		}
		return x + y, nil
	}
	if left || right {
		return nil, fmt.Errorf("%s + %s: use string() to join a text and another value", kindOf(a), kindOf(b))
	}
	return arithmeticOp("+")(a, b)
}

func tooLarge() error { return fmt.Errorf("a text of more than %d bytes", maxMade) }

func kindOf(v any) string {
	if n, ok := integerOf(v); ok {
		v = n
	}
	return value.Kind(v)
}

func arithmeticOp(op string) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		x, xInt := integerOf(a)
		y, yInt := integerOf(b)
		if xInt && yInt {
			return integers(op, x, y)
		}
		f, err := floatOf(a)
		if err == nil {
			var g float64
			if g, err = floatOf(b); err == nil {
				return floats(op, f, g)
			}
		}
		if errors.Is(err, errDigits) {
			return nil, fmt.Errorf("%s %s %s: %w", preview(a, 40), op, preview(b, 40), err)
		}
		return nil, fmt.Errorf("%s %s %s: both must be numbers", kindOf(a), op, kindOf(b))
	}
}

// integerOf gives the integers of Go that the language makes as an int64.
func integerOf(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case uint8:
		return int64(n), true
	case int32:
		return int64(n), true
	}
	return 0, false
}

var (
	errDigits  = errors.New("the integer has more digits than a number with a fraction can hold")
	errRange   = errors.New("the result does not fit an integer of 64 bits")
	errZero    = errors.New("division by zero")
	errNumbers = errors.New("not a number")
)

func floatOf(v any) (float64, error) {
	if f, ok := v.(float64); ok {
		return f, nil
	}
	n, ok := integerOf(v)
	if !ok {
		return 0, errNumbers
	}
	f := float64(n)
	if f >= 1<<63 || int64(f) != n {
		return 0, errDigits
	}
	return f, nil
}

func integers(op string, x, y int64) (any, error) {
	wrong := fmt.Errorf("%d %s %d: %w", x, op, y, errRange)
	switch op {
	case "+":
		if r := x + y; (r > x) == (y > 0) {
			return r, nil
		}
	case "-":
		if r := x - y; (r < x) == (y > 0) {
			return r, nil
		}
	case "*":
		if r, ok := product(x, y); ok {
			return r, nil
		}
	case "/", "%":
		if y == 0 {
			return nil, errZero
		}
		if x == math.MinInt64 && y == -1 {
			break
		}
		if op == "%" {
			return x % y, nil
		}
		if x%y == 0 {
			return x / y, nil
		}
		f, err := floatOf(x)
		if err != nil {
			return nil, err
		}
		g, err := floatOf(y)
		if err != nil {
			return nil, err
		}
		return f / g, nil
	case "**":
		if y < 0 {
			return floats(op, float64(x), float64(y))
		}
		if x == 0 || x == 1 || y == 0 {
			if y == 0 {
				return int64(1), nil
			}
			return x, nil
		}
		if x == -1 {
			return 1 - 2*(y%2), nil
		}
		r, ok := int64(1), true
		for ; y > 0 && ok; y-- { // at most 63 times: |x| is at least 2
			r, ok = product(r, x)
		}
		if ok {
			return r, nil
		}
	}
	return nil, wrong
}

func product(x, y int64) (int64, bool) {
	if x == 0 || y == 0 {
		return 0, true
	}
	r := x * y
	return r, r/y == x && !(x == -1 && y == math.MinInt64) && !(y == -1 && x == math.MinInt64)
}

func floats(op string, x, y float64) (any, error) {
	var r float64
	switch op {
	case "+":
		r = x + y
	case "-":
		r = x - y
	case "*":
		r = x * y
	case "/":
		if y == 0 {
			return nil, errZero
		}
		r = x / y
	case "%":
		return nil, errors.New("% needs integers")
	case "**":
		r = math.Pow(x, y)
	}
	if math.IsNaN(r) || math.IsInf(r, 0) {
		return nil, fmt.Errorf("%v %s %v is no number", x, op, y)
	}
	return r, nil
}

// text is string(): a text as it is, anything else as JSON.
func text(v any) (any, error) {
	plain, err := finishWithin(v, maxMade)
	if err != nil {
		return nil, err
	}
	return asText(plain), nil
}

func toJSON(args ...any) (any, error) {
	plain, err := finishWithin(args[0], maxMade)
	if err != nil {
		return nil, err
	}
	return string(value.Append(nil, plain)), nil
}

func fromJSON(args ...any) (any, error) {
	s, err := asString(args[0], "fromJSON")
	if err != nil {
		return nil, err
	}
	return value.Decode([]byte(s))
}

func asString(v any, function string) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s takes a text, not %s", function, kindOf(v))
	}
	return s, nil
}

func sortedKeys(v any, function string) (map[string]any, []string, error) {
	plain, err := finishWithin(v, maxCharged)
	if err != nil {
		return nil, nil, err
	}
	m, ok := plain.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("%s takes an object, not %s", function, kindOf(v))
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return m, keys, nil
}

func keysOf(args ...any) (any, error) {
	_, keys, err := sortedKeys(args[0], "keys")
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k
	}
	return out, err
}

func valuesOf(args ...any) (any, error) {
	m, keys, err := sortedKeys(args[0], "values")
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out, err
}

func pairsOf(args ...any) (any, error) {
	m, keys, err := sortedKeys(args[0], "toPairs")
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = []any{k, m[k]}
	}
	return out, err
}

func join(args ...any) (any, error) {
	glue := ""
	if len(args) > 1 {
		var err error
		if glue, err = asString(args[1], "join"); err != nil {
			return nil, err
		}
	}
	var parts []string
	switch list := args[0].(type) {
	case []string:
		parts = list
	case []any:
		for _, e := range list {
			s, err := asString(e, "join")
			if err != nil {
				return nil, err
			}
			parts = append(parts, s)
		}
	default:
		return nil, fmt.Errorf("join takes a list, not %s", kindOf(args[0]))
	}
	size := 0
	for _, s := range parts {
		if size += len(s) + len(glue); size > maxMade {
			return nil, tooLarge()
		}
	}
	return strings.Join(parts, glue), nil
}

func repeat(args ...any) (any, error) {
	s, err := asString(args[0], "repeat")
	if err != nil {
		return nil, err
	}
	n, ok := integerOf(args[1])
	if !ok || n < 0 {
		return nil, fmt.Errorf("repeat takes a number of times, not %s", preview(args[1], 40))
	}
	if n > maxMade || int64(len(s))*n > maxMade {
		return nil, tooLarge()
	}
	return strings.Repeat(s, int(n)), nil
}

func replace(args ...any) (any, error) {
	var texts [3]string
	for i := range texts {
		var err error
		if texts[i], err = asString(args[i], "replace"); err != nil {
			return nil, err
		}
	}
	s, old, new := texts[0], texts[1], texts[2]
	n := int64(-1)
	if len(args) > 3 {
		var ok bool
		if n, ok = integerOf(args[3]); !ok {
			return nil, errors.New("replace takes a number of times as its last argument")
		}
	}
	times := int64(strings.Count(s, old))
	if n >= 0 {
		times = min(times, n)
	}
	if int64(len(s))+times*int64(len(new)-len(old)) > maxMade {
		return nil, tooLarge()
	}
	return strings.Replace(s, old, new, int(n)), nil
}

func uniq(args ...any) (any, error) {
	plain, err := finishWithin(args[0], maxCharged)
	if err != nil {
		return nil, err
	}
	list, ok := plain.([]any)
	if !ok {
		return nil, fmt.Errorf("uniq takes a list, not %s", kindOf(args[0]))
	}
	seen := make(map[string]bool, len(list))
	out := []any{}
	for _, e := range list {
		if k := string(value.Append(nil, e)); !seen[k] {
			seen[k] = true
			out = append(out, e)
		}
	}
	return out, nil
}
