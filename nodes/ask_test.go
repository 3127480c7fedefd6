package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func askGraph(config string) string {
	return "schema_version: 1\nchannels: {v: {}, total: {reducer: sum}, out: {}}\nnodes:\n  a:\n    type: ask\n" +
		indent(config, "    ") + "\nedges: [{from: __start__, to: a}]\n"
}

func TestMistakesOfAQuestionSuggestTheOtherWay(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"message: m\nchoices: string":                                             "for an answer of a type write answer_type: string",
		"message: m\nchoices: []":                                                 "say its type with answer_type",
		"message: m\nanswer_type: [a, b]":                                         "for a list of possible answers write choices",
		"message: m\nanswer_type: yes|no":                                         "for a list of possible answers write choices",
		"message: m\nanswer_type: strin":                                          "did you mean string?",
		"message: m\nchoices: [a]\nanswer_type: integer":                          "a question with choices has the type string (one of them) or list (several), not integer",
		"message: m\nanswer_type: string\nformat: emial":                          "did you mean email?",
		"message: m\nformat: email":                                               "only an answer of type string without choices has a format",
		"message: m\nanswer_type: string\nminimum: 1":                             "only an integer, a number or a list of choices has a minimum",
		"message: m\nanswer_type: integer\nminimum: 5\nmaximum: 1":                "the maximum 1 is below the minimum 5",
		"message: m\nanswer_type: integer\nminimum: 0.5":                          "a minimum and a maximum of integers are integers",
		"message: m\nanswer_type: integer\nmaximum: many":                         "maximum of node a is a number, not a text",
		"message: m\nchoices: [a, b]\nanswer_type: list\nminimum: 3":              "how many of them",
		"message: m\nchoices: [a]\nanswer_type: list\ndeadline: 1h\ndefault: a":   "default of node a is a text, and the answer is a list of a",
		"message: m\nanswer_type: integer\nmaximum: 9\ndeadline: 1h\ndefault: 10": "and the answer is an integer of at most 9",
		"message: m\nchoices: [a, a]":                                             "the choice a is there twice",
		"message: m\nchoices: [{name: x}]":                                        "a choice needs id",
		"message: m\nchoices: [{id: x, kind: allow}]":                             "unknown kind of a choice",
		"message: m\nchoices: [{id: x, nam: y}]":                                  "did you mean name?",
		"message: ${{ answer.value }}":                                            "answer is not there: a question must be the same when it is asked again",
		"choices: [a]":                                                            "needs message",
		"message: m\nanswer_type: string\noutput: total":                          "channel total has reducer sum and cannot take what node a writes",
		"message: ${{ v":                                                          "${{ without its end",
		"message: m\ndata: {x: ['${{ w }}']}":                                     "unknown name w",

		"message: m\ndeadline: 1h":                                   "needs a default: the answer when nobody has given one until then; add default",
		"message: m\ndefault: 1":                                     "a default is the answer at a deadline, and node a has none; add a deadline",
		"message: m\ndeadline: 5\ndefault: 1":                        "is a duration with a unit, not a number",
		"message: m\nchoices: [a, b]\ndeadline: 1h\ndefault: c":      "default of node a is none of the choices",
		"message: m\nchoices: [a, b]\ndeadline: 1h\ndefault: null":   "is a text, not null",
		"message: m\nanswer_type: integer\ndeadline: 1h\ndefault: x": "default of node a is a text, and the answer is an integer",
		"message: m\ndeadline: 1h\ndefault: '${{ w }}'":              "unknown name w",
	} {
		got := mistakes(t, askGraph(config))
		require.Len(t, got, 1, config)
		require.Contains(t, got[0].String(), want, config)
	}
}

func TestAQuestionIsMadeFromTheChannels(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, askGraph("message: 'Take ${{ v }}?'\ndata: {x: ['${{ v }}', 'v ${{ v }}', 1, {_k: null}], y: '${{ [v] }}'}\nchoices: [yes, 1, {id: later, name: Later, kind: reject_once}]\noutput: out"))
	require.Len(t, g.Warnings(), 1)
	require.Contains(t, g.Warnings()[0].Message, "channel total is never used")
	// Without a store the question cannot be kept; that it was asked is enough.
	_, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": 7}})
	require.ErrorIs(t, err, engine.ErrNoStore)
	require.ErrorContains(t, err, "Take 7?")

	d := newDecoder(registry(), "", "", false)
	d.def.Channels = map[string]engine.Channel{"v": {}}
	tr := d.readTree([]byte("{x: ['${{ v }}', 'v ${{ v }}', 1, {_k: null}], y: '${{ [v] }}', z: '$${{ v }}'}"))
	made, err := d.jsonTemplate(tr, inQuestion).make(engine.State{"v": int64(7)}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"x": []any{int64(7), "v 7", int64(1), map[string]any{"_k": nil}}, "y": []any{int64(7)}, "z": "${{ v }}",
	}, made)
}
