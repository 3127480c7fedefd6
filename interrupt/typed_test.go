package interrupt_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestATypedAnswerIsReadFromTextAndCheckedAgainstTheQuestion(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	regions := []interrupt.Choice{{ID: "eu", Name: "Europe"}, {ID: "us"}, {ID: "a,b"}}
	for _, test := range []struct {
		q     interrupt.Question
		wants string
		read  map[string]any // nil: refused
	}{
		{interrupt.Question{}, "any JSON value", map[string]any{"x y": "x y", "1": "1", " a ": " a "}},
		{interrupt.Question{Type: "string"}, "a string", map[string]any{"true": "true"}},
		{interrupt.Question{Type: "string", Format: "email"}, "an e-mail address", map[string]any{" a@b.example ": "a@b.example", "a": nil, "A <a@b.example>": nil, "": nil}},
		{interrupt.Question{Type: "string", Format: "uri"}, "a URI, such as https://example.org", map[string]any{"https://a/b": "https://a/b", "mailto:a@b": "mailto:a@b", "/a": nil, "": nil}},
		{interrupt.Question{Type: "string", Format: "date"}, "a date, such as 2026-12-31", map[string]any{"2026-02-28": "2026-02-28", "2026-02-30": nil, "1.2.2026": nil}},
		{interrupt.Question{Type: "string", Format: "date-time"}, "a date and time, such as 2026-12-31T18:00:00Z", map[string]any{"2026-02-28T01:02:03+01:00": "2026-02-28T01:02:03+01:00", "2026-02-28": nil}},
		{interrupt.Question{Type: "integer", Minimum: n(1), Maximum: n(5)}, "an integer from 1 to 5", map[string]any{" 5 ": int64(5), "0": nil, "6": nil, "1.5": nil, "one": nil, `"1"`: nil}},
		{interrupt.Question{Type: "number", Minimum: n(0.5)}, "a number of at least 0.5", map[string]any{"0.5": 0.5, "1": int64(1), "0.4": nil, "NaN": nil}},
		{interrupt.Question{Type: "number", Maximum: n(-1)}, "a number of at most -1", map[string]any{"-1": int64(-1), "0": nil}},
		{interrupt.Question{Type: "boolean"}, "a boolean", map[string]any{"true": true, "false": false, "yes": nil}},
		{interrupt.Question{Type: "list"}, "a list", map[string]any{`["a",1]`: []any{"a", int64(1)}, "a": nil}},
		{interrupt.Question{Type: "object"}, "an object", map[string]any{`{"a":1}`: map[string]any{"a": int64(1)}, "[]": nil}},
		{interrupt.Question{Type: "list", Choices: regions, Minimum: n(1), Maximum: n(2)}, "a list from 1 to 2 of eu, us, a,b", map[string]any{
			"eu, US": []any{"eu", "us"}, "europe": []any{"eu"}, `["a,b"]`: []any{"a,b"}, `["eu", "us"]`: []any{"eu", "us"}, ", us ,": []any{"us"},
			"eu,eu": nil, "eu,asia": nil, "": nil, `["eu","us","a,b"]`: nil, `[1]`: nil, `"eu"`: nil,
		}},
		{interrupt.Question{Type: "string", Choices: regions}, "one of eu, us, a,b", map[string]any{"eu": nil}},
	} {
		_, problem := test.q.Mistake()
		require.Empty(t, problem)
		require.Equal(t, test.wants, test.q.Wants())
		for text, want := range test.read {
			got, err := test.q.Read(text)
			if want == nil {
				require.Error(t, err, "%s: %q", test.wants, text)
				continue
			}
			require.NoError(t, err, "%s: %q", test.wants, text)
			require.Equal(t, want, got)
		}
	}
	one := interrupt.Question{Type: "string", Choices: regions}
	require.Len(t, one.Options(), 3)
	a, err := one.Check(interrupt.Answer{Value: "us"})
	require.NoError(t, err)
	require.Equal(t, "us", a.Choice)
	several := interrupt.Question{Type: "list", Choices: regions}
	require.Empty(t, several.Options(), "no single choice answers it")
	_, err = several.Check(interrupt.Answer{Choice: "eu"})
	require.Error(t, err)
}

func TestWhatAQuestionDeclaresMustMakeSense(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	two := []interrupt.Choice{{ID: "a"}, {ID: "b"}}
	for want, q := range map[string]interrupt.Question{
		"unknown answer type":                        {Type: "date"},
		"has the type string":                        {Type: "object", Choices: two},
		"unknown format":                             {Type: "string", Format: "phone"},
		"without choices has a format":               {Type: "string", Format: "uri", Choices: two},
		"only an answer of type string":              {Format: "uri"},
		"only an integer":                            {Type: "boolean", Maximum: n(1)},
		"below the minimum":                          {Type: "number", Minimum: n(1), Maximum: n(0.5)},
		"are integers":                               {Type: "integer", Maximum: n(0.5)},
		"between 0 and the number of choices":        {Type: "list", Choices: two, Maximum: n(0)},
		"how many of them: they lie between 0 and t": {Type: "list", Choices: two, Minimum: n(3)},
	} {
		field, problem := q.Mistake()
		require.Contains(t, problem, want)
		require.NotEmpty(t, field)
	}
}

func TestTheDigestCoversTheBoundsOfAnAnswer(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	seen := map[string]bool{}
	for _, q := range []interrupt.Question{
		{Type: "integer"}, {Type: "integer", Minimum: n(1)}, {Type: "integer", Maximum: n(1)}, {Type: "integer", Minimum: n(2)},
		{Type: "string"}, {Type: "string", Format: "uri"}, {Type: "string", Format: "date"},
	} {
		require.NoError(t, q.Seal(1))
		require.False(t, seen[q.Digest])
		seen[q.Digest] = true
	}
}
