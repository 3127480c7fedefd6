package nodes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
	} {
		config, problems := readData(t, c.config)
		require.Empty(t, problems)
		compiler := jsonschema.NewCompiler()
		raw, err := json.Marshal(typeNamed(c.typ).Schema)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource("config.json", doc))
		schema, err := compiler.Compile("config.json")
		require.NoError(t, err)
		err = schema.Validate(config)
		require.Equal(t, c.ok, err == nil, "schema: %s %s: %v", c.typ, c.config, err)

		_, err = Load("x", []byte("schema_version: 1\nchannels: {c: }\nnodes: {n: {type: "+c.typ+", "+strings.TrimPrefix(c.config, "{")+"}\nedges: [{from: __start__, to: n}]"))
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
	require.Equal(t, []string{"ask", "exec", "set"}, names)
}

func TestWhatIsNotSupportedYetIsAnErrorAndNeverSkipped(t *testing.T) {
	t.Parallel()
	got := mistakes(t, `schema_version: 1
channels:
  a: {retention: bounded, retention_limit: 3}
  b: {persistence: ephemeral}
  c: {retention: unbounded, persistence: checkpoint}
nodes:
  n: {type: set, values: {a: 1}, barrier: {wait_for: [m]}}
edges: [{from: __start__, to: n}]
`)
	require.Len(t, got, 4)
	for _, p := range got {
		require.Contains(t, p.Message, "not supported yet")
	}
	require.ErrorContains(t, func() error {
		_, err := Load("x", []byte("schema_version: 2\nnodes: {n: {type: set, values: {c: 1}}}\nchannels: {c: }\nedges: [{from: __start__, to: n}]"))
		return err
	}(),
		"1:17: /schema_version: schema_version 2 is newer than this program, which knows up to 1")
	require.Len(t, mistakes(t, "retry_policy: {max_retrys: 1, max_retries: -1, backoff_multiplier: 0.5}\nschema_version: 1\n"+minimal), 3)
}

const minimal = "nodes: {n: {type: set, values: {c: 1}}}\nchannels: {c: }\nedges: [{from: __start__, to: n}]\n"

func TestWithoutASchemaVersionUnknownKeysAreWarnings(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"", "schema_version: 0\n"} {
		g := mustLoad(t, head+"foo: 1\n"+minimal)
		require.Len(t, g.Warnings(), 1)
		require.Contains(t, g.Warnings()[0].Message, "unknown key foo in the graph file: it is ignored")
		require.NotContains(t, string(g.Canonical()), "foo")
	}
	require.Len(t, mistakes(t, "schema_version: 1\nfoo: 1\n"+minimal), 1)
}

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
		"'log ++'":                             "bad expression: unexpected token",
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
