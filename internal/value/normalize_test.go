package value_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/internal/value"
)

type point struct {
	X    int      `json:"x"`
	Y    float64  `json:"y,omitempty"`
	Tags []string `json:"tags"`
	skip int
}

type named string

type texted struct{ s string }

func (t texted) MarshalText() ([]byte, error) { return []byte(t.s), nil }

type raw struct{ json string }

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r.json), nil }

type angry struct{}

var errAngry = errors.New("no JSON today")

func (angry) MarshalJSON() ([]byte, error) { return nil, errAngry }

// normalizing holds what each Go value becomes. Every "in" is also put through
// encoding/json, which must come to the same.
var normalizing = []struct {
	name string
	in   any
	want any
}{
	{"nil", nil, nil},
	{"true", true, true},
	{"false", false, false},
	{"int", -5, int64(-5)},
	{"int8", int8(-128), int64(-128)},
	{"int16", int16(7), int64(7)},
	{"int32", int32(7), int64(7)},
	{"smallest int64", int64(math.MinInt64), int64(math.MinInt64)},
	{"largest int64", int64(math.MaxInt64), int64(math.MaxInt64)},
	{"uint", uint(7), int64(7)},
	{"uint8", uint8(255), int64(255)},
	{"uint16", uint16(7), int64(7)},
	{"uint32", uint32(math.MaxUint32), int64(math.MaxUint32)},
	{"uintptr", uintptr(7), int64(7)},
	{"uint64 that fits", uint64(math.MaxInt64), int64(math.MaxInt64)},
	{"uint64 that does not fit", uint64(1 << 63), float64(1 << 63)},
	{"largest uint64", uint64(math.MaxUint64), float64(math.MaxUint64)},
	{"float64", 1.5, 1.5},
	{"integral float64", 3.0, int64(3)},
	{"negative zero", math.Copysign(0, -1), int64(0)},
	{"2^53", float64(1 << 53), int64(1 << 53)},
	{"2^53+2", float64(1<<53 + 2), int64(1<<53 + 2)},
	{"2^62, by its shortest form", float64(1 << 62), int64(4611686018427388000)},
	{"largest float64 below 2^63", math.Nextafter(1<<63, 0), int64(9223372036854775000)},
	{"2^63", float64(1 << 63), float64(1 << 63)},
	{"-2^63, whose shortest form does not fit", -float64(1 << 63), -float64(1 << 63)},
	{"below 1e21", math.Nextafter(1e21, 0), math.Nextafter(1e21, 0)},
	{"1e21", 1e21, 1e21},
	{"1e-7", 1e-7, 1e-7},
	{"largest float64", math.MaxFloat64, math.MaxFloat64},
	{"smallest float64", math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64},
	{"float32 by its own shortest form", float32(0.1), 0.1},
	{"integral float32", float32(16), int64(16)},
	{"large float32", float32(1e21), 1e21},
	{"float32 2^63, whose shortest form fits", float32(1 << 63), int64(9223372000000000000)},
	{"small float32", float32(1e-6), 1e-6},
	{"string", "a", "a"},
	{"empty string", "", ""},
	{"string for HTML", "<&>\u2028\u2029", "<&>\u2028\u2029"},
	{"all control characters", "\x00\x01\b\t\n\f\r\x1f\"\\/\x7f", "\x00\x01\b\t\n\f\r\x1f\"\\/\x7f"},
	{"invalid bytes, one by one", "a\xff\xfeb\xe2\x82", "a\ufffd\ufffdb\ufffd\ufffd"},
	{"a surrogate as UTF-8", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
	{"valid replacement character", "\ufffd", "\ufffd"},
	{"bytes", []byte("hello"), "aGVsbG8="},
	{"no bytes", []byte{}, ""},
	{"nil bytes", []byte(nil), nil},
	{"list", []any{1, "a", nil, 2.0}, []any{int64(1), "a", nil, int64(2)}},
	{"empty list", []any{}, []any{}},
	{"nil list", []any(nil), nil},
	{"strings", []string{"a", "\xff"}, []any{"a", "\ufffd"}},
	{"nil strings", []string(nil), nil},
	{"ints", []int{1, 2}, []any{int64(1), int64(2)}},
	{"nil ints", []int(nil), nil},
	{"floats", []float64{1, 2.5}, []any{int64(1), 2.5}},
	{"nil floats", []float64(nil), nil},
	{"other list", []bool{true}, []any{true}},
	{"array", [2]int{1, 2}, []any{int64(1), int64(2)}},
	{"object", map[string]any{"a": 1, "b": []int{2}}, map[string]any{"a": int64(1), "b": []any{int64(2)}}},
	{"empty object", map[string]any{}, map[string]any{}},
	{"nil object", map[string]any(nil), nil},
	{"objects", []map[string]any{{"a": 1}, nil}, []any{map[string]any{"a": int64(1)}, nil}},
	{"nil objects", []map[string]any(nil), nil},
	{"object of strings", map[string]string{"a": "b"}, map[string]any{"a": "b"}},
	{"nil object of strings", map[string]string(nil), nil},
	{"object with numbers as keys", map[int]string{1: "b"}, map[string]any{"1": "b"}},
	{"invalid key", map[string]any{"\xff": 1}, map[string]any{"\ufffd": int64(1)}},
	{"keys that become the same", map[string]any{"\xfd": 1, "\xff": 3, "\xfe": 2}, map[string]any{"\ufffd": int64(3)}},
	{"struct", point{X: 1, skip: 2}, map[string]any{"x": int64(1), "tags": nil}},
	{"pointer", &point{Y: 0.5, Tags: []string{}}, map[string]any{"x": int64(0), "y": 0.5, "tags": []any{}}},
	{"nil pointer", (*point)(nil), nil},
	{"structs", []point{{}}, []any{map[string]any{"x": int64(0), "tags": nil}}},
	{"struct with an invalid string", point{Tags: []string{"\xff"}}, map[string]any{"x": int64(0), "tags": []any{"\ufffd"}}},
	{"named type", named("a"), "a"},
	{"text marshaler", texted{"a"}, "a"},
	{"JSON marshaler", raw{` {"a": [1, 1.0, 1e2]} `}, map[string]any{"a": []any{int64(1), int64(1), int64(100)}}},
	{"time", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), "2030-01-02T03:04:05Z"},
	{"raw JSON", json.RawMessage(` [1, {"a": null}] `), []any{int64(1), map[string]any{"a": nil}}},
	{"nil raw JSON", json.RawMessage(nil), nil},
	{"number", json.Number("17"), int64(17)},
	{"number with a fraction", json.Number("1.0"), int64(1)},
	{"number with an exponent", json.Number("1E3"), int64(1000)},
	{"no number", json.Number(""), int64(0)},
	{"number beyond int64", json.Number("9223372036854775808"), float64(1 << 63)},
	{"number of a hundred digits", json.Number("1" + strings.Repeat("0", 100)), 1e100},
	{"number too small", json.Number("1e-400"), int64(0)},
}

func TestNormalizeDoesWhatEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	for _, c := range normalizing {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := value.Normalize(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
			text, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			through, err := value.Decode(text)
			if err != nil {
				t.Fatalf("decode %s: %v", text, err)
			}
			if !reflect.DeepEqual(got, through) {
				t.Errorf("got %#v; through %s it is %#v", got, text, through)
			}
			roundTrip(t, got)
		})
	}
}

// failer is what *testing.T and *rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// roundTrip checks everything that must hold for a normalized value.
func roundTrip(t failer, v any) {
	t.Helper()
	text := value.Append(nil, v)
	if !json.Valid(text) {
		t.Fatalf("Append of %#v: not JSON: %s", v, text)
	}
	back, replaced, err := value.DecodeReplaced(text)
	if err != nil {
		t.Fatalf("Decode of %s: %v", text, err)
	}
	if replaced {
		t.Fatalf("something in %s was replaced", text)
	}
	if !reflect.DeepEqual(back, v) || !value.Equal(back, v) {
		t.Fatalf("%#v came back from %s as %#v", v, text, back)
	}
	again, replaced, err := value.Normalize(back)
	if err != nil || replaced || !reflect.DeepEqual(again, v) {
		t.Fatalf("normalized again: %#v, %v, %v; was %#v", again, replaced, err, v)
	}
	if size := value.Size(v); size != len(text) {
		t.Fatalf("Size of %s: got %d, want %d", text, size, len(text))
	}
}

func TestNormalizeSaysWhatItReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   any
		want bool
	}{
		{"fine", false},
		{"\ufffd", false},
		{`\ufffd`, false},
		{"\xff", true},
		{[]any{[]any{"\xff"}}, true},
		{[]string{"\xff"}, true},
		{map[string]any{"\xff": 1}, true},
		{map[string]string{"a": "\xff"}, true},
		{json.RawMessage(`"\ud800"`), true},
		{json.RawMessage("\"\xff\""), true},
		{json.RawMessage(`"\ufffd"`), false},
		{named("\xff"), true},
		{point{Tags: []string{"\xff"}}, true},
		{point{Tags: []string{"\ufffd", `\ufffd`}}, false},
		{raw{"\"\xff\""}, true},
	} {
		_, replaced, err := value.Normalize(c.in)
		if err != nil || replaced != c.want {
			t.Errorf("%#v: got %v, %v, want %v", c.in, replaced, err, c.want)
		}
	}
}

func nested(depth int) any {
	var v any = int64(1)
	for i := range depth {
		if i%2 == 0 {
			v = []any{v}
		} else {
			v = map[string]any{"k": v}
		}
	}
	return v
}

func TestNormalizeErrorsSayWhere(t *testing.T) {
	t.Parallel()
	cyclicList := []any{1, nil}
	cyclicList[1] = cyclicList
	cyclicObject := map[string]any{}
	cyclicObject["self"] = []any{cyclicObject, cyclicObject}
	type node struct{ Next *node }
	cyclicPointer := &node{}
	cyclicPointer.Next = cyclicPointer

	for _, c := range []struct {
		name string
		in   any
		want []string
	}{
		{"NaN", math.NaN(), []string{"NaN cannot be stored"}},
		{"infinity in an object", map[string]any{"a": []any{0, math.Inf(-1)}}, []string{"at /a/1: -Inf cannot"}},
		{"float32", []any{float32(math.Inf(1))}, []string{"at /0: +Inf"}},
		{"floats", []float64{0, math.NaN()}, []string{"at /1: NaN"}},
		{"key to escape", map[string]any{"a/b~c": math.NaN()}, []string{"at /a~1b~0c: NaN"}},
		{"invalid key", map[string]any{"\xff": math.NaN()}, []string{"at /\ufffd: NaN"}},
		{"channel", []any{make(chan int)}, []string{"at /0: a chan int cannot be stored as JSON"}},
		{"function", func() {}, []string{"a func() cannot be stored as JSON"}},
		{"NaN in a struct", map[string]any{"p": point{Y: math.NaN()}}, []string{"at /p: a value_test.point cannot", "NaN"}},
		{"angry marshaler", []any{angry{}}, []string{"at /0: ", "no JSON today"}},
		{"wrong number", []any{json.Number("1x")}, []string{"at /0: json.Number \"1x\": JSON, byte 1: "}},
		{"not a number", json.Number("NaN"), []string{"json.Number \"NaN\": JSON, byte 0: "}},
		{"number too large", json.Number("1e400"), []string{"too large for a float64"}},
		{"wrong raw JSON", []any{json.RawMessage(`{"a":}`)}, []string{"at /0: JSON, byte 5: "}},
		{"empty raw JSON", json.RawMessage{}, []string{"byte 0: the text ends where a value must be"}},
		{"raw JSON too large", json.RawMessage("1e400"), []string{"too large for a float64"}},
		{"cyclic list", cyclicList, []string{"at /1/1/1", "...", "deeper than 512 levels", "holds itself"}},
		{"cyclic object", cyclicObject, []string{"at /self/0/self/0", "deeper than 512 levels"}},
		{"cyclic pointer", cyclicPointer, []string{"cycle"}},
		{"too deep", nested(value.MaxDepth + 1), []string{"deeper than 512 levels"}},
		{"too deep in raw JSON", json.RawMessage(value.Append(nil, nested(value.MaxDepth+1))), []string{"deeper than 512 levels"}},
		{"too deep altogether", []any{json.RawMessage(value.Append(nil, nested(value.MaxDepth)))}, []string{"at /0: ", "deeper than 512 levels"}},
		{"too deep in a struct", []any{struct{ V any }{nested(value.MaxDepth - 1)}}, []string{"at /0: ", "deeper than 512 levels"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := value.Normalize(c.in)
			var at *value.PathError
			if !errors.As(err, &at) {
				t.Fatalf("got %v, %v, want a *PathError", got, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
			if len(err.Error()) > 400 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if _, err := value.Marshal(c.in); err == nil {
				t.Error("Marshal gave no error")
			}
		})
	}
	if _, _, err := value.Normalize([]any{angry{}}); !errors.Is(err, errAngry) {
		t.Errorf("the marshaler's own error is lost: %v", err)
	}
}

func TestWhatNormalizeAcceptsCanBeWrappedAndRead(t *testing.T) {
	t.Parallel()
	v, _, err := value.Normalize(nested(value.MaxDepth))
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, v)
	// A row of the log: operations around a value, the state of a fork.
	for range 16 {
		v = map[string]any{"ops": []any{v}}
	}
	if back, err := value.Decode(value.Append(nil, v)); err != nil || !value.Equal(back, v) {
		t.Errorf("wrapped: %v", err)
	}
}

func TestNormalizeCopies(t *testing.T) {
	t.Parallel()
	inner := map[string]any{"a": int64(1)}
	list := []any{inner}
	strings := []string{"a"}
	in := map[string]any{"list": list, "strings": strings}
	out, _, err := value.Normalize(in)
	if err != nil {
		t.Fatal(err)
	}
	before := string(value.Append(nil, out))
	inner["a"], list[0], strings[0], in["more"] = 2, 3, "b", 4
	if after := string(value.Append(nil, out)); after != before {
		t.Errorf("was %s, is %s after the original was changed", before, after)
	}
}

func TestMarshalNormalizesAndAppends(t *testing.T) {
	t.Parallel()
	got, err := value.Marshal(map[string]any{"z": point{X: 1}, "a": []byte("x")})
	if want := `{"a":"eA==","z":{"tags":null,"x":1}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
