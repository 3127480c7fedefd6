package value_test

import (
	"math"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/internal/value"
)

func TestAppendIsCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, `null`},
		{[]any(nil), `null`},
		{map[string]any(nil), `null`},
		{map[string]any{"b": int64(1), "a": nil, "": true, "é": false, "Z": 0.5, "aa": "x"}, `{"":true,"Z":0.5,"a":null,"aa":"x","b":1,"é":false}`},
		{[]any{int64(-1), []any{}, map[string]any{}}, `[-1,[],{}]`},
		{"<a href=\"x\">&\u2028é\x7f\U0001F600", "\"<a href=\\\"x\\\">&\u2028é\x7f\U0001F600\""},
		{"\x00\x01\b\t\n\v\f\r\x1f\\/", `"\u0000\u0001\b\t\n\u000b\f\r\u001f\\/"`},
		{"not normalized \xff", "\"not normalized \ufffd\""},
		{1e21, `1e+21`},
		{math.Nextafter(1e21, 0), `999999999999999900000`},
		{1e-6, `0.000001`},
		{1e-7, `1e-7`},
		{1.5e-10, `1.5e-10`},
		{1e300, `1e+300`},
		{float64(1 << 63), `9223372036854776000`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{int64(math.MaxInt64), `9223372036854775807`},
	} {
		if got := string(value.Append([]byte("x"), c.in)); got != "x"+c.want {
			t.Errorf("%#v: got %s, want %s", c.in, got[1:], c.want)
		}
		if size := value.Size(c.in); size != len(value.Append(nil, c.in)) {
			t.Errorf("Size of %s is %d", c.want, size)
		}
	}
}

func TestAppendRefusesWhatIsNotNormalized(t *testing.T) {
	t.Parallel()
	for _, v := range []any{1, uint8(1), []string{}, point{}, math.NaN(), math.Inf(1), []any{map[string]any{"a": 1}}} {
		for name, call := range map[string]func(){
			"Append": func() { value.Append(nil, v) },
			"Size":   func() { value.Size(v) },
		} {
			func() {
				defer func() {
					if message, _ := recover().(string); !strings.Contains(message, "call value.Normalize first") {
						t.Errorf("%s of %#v: recovered %q", name, v, message)
					}
				}()
				call()
			}()
		}
	}
}

func TestEqualTellsValuesApart(t *testing.T) {
	t.Parallel()
	all := []any{
		nil, true, false, int64(0), int64(1), 1.5, float64(1 << 63), "", "a", "1",
		[]any{}, []any{nil}, []any{int64(1)}, []any{int64(1), int64(2)}, []any{int64(2), int64(1)}, []any{[]any{}},
		map[string]any{}, map[string]any{"a": nil}, map[string]any{"b": nil}, map[string]any{"a": int64(1)}, map[string]any{"a": []any{}},
	}
	for i, a := range all {
		for j, b := range all {
			if got := value.Equal(a, b); got != (i == j) {
				t.Errorf("Equal(%#v, %#v) = %v", a, b, got)
			}
		}
		copied, _, err := value.Normalize(a)
		if err != nil || !value.Equal(a, copied) {
			t.Errorf("%#v does not equal its copy (%v)", a, err)
		}
	}
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"null": nil, "boolean": true, "integer": int64(1), "number": 1.5, "string": "", "list": []any{}, "object": map[string]any{},
		"value_test.point": point{},
	} {
		if got := value.Kind(v); got != want {
			t.Errorf("Kind(%#v) = %q, want %q", v, got, want)
		}
	}
}
