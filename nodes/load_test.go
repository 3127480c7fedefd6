package nodes

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

const releaseGraph = `schema_version: 1
name: release
channels:
  prompt:   {reducer: overwrite}
  log:      {reducer: append}
  response: {reducer: overwrite}
nodes:
  test:   {type: exec, command: [go, test, ./...], output: log, on_crash: retry}
  deploy: {type: exec, command: [./deploy.sh, "${{ prompt }}"], output: log, on_crash: ask}
  done:   {type: set, values: {response: '"deployed: " + log[-1].stdout'}}
  sorry:  {type: set, values: {response: '"not deployed: tests exit " + string(log[-1].exit_code)'}}
edges:
  - {from: __start__, to: test}
  - {from: deploy, to: done}
conditional_edges:
  - {from: test, condition: 'log[-1].exit_code == 0', routes: {true: deploy, false: sorry}}
interrupt_before: [deploy]
retry_policy: {max_retries: 2, initial_delay_ms: 200, backoff_multiplier: 2, max_delay_ms: 5000}
`

func mustLoad(t *testing.T, text string) *engine.Graph {
	t.Helper()
	g, err := Load("test", []byte(text))
	require.NoError(t, err)
	requireFits(t, text)
	requireFits(t, string(g.Canonical()))
	return g
}

// mistakes loads a file that is wrong and gives what is wrong with it.
func mistakes(t *testing.T, text string) []engine.Problem {
	t.Helper()
	_, err := Load("test", []byte(text))
	var all *engine.CompileError
	require.ErrorAs(t, err, &all)
	return all.Problems
}

func TestTheReleaseGraphOfTheDesignLoads(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, releaseGraph)
	require.Equal(t, "release", g.Name())
	require.Equal(t, []string{"deploy", "done", "sorry", "test"}, g.Nodes())
	require.Empty(t, g.Warnings())
	require.Contains(t, string(g.Canonical()), `"retry_policy":{"backoff_multiplier":2,"initial_delay_ms":200,"jitter":0,"max_delay_ms":5000,"max_retries":2}`)

	again, err := Load("elsewhere", g.Canonical())
	require.NoError(t, err)
	require.Equal(t, string(g.Canonical()), string(again.Canonical()))
	require.Equal(t, g.Fingerprint(), again.Fingerprint())
}

func TestTheDefaultAgentLoadsWithoutWarnings(t *testing.T) {
	t.Parallel()
	g := Default()
	require.Equal(t, "default", g.Name())
	require.Empty(t, g.Warnings())
	require.Equal(t, []string{"log", "prompt", "response"}, g.Channels())
}

func TestTenMistakesInOneFileAreTenReportsInTheOrderOfTheirPlaces(t *testing.T) {
	t.Parallel()
	got := mistakes(t, `schema_version: 1
name: 7
chanels: {}
channels:
  prompt: {reducer: overwrit}
  log:    {reducer: append}
nodes:
  a: {type: exec, comand: [true], command: [ls], output: logg}
  b: {type: sett, values: {log: '1'}}
  c: {type: set, values: {log: 'promt + 1'}}
  a: {type: set, values: {log: '1'}}
edges:
  - {from: __start__, to: a}
  - {from: a, to: q}
  - {from: b}
  - {from: __start__, to: b}
  - {from: __start__, to: c}
interrupt_before: [d]
`)
	var lines []string
	for _, p := range got {
		lines = append(lines, p.String())
	}
	require.Equal(t, []string{
		`2:7: /name: name is a text, not a number; write it in quotes: "7"`,
		`3:1: /chanels: unknown key chanels in the graph file; did you mean channels?`,
		`5:21: /channels/prompt/reducer: unknown reducer "overwrit"; there are overwrite, append, merge, messages, sum, min, max; did you mean overwrite?`,
		`8:19: /nodes/a/comand: unknown key comand in node a of type exec; did you mean command?`,
		`8:58: /nodes/a/output: there is no channel "logg"; did you mean log?`,
		`9:13: /nodes/b/type: unknown node type "sett"; did you mean set?`,
		`10:33: /nodes/c/values/log: unknown name promt in an expression: it is no declared channel; did you mean prompt?`,
		`11:3: /nodes/a: the key a is there twice; the first is in line 8`,
		`14:19: /edges/1/to: there is no node "q"; did you mean a?`,
		`15:5: /edges/2/to: an edge needs to`,
		`18:20: /interrupt_before/0: an interrupt on node "d", which does not exist; did you mean a?`,
	}, lines, strings.Join(lines, "\n"))
	require.True(t, errors.Is(&engine.CompileError{}, engine.ErrInvalid))
}
