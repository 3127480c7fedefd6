package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), store.Options{Synchronous: "NORMAL"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestANodeOfAFileIsTriedAgainByItsPolicyOrThatOfTheGraph(t *testing.T) {
	t.Parallel()
	const graph = `
channels: {log: {reducer: append}}
nodes:
  once: {type: exec, command: 'echo x >> n; test "$(wc -l < n)" -ge 3', fail_on: nonzero, output: log, on_crash: CRASH NODE}
edges: [{from: __start__, to: once}]
TOP
`
	for _, c := range []struct {
		crash, node, top string
		tries            int
	}{
		{crash: "retry", tries: 1},
		{crash: "retry", top: "retry_policy: {max_retries: 1, initial_delay_ms: 0}", tries: 2},
		{crash: "retry", node: ", retry_policy: {max_retries: 5, initial_delay_ms: 0.5, max_delay_ms: 0}", tries: 3},
		{crash: "retry", top: "retry_policy: {max_retries: 5}", node: ", retry_policy: {max_retries: 0}", tries: 1},
		{crash: "ask", top: "retry_policy: {max_retries: 5}", tries: 1}, // never repeated blindly
	} {
		dir := t.TempDir()
		g := mustLoad(t, fill(graph, "CRASH", c.crash, "NODE", c.node, "TOP", c.top))
		_, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Cwd: dir})
		require.Equal(t, c.tries < 3, err != nil, "%v: %v", c, err)
		n, err := os.ReadFile(filepath.Join(dir, "n"))
		require.NoError(t, err)
		require.Len(t, n, 2*c.tries, "%v", c)
	}
}

func TestANodeOfAFileEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	const graph = `
channels: {log: {reducer: append}, n: {reducer: sum}}
nodes:
  slow:  {type: exec, command: [sleep, 30], output: log, on_crash: CRASH, KEYS}
  after: {type: set, values: {n: 1}}
  sorry: {type: set, values: {n: 10}}
edges: [{from: __start__, to: slow}, {from: slow, to: after}]
conditional_edges: [{from: after, condition: n < 0, routes: {true: sorry, false: __end__}}]
`
	run := func(crash, keys string) (*engine.Turn, error) {
		g := mustLoad(t, fill(graph, "CRASH", crash, "KEYS", keys))
		return engine.New(g, openStore(t), engine.Options{}).Start(t.Context(), "t", engine.Input{Cwd: t.TempDir()})
	}
	turn, err := run("retry", "run_timeout: 50ms, on_timeout: skip")
	require.NoError(t, err)
	require.Equal(t, engine.State{"log": []any{}, "n": int64(1)}, turn.State)

	turn, err = run("retry", "run_timeout: 50ms, on_error: sorry")
	require.NoError(t, err)
	require.Equal(t, int64(10), turn.State["n"], "a failure leads to on_error")

	_, err = run("retry", "idle_timeout: 50ms")
	require.ErrorContains(t, err, "no sign of life for 50ms")

	// What is in doubt is asked about, whatever on_timeout says.
	turn, err = run("ask", "run_timeout: 50ms, on_timeout: skip")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.True(t, turn.Questions[0].IsDoubt())
}

func TestAJoinOfAFileRunsOnceOrWithEnough(t *testing.T) {
	t.Parallel()
	const graph = `
channels: {log: {reducer: append}}
nodes:
  a: {type: set, values: {log: '"a"'}}
  b: {type: set, values: {log: '"b"'}}
  b2: {type: set, values: {log: '"b2"'}}
  aim: {type: set, values: {log: '"join"'}, barrier: {wait_for: [a, b2]MIN}}
edges:
  - {from: __start__, to: a}
  - {from: __start__, to: b}
  - {from: a, to: aim}
  - {from: b, to: b2}
  - {from: b2, to: aim}
`
	turn, err := runGraph(t, fill(graph, "MIN", ""), nil)
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b", "b2", "join"}, turn.State["log"])
	turn, err = runGraph(t, fill(graph, "MIN", ", min: 1"), nil)
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b", "join", "b2"}, turn.State["log"], "one is enough")
}

func TestChannelsOfAFileKeepWhatTheySay(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, `
channels:
  all: {reducer: append, retention: unbounded, persistence: checkpoint}
  two: {reducer: append, retention: bounded, retention_limit: 2}
  one: {reducer: append, retention: latest}
  gone: {reducer: append, persistence: ephemeral}
nodes:
  a: {type: set, values: {all: '[1, 2, 3]', two: '[1, 2, 3]', one: '[1, 2, 3]', gone: '[1]'}}
  b: {type: set, values: {all: gone, two: 4, one: 4}}
edges: [{from: __start__, to: a}, {from: a, to: b}]
`)
	turn, err := engine.New(g, openStore(t), engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.State{
		"all": []any{int64(1), int64(2), int64(3), int64(1)}, "two": []any{int64(3), int64(4)}, "one": []any{int64(4)}, "gone": []any{},
	}, turn.State)
}

func TestAQuestionOfAFileHasItsDefaultAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, channel string
		want          any
	}{
		{"nodes: {a: {type: ask, message: m, choices: [1, 2], deadline: 1h, default: 2, output: v}}", "v", "2"},
		{"nodes: {a: {type: ask, message: m, deadline: 1h, default: {x: ['${{ w }}']}, output: v}}", "v", map[string]any{"x": []any{"given"}}},
		{"nodes: {a: {type: ask, message: m, deadline: 1h, default: null, output: v}}", "v", nil},
		{"nodes: {a: {type: set, values: {v: 1}}}\ninterrupt_before: [{node: a, deadline: 1h, default: approve}]", "v", int64(1)},
		{"nodes: {a: {type: set, values: {v: 1}}}\ninterrupt_before: [{node: a, deadline: 1h}]", "v", nil},
	} {
		g := mustLoad(t, "channels: {v: {}, w: {initial: given}}\nedges: [{from: __start__, to: a}]\n"+c.text+"\n")
		s, fake := openStore(t), clock.NewFake(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		e := engine.New(g, s, engine.Options{Clock: fake})
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, engine.Paused, turn.Status, c.text)
		require.Equal(t, fake.Now().Add(time.Hour), turn.Questions[0].Deadline.UTC())
		fake.Advance(2 * time.Hour)
		turn, err = e.Resume(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, c.want, turn.State[c.channel], c.text)
	}
}

func TestAFailureOfAFileLeadsToItsHandler(t *testing.T) {
	t.Parallel()
	turn, err := runGraph(t, `
channels: {log: {reducer: append}}
nodes:
  work:  {type: exec, command: "exit 3", fail_on: nonzero, on_crash: retry, on_error: sorry}
  sorry: {type: set, values: {log: '"sorry"'}}
  fine:  {type: set, values: {log: '"fine"'}}
edges: [{from: __start__, to: work}, {from: work, to: fine}]
`, nil)
	require.NoError(t, err)
	require.Equal(t, []any{"sorry"}, turn.State["log"])
}

const childGraph = `
channels: {text: {}, out: {reducer: append}, messages: {}}
nodes:
  ask:  {type: ask, message: "Is ${{ text }} right?", choices: [yes, no], output: out}
  more: {type: set, values: {out: text}}
edges: [{from: __start__, to: ask}, {from: ask, to: more}]
`

func TestASubgraphOfAFileRunsInlineOrFromAnotherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "parts"), 0o700))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const parent = `
channels: {topic: {initial: this}, log: {reducer: append}}
nodes:
  sub:
    type: subgraph
    input_map: {topic: text}
    output_map: {out: log}
    definition: DEFINITION
  after: {type: set, values: {log: '"after"'}}
edges: [{from: __start__, to: sub}, {from: sub, to: after}]
`
	write("parts/child.yaml", childGraph)
	write("parts/wrapper.yaml", fill(parent, "DEFINITION", "child.yaml"))
	inline, err := LoadFile(write("inline.yaml", fill(parent, "DEFINITION", "\n"+indent(childGraph, "      "))))
	require.NoError(t, err)
	file, err := LoadFile(write("file.yaml", fill(parent, "DEFINITION", "parts/child.yaml")))
	require.NoError(t, err)
	for _, g := range []*engine.Graph{inline, file} {
		require.Empty(t, g.Warnings(), "what the maps name is used outside")
		again, err := Load("elsewhere", g.Canonical())
		require.NoError(t, err)
		require.Equal(t, g.Fingerprint(), again.Fingerprint())

		e := engine.New(again, openStore(t), engine.Options{Load: Load})
		turn, err := e.Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
		require.Equal(t, "Is this right?", turn.Questions[0].Payload.Message)
		turn, err = e.Resume(t.Context(), "t", interrupt.Answer{Question: turn.Questions[0].ID(), Value: "yes", Actor: "ada"})
		require.NoError(t, err)
		require.Equal(t, []any{"yes", "this", "after"}, turn.State["log"])
	}
	nested, err := LoadFile(write("nested.yaml", fill(parent, "DEFINITION", "parts/wrapper.yaml", "input_map: {topic: text}", "input_map: {topic: topic}", "{out: log}", "{log: log}")))
	require.NoError(t, err)
	require.Contains(t, string(nested.Canonical()), `"name":"child"`)
}

func TestMistakesOfASubgraphAreReportedWhereTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const parent = "channels: {c: {}}\nnodes:\n  s: {type: subgraph, definition: %s}\nedges: [{from: __start__, to: s}]\n"
	write("bad.yaml", "channels: {c: {}}\nnodes: {a: {type: set, values: {d: 1}}}\nedges: [{from: __start__, to: aa}]\n")
	write("self.yaml", fmt.Sprintf(parent, "self.yaml"))
	write("loop1.yaml", fmt.Sprintf(parent, "loop2.yaml"))
	write("loop2.yaml", fmt.Sprintf(parent, "loop1.yaml"))
	outside := t.TempDir()
	other := filepath.Join(outside, "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("channels: {c: {}}\nnodes: {a: {type: set, values: {c: 1}}}\nedges: [{from: __start__, to: a}]\n"), 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "link.yaml")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "linked")))
	for definition, want := range map[string][]string{
		"bad.yaml": {
			`3:35: /nodes/s/definition: bad.yaml:2:33: /nodes/a/values/d: there is no channel "d"; did you mean c?`,
			`3:35: /nodes/s/definition: bad.yaml:3:31: /edges/0/to: there is no node "aa"; did you mean a?`,
		},
		"{channels: {c: }, nodes: {a: {type: set, values: {d: 1}}}, edges: [{from: __start__, to: aa}]}": {
			`3:85: /nodes/s/definition/nodes/a/values/d: there is no channel "d"; did you mean c?`,
			`3:124: /nodes/s/definition/edges/0/to: there is no node "aa"; did you mean a?`,
		},
		"none.yaml":               {"none.yaml: no such file or directory"},
		".":                       {"it is a folder"},
		"../other.yaml":           {"../other.yaml is outside of the folder of"},
		"parts/../../other.yaml":  {"is outside of the folder of"},
		"link.yaml":               {"link.yaml: "},
		"linked/other.yaml":       {"other.yaml: "},
		"'" + other + "'":         {"a graph file names no file by its whole path"},
		"self.yaml":               {"self.yaml includes itself"},
		"loop1.yaml":              {"includes itself"},
		"[a]":                     {"definition of node s is a graph or the path of a graph file, not a list"},
		"bad.yaml, on_crash: ask": {"on_crash of node s can only be retry", "", ""},
		"{channels: {c: }, nodes: {a: {type: set, values: {c: 1}}}, edges: [{from: __start__, to: a}]}, input_map: {b: c}, output_map: {c: d}": {
			`the parent has no channel "b"`, `the parent has no channel "d"`,
		},
	} {
		_, err := LoadFile(write("main.yaml", fmt.Sprintf(parent, definition)))
		var all *engine.CompileError
		require.ErrorAs(t, err, &all, definition)
		require.Len(t, all.Problems, len(want), definition+": "+err.Error())
		for _, w := range want {
			require.ErrorContains(t, err, w)
		}
	}
	_, err := Load("x", []byte(fmt.Sprintf(parent, "bad.yaml")))
	require.ErrorContains(t, err, "this graph is in no file, so it has no folder to look in")
}
