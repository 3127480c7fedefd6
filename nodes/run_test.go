package nodes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// runGraph runs one turn in memory, in a folder of its own.
func runGraph(t *testing.T, text string, values engine.Values) (*engine.Turn, error) {
	t.Helper()
	return engine.New(mustLoad(t, text), nil, engine.Options{}).
		Start(t.Context(), "t", engine.Input{Values: values, Cwd: t.TempDir()})
}

// compute runs one set node and gives what its expression gave.
func compute(t *testing.T, expression string, values engine.Values) (any, error) {
	t.Helper()
	g := fmt.Sprintf(`schema_version: 1
channels: {prompt: {}, n: {initial: 0}, big: {}, log: {reducer: append}, o: {}, my-channel: {}, out: {}}
nodes: {a: {type: set, values: {out: %q}}}
edges: [{from: __start__, to: a}]
`, expression)
	turn, err := runGraph(t, g, values)
	if err != nil {
		return nil, err
	}
	return turn.State["out"], nil
}

func TestExpressionsComputeWithTheValuesOfChannels(t *testing.T) {
	t.Parallel()
	values := engine.Values{
		"prompt": "hi", "big": int64(9007199254740993), "my-channel": "mine", "n": 2,
		"log": []any{map[string]any{"exit_code": 0, "stdout": "x"}},
		"o":   map[string]any{"b": 1, "a": 2.5, "c": []any{"x"}},
	}
	for expression, want := range map[string]any{
		`n + 1`:                              int64(3),
		`n / 2`:                              int64(1),
		`n / 4`:                              0.5,
		`-n`:                                 int64(-2),
		`n ** 10`:                            int64(1024),
		`7 % n`:                              int64(1),
		`big + 1`:                            int64(9007199254740994),
		`big`:                                int64(9007199254740993),
		`string(big)`:                        "9007199254740993",
		`fromJSON("9007199254740993")`:       int64(9007199254740993),
		`log[-1].exit_code == 0`:             true,
		`log[-1]["exit_code"] + 1`:           int64(1),
		`len(log)`:                           int64(1),
		`"deployed: " + log[-1].stdout`:      "deployed: x",
		`"exit " + string(log[0].exit_code)`: "exit 0",
		`string(o)`:                          `{"a":2.5,"b":1,"c":["x"]}`,
		`string(nil)`:                        "null",
		`string("as it is")`:                 "as it is",
		`toJSON("x")`:                        `"x"`,
		`keys(o)`:                            []any{"a", "b", "c"},
		`values(o)[0]`:                       2.5,
		`toPairs({"z": 1, "y": 2})[0]`:       []any{"y", int64(2)},
		`$env["my-channel"]`:                 "mine",
		`map(1..3, # * n)`:                   []any{int64(2), int64(4), int64(6)},
		`filter([1, 2, 3], # > 1)`:           []any{int64(2), int64(3)},
		`reduce(1..4, #acc + #)`:             int64(10),
		`groupBy([1, 2, 3], # % 2 == 0)`:     map[string]any{"false": []any{int64(1), int64(3)}, "true": []any{int64(2)}},
		`uniq([1, 1, 2])`:                    []any{int64(1), int64(2)},
		`split("a,b", ",")`:                  []any{"a", "b"},
		`join(["a", "b"], "-")`:              "a-b",
		`replace("aaa", "a", "b")`:           "bbb",
		`sum([1, 2]) + max(3, 4)`:            int64(7),
		`sort([3, 1])`:                       []any{int64(1), int64(3)},
		`prompt == o.none`:                   false,
		`"b" in o`:                           true,
		`n in [1, 2]`:                        true,
		`let x = n; x + x`:                   int64(4),
		`answer == nil`:                      true,
		`thread + "/" + string(turn) + "/" + string(step)`: "t/1/1",
		`log[0]?.nothing?.here`:                            nil,
		`prompt | upper() | repeat(2)`:                     "HIHI",
		`n > 1 ? "yes" : "no"`:                             "yes",
		`o.none ?? "absent"`:                               "absent",
		`{"k": [n, nil, 1.5]}`:                             map[string]any{"k": []any{int64(2), nil, 1.5}},
	} {
		got, err := compute(t, expression, values)
		require.NoError(t, err, expression)
		require.Equal(t, want, got, expression)
	}
}

func TestAnExpressionThatFailsNamesWhatItSaw(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`n + 9223372036854775807`:     "value of channel out: expression n + 9223372036854775807 failed: 1 + 9223372036854775807: the result does not fit an integer of 64 bits; it saw n = 1",
		`big + 0.5`:                   "the integer has more digits than a number with a fraction can hold",
		`n / 0`:                       "division by zero",
		`n * 9223372036854775807 * 2`: "does not fit",
		`"a" + n`:                     "string + integer: use string() to join a text and another value",
		`log[-1].exit_code`:           "index out of range: -1 (array length is 0); it saw log = []",
		`prompt.x.y`:                  "it saw prompt = null",
		`fromJSON("{")`:               "JSON",
		`[prompt][n]`:                 "index out of range",
	} {
		_, err := compute(t, expression, engine.Values{"n": 1, "big": int64(9007199254740993)})
		require.ErrorContains(t, err, want, expression)
		require.ErrorContains(t, err, "failed at node a", expression)
	}
}

func TestNoExpressionRunsAway(t *testing.T) {
	t.Parallel()
	double := "let a0 = [1, 2]; "
	text := `let t0 = "xxxxxxxxxxxxxxxx"; `
	for i := range 60 {
		double += fmt.Sprintf("let a%d = [a%d, a%d]; ", i+1, i, i)
		text += fmt.Sprintf("let t%d = t%d + t%d; ", i+1, i, i)
	}
	for _, expression := range []string{
		`count(1..1000, count(1..1000, count(1..1000, # > 0) > 0) > 0)`,
		`map(1..100000, map(1..100000, #))`,
		`repeat("x", 100000000000)`,
		`repeat(repeat("x", 1000), 1000000)`,
		`join(map(1..100000, prompt), "")`,
		`replace(prompt, "", prompt)`,
		`len(map(1..900000, split(prompt, "")))`,
		double + `a60`,
		double + `string(a60)`,
		double + `a60 == a59`,
		double + `flatten(a60)`,
		double + `a59 in a60`,
		double + `len(uniq(a60))`,
		double + `max(a60)`,
		text + `len(t60)`,
		`map(1..900000, repeat(prompt, 2))`,
	} {
		_, err := compute(t, expression, engine.Values{"prompt": string(make([]byte, 10000)) + "x"})
		require.ErrorContains(t, err, "failed", shorten(expression, 100))
	}
}

func TestConditionsGiveKeys(t *testing.T) {
	t.Parallel()
	const graph = `schema_version: 1
channels: {v: {}, messages: {reducer: messages}, __route__: {}, out: {reducer: append}}
nodes:
  a: {type: set, values: {out: '"a"'}}
  x: {type: set, values: {out: '"x"'}}
  y: {type: set, values: {out: '"y"'}}
  z: {type: set, values: {out: '"z"'}}
edges: [{from: __start__, to: a}]
conditional_edges:
  - {from: a, condition: %s, routes: {%s}}
`
	calls := []any{map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "1"}}}}
	for _, c := range []struct {
		condition, routes string
		values            engine.Values
		want              []any
	}{
		{"'v'", "true: x, default: y, z: z", engine.Values{"v": true}, []any{"a", "x"}},
		{"'v'", "3: x, default: y, z: z", engine.Values{"v": 3}, []any{"a", "x"}},
		{"'v'", "null: x, default: y, z: z", nil, []any{"a", "x"}},
		{"'v'", "yes: x, default: y, z: z", engine.Values{"v": "yes"}, []any{"a", "x"}},
		{"'v'", "1.5: x, default: y, z: z", engine.Values{"v": 1.5}, []any{"a", "x"}},
		{"'v'", "p: x, q: z, default: y", engine.Values{"v": []any{"p", "q"}}, []any{"a", "x", "z"}},
		{"'v'", "p: x, q: z, default: y", engine.Values{"v": "other"}, []any{"a", "y"}},
		{"has_tool_calls", "true: x, false: y, default: z", engine.Values{"messages": calls}, []any{"a", "x"}},
		{"has_tool_calls", "true: x, false: y, default: z", nil, []any{"a", "y"}},
		{"route_channel", "p: x, default: y, z: z", engine.Values{"__route__": "p"}, []any{"a", "x"}},
		{"route_channel", "p: x, default: y, z: z", nil, []any{"a", "y"}},
	} {
		turn, err := runGraph(t, fmt.Sprintf(graph, c.condition, c.routes), c.values)
		require.NoError(t, err, c.condition)
		require.Equal(t, c.want, turn.State["out"], "%s %s %v", c.condition, c.routes, c.values)
	}
}

func TestASetNodeSeesTheStateAsTheStepBegan(t *testing.T) {
	t.Parallel()
	turn, err := runGraph(t, `
schema_version: 1
channels: {a: {initial: 1}, b: {initial: 2}, c: {}}
nodes: {swap: {type: set, values: {a: b, b: a, c: null}}}
edges: [{from: __start__, to: swap}]
`, engine.Values{"c": "x"})
	require.NoError(t, err)
	require.Equal(t, engine.State{"a": int64(2), "b": int64(1), "c": nil}, turn.State)
}

func TestATemplateIsCutAtTheEndOfItsExpressions(t *testing.T) {
	t.Parallel()
	var got []string
	for _, s := range cut(`a ${{ {"x": {"y": "}}"}}.x }} b $${{ c }} ${{n}}`) {
		got = append(got, fmt.Sprintf("%v:%s", s.code, s.text))
	}
	require.Equal(t, []string{`false:a `, `true: {"x": {"y": "}}"}}.x `, `false: b ${{ c }} `, `true:n`}, got)
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}
