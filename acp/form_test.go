package acp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// form is a graph file with one question.
func form(t *testing.T, keys string) *engine.Graph {
	t.Helper()
	return loaded(t, `
name: form
channels: {prompt: {}, answer: {}, response: {}}
nodes:
  ask: {type: ask, message: "Well?", output: answer, `+keys+`}
  say: {type: set, values: {response: toJSON(answer)}}
edges: [{from: __start__, to: ask}, {from: ask, to: say}]
`)
}

// Every question of a graph file that can be a flat form is one, and what comes
// back is checked again: acp-cases 44.
func TestATypedQuestionOfAFileIsAFlatForm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys     string
		property editor.Object
		good     any
		bad      []any
		text     string // the same answer, typed without forms
	}{
		{"answer_type: string, format: email", editor.Object{"type": "string", "format": "email"}, "a@b.example", []any{"a", 1}, " a@b.example"},
		{"answer_type: string, format: date-time", editor.Object{"type": "string", "format": "date-time"}, "2026-12-31T18:00:00Z", []any{"today"}, "2026-12-31T18:00:00Z"},
		{"answer_type: integer, minimum: 1, maximum: 5", editor.Object{"type": "integer", "minimum": 1.0, "maximum": 5.0}, 3.0, []any{0, 6, 2.5, "3", true}, "3"},
		{"answer_type: number, minimum: -0.5", editor.Object{"type": "number", "minimum": -0.5}, 0.25, []any{-1, "x"}, "0.25"},
		{"answer_type: boolean", editor.Object{"type": "boolean"}, false, []any{"false", 0}, "false"},
		{"choices: [{id: eu, name: Europe}, us], answer_type: string", editor.Object{"type": "string", "oneOf": []any{
			editor.Object{"const": "eu", "title": "Europe"}, editor.Object{"const": "us", "title": "us"},
		}}, "eu", []any{"Europe", "asia", []string{"eu"}}, "Europe"},
		{"choices: [{id: eu, name: Europe}, us, asia], answer_type: list, minimum: 1, maximum: 2", editor.Object{
			"type": "array", "minItems": 1.0, "maxItems": 2.0, "items": editor.Object{"anyOf": []any{
				editor.Object{"const": "eu", "title": "Europe"}, editor.Object{"const": "us", "title": "us"}, editor.Object{"const": "asia", "title": "asia"},
			}},
		}, []any{"us", "eu"}, []any{[]string{}, []string{"eu", "us", "asia"}, []string{"eu", "eu"}, []string{"africa"}, "eu"}, "us, europe"},
	} {
		t.Run(test.keys, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, form(t, test.keys))
			c := d.client(forms)
			s := c.NewSession()
			var asked editor.Message
			var answer any
			c.Ask = func(m editor.Message) (any, bool) { asked = m; return accepted(answer), true }
			for _, answer = range test.bad {
				require.Equal(t, "end_turn", c.Says(s, "x"))
				require.Equal(t, engine.Paused, d.status(s), "%v", answer)
				require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "That is no answer")
			}
			answer = test.good
			require.Equal(t, "end_turn", c.Says(s, "x"))
			require.Equal(t, "elicitation/create", asked.Method)
			schema := asked.Params["requestedSchema"].(map[string]any)
			require.Equal(t, []any{"answer"}, schema["required"])
			property := schema["properties"].(map[string]any)["answer"].(map[string]any)
			delete(property, "title")
			require.Equal(t, test.property, property)
			stored := d.answers(s)[0].Value
			require.JSONEq(t, editor.JSON(t, test.good), editor.JSON(t, stored))

			// A client that says that it has forms and fails at them, and one without.
			for name, capabilities := range map[string]editor.Object{"fails": forms, "none": nil} {
				c := d.client(capabilities)
				c.Ask = func(m editor.Message) (any, bool) {
					if m.Method == "session/request_permission" {
						return editor.Dismissed(), true // of a single choice; the text names it
					}
					return editor.Error{Code: -32601, Message: "no"}, true
				}
				s := c.NewSession()
				require.Equal(t, "end_turn", c.Says(s, "x"), name)
				require.Equal(t, engine.Paused, d.status(s))
				require.Equal(t, "end_turn", c.Says(s, test.text), name)
				require.Equal(t, engine.Done, d.status(s), name)
				require.JSONEq(t, editor.JSON(t, test.good), editor.JSON(t, d.answers(s)[0].Value))
			}
		})
	}
}

func TestWithoutFormsASingleChoiceIsADialogAndSeveralAreAsked(t *testing.T) {
	t.Parallel()
	choices := []interrupt.Choice{{ID: "eu", Name: "Europe"}, {ID: "us"}}
	d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "Where?", Choices: choices, Type: "string"}))
	c := d.client(nil)
	c.Ask = always(editor.Chosen("us"))
	s := c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "us", d.channel(s, "answer"))

	d = newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "Where?", Choices: choices, Type: "list"}))
	c = d.client(nil)
	c.Ask = never(t)
	s = c.NewSession()
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Contains(t, editor.Text(c.Log, "agent_message_chunk"), "Where?\n\n* Europe (eu)\n* us\n\nAnswer with those that you choose, and commas between them.")
	require.Equal(t, "end_turn", c.Says(s, "asia"))
	require.Equal(t, engine.Paused, d.status(s))
	require.Equal(t, "end_turn", c.Says(s, "eu,us"))
	require.Equal(t, []any{"eu", "us"}, d.channel(s, "answer"))
}

func TestADeclinedFormIsNoAnswerAndADismissedOneNeither(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{"decline": "You gave no answer. ", "cancel": ""} {
		d := newDesk(t, acp.Adapter{}, asking(engine.Ask{Message: "How many?", Type: "integer"}))
		c := d.client(forms)
		c.Ask = always(editor.Object{"action": action})
		s := c.NewSession()
		require.Equal(t, "end_turn", c.Says(s, "x"))
		require.Equal(t, want+"Nothing was decided, so the question is still open; the next prompt asks again.\n", editor.Text(c.Log, "agent_message_chunk"))
		require.Empty(t, d.answers(s))
	}
}
