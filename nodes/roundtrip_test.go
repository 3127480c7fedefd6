package nodes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
)

// A graph that was loaded, and written, and loaded again is the same graph,
// with every feature of the format in any combination.
func TestEveryGraphIsTheSameAfterItWasStored(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		doc := randomGraph(t, 0)
		raw, err := json.Marshal(doc)
		require.NoError(t, err)
		g, err := Load("random", raw)
		require.NoError(t, err, string(raw))
		requireFits(t, string(raw))

		again, err := Load("elsewhere", g.Canonical())
		require.NoError(t, err, string(raw))
		require.Equal(t, string(g.Canonical()), string(again.Canonical()), string(raw))
		require.Equal(t, g.Fingerprint(), again.Fingerprint())
		requireFits(t, string(g.Canonical()))

		// The order of keys and annotations are no part of it.
		doc["x-note"] = rapid.IntRange(0, 9).Draw(t, "note")
		raw, err = json.MarshalIndent(doc, "", " ")
		require.NoError(t, err)
		noted, err := Load("random", raw)
		require.NoError(t, err)
		require.Equal(t, g.Fingerprint(), noted.Fingerprint())
		for _, key := range features(doc) {
			seen[key]++
		}
	})
	for _, key := range []string{
		"retention", "persistence", "barrier", "min", "timeout", "retry_policy", "jitter_pct", "run_timeout", "idle_timeout", "on_timeout",
		"on_error", "deadline", "default", "definition", "input_map", "output_map", "conditional_edges", "interrupt_after", "initial", "commands", "hint", "format", "minimum", "maximum",
	} {
		require.Positive(t, seen[key], "no random graph has %s", key)
	}
}

// features are all keys that a document holds.
func features(v any) (keys []string) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			keys = append(append(keys, k), features(inner)...)
		}
	case []any:
		for _, inner := range v {
			keys = append(keys, features(inner)...)
		}
	}
	return keys
}

// randomGraph makes a graph file without mistakes: a chain of nodes, to which
// more is added that cannot break it.
func randomGraph(t *rapid.T, depth int) map[string]any {
	some := func(label string) bool { return rapid.Bool().Draw(t, label) }
	pick := func(label string, options ...any) any { return rapid.SampledFrom(options).Draw(t, label) }
	maybe := func(m map[string]any, key string, options ...any) {
		if some(key) {
			m[key] = pick(key, options...)
		}
	}
	doc := map[string]any{"channels": map[string]any{}, "nodes": map[string]any{}}
	if depth == 0 {
		maybe(doc, "schema_version", 0, 1)
		maybe(doc, "name", "a name", "ümläut", "7")
	}
	channels := doc["channels"].(map[string]any)
	for _, name := range []string{"list", "x-list", "any", "any/2"} {
		ch := map[string]any{"reducer": "append"}
		if name[0] == 'a' {
			ch = map[string]any{}
		}
		maybe(ch, "persistence", "checkpoint", "ephemeral")
		switch pick("retention", "none", "unbounded", "latest", "bounded") {
		case "unbounded":
			ch["retention"] = "unbounded"
		case "latest":
			ch["retention"] = "latest"
		case "bounded":
			ch["retention"], ch["retention_limit"] = "bounded", rapid.IntRange(1, 9).Draw(t, "limit")
		}
		maybe(ch, "initial", []any{}, []any{1, 2.5, nil, "x", map[string]any{"_k": true}})
		channels[name] = ch
	}
	channels["total"] = map[string]any{"reducer": pick("number", "sum", "min", "max")}
	retry := func() any {
		policy := map[string]any{}
		maybe(policy, "max_retries", 0, 1, 7)
		maybe(policy, "initial_delay_ms", 0, 1, 0.25, 1500)
		maybe(policy, "backoff_multiplier", 1, 1.5, 3)
		maybe(policy, "max_delay_ms", 0, 5000, 0.001)
		maybe(policy, pick("jitter", "jitter", "jitter_pct").(string), 0, 0.3, 1)
		return policy
	}
	if some("retry_policy") {
		doc["retry_policy"] = retry()
	}
	nodes := doc["nodes"].(map[string]any)
	count := rapid.IntRange(2, 5).Draw(t, "nodes")
	name := func(i int) string { return []string{"first", "x-two", "_3", "no/4", "fünf"}[i] }
	edges := []any{map[string]any{"from": engine.Start, "to": name(0)}}
	var conditional []any
	for i := range count {
		n := randomNode(t, depth, maybe, pick)
		if some("own retry") {
			n["retry_policy"] = retry()
		}
		maybe(n, "run_timeout", "5s", "1h30m", "1.5s")
		maybe(n, "idle_timeout", "250ms")
		if n["run_timeout"] != nil || n["idle_timeout"] != nil {
			maybe(n, "on_timeout", "fail", "retry", "skip")
		}
		if i > 0 && some("on_error") {
			n["on_error"] = engine.End
		}
		if i > 0 && some("barrier") {
			n["barrier"] = map[string]any{"wait_for": []any{name(i - 1)}}
			maybe(n["barrier"].(map[string]any), "min", 1)
			maybe(n["barrier"].(map[string]any), "timeout", "90m")
		}
		nodes[name(i)] = n
		if i == 0 {
			continue
		}
		edge := map[string]any{"from": name(i - 1), "to": name(i)}
		switch pick("edge", "plain", "closed", "open", "inline") {
		case "plain":
			edges = append(edges, edge)
		case "closed":
			conditional = append(conditional, map[string]any{"from": name(i - 1), "condition": "len(list) > 1", "routes": map[string]any{"true": name(i), "false": engine.End}})
		case "open":
			conditional = append(conditional, map[string]any{"from": name(i - 1), "condition": "any", "routes": map[string]any{"a": name(i), "default": engine.End}})
		case "inline":
			edges = append(edges, map[string]any{"from": name(i - 1), "type": "conditional", "condition": "list[0]", "routes": map[string]any{"3": name(i)}})
		}
	}
	if some("commands") {
		command := map[string]any{"name": "go", "description": "d", "input": map[string]any{"any": pick("input", "${{ text }}", 1, []any{"a ${{ len(text) }}"})}}
		maybe(command, "hint", "where")
		doc["commands"] = []any{command}
	}
	doc["edges"] = edges
	if conditional != nil {
		doc["conditional_edges"] = conditional
	}
	for _, list := range []string{"interrupt_before", "interrupt_after"} {
		switch pick(list, "none", "name", "object") {
		case "name":
			doc[list] = []any{name(1)}
		case "object":
			gate := map[string]any{"node": name(0)}
			maybe(gate, "message", "Really?")
			maybe(gate, "on_reject", engine.End)
			if some("gate deadline") {
				gate["deadline"] = "24h"
				maybe(gate, "default", "approve", "reject")
			}
			doc[list] = []any{name(1), gate}
		}
	}
	return doc
}

func randomNode(t *rapid.T, depth int, maybe func(map[string]any, string, ...any), pick func(string, ...any) any) map[string]any {
	kinds := []any{"set", "exec", "ask"}
	if depth < 2 {
		kinds = append(kinds, "subgraph")
	}
	n := map[string]any{"type": pick("type", kinds...)}
	switch n["type"] {
	case "set":
		n["values"] = map[string]any{"list": pick("value", "1", "any", `$env["any/2"]`, "[list, 1]"), "total": 1}
		maybe(n, "on_crash", "ask", "retry", "fail")
	case "exec":
		n["command"] = pick("command", "echo ${{ any }}", []any{"echo", "${{ list[0] }}", 7}, []any{"true"})
		maybe(n, "output", "list", "any")
		maybe(n, "env", map[string]any{"A": "${{ any }}", "B": 1})
		maybe(n, "stdin", "${{ any }}")
		maybe(n, "timeout", "5m")
		maybe(n, "max_output", 1000)
		maybe(n, "on_crash", "ask", "retry", "fail")
	case "ask":
		n["message"] = pick("message", "Well?", "Is it ${{ any }}?")
		maybe(n, "data", map[string]any{"k": []any{"${{ any }}", nil}})
		maybe(n, "output", "list", "any")
		answers := map[string]any{}
		switch pick("answers", "any", "choices", "type", "several", "format") {
		case "choices":
			n["choices"] = []any{"yes", 1, map[string]any{"id": "no", "name": "No", "kind": "reject_once"}}
			answers["default"] = pick("default", "yes", "1", 1, "no")
		case "type":
			n["answer_type"], answers["default"] = "integer", 3
			maybe(n, "minimum", 0, -2)
			maybe(n, "maximum", 3, 1000)
		case "several":
			n["choices"], n["answer_type"], answers["default"] = []any{"a", "b"}, "list", []any{"b"}
			maybe(n, "minimum", 0, 1)
		case "format":
			n["answer_type"], n["format"], answers["default"] = "string", "date", "2026-12-31"
		default:
			answers["default"] = pick("default", nil, "x", map[string]any{"k": "${{ any }}"})
		}
		if rapid.Bool().Draw(t, "ask deadline") {
			n["deadline"], n["default"] = "48h", answers["default"]
		}
	case "subgraph":
		n["definition"] = randomGraph(t, depth+1)
		maybe(n, "input_map", map[string]any{"any": "any/2"}, map[string]any{})
		maybe(n, "output_map", map[string]any{"list": "x-list", "total": "total"}, map[string]any{})
	}
	return n
}

// What NeoGraph calls a topology runs unchanged where it uses known node types.
func TestATopologyOfSchemaVersion1RunsUnchanged(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, `{
  "schema_version": 1,
  "name": "fan-in",
  "_author": "somebody",
  "channels": {
    "items":   {"reducer": "append", "initial": [1]},
    "recent":  {"reducer": "append", "retention": "bounded", "retention_limit": 2},
    "scratch": {"reducer": "overwrite", "persistence": "ephemeral", "initial": "empty"},
    "__route__": {"reducer": "overwrite"},
    "out": {"reducer": "append"}
  },
  "nodes": {
    "plan":   {"type": "set", "values": {"items": "[2, 3]", "scratch": "\"used\""}, "x-ui": {"x": 1}},
    "left":   {"type": "set", "values": {"recent": "items[0]", "out": "\"left \" + scratch"}},
    "right":  {"type": "set", "values": {"recent": "items[1:]"}},
    "join":   {"type": "set", "values": {"out": "recent", "__route__": "\"inner\""}, "barrier": {"wait_for": ["left", "right"]}},
    "inner":  {"type": "subgraph", "input_map": {"items": "given"}, "output_map": {"result": "out"},
               "definition": {
                 "channels": {"given": {"reducer": "append"}, "result": {"reducer": "append"}},
                 "nodes": {"sum": {"type": "set", "values": {"result": "sum(given)"}}},
                 "edges": [{"from": "__start__", "to": "sum"}, {"from": "sum", "to": "__end__"}]}}
  },
  "edges": [
    {"from": "__start__", "to": "plan"},
    {"from": "plan", "to": "left"},
    {"from": "plan", "to": "right"},
    {"from": "left", "to": "join"},
    {"from": "right", "to": "join"},
    {"from": "join", "type": "conditional", "condition": "route_channel", "routes": {"inner": "inner", "default": "__end__"}},
    {"from": "inner", "to": "__end__"}
  ],
  "interrupt_before": [],
  "interrupt_after": [],
  "retry_policy": {"max_retries": 2, "initial_delay_ms": 0, "backoff_multiplier": 2.0, "max_delay_ms": 5000}
}`)
	turn, err := engine.New(g, openStore(t), engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.State{
		"items": []any{int64(1), int64(2), int64(3)}, "recent": []any{int64(2), int64(3)}, "scratch": "empty", "__route__": "inner",
		"out": []any{"left used", int64(2), int64(3), int64(6)},
	}, turn.State)
}

func TestWhatIsTooLargeToBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	// An alias costs nothing in the file, and all of it in the canonical form.
	text := "channels: {c: {}}\nx-long: &long '" + strings.Repeat("0", 200_000) + "'\nnodes:\n"
	edges := "edges: [{from: __start__, to: n0}"
	for i := range 10 {
		text += fmt.Sprintf("  n%d: {type: ask, message: *long, output: c}\n", i)
		edges += fmt.Sprintf(", {from: n%d, to: n%d}", i, i+1)
	}
	text += "  n10: {type: set, values: {c: 1}}\n" + edges + "]\n"
	_, err := Load("x", []byte(text))
	require.ErrorContains(t, err, "this graph cannot be stored, because its canonical form is no graph: 1:1: the file has")
	_, err = Load("x", []byte(text+"x-more: ["+strings.Repeat("*long, ", 40)+"]\n"))
	require.ErrorContains(t, err, "counting every alias as often as it is used")
}
