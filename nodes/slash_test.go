package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

const withCommands = `
channels: {prompt: {}, task: {}, text: {}, response: {}}
nodes: {n: {type: set, values: {response: 'task + ": " + prompt'}}}
edges: [{from: __start__, to: n}]
commands:
  - {name: review, description: Review a file, hint: a path, input: {task: review, prompt: "${{ text }}"}}
  - {name: words, description: Split, input: {task: '${{ split(text, " ") }}', prompt: "<${{ text }}>", text: {n: 1, as: ["$${{ text }}"]}}}
`

func TestACommandMakesTheInputOfItsTurn(t *testing.T) {
	t.Parallel()
	g, err := Load("c", []byte(withCommands))
	require.NoError(t, err)
	again, err := Load("elsewhere", g.Canonical())
	require.NoError(t, err)
	require.Equal(t, g.Fingerprint(), again.Fingerprint())
	for _, g := range []*engine.Graph{g, again} {
		list := g.Commands()
		require.Equal(t, []string{"review", "Review a file", "a path", "words", "Split", ""},
			[]string{list[0].Name, list[0].Description, list[0].Hint, list[1].Name, list[1].Description, list[1].Hint})
		for text, want := range map[string]engine.Values{
			"/review":              {"task": "review", "prompt": ""},
			" /review  a b\n c \n": {"task": "review", "prompt": "a b\n c"},
			"/review\tx":           {"task": "review", "prompt": "x"},
			"/words a ${{ task }}": {"task": []any{"a", "${{", "task", "}}"}, "prompt": "<a ${{ task }}>", "text": map[string]any{"n": int64(1), "as": []any{"${{ text }}"}}},
		} {
			c, behind, ok := g.Command(text)
			require.True(t, ok, text)
			got, err := c.Input(behind)
			require.NoError(t, err)
			require.Equal(t, want, got, text)
			require.NoError(t, g.CheckInput(got))
		}
		for _, text := range []string{"", "/", "/ review", "review", "/reviewer", "x /review", "/Review", "/usr/bin/review"} {
			_, _, ok := g.Command(text)
			require.False(t, ok, text)
		}
	}
	changed, err := Load("c", []byte(fill(withCommands, "a path", "a file")))
	require.NoError(t, err)
	require.NotEqual(t, g.Fingerprint(), changed.Fingerprint(), "commands are a part of the graph")
}

func TestMistakesInCommandsAreReportedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`6:12: /commands/0/name: the name of a command has letters, digits, - and _, and at most 64 of them; "a/b" does not`,
		`6:41: /commands/0/input/promt: there is no channel "promt"; did you mean prompt?`,
		`7:5: /commands/1/description: a command needs description`,
		`7:28: /commands/1/input: input of a command is an object of channels and values, not an empty one; write {prompt: "${{ text }}"}`,
		`8:12: /commands/2/name: command ok is there twice`,
		`8:53: /commands/2/input/prompt: unknown name prompt in an expression: the input of a command is made before its turn begins, of text alone: what is written behind its name`,
		`8:66: /commands/2/inptu: unknown key inptu in a command; did you mean input?`,
		`9:5: /commands/3: a command is an object, not a text`,
		`10:5: /commands/4/input: a command needs input`,
		`11:12: /commands/5/name: command ok is there twice`,
	}, reports(mistakes(t, `channels: {prompt: {}, response: {}}
nodes: {n: {type: set, values: {response: 'prompt'}}}
edges: [{from: __start__, to: n}]
commands:
  # a comment
  - {name: a/b, description: d, input: {promt: 1}}
  - {name: ok, hint: null, input: {}}
  - {name: ok, description: d, input: {prompt: "${{ prompt }}"}, inptu: 1}
  - review
  - {name: no, description: d}
  - {name: ok, description: d, input: {prompt: 1}}
`)))
}
