package nodes

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

func oneNode(config string) string {
	return "channels: {v: , out: }\nedges: [{from: __start__, to: n}]\nnodes: {n: {" + config + "}}\n"
}

func TestAWaitSleepsUntilItsTime(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for config, d := range map[string]time.Duration{
		"for: 90m": 90 * time.Minute, "for: '${{ v }}'": time.Hour,
		"until: 2026-12-24T18:00:00+01:00": 5 * time.Hour, "until: '${{ \"2026-12-24T13:00:00Z\" }}'": time.Hour,
	} {
		fake, s := clock.NewFake(begin), openStore(t)
		e := engine.New(mustLoad(t, oneNode("type: wait, "+config)), s, engine.Options{Clock: fake})
		turn, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": "1h"}})
		require.NoError(t, err, config)
		require.Equal(t, engine.Sleeping, turn.Status, config)
		fake.Advance(d - time.Second)
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Sleeping, turn.Status, config)
		fake.Advance(time.Second)
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, engine.Done, turn.Status, config)
	}
	for config, want := range map[string]string{"for: '${{ v }}'": `for cannot be "soon": it is how long, such as 30s`, "until: '${{ v }}'": `until: "soon" is no date`} {
		_, err := engine.New(mustLoad(t, oneNode("type: wait, "+config)), openStore(t), engine.Options{}).
			Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": "soon"}})
		require.ErrorContains(t, err, want)
	}
}

func TestASignalGivesItsValueOrItsDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config, send string
		want         any
		err          string
	}{
		{"name: go", "go", map[string]any{"n": int64(9007199254740993)}, ""},
		{"name: 'go-${{ v }}', timeout: 1h", "go-x", map[string]any{"n": int64(9007199254740993)}, ""},
		{"name: go, timeout: 1h, default: {n: 9007199254740993, v: '${{ v }}'}", "", map[string]any{"n": int64(9007199254740993), "v": "x"}, ""},
		{"name: go, timeout: 1h, default: null", "", nil, ""},
		{"name: go, timeout: 1h", "", nil, "no signal go came within 1h0m0s"},
	} {
		fake, s := clock.NewFake(time.Unix(1000, 0)), openStore(t)
		e := engine.New(mustLoad(t, oneNode("type: signal, output: out, "+c.config)), s, engine.Options{Clock: fake})
		turn, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": "x", "out": "before"}})
		require.NoError(t, err, c.config)
		require.Equal(t, engine.Sleeping, turn.Status)
		if c.send != "" {
			err = e.Signal(t.Context(), "t", c.send, map[string]any{"n": int64(9007199254740993)}, engine.By{})
			require.NoError(t, err)
		}
		fake.Advance(time.Hour)
		turn, err = e.Resume(t.Context(), "t")
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.config)
		require.Equal(t, engine.Done, turn.Status, c.config)
		require.Equal(t, c.want, turn.State["out"], c.config)
	}
}

const switchGraph = `
channels: {n: , log: {reducer: append}, response: }
nodes:
  which:
    type: switch
    MATCH
    cases:
      - {when: 'n == nil', to: __end__}
      - {when: n < 10 // small, to: small}
      - {when: 'let x = n % 2; x == 0', to: even}
      - {when: false, to: odd}
    default: odd
  small: {type: set, values: {log: '"small"'}}
  even:  {type: set, values: {log: '"even"'}}
  odd:   {type: set, values: {log: '"odd"'}}
  done:  {type: set, values: {response: 'join(log, " ")'}}
edges: [{from: __start__, to: which}, {from: small, to: done}, {from: even, to: done}, {from: odd, to: done}]
`

func TestASwitchLeadsWhereItsCasesSay(t *testing.T) {
	t.Parallel()
	for match, wants := range map[string]map[any]any{
		"":             {5: "small", 4: "small", 12: "even", 13: "odd"},
		"match: first": {4: "small", 13: "odd"},
		"match: all":   {5: "small", 4: "even small", 12: "even", 13: "odd"},
	} {
		g := mustLoad(t, fill(switchGraph, "MATCH", match))
		require.Empty(t, g.Warnings())
		for n, want := range wants {
			turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"n": n}})
			require.NoError(t, err)
			require.Equal(t, want, turn.State["response"], "%v %s", n, match)
		}
	}
	g := mustLoad(t, fill(switchGraph, "MATCH", ""))
	_, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"n": "text"}})
	require.ErrorContains(t, err, "failed at node which: route of node which: case 2 of node which: expression n < 10")
	require.ErrorContains(t, err, `it saw n = "text"`)
	require.NotContains(t, err.Error(), " ? ", "the cases are said as they stand in the file")
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Nil(t, turn.State["response"])
}

func TestMistakesOfASwitchStandAtTheirCase(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"7:48: /nodes/s/cases/1/to: there is no node \"gg\"; did you mean g?",
		"8:15: /nodes/s/cases/2/when: unknown name vv in an expression: it is no declared channel; did you mean v?",
		"9:14: /nodes/s/default: there is no node \"h\"; did you mean g?",
	}, problemTexts(mistakes(t, `
channels: {v: , out: }
nodes:
  g: {type: set, values: {out: v}}
  s: {type: switch, cases: [
      {when: 'v == 1', to: g},
      {when: 'v == 2 or v == 3 or v == 4', to: gg},
      {when: 'vv > 1', to: g}],
    default: h}
edges: [{from: __start__, to: s}]
`)))
	for config, want := range map[string]string{
		"cases: [{when: v, to: n}]":             "cases needs default beside it",
		"default: n":                            "default needs cases beside it",
		"cases: [], default: n":                 "cases of node n has at least 1 items",
		"cases: [{when: v}], default: n":        "cases/0 of node n needs to",
		"cases: [{wen: v, to: n}], default: n":  "unknown key wen in cases/0 of node n; did you mean when?",
		"cases: [{when: 1, to: n}], default: n": "cases/0/when of node n is true or false or a text, not a number; write it in quotes",
	} {
		got := mistakes(t, oneNode("type: switch, "+config))
		require.Len(t, got, 1, "%s: %v", config, got)
		require.Contains(t, got[0].String(), want)
	}
}

func TestAWaitWithoutAnEndOrWithTwoIsAMistake(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"":                                       "3:9: /nodes/n/for: the configuration of node n needs for or until",
		", for: ":                                "the configuration of node n needs for or until",
		", fro: 3s":                              "unknown key fro in node n of type wait; did you mean for?",
		", for: 3s, until: 2030-01-01T00:00:00Z": "the configuration of node n has for and until, which exclude each other; leave all but one of them out",
	} {
		got := mistakes(t, oneNode("type: wait"+config))
		require.Len(t, got, 1, "%s: %v", config, got)
		require.Contains(t, got[0].String(), want)
	}
	got := mistakes(t, "schema_version: 0\n"+oneNode("type: wait, fro: 3s"))
	require.Len(t, got, 1)
	require.Contains(t, got[0].String(), "needs for or until")
}

func problemTexts(list []engine.Problem) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

func TestATransformMakesAValueAndChecksItsShape(t *testing.T) {
	t.Parallel()
	const config = `type: transform, output: out, value: {id: '${{ v.id }}', tags: '${{ map(v.tags ?? [], upper(#)) }}', note: 'by ${{ v.who }}', kept: [1, true]},
  schema: {type: object, required: [id], properties: {id: {type: integer, minimum: 1}, tags: {type: array, items: {type: string, minLength: 2}}}}`
	turn, err := runGraph(t, oneNode(config), engine.Values{"v": map[string]any{"id": 7, "tags": []any{"ab"}, "who": "me"}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": int64(7), "tags": []any{"AB"}, "note": "by me", "kept": []any{int64(1), true}}, turn.State["out"])
	_, err = runGraph(t, oneNode(config), engine.Values{"v": map[string]any{"id": "7", "tags": []any{"a"}}})
	require.ErrorContains(t, err, "failed at node n: the value does not fit schema: ")
	require.ErrorContains(t, err, "id is an integer, not a text")
	require.ErrorContains(t, err, "tags/0 has at least 2 characters, not 1")
	_, err = runGraph(t, oneNode("type: transform, output: out, value: '${{ v }}', schema: {type: string}"), engine.Values{"v": 1})
	require.ErrorContains(t, err, "value is a text, not a number; it is 1")

	for schema, want := range map[string]string{
		"{type: strnig}":                       "schema of node n: ",
		"{$ref: 'file:///etc/passwd'}":         "schema of node n: ",
		"{$ref: 'https://example.com/x.json'}": "schema of node n: ",
		"5":                                    "schema of node n is true or false or an object, not a number",
	} {
		got := mistakes(t, oneNode("type: transform, output: out, value: 1, schema: "+schema))
		require.Len(t, got, 1)
		require.Contains(t, got[0].String(), want)
		require.NotContains(t, got[0].Message, "root:")
	}
}

func joined(v any) string {
	var parts []string
	for _, e := range v.([]any) {
		parts = append(parts, e.(string))
	}
	return strings.Join(parts, " ")
}

func TestAMapRunsANodeForEachItemInOrder(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, `
channels: {items: , item: , i: , results: {reducer: append}, visits: {reducer: sum}}
nodes:
  each: {type: map, over: 'filter(items, # != "skip")', to: work, as: item, index_as: i}
  work: {type: subgraph, definition: {channels: {item: , i: , results: {reducer: append}, made: },
    nodes: {a: {type: set, values: {made: 'string(i) + item'}}, b: {type: set, values: {results: made}}},
    edges: [{from: __start__, to: a}, {from: a, to: b}]}, max_concurrency: 2}
  sum:  {type: set, values: {visits: 1}}
edges: [{from: __start__, to: each}, {from: each, to: sum}, {from: work, to: sum}]
`)
	require.Empty(t, g.Warnings())
	require.Contains(t, string(g.Canonical()), `"max_concurrency":2`)
	var items []any
	var want []string
	for i := range 12 {
		items = append(items, fmt.Sprint("x", i), "skip")
		want = append(want, fmt.Sprintf("%dx%d", i, i))
	}
	for _, c := range []struct {
		items []any
		want  string
	}{{items, strings.Join(want, " ")}, {[]any{"a"}, "0a"}, {[]any{}, ""}, {[]any{"skip"}, ""}} {
		var mu sync.Mutex
		now, most := 0, 0
		e := engine.New(g, openStore(t), engine.Options{Events: func(e engine.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Node == "work" && e.Type == engine.EventTaskStarted {
				now++
				most = max(most, now)
			} else if e.Node == "work" && e.Type == engine.EventTaskFinished {
				now--
			}
		}})
		turn, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"items": c.items}})
		require.NoError(t, err)
		require.Equal(t, c.want, joined(turn.State["results"]))
		require.EqualValues(t, 1, turn.State["visits"], "what follows runs once")
		require.LessOrEqual(t, most, 2)
		require.Nil(t, turn.State["item"], "the item is seen by its run alone")
	}
	_, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"items": 5}})
	require.ErrorContains(t, err, `it saw items = 5`)
}

func TestMistakesOfAMapAreFoundWhenItIsLoaded(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"over: v, to: m, as: out":                `4:`,
		"over: v, to: n, as: outt":               `there is no channel "outt"; did you mean out?`,
		"over: v, to: n, as: out, index_as: out": "two channels for an item and its number",
		"over: vv, to: n, as: out":               "did you mean v?",
		"to: n, as: out":                         "needs over",
	} {
		got := mistakes(t, oneNode("type: map, "+config))
		require.NotEmpty(t, got)
		if want != "4:" {
			require.Contains(t, got[0].String(), want, config)
		} else {
			require.Contains(t, got[0].String(), `there is no node "m"; did you mean n?`)
		}
	}
	_, err := runGraph(t, oneNode("type: map, over: v, to: w, as: out},\n  w: {type: set, values: {v: out}"), engine.Values{"v": map[string]any{"a": 1}})
	require.ErrorContains(t, err, `failed at node n: over is {"a":1}, which is no list`)
}
