package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestAFileWithoutAVersionIsAsStrictAsOneWithTheNewest(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"", "schema_version: 1\n"} {
		got := mistakes(t, head+"foo: 1\n"+minimal)
		require.Len(t, got, 1)
		require.Contains(t, got[0].Message, "unknown key foo in the graph file")
	}
	require.Equal(t, mustLoad(t, minimal).Fingerprint(), mustLoad(t, "schema_version: 1\n"+minimal).Fingerprint())
}

func TestAnOldFileIsOnlyWarnedAboutWhatKeepsNoGraphFromRunning(t *testing.T) {
	t.Parallel()
	const old = `
foo: 1
channels: {c: {colour: red}, v: {}}
nodes:
  a:      {type: set, values: {c: v == 1}, comment: hi}
  b:      {type: set, values: {c: v}, barrier: {wait_for: []}}
  lonely: {type: set, values: {c: v}, barrier: {wait_for: [a]}}
  trap:   {type: set, values: {c: v}}
edges:
  - {from: __start__, to: a}
  - {from: b, to: trap}
  - {from: trap, to: trap}
  - {from: trap, to: trap}
conditional_edges:
  - {from: a, condition: v == 1, routes: {true: b, maybe: __end__}}
`
	require.Len(t, mistakes(t, old), 9)
	g, err := Load("test", []byte("schema_version: 0\n"+old))
	require.NoError(t, err)
	var said []string
	for _, w := range g.Warnings() {
		require.Positive(t, w.Line)
		said = append(said, w.Pointer)
	}
	require.ElementsMatch(t, []string{
		"/foo", "/channels/c/colour", "/nodes/a/comment", "/nodes/b/barrier", "/edges/3",
		"/conditional_edges/0/routes/maybe", "/nodes/lonely", "/nodes/lonely/barrier/wait_for/0",
		"/nodes/trap",
	}, said)

	// It runs, and what is stored of it loads again, as lenient as it was.
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": 1}, MaxSteps: 5})
	require.ErrorIs(t, err, engine.ErrStepLimit)
	require.Equal(t, int64(1), turn.State["c"])
	require.Contains(t, string(g.Canonical()), `"schema_version":0`)
}

// A route that nothing maps is never guessed, however old the file is.
func TestAnUnmappedRouteIsAnErrorAlsoInAnOldFile(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, `schema_version: 0
channels: {v: {}}
nodes: {a: {type: set, values: {v: '"other"'}}, z: {type: set, values: {v: 1}}}
edges: [{from: __start__, to: a}]
conditional_edges: [{from: a, condition: v, routes: {one: __end__, two: z}}]
`)
	_, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, `gave the key "other", which leads nowhere; known keys are one, two`)
}

func TestAnOldFileWithARealMistakeIsRefused(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"edges: [{from: a, to: b}, {from: __start__, to: a}]\nchannels: {c: }\nnodes: {a: {type: set, values: {c: 1}}}": `there is no node "b"`,
		"edges: [{from: __start__, to: a}]\nnodes: {a: {type: set, values: {c: 1}}}":                                    `there is no channel "c"`,
		"edges: [{from: __start__, to: a}]\nnodes: {a: {type: sett}}":                                                   "unknown node type",
	} {
		_, err := Load("x", []byte("schema_version: 0\n"+file))
		require.ErrorContains(t, err, want)
	}
}
