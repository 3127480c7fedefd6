package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// askExpert is a graph as a tool: it asks a person.
const askExpert = `{name: ask_expert, description: asks an expert, input: [question, times], output: [answer], definition: {
  channels: {question: {}, times: {initial: 1}, answer: {}},
  nodes: {ask: {type: ask, message: "${{ question }} ${{ times }}", output: answer}},
  edges: [{from: __start__, to: ask}]}}`

func TestGraphsAndNodesAreToolsThatAskAndGoOn(t *testing.T) {
	t.Parallel()
	graph := strings.ReplaceAll(hands, "HANDS", `tools: [list_files, `+askExpert+`, {node: double, description: doubles, input: [n], output: [twice]}], approve: never`)
	graph = strings.ReplaceAll(graph, "safe: {initial: false}", "n: {}, twice: {}")
	graph = strings.ReplaceAll(graph, "nodes:\n", "nodes:\n  double: {type: set, values: {twice: 2 * n}}\n")
	a := newAgent(t, graph, calls(
		"ask_expert", `{"question":"red?"}`, "list_files", `{}`, "ask_expert", `{"question":"blue?","times":2}`, "double", `{"n":21}`,
		"ask_expert", `{"times":2}`, "ask_expert", `{"question":"x","times":"many"}`, "double", `{"n":"x"}`,
	), modeltest.Text("done"))
	require.Empty(t, a.graph.Warnings())
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Len(t, turn.Questions, 2, "both are asked at once, and nobody was asked whether the tools may run")
	for _, q := range turn.Questions {
		turn, err = a.resume(interrupt.Answer{Question: q.ID(), Value: "yes: " + q.Payload.Message})
		require.NoError(t, err)
	}
	require.Equal(t, engine.Done, turn.Status)
	got := a.results()
	require.Equal(t, []string{`{"answer":"yes: red? 1"}`, "no files", `{"answer":"yes: blue? 2"}`, `{"twice":42}`}, got[:4])
	require.Contains(t, got[4], "the arguments do not fit the tool")
	require.Contains(t, got[5], "the arguments do not fit the tool")
	require.Contains(t, got[6], "error: double: ")
	offered := map[string]any{}
	for _, tool := range a.model.Requests()[0].Body["tools"].([]any) {
		f := tool.(map[string]any)["function"].(map[string]any)
		offered[f["name"].(string)] = f
	}
	require.Len(t, offered, 3)
	expert := offered["ask_expert"].(map[string]any)
	require.Equal(t, "asks an expert", expert["description"])
	require.Equal(t, []any{"question"}, expert["parameters"].(map[string]any)["required"])
	require.Equal(t, engine.CallFailed, a.shown(engine.ShownCall)["c7"].Call.Status)
}

// Without a rule a person is asked about a graph as about any tool that may
// change something.
func TestAGraphAsAToolIsApprovedLikeAnyOther(t *testing.T) {
	t.Parallel()
	a := newHands(t, "tools: ["+askExpert+"]", calls("ask_expert", `{"question":"red?"}`))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "ask_expert?", turn.Questions[0].Payload.Message)
	require.Equal(t, map[string]any{"question": "red?"}, turn.Questions[0].Payload.Data.(map[string]any)["arguments"])
	_, err = a.resume(interrupt.Answer{Choice: interrupt.Reject, Reason: "too dear"})
	require.NoError(t, err)
	require.Equal(t, []string{"error: denied: too dear"}, a.results())
}

// The canonical form has the graph itself, so a paused turn needs no file; the
// fingerprint changes with it.
func TestAGraphAsAToolComesFromAFileAndIsStoredWithTheTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	expert := `channels: {question: {}, answer: {}}
nodes: {ask: {type: ask, message: "${{ question }}", output: answer}}
edges: [{from: __start__, to: ask}]
`
	write("expert.yaml", expert)
	path := write("agent.yaml", strings.NewReplacer("URL", "http://localhost:1", "HANDS",
		"tools: [{name: ask_expert, description: asks, input: [question], output: [answer], definition: expert.yaml}]").Replace(hands))
	g, err := LoadFile(path)
	require.NoError(t, err)
	again, err := Load("elsewhere", g.Canonical())
	require.NoError(t, err)
	require.Equal(t, g.Fingerprint(), again.Fingerprint())
	require.Equal(t, "expert", again.Called("hands", "ask_expert").Name())
	require.Contains(t, g.Mermaid(), "ask_expert<br>graph expert")
	requireFits(t, string(g.Canonical()))

	write("expert.yaml", strings.ReplaceAll(expert, "${{ question }}", "Well?"))
	other, err := LoadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, g.Fingerprint(), other.Fingerprint())

	// What is forbidden in the file is forbidden inside.
	safe, err := Only("llm", "tools")
	require.NoError(t, err)
	_, err = safe.LoadFile(path)
	require.ErrorContains(t, err, `expert.yaml:2:21: /nodes/ask/type: unknown node type "ask"`)
}

func TestMistakesOfGraphsAsToolsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	graph := `definition: {channels: {q: {}}, nodes: {a: {type: set, values: {q: "1"}}}, edges: [{from: __start__, to: a}]}`
	for entry, want := range map[string]string{
		`{name: x, description: d, input: [], output: []}`:                                         "/nodes/hands/tools/0: a tool of node hands needs node, or name and definition",
		`{node: model, name: x, description: d, input: [], output: []}`:                            "not both",
		`{node: modle, description: d, input: [], output: []}`:                                     "did you mean model?",
		`{node: hands, description: d, input: [], output: []}`:                                     "which calls nodes itself",
		`{node: model, description: d, input: [sfae], output: []}`:                                 "did you mean safe?",
		`{node: model, description: d, input: [safe], output: []}`:                                 `/nodes/hands/tools/0/input/0: tool model has no channel "safe"`,
		`{name: "a b", description: d, input: [], output: [], ` + graph + `}`:                      "tools/0/name of node hands cannot be",
		`{name: exec, description: d, input: [], output: [], ` + graph + `}`:                       "two tools of node hands are called exec",
		`{name: x, description: d, input: [], output: [p], ` + graph + `}`:                         `/nodes/hands/tools/0/output/0: tool x has no channel "p"`,
		`{name: x, description: d, input: [], ` + graph + `}`:                                      "needs output",
		`{name: x, descripton: d, input: [], output: [], ` + graph + `}`:                           "did you mean description?",
		`{name: x, description: d, input: [], output: [], definition: 1}`:                          "definition",
		`{name: x, description: d, input: [], output: [], definition: {nodes: {a: {type: sett}}}}`: "did you mean set?",
		`7`: "tools/0",
	} {
		_, err := Load("x", []byte(strings.NewReplacer("HANDS", "tools: ["+entry+"]", "URL", "http://x").Replace(hands)))
		require.ErrorContains(t, err, want, entry)
	}
}
