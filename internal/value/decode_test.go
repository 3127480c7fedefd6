package value_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/internal/value"
)

func TestDecodeKeepsNothingOfItsInput(t *testing.T) {
	t.Parallel()
	data := []byte(`{"key":["text","te\nxt"]}`)
	v, err := value.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if got := string(value.Append(nil, v)); got != `{"key":["text","te\nxt"]}` {
		t.Errorf("got %s", got)
	}
}

func TestDecodeReadsNumbersByOneRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"0":                       int64(0),
		"-0":                      int64(0),
		"-0.0":                    int64(0),
		"1":                       int64(1),
		"1.0":                     int64(1),
		"1e0":                     int64(1),
		"-12E+2":                  int64(-1200),
		"1.5":                     1.5,
		"15e-1":                   1.5,
		"0.1":                     0.1,
		"999999999999999999":      int64(999999999999999999),
		"-999999999999999999":     int64(-999999999999999999),
		"1000000000000000000":     int64(1000000000000000000),
		"9007199254740993":        int64(9007199254740993),
		"9007199254740993.0":      int64(9007199254740992),
		"9223372036854775807":     int64(math.MaxInt64),
		"-9223372036854775808":    int64(math.MinInt64),
		"9223372036854775808":     float64(1 << 63),
		"-9223372036854775809":    -float64(1 << 63),
		"4611686018427387904.0":   int64(4611686018427388000),
		"1e18":                    int64(1000000000000000000),
		"1e19":                    1e19,
		"100000000000000000000":   1e20,
		"1e21":                    1e21,
		"1e-400":                  int64(0),
		"1.7976931348623157e308":  math.MaxFloat64,
		"5e-324":                  math.SmallestNonzeroFloat64,
		"123456789012345678901.5": 123456789012345680000.0,
	} {
		got, err := value.Decode([]byte(text))
		if err != nil || got != want {
			t.Errorf("%s: got %T %v, %v, want %T %v", text, got, got, err, want, want)
			continue
		}
		roundTrip(t, got)
	}
}

func TestDecodeReadsStrings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		replaced   bool
	}{
		{`""`, "", false},
		{`"a\"\\\/\b\f\n\r\tz"`, "a\"\\/\b\f\n\r\tz", false},
		{`"\u0041\u00e9\u20AC\uFFFD\ufffd"`, "Aé€\ufffd\ufffd", false},
		{`"\ud83d\ude00"`, "\U0001F600", false},
		{`"\uD83D"`, "\ufffd", true},
		{`"\ude00"`, "\ufffd", true},
		{`"\ud83d\ud83d\ude00"`, "\ufffd\U0001F600", true},
		{`"\ud83d\u0041"`, "\ufffdA", true},
		{`"\ud83d\n"`, "\ufffd\n", true},
		{`"\ud83dA"`, "\ufffdA", true},
		{"\"é\U0001F600\x7f\u2028\"", "é\U0001F600\x7f\u2028", false},
		{"\"\ufffd\"", "\ufffd", false},
		{"\"a\xffb\"", "a\ufffdb", true},
		{"\"\\n\xff\xfe\"", "\n\ufffd\ufffd", true},
		{"\"\xed\xa0\x80\"", "\ufffd\ufffd\ufffd", true},
		{`"` + strings.Repeat("long ", 1000) + `\n"`, strings.Repeat("long ", 1000) + "\n", false},
	} {
		got, replaced, err := value.DecodeReplaced([]byte(c.text))
		if err != nil || got != c.want || replaced != c.replaced {
			t.Errorf("%s: got %q, %v, %v, want %q, %v", c.text, got, replaced, err, c.want, c.replaced)
		}
		// The same text as a key.
		object, replaced, err := value.DecodeReplaced([]byte("{" + c.text + ":1}"))
		if want := map[string]any{c.want: int64(1)}; err != nil || !reflect.DeepEqual(object, want) || replaced != c.replaced {
			t.Errorf("%s as a key: got %v, %v, %v", c.text, object, replaced, err)
		}
		var theirs string
		if err := json.Unmarshal([]byte(c.text), &theirs); err != nil || theirs != got {
			t.Errorf("%s: encoding/json reads %q, %v", c.text, theirs, err)
		}
	}
}

func TestDecodeTakesTheLastOfEqualKeys(t *testing.T) {
	t.Parallel()
	got, err := value.Decode([]byte(`{"a":1,"b":2,"a":{"c":3}}`))
	if want := map[string]any{"a": map[string]any{"c": int64(3)}, "b": int64(2)}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Keys are kept for the next object; those that meet in one place must not be
// taken for each other.
func TestDecodeTellsSimilarKeysApart(t *testing.T) {
	t.Parallel()
	got, err := value.Decode([]byte(`[{"axb":1,"ayb":2},{"axb":3,"ayb":4,"azb":5},{"axb":6}]`))
	want := []any{
		map[string]any{"axb": int64(1), "ayb": int64(2)},
		map[string]any{"axb": int64(3), "ayb": int64(4), "azb": int64(5)},
		map[string]any{"axb": int64(6)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestDecodeErrorsGiveTheByte(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		offset int
		reason string
	}{
		{"", 0, "the text ends where a value must be"},
		{"  ", 2, "the text ends where a value must be"},
		{"\ufeff1", 0, "where a value must be"},
		{"nul", 0, "null"},
		{"nulL", 0, "null"},
		{"truefalse", 4, "behind the value"},
		{"1 2", 2, "behind the value"},
		{"{} x", 3, `'x' behind the value`},
		{"[1,]", 3, `']' where a value`},
		{"[1 2]", 3, `'2' where a comma or ]`},
		{"[1", 2, "the text ends where a comma or ]"},
		{"[", 1, "the text ends where a value"},
		{"{", 1, "the text ends where a key"},
		{`{"a"}`, 4, `'}' where a colon`},
		{`{"a":1,}`, 7, `'}' where a key`},
		{`{"a":1 "b"`, 7, `where a comma or }`},
		{`{1:2}`, 1, "where a key"},
		{`{"a":}`, 5, "where a value"},
		{`"abc`, 4, "ends inside a string"},
		{`"ab\n`, 5, "ends inside a string"},
		{`"ab\`, 3, "unknown escape"},
		{`"\x"`, 1, "unknown escape"},
		{`"\u12G4"`, 1, "hexadecimal"},
		{`"\u12"`, 1, "hexadecimal"},
		{"\"a\nb\"", 2, "control character 0x0a"},
		{"\"\\t\x00\"", 3, "control character 0x00"},
		{"-", 1, "the text ends where a digit"},
		{"-a", 1, `'a' where a digit`},
		{"01", 0, "starts with 0"},
		{"-01", 1, "starts with 0"},
		{"1.", 2, "the text ends where a digit"},
		{"1.e1", 2, "where a digit"},
		{"1e", 2, "where a digit"},
		{"1e+", 3, "where a digit"},
		{"+1", 0, "where a value"},
		{".5", 0, "where a value"},
		{"0x10", 1, "behind the value"},
		{"NaN", 0, "where a value"},
		{"[1e400]", 1, "too large for a float64"},
		{"-1e400", 0, "too large for a float64"},
		{"1" + strings.Repeat("0", 400), 0, "too large for a float64"},
		{strings.Repeat("[", 5000), 2 * value.MaxDepth, "deeper than 1024 levels"},
		{strings.Repeat(`{"":`, 5000), 4 * 2 * value.MaxDepth, "deeper than 1024 levels"},
	} {
		got, err := value.Decode([]byte(c.text))
		var syntax *value.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.40q: got %v, %v, want a *SyntaxError", c.text, got, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%.40q: got %v, want byte %d: %s", c.text, err, c.offset, c.reason)
		}
	}
}
