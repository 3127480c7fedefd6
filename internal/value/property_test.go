package value_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// anyFloat draws from all finite float64, with a liking for the borders.
var anyFloat = rapid.OneOf(
	rapid.Custom(func(t *rapid.T) float64 {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0.5
		}
		return f
	}),
	rapid.Custom(func(t *rapid.T) float64 {
		f := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 1e-6, 1e-7, 1e15, 1 << 53, 1 << 62, 1 << 63, 1e20, 1e21, 1e22, math.MaxFloat64, math.SmallestNonzeroFloat64}).Draw(t, "border")
		for range rapid.IntRange(0, 3).Draw(t, "steps") {
			f = math.Nextafter(f, 0)
		}
		if rapid.Bool().Draw(t, "negative") {
			f = -f
		}
		return f
	}),
	rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) }),
)

// anyString draws valid and invalid UTF-8, and everything that is escaped.
var anyString = rapid.OneOf(
	rapid.String(),
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }),
	rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"\"", "\\", "/", "\x00", "\x1f", "\n", "\b", "\f", "\r", "\t", "\x7f", "é", "\u2028", "\U0001F600", "\ufffd", "\xed\xa0\x80", "\xff", "<", `\ufffd`, "a"}), 0, 8),
		func(parts []string) string { return strings.Join(parts, "") }),
)

var anyScalar = rapid.OneOf(
	rapid.Just[any](nil),
	rapid.Bool().AsAny(),
	rapid.Int64().AsAny(),
	rapid.Uint64().AsAny(),
	rapid.Int().AsAny(),
	rapid.Int8().AsAny(),
	rapid.Float32().Filter(func(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }).AsAny(),
	anyFloat.AsAny(),
	anyString.AsAny(),
	rapid.SliceOfN(rapid.Byte(), 0, 8).AsAny(),
	rapid.Map(anyFloat, func(f float64) any { text, _ := json.Marshal(f); return json.Number(text) }),
	rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`), func(s string) any { return json.RawMessage(s) }),
	rapid.SliceOfN(anyString, 0, 3).AsAny(),
	rapid.MapOfN(anyString, anyString, 0, 3).AsAny(),
)

func anyValue(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return anyScalar
	}
	return rapid.OneOf(
		anyScalar,
		rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) }), 0, 4).AsAny(),
		rapid.MapOfN(anyString, rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) }), 0, 4).AsAny(),
	)
}

func TestEveryValueComesBackAsItWasNormalized(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyValue(4).Draw(t, "value")
		v, replaced, err := value.Normalize(in)
		if err != nil {
			t.Fatalf("Normalize of %#v: %v", in, err)
		}
		roundTrip(t, v)

		// Through encoding/json it is the same.
		theirs, err := json.Marshal(in)
		if err != nil {
			t.Fatalf("json.Marshal of %#v: %v", in, err)
		}
		through, err := value.Decode(theirs)
		if err != nil || !reflect.DeepEqual(through, v) {
			t.Fatalf("through %s: got %#v, %v, want %#v", theirs, through, err, v)
		}
		// encoding/json writes the escape for an invalid byte, and only then.
		if want := strings.Contains(strings.ReplaceAll(string(theirs), `\\`, ""), `\ufffd`); replaced != want {
			t.Fatalf("replaced is %v for %s", replaced, theirs)
		}
		// A struct around it takes the way by reflection.
		wrapped, replacedToo, err := value.Normalize(struct{ V any }{in})
		if err != nil || !reflect.DeepEqual(wrapped, map[string]any{"V": v}) || replacedToo != replaced {
			t.Fatalf("in a struct: got %#v, %v, %v", wrapped, replacedToo, err)
		}
	})
}

func TestEqualValuesAndOnlyThoseHaveEqualJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, _, err := value.Normalize(anyValue(2).Draw(t, "a"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		b, _, err := value.Normalize(anyValue(2).Draw(t, "b"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		same := bytes.Equal(value.Append(nil, a), value.Append(nil, b))
		if value.Equal(a, b) != same || value.Equal(b, a) != same || reflect.DeepEqual(a, b) != same {
			t.Fatalf("%#v and %#v", a, b)
		}
	})
}

func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) []byte {
			data, err := json.MarshalIndent(anyValue(3).Draw(t, "value"), "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
			if err != nil {
				t.Fatalf("%v", err)
			}
			// Break it in a few places.
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				i := rapid.IntRange(0, len(data)).Draw(t, "where")
				part := rapid.SampledFrom([]string{"", "\"", "\\", "\\u", "{", "]", ",", "0", "-", "e", ".", "\xff", "\x00", " "}).Draw(t, "what")
				data = append(data[:i:i], append([]byte(part), data[min(i+1, len(data)):]...)...)
			}
			return data
		}).Draw(t, "text")
		agree(t, text)
	})
}

// agree checks that Decode reads what encoding/json reads, but for the two
// documented exceptions: numbers too large for a float64, and depth.
func agree(t failer, text []byte) {
	t.Helper()
	v, _, err := value.DecodeReplaced(text)
	if err != nil {
		excepted := strings.Contains(err.Error(), "too large for a float64") || strings.Contains(err.Error(), "nested deeper")
		if json.Valid(text) && !excepted {
			t.Fatalf("%q: Decode refuses what is valid: %v", text, err)
		}
		return
	}
	if !json.Valid(text) {
		t.Fatalf("%q: Decode accepts what is not valid, as %#v", text, v)
	}
	var theirs any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&theirs); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	normalized, _, err := value.Normalize(theirs)
	if err != nil {
		// Only possible for what Decode reads deeper.
		if strings.Contains(err.Error(), "nested deeper") {
			return
		}
		t.Fatalf("%q: %v", text, err)
	}
	if !reflect.DeepEqual(normalized, v) {
		t.Fatalf("%q: got %#v, encoding/json gives %#v", text, v, normalized)
	}
	roundTrip(t, v)
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`null`, `true`, `-0`, `1e400`, `1.5e-7`, `9223372036854775808`, `[]`, `{"a":[1,{"b":"\ud83d\ude00\n"}],"a":2}`,
		"\"\xff\\ud800\"", `"\u00`, ` [ 1 , 2 ] `, `[1,]`, `{"a"}`, "\"\x01\"", `nullx`, string(message),
	} {
		f.Add([]byte(seed))
	}
	f.Add(bytes.Repeat([]byte("["), 2000))
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text) })
}
