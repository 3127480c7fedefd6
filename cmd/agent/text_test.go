package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/internal/seen"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestVisibleEscapesWhatCannotBeSeen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":            "plain text",
		"two\nlines":            "two\nlines",
		"dos\r\nlines":          "dos\nlines",
		"a\tb":                  "a    b",
		"over\rwritten":         `over\rwritten`,
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"c1 \u009b2J":           `c1 \u009b2J`,
		"rub\bout\x7f":          `rub\x08out\x7f`,
		"bidi \u202etxt.exe":    `bidi \u202etxt.exe`,
		"isolate \u2066x\u2069": `isolate \u2066x\u2069`,
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
		"soft\u00adhyphen":      `soft\u00adhyphen`,
		"no\u00a0break":         `no\u00a0break`,
		"filler \u3164\u115f":   `filler \u3164\u115f`,
		"selector x\ufe0f":      `selector x\ufe0f`,
		"tags \U000e0041":       `tags \U000e0041`,
		"line\u2028separator":   `line\u2028separator`,
		"bad \xff byte":         `bad \xff byte`,
		"replaced \ufffd":       "replaced \ufffd",
		"größe 東京 \U0001f600 é": "größe 東京 \U0001f600 é",
	} {
		require.Equal(t, want, visible(in), "%q", in)
	}
}

func TestVisibleNeverLeavesAnythingHidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		out := visible(s)
		if !utf8.ValidString(out) {
			t.Fatalf("%q is not UTF-8", out)
		}
		for _, r := range out {
			if r != '\n' && seen.Hidden(r) {
				t.Fatalf("%q has the hidden character %U", out, r)
			}
		}
		if visible(out) != out {
			t.Fatalf("%q changes again", out)
		}
	})
}

func TestWrapKeepsEveryCharacterAndTheWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := visible(rapid.String().Draw(t, "text"))
		width := rapid.IntRange(10, 60).Draw(t, "width")
		for _, line := range wrap(s, width) {
			if columns(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
		all := strings.ReplaceAll(strings.Join(wrap(s, width), ""), "\n", "")
		if all != strings.ReplaceAll(s, "\n", "") {
			t.Fatalf("%q became %q", s, all)
		}
	})
}

func TestQuoteForAShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":             "''",
		"plain-1.2":    "plain-1.2",
		"t@17":         "t@17",
		"two words":    "'two words'",
		"it's":         `'it'\''s'`,
		"$HOME;`x`":    "'$HOME;`x`'",
		"~user":        "'~user'",
		"größe":        "'größe'",
		"a\nb":         `$'a\nb'`,
		"\x1b[2J'\\":   `$'\x1b[2J\'\\'`,
		"bidi\u202e":   `$'bidi\u202e'`,
		"bad \xff":     `$'bad \xff'`,
		"tab\there":    `$'tab\there'`,
		"{\"a\": [1]}": `'{"a": [1]}'`,
	} {
		require.Equal(t, want, quote(in), "%q", in)
	}
}

func TestPickTakesAnOptionOnlyIfItMeansOne(t *testing.T) {
	t.Parallel()
	gate := options(interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Before}})
	choices := options(interrupt.Question{Choices: []interrupt.Choice{
		{ID: "low", Name: "Low"}, {ID: "high", Name: "same"}, {ID: "HIGH", Name: "same"},
	}})
	// The ids are numbers: a place in the list would be taken for one.
	numbers := options(interrupt.Question{Choices: []interrupt.Choice{{ID: "2"}, {ID: "1"}}})
	for _, c := range []struct {
		all   []option
		typed string
		want  string
	}{
		{gate, "a", "approve"}, {gate, "A", "approve"}, {gate, "Reject", "reject"}, {gate, "y", ""}, {gate, "", ""}, {gate, "app", ""},
		{choices, "1", "low"}, {choices, "LOW", "low"}, {choices, "high", "high"}, {choices, "HIGH", "HIGH"},
		{choices, "High", ""}, {choices, "same", ""}, {choices, "3", "HIGH"}, {choices, "4", ""},
		{numbers, "1", "1"}, {numbers, "2", "2"},
	} {
		got, ok := pick(c.all, c.typed)
		require.Equal(t, c.want, got.ID, c.typed)
		require.Equal(t, c.want != "", ok, c.typed)
	}
	require.Equal(t, "2", numbers[0].keys[0])
}

func TestFitRowIsNeverWider(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, width := oneLine(rapid.String().Draw(t, "text")), rapid.IntRange(3, 40).Draw(t, "width")
		if got := fitRow(s, width); columns(got) > width {
			t.Fatalf("%q is wider than %d", got, width)
		}
	})
}
