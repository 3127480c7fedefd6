package nodes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fenced gives the code blocks of a Markdown text with this info string.
func fenced(text, info string) []string {
	var out []string
	for _, block := range strings.Split(text, "\n```"+info+"\n")[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		out = append(out, code+"\n")
	}
	return out
}

func TestTheSchemaOfATypeAgreesWithItsDecoder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, config string
		ok          bool
	}{
		{"set", `{values: {c: '1'}}`, true},
		{"set", `{values: {}}`, false},
		{"set", `{}`, false},
		{"set", `{values: {c: '1'}, on_crash: maybe}`, false},
		{"set", `{values: {c: '1'}, x-note: anything, _y: 1}`, true},
		{"ask", `{message: m}`, true},
		{"ask", `{message: m, choices: [a, 1, {id: b, name: B, kind: reject_once}], data: {x: 1}, output: c}`, true},
		{"ask", `{message: m, choices: []}`, false},
		{"ask", `{message: m, choices: [{id: b, kind: no}]}`, false},
		{"ask", `{message: m, answer_type: integer}`, true},
		{"ask", `{message: m, answer_type: int}`, false},
		{"ask", `{message: m, mesage: n}`, false},
		{"exec", `{command: [a, 1, true], cwd: x, env: {A: 1}, stdin: y, timeout: 5m, output: c, max_output: 1000, fail_on: nonzero, on_crash: fail}`, true},
		{"exec", `{command: a b}`, true},
		{"exec", `{command: []}`, false},
		{"exec", `{command: ''}`, false},
		{"exec", `{command: {a: b}}`, false},
		{"exec", `{command: a, max_output: 10}`, false},
		{"exec", `{command: a, max_output: 1.5}`, false},
		{"exec", `{command: a, env: [A]}`, false},
		{"exec", `{command: a, fail_on: always}`, false},
		{"exec", `{command: a, timeout: 5}`, false},
		{"ask", `{message: m, deadline: 1h30m, default: {any: [thing]}}`, true},
		{"ask", `{message: m, deadline: soon, default: 1}`, false},
		{"subgraph", `{definition: {nodes: {n: {type: set, values: {c: 1}}}, channels: {c: }, edges: [{from: __start__, to: n}]}, input_map: {c: c}, output_map: {c: c}}`, true},
		{"subgraph", `{definition: {nodes: {n: {type: sett}}, edges: [{from: __start__, to: n}]}}`, false},
		{"subgraph", `{definition: [a]}`, false},
		{"subgraph", `{}`, false},
	} {
		text := "schema_version: 1\nchannels: {c: }\nnodes: {n: {type: " + c.typ + ", " + strings.TrimPrefix(c.config, "{") + "}\nedges: [{from: __start__, to: n}]"
		require.Equal(t, c.ok, fits(t, text) == nil, "schema: %s %s: %v", c.typ, c.config, fits(t, text))
		_, err := Load("x", []byte(text))
		require.Equal(t, c.ok, err == nil, "decoder: %s %s: %v", c.typ, c.config, err)
	}
}

func TestEveryTypeIsDescribed(t *testing.T) {
	t.Parallel()
	var names []string
	for _, typ := range Types() {
		names = append(names, typ.Name)
		require.Positive(t, typ.Version)
		require.NotEmpty(t, typ.Doc)
		require.NotContains(t, typ.Doc, "\n")
		for key, property := range typ.Schema["properties"].(map[string]any) {
			require.NotEmpty(t, property.(map[string]any)["description"], key)
		}
	}
	require.Equal(t, []string{"ask", "exec", "file", "http", "intent_classifier", "llm", "map", "set", "signal", "subgraph", "switch", "tools", "transform", "wait"}, names)
}

func TestANewerVersionOfTheFormatIsRefused(t *testing.T) {
	t.Parallel()
	got := mistakes(t, "schema_version: 2\n"+minimal)
	require.Len(t, got, 1)
	require.Equal(t, "1:17: /schema_version: schema_version 2 is newer than this program, which knows up to 1; update this program", got[0].String())
}

const minimal = "nodes: {n: {type: set, values: {c: 1}}}\nchannels: {c: }\nedges: [{from: __start__, to: n}]\n"

func TestAnnotationsChangeNothingButNamesMayLookLikeThem(t *testing.T) {
	t.Parallel()
	plain := mustLoad(t, "schema_version: 1\n"+minimal)
	noted := mustLoad(t, `schema_version: 1
x-about: {any: [thing]}
_hidden: 1
nodes: {n: {type: set, x-pos: 3, values: {c: 1}}}
channels: {c: {_why: because}}
edges: [{from: __start__, to: n, x-label: go}]
`)
	require.Equal(t, plain.Fingerprint(), noted.Fingerprint())
	g := mustLoad(t, "schema_version: 1\nnodes: {_n: {type: set, values: {x-c: 1}}}\nchannels: {x-c: {initial: {_k: 1}}}\nedges: [{from: __start__, to: _n}]\n")
	require.Equal(t, []string{"_n"}, g.Nodes())
	require.Contains(t, string(g.Canonical()), `"_k":1`)
}

func TestMistakesOfExpressionsStandAtTheirPlaceInTheLine(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`'log + promt'`:                        "4:11: /nodes/n/values/c: unknown name promt in an expression: it is no declared channel; did you mean prompt?",
		`"log + promt"`:                        "4:11: ",
		`log + promt`:                          "4:10: ",
		"deployed":                             `for the text itself write '"deployed"'`,
		"'${{ prompt }}'":                      "4:5: /nodes/n/values/c: ${{ in an expression; this is an expression already: leave out ${{ }}",
		"now()":                                "now is not offered: an expression gives the same for the same state, always",
		"'log ++'":                             "bad expression: it ends too early",
		"'log = 1'":                            `bad expression: unexpected "="; write == to compare`,
		"hello world":                          `bad expression: unexpected "world"; for the text itself write '"hello world"'`,
		"'log and or 1 ? 2'":                   `bad expression: unexpected "or"`,
		"lenn(log)":                            "did you mean len?",
		"''":                                   "an empty expression",
		`'$env["promt"]'`:                      "unknown name promt",
		`'$env[prompt]'`:                       "$env is only there for one channel at a time",
		`'$env'`:                               "$env is only there for one channel at a time",
		`'"a" - 1'`:                            "bad expression: invalid operation: - (mismatched types string and int)",
		`'` + strings.Repeat("(", 20000) + `'`: "an expression has at most 16384 bytes",
		"[a]":                                  "is an expression, not a list",
	} {
		g := "channels: {prompt: , log: , c: }\nedges: [{from: __start__, to: n}]\nnodes: {n: {type: set, values: {\nc: " + value + "\n}}}\n"
		got := mistakes(t, g)
		require.Len(t, got, 1, value)
		require.Contains(t, got[0].String(), want, value)
	}
	got := mistakes(t, "channels: {prompt: , log: , c: }\nedges: [{from: __start__, to: n}]\nnodes:\n  n:\n    type: set\n    values:\n      c: |\n        prompt\n        + promt\n")
	require.Len(t, got, 1)
	require.Equal(t, []int{9, 11}, []int{got[0].Line, got[0].Column})
	got = mistakes(t, `schema_version: 1
channels: {c: }
edges: [{from: __start__, to: n}]
conditional_edges: [{from: n, condition: 'c == 1', routes: {ture: n, false: __end__}}]
nodes: {n: {type: set, values: {c: 1}}}
`)
	require.Len(t, got, 1)
	require.Equal(t, `4:61: /conditional_edges/0/routes/ture: the condition never gives "ture"; it gives true or false; did you mean true?`, got[0].String())
}
