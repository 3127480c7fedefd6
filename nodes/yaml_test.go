package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// readData reads a YAML text as plain data.
func readData(t require.TestingT, text string) (any, []engine.Problem) {
	d := newDecoder(registry(), "", "", false)
	tr := d.readTree([]byte(text))
	if tr == nil {
		require.NotEmpty(t, d.problems, text)
		return nil, d.problems
	}
	d.index(tr)
	v := d.data(tr)
	return v, d.problems
}

func TestYAMLIsReadByTheCoreSchema(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"true": true, "True": true, "FALSE": false, "yes": "yes", "no": "no", "on": "on", "off": "off", "y": "y",
		"null": nil, "~": nil, "{a: }": map[string]any{"a": nil}, "a:": map[string]any{"a": nil},
		"1": int64(1), "-7": int64(-7), "+5": int64(5), "0": int64(0), "-0": int64(0),
		"0x1F": int64(31), "0o17": int64(15), "0b11": "0b11", "1_000": "1_000", "12:30": "12:30",
		"1.5": 1.5, ".5": 0.5, "5.": int64(5), "1e3": int64(1000), "1E-2": 0.01, "1.0": int64(1), "1.10": 1.1,
		"9007199254740993": int64(9007199254740993), "12345678901234567890": 1.2345678901234567e19, "1e400": "!",
		"2020-01-01": "2020-01-01", "2020-01-01T00:00:00Z": "2020-01-01T00:00:00Z",
		"017": "!", "00": "!", "-012": "!", ".nan": "!", ".inf": "!", "-.INF": "!", "0x": "0x", "0xFFFFFFFFFFFFFFFF": "!",
		"'1'": "1", `"true"`: "true", "!!str 1.10": "1.10", "!!str 017": "017", "!!int '3'": int64(3), "!!float 1": int64(1),
		"!!bool 'true'": true, "!!null ''": nil, "!!int x": "!", "!!binary aGk=": "!", "!custom x": "!",
		"[a, [b, {c: d}]]":                           []any{"a", []any{"b", map[string]any{"c": "d"}}},
		"- a\n-\n  - b\n- c: 1\n":                    []any{"a", []any{"b"}, map[string]any{"c": int64(1)}},
		"a: |\n  x\n   y\n\n  z\nb: >-\n  f\n  g\n":  map[string]any{"a": "x\n y\n\nz\n", "b": "f g"},
		"a: 'it''s'\nb: \"\\u00e9\\t\\\"\"":          map[string]any{"a": "it's", "b": "é\t\""},
		"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n": map[string]any{"a": int64(1), "b": "x\ny\n"},
		"a: &x {k: 1}\nb: *x":                        map[string]any{"a": map[string]any{"k": int64(1)}, "b": map[string]any{"k": int64(1)}},
		"a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}": map[string]any{
			"a": map[string]any{"k": int64(1), "l": int64(2)}, "b": map[string]any{"k": int64(1), "l": int64(3)}},
		"a: &x {k: 1}\nb: &y {k: 2, m: 4}\nc:\n  <<: [*x, *y]\n  n: 5\n": map[string]any{
			"a": map[string]any{"k": int64(1)}, "b": map[string]any{"k": int64(2), "m": int64(4)},
			"c": map[string]any{"k": int64(1), "m": int64(4), "n": int64(5)}},
		"a: &x 1\nb: &x 2\nc: *x": map[string]any{"a": int64(1), "b": int64(2), "c": int64(2)},
		"--- \na: 1\n...\n":       map[string]any{"a": int64(1)},
		"{1: a, true: b, null: c, ~: d, 1.10: e, yes: f, 017: g, '<<': h}": map[string]any{
			"1": "a", "true": "b", "null": "c", "~": "d", "1.10": "e", "yes": "f", "017": "g", "<<": "h"},
		"{\"a\":\"\\ud83d\\ude00\\/\",\t\"b\":1e+21}": map[string]any{"a": "😀/", "b": 1e21},
	} {
		got, problems := readData(t, text)
		if want == "!" {
			require.Len(t, problems, 1, text)
			continue
		}
		require.Empty(t, problems, text)
		require.Equal(t, want, got, text)
	}
}

func TestWhatIsNoYAMLIsReportedWithItsLine(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	for text, want := range map[string]string{
		"":                               "1:1: the file is empty",
		"# nothing\n":                    "1:1: the file is empty",
		"a: 1\n---\nb: 2\n":              "3:1: the file has 2 documents",
		"a: 1\nb:\n\t- c\n":              "3:1: found character '\\t' that cannot start any token: - c; YAML is indented with spaces",
		"a: 1\nb: c: d\n":                "2:4: mapping value is not allowed in this context: b: c: d; a text with \": \" in it needs quotes",
		"a: [1, 2\n":                     "1:4: sequence end token ']' not found: a: [1, 2",
		"a:\n  - [./d.sh, ${{ x }}]\n":   "inside [ ] and { } a text with ${{ }} needs quotes",
		"a: \"x\n":                       "1:4: could not find end character of double-quoted text",
		"a: 1\nb: 2\na: 3\na: 4\n":       "3:1: /a: the key a is there twice; the first is in line 1",
		"a: *nowhere\n":                  "there is no anchor &nowhere above",
		"a: &x [*x]\n":                   "there is no anchor &x above",
		"? [a]\n: b\n":                   "",
		"? *a\n: b\n":                    "",
		"a: \xff\n":                      "1:4: the byte 0xff does not belong into a text",
		"a: \x00\n":                      "1:4: the byte 0x00 does not belong into a text",
		bomb:                             "more than 100000 values",
		strings.Repeat("[", 5000):        "nested deeper than 100 levels",
		strings.Repeat("{a: ", 200):      "nested deeper than 100 levels",
		strings.Repeat("- ", 200) + "a":  "nested deeper than 100 levels",
		deepBlock(150):                   "nested deeper than 100 levels",
		strings.Repeat("- a\n", 150_000): "the file has more than 200000 parts",
		strings.Repeat("#", MaxFile+1):   "the file has 1048577 bytes",
		"<<: 3\na: 1\n":                  "<< merges objects, not a number",
	} {
		_, problems := readData(t, text)
		require.NotEmpty(t, problems, shorten(text, 100))
		require.Contains(t, problems[0].String(), want, shorten(text, 100))
	}
	_, problems := readData(t, "a: 1\na: 2\nb: 3\nb: 4\n")
	require.Len(t, problems, 2, "every key that is there twice is reported")
}

func deepBlock(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestEveryJSONValueIsReadAsItself(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~\n\t]{0,20}`), rapid.SampledFrom([]string{
		"", "<<", "~", "null", "true", "- a", "a: b", "# c", "${{ x }}", "\u0085", "\u2028", "\x7f", "&a", "*a", "!!str", "|", ">", "%", "@", "`", "\x00", "\r\n", "?", "? a", "\ufeff"}))
	gen := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(text, 3) })
	rapid.Check(t, func(t *rapid.T) {
		want, _, err := value.Normalize(gen.Draw(t, "value"))
		if err != nil {
			t.Skip("no value")
		}
		want = map[string]any{"v": want}
		data := value.Append(nil, want)
		got, problems := readData(t, string(data))
		require.Empty(t, problems, string(data))
		require.Equal(t, want, got, string(data))
	})
}

func anyJSON(text *rapid.Generator[string], depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), text.AsAny())
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.SliceOfN(anyJSON(text, depth-1), 0, 4).AsAny(),
		rapid.MapOfN(text, anyJSON(text, depth-1), 0, 4).AsAny())
}

func TestTheNameOfAFileIsTheNameOfItsGraph(t *testing.T) {
	t.Parallel()
	text := "nodes: {a: {type: set, values: {c: 1}}}\nchannels: {c: }\nedges: [{from: __start__, to: a}]\n"
	one, two := filepath.Join(t.TempDir(), "deploy.yaml"), filepath.Join(t.TempDir(), "deploy.yml")
	require.NoError(t, os.WriteFile(one, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(two, []byte(text), 0o600))
	g, err := LoadFile(one)
	require.NoError(t, err)
	require.Equal(t, "deploy", g.Name())
	h, err := LoadFile(two)
	require.NoError(t, err)
	require.Equal(t, g.Fingerprint(), h.Fingerprint())
	_, err = LoadFile(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(one, []byte("x"), 0o600))
	_, err = LoadFile(one)
	require.ErrorContains(t, err, "graph "+one+" has 1 mistake:\n  1:1: a graph file is an object")
}
