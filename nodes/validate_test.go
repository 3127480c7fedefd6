package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func reports(list []engine.Problem) []string {
	out := []string{}
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

func TestEveryFindingOfTheValidatorIsReportedAtOnceWithItsPlace(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`5:40: /nodes/a/values/ct: there is no channel "ct"; did you mean cut?`,
		`7:65: /nodes/c/barrier/wait_for/1: join c waits for b, which never leads to it: the join can never fill; add an edge from b to c`,
		`7:68: /nodes/c/barrier/wait_for/2: there is no node "dd"; did you mean d?`,
		`9:3: /nodes/lonely: node lonely is unreachable: no edge leads to it`,
		`10:3: /nodes/loop: no way leads from the cycle of nodes loop, loop2 to __end__`,
		`12:53: /nodes/e/on_error: there is no node "cc"; did you mean c?`,
		`15:19: /edges/1/to: there is no node "ax"; did you mean a?`,
		`22:54: /conditional_edges/0/routes/yes: the condition never gives "yes"; it gives true or false`,
		`23:42: /conditional_edges/1/routes: there is no route for "false", and the condition gives true or false; add a route for it, to __end__ if the branch ends there`,
		`24:35: /conditional_edges/2/routes: the conditional edge of e leads nowhere: routes is empty`,
		`25:19: /interrupt_after/0: an interrupt on node "aa", which does not exist; did you mean a?`,
	}, reports(mistakes(t, `schema_version: 1
name: all findings
channels: {cut: {}, messages: {}}
nodes:
  a:      {type: set, values: {cut: 1, ct: 1}}
  b:      {type: set, values: {cut: 1}}
  c:      {type: set, values: {cut: 1}, barrier: {wait_for: [d, b, dd]}}
  d:      {type: set, values: {cut: 1}}
  lonely: {type: set, values: {cut: 1}}
  loop:   {type: set, values: {cut: 1}}
  loop2:  {type: set, values: {cut: 1}}
  e:      {type: set, values: {cut: 1}, on_error:   cc}
edges:
  - {from: __start__, to: a}
  - {from: a, to: ax}
  - {from: b, to: loop}
  - {from: loop, to: loop2}
  - {from: loop2, to: loop}
  - {from: __start__, to: e}
  - {from: __start__, to: d}
conditional_edges:
  - {from: a, condition: cut == 1, routes: {true: b, yes: b}}
  - {from: d, condition: has_tool_calls, routes: {true: c}}
  - {from: e, condition: cut,     routes: {}}
interrupt_after: [aa]
`)))
}

func TestWarningsAreAboutWhatANodeReadsAndWrites(t *testing.T) {
	t.Parallel()
	warnings := func(text string) []string {
		t.Helper()
		return reports(mustLoad(t, text).Warnings())
	}
	require.Equal(t, []string{
		`3:3: /channels/both: a and b run in one step and write channel both, whose reducer overwrite takes one writer: the step fails; give it another reducer, such as append, or let one node follow the other`,
		`5:3: /channels/given: channel given is read, but nothing writes it and it has no initial value: it is empty unless an input sets it`,
		`6:3: /channels/lost: channel lost is written, and nothing reads it`,
		`7:3: /channels/idle: channel idle is never used; leave it out`,
		`18:27: /conditional_edges/0/condition: the condition of node j reads channel "messages", which is not declared; declare it under channels`,
	}, sorted(warnings(`
channels:
  both: {}
  list: {reducer: append}
  given: {}
  lost: {}
  idle: {}
  _acp_cwd: {}
  prompt: {}
  response: {}
nodes:
  a: {type: set, values: {both: 1, list: given}}
  b: {type: set, values: {both: 2, list: '"x"'}}
  j: {type: set, values: {lost: both, response: list}, barrier: {wait_for: [a, b]}}
edges: [{from: __start__, to: a}, {from: __start__, to: b}, {from: a, to: j}, {from: b, to: j}]
conditional_edges:

- {from: j,    condition: has_tool_calls, routes: {true: a, false: __end__}}
`)))

	// Further down two branches of a fork still run side by side; behind a join
	// they do not.
	const fork = `
channels: {v: {initial: 0}}
nodes:
  top: {type: set, values: {v: v}}
  a: {type: exec, command: [a]}
  b: {type: exec, command: [b]}
  a2: {type: set, values: {v: 1}}
  b2: {type: set, values: {v: 2}BARRIER}
edges: [{from: __start__, to: top}, {from: top, to: a}, {from: top, to: b}, {from: a, to: a2}, {from: b, to: b2}EDGE]
`
	require.Len(t, warnings(fill(fork, "BARRIER", "", "EDGE", "")), 1)
	require.Empty(t, warnings(fill(fork, "BARRIER", ", barrier: {wait_for: [b, a2]}", "EDGE", ", {from: a2, to: b2}")))

	// Branches of unequal length.
	require.Equal(t, []string{
		`4:54: /nodes/c: branches of unequal length lead to node c: it runs once for each length; a barrier with wait_for: [a, b] makes it run once`,
	}, warnings(`
channels: {log: {reducer: append}}
nodes: {a: {type: exec, command: [a], output: log}, b: {type: exec, command: [b], output: log},
  x-wide: {type: exec, command: [x], output: log},   c: {type: set, values: {log: 1}}}
edges: [{from: __start__, to: a}, {from: a, to: b}, {from: a, to: c}, {from: b, to: c}, {from: __start__, to: x-wide}]
`))
}

func TestNoWarningIsGivenForWhatTheSurroundingsReadAndWrite(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		releaseGraph,
		// A workflow: its input and its result are channels like any other.
		"channels: {who: {}, greeting: {}}\nnodes: {a: {type: set, values: {greeting: who}}}\nedges: [{from: __start__, to: a}]\n",
		// A chat: its messages come and go by a channel.
		"channels: {messages: {reducer: messages}}\nnodes: {a: {type: set, values: {messages: '{role: \"assistant\", content: \"hi\"}'}}}\nedges: [{from: __start__, to: a}]\n",
		"channels: {prompt: {}, response: {}}\nnodes: {a: {type: exec, command: [echo, \"${{ prompt }}\"], output: response}}\nedges: [{from: __start__, to: a}]\n",
	} {
		require.Empty(t, mustLoad(t, text).Warnings(), text)
	}
	require.Empty(t, Default().Warnings())
}

func TestWhatAPolicyCannotDoIsWarnedAbout(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, `
channels: {log: {reducer: append}}
nodes: {a: {type: exec, command: [a], output: log, retry_policy: {max_retries: 1}, run_timeout: 1m, on_timeout: skip}}
edges: [{from: __start__, to: a}]
`)
	require.Equal(t, []string{
		`3:52: /nodes/a/retry_policy: node a is never retried: its on_crash is ask, so it must not blindly be repeated; on_crash: retry says that it may be`,
		`3:113: /nodes/a/on_timeout: on_timeout of node a has no effect: its on_crash is ask, so work that was cut short is neither repeated nor skipped; on_crash: retry says that it may be repeated`,
	}, reports(g.Warnings()))
}

func TestMistakesOfNodeKeysStandAtTheirPlace(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]string{
		"on_timeout: skip":                                    "node n has no timeout; add run_timeout or idle_timeout",
		"run_timeout: 5":                                      "run_timeout of node n is a duration with a unit, not a number",
		"run_timeout: 1m, on_timeout: skipp":                  "did you mean skip?",
		"on_error: n":                                         "node n cannot handle its own failure",
		"barrier: {wait_fro: [m]}":                            "did you mean wait_for?",
		"barrier: {wait_for: [m], min: 2}":                    "min is between 1 and 1",
		"barrier: {wait_for: [m], timeout: 5}":                "timeout of the barrier of node n is a duration with a unit, not a number",
		"barrier: {wait_for: [m], timeout: 0s}":               "timeout of the barrier of node n is a duration greater than zero",
		"barrier: {wait_for: [m, m]}":                         "join n waits for m twice",
		"barrier: [m]":                                        "barrier of node n is an object, not a list",
		"retry_policy: {max_retrys: 1}":                       "did you mean max_retries?",
		"retry_policy: {max_retries: -1}":                     "max_retries is between 0 and 1000000",
		"retry_policy: {backoff_multiplier: 0.5}":             "backoff_multiplier is a number between 1 and 1000, not 0.5",
		"retry_policy: {initial_delay_ms: soon}":              "initial_delay_ms is a number",
		"retry_policy: {jitter: 0.1, jitter_pct: 10}":         "leave out one of them",
		"retry_policy: {max_retries: 1, max_delay_ms: 1e300}": "max_delay_ms is a number between 0 and",
	} {
		_, err := Load("x", []byte("channels: {c: {reducer: append}}\nnodes: {m: {type: set, values: {c: 1}}, n: {type: set, values: {c: 1}, "+node+"}}\nedges: [{from: __start__, to: m}, {from: m, to: n}]\n"))
		require.ErrorContains(t, err, want, node)
		require.ErrorContains(t, err, "has 1 mistake", node)
	}
	for channel, want := range map[string]string{
		"{retention: bounded}":                     "channel c with retention: bounded needs retention_limit",
		"{retention: bounded, retention_limit: 0}": "retention_limit is between 1 and",
		"{retention_limit: 3}":                     "write retention: bounded",
		"{retention: last}":                        "there are unbounded, latest, bounded",
		"{persistence: ephemral}":                  "did you mean ephemeral?",
		"{reducer: sum, retention: latest}":        "channel c with reducer sum is no list",
	} {
		_, err := Load("x", []byte("channels: {c: "+channel+"}\nnodes: {m: {type: set, values: {c: 1}}}\nedges: [{from: __start__, to: m}]\n"))
		require.ErrorContains(t, err, want, channel)
		require.ErrorContains(t, err, "has 1 mistake", channel)
	}
	for gate, want := range map[string]string{
		"{node: m, default: approve}":              "a default decides at a deadline, and this gate has none",
		"{node: m, deadline: 1h, default: aprove}": "did you mean approve?",
		"{node: m, deadline: -1h}":                 "is a duration greater than zero",
	} {
		_, err := Load("x", []byte("channels: {c: }\nnodes: {m: {type: set, values: {c: 1}}}\nedges: [{from: __start__, to: m}]\ninterrupt_before: ["+gate+"]\n"))
		require.ErrorContains(t, err, want, gate)
		require.ErrorContains(t, err, "has 1 mistake", gate)
	}
}
