package interrupt_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestThePayloadHasExactlyItsSixNames(t *testing.T) {
	t.Parallel()
	for want, i := range map[string]interrupt.Interrupt{
		`{"kind":"before","node":"deploy","thread_id":"t","checkpoint_id":"t@3"}`:                           {Kind: interrupt.Before, Node: "deploy"},
		`{"kind":"after","node":"plan","message":"good?","thread_id":"t","checkpoint_id":"t@3"}`:            {Kind: interrupt.After, Node: "plan", Message: "good?"},
		`{"kind":"dynamic","message":"","thread_id":"t","checkpoint_id":"t@3"}`:                             {Kind: interrupt.Dynamic},
		`{"kind":"dynamic","message":"<250?>","data":false,"thread_id":"t","checkpoint_id":"t@3"}`:          {Kind: interrupt.Dynamic, Message: "<250?>", Data: false},
		`{"kind":"dynamic","message":"m","data":4611686018427387905,"thread_id":"t","checkpoint_id":"t@3"}`: {Kind: interrupt.Dynamic, Message: "m", Data: int64(1)<<62 + 1},
		`{"kind":"dynamic","message":"m","data":{"a":[1,""]},"thread_id":"t","checkpoint_id":"t@3"}`:        {Kind: interrupt.Dynamic, Message: "m", Data: map[string]any{"a": []any{int64(1), ""}}},
	} {
		p := interrupt.New(i, "t", "t@3")
		text, err := p.MetadataValue()
		require.NoError(t, err)
		require.Equal(t, want, text)
		back, ok := interrupt.FromMetadata(map[string]any{interrupt.MetadataKey: text})
		require.True(t, ok)
		require.Equal(t, p, back)
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		if _, big := i.Data.(int64); !big {
			back, ok = interrupt.FromMetadata(map[string]any{interrupt.MetadataKey: object})
			require.True(t, ok, "the object itself is read too")
			require.Equal(t, p, back)
		}
	}
	require.Equal(t, "adk.graph.interrupt", interrupt.MetadataKey)
}

func TestAPayloadIsReadLenientlyAndAMalformedOneIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"kind":"before","node":null,"message":null,"data":null,"thread_id":"t","checkpoint_id":"c"}`,
		`{"kind":"before","thread_id":"t","checkpoint_id":"c","later":{"x":1}}`,
	} {
		p, ok := interrupt.FromMetadata(map[string]any{interrupt.MetadataKey: text})
		require.True(t, ok, text)
		require.Equal(t, interrupt.GraphInterruptPayload{Kind: "before", ThreadID: "t", CheckpointID: "c"}, p)
	}
	p, ok := interrupt.FromMetadata(map[string]any{interrupt.MetadataKey: `{"kind":"later","thread_id":"t","checkpoint_id":"c"}`})
	require.True(t, ok, "an unknown kind is accepted")
	require.Equal(t, interrupt.Kind("later"), p.Kind)
	for _, bad := range []any{nil, "", "{", "null", `"x"`, "[]", 7, `{"kind":"before"}`, `{"kind":1,"thread_id":"t","checkpoint_id":"c"}`,
		`{"kind":"before","thread_id":"t"}`, `{"kind":"before","node":3,"thread_id":"t","checkpoint_id":"c"}`} {
		_, ok := interrupt.FromMetadata(map[string]any{interrupt.MetadataKey: bad})
		require.False(t, ok, "%v", bad)
	}
	_, ok = interrupt.FromMetadata(nil)
	require.False(t, ok)
}

func TestAReasonIsTheMessageOrThePlaceOfTheGate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Interrupt before node: x", interrupt.Interrupt{Kind: interrupt.Before, Node: "x"}.Reason())
	require.Equal(t, "Interrupt after node: x", interrupt.Interrupt{Kind: interrupt.After, Node: "x"}.Reason())
	require.Equal(t, "why", interrupt.Interrupt{Kind: interrupt.Before, Node: "x", Message: "why"}.Reason())
}

func TestAQuestionDecidesWhatIsAnAnswer(t *testing.T) {
	t.Parallel()
	gate := interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Before}, Digest: "d"}
	choice := interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Dynamic}, Choices: []interrupt.Choice{{ID: "red"}, {ID: "blue"}}}
	doubt := interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Dynamic}, Choices: interrupt.DoubtChoices(), Doubt: &interrupt.Doubt{}}
	free := interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Dynamic}}
	typed := func(typ string) interrupt.Question { q := free; q.Type = typ; return q }
	for _, tc := range []struct {
		q      interrupt.Question
		a      interrupt.Answer
		choice string
		value  any
		ok     bool
	}{
		{gate, interrupt.Answer{Choice: "approve"}, "approve", "approve", true},
		{gate, interrupt.Answer{Value: "reject"}, "reject", "reject", true},
		{gate, interrupt.Answer{Value: true}, "", nil, false},
		{gate, interrupt.Answer{Choice: "Approve"}, "", nil, false},
		{gate, interrupt.Answer{Choice: "approve", Value: "reject"}, "", nil, false},
		{gate, interrupt.Answer{}, "", nil, false},
		{choice, interrupt.Answer{Value: "blue"}, "blue", "blue", true},
		{choice, interrupt.Answer{Value: "green"}, "", nil, false},
		{doubt, interrupt.Answer{Choice: interrupt.DoneIt, Value: 3}, interrupt.DoneIt, int64(3), true},
		{doubt, interrupt.Answer{Choice: interrupt.DoneIt}, interrupt.DoneIt, nil, true},
		{doubt, interrupt.Answer{Choice: interrupt.RunAgain, Value: 3}, "", nil, false},
		{doubt, interrupt.Answer{Choice: interrupt.Approve}, "", nil, false},
		{free, interrupt.Answer{Value: nil}, "", nil, true},
		{free, interrupt.Answer{Value: 0}, "", int64(0), true},
		{free, interrupt.Answer{Choice: "approve"}, "", nil, false},
		{typed("integer"), interrupt.Answer{Value: 1.5}, "", nil, false},
		{typed("integer"), interrupt.Answer{Value: 2.0}, "", int64(2), true},
		{typed("number"), interrupt.Answer{Value: 2}, "", int64(2), true},
		{typed("string"), interrupt.Answer{Value: ""}, "", "", true},
		{typed("boolean"), interrupt.Answer{Value: nil}, "", nil, false},
	} {
		a, err := tc.q.Check(tc.a)
		if !tc.ok {
			require.Error(t, err, "%+v", tc.a)
			continue
		}
		require.NoError(t, err, "%+v", tc.a)
		require.Equal(t, tc.choice, a.Choice)
		require.Equal(t, tc.value, a.Value)
		require.Equal(t, tc.q.Digest, a.Digest)
	}
}

func TestTheDigestCoversWhatIsAskedAndWhatWillRun(t *testing.T) {
	t.Parallel()
	q := interrupt.Question{Payload: interrupt.GraphInterruptPayload{Kind: interrupt.Before, Node: "a"}, Task: "a", Shows: "ls"}
	seal := func(base int64, change func(*interrupt.Question)) string {
		c := q
		change(&c)
		require.NoError(t, c.Seal(base))
		return c.Digest
	}
	same := seal(1, func(*interrupt.Question) {})
	require.Len(t, same, 64)
	require.Equal(t, same, seal(1, func(c *interrupt.Question) { c.Payload.CheckpointID = "t@9" }), "its place is not what is approved")
	for i, digest := range []string{
		seal(2, func(*interrupt.Question) {}),
		seal(1, func(c *interrupt.Question) { c.Shows = "rm" }),
		seal(1, func(c *interrupt.Question) { c.Payload.Message = "?" }),
		seal(1, func(c *interrupt.Question) { c.Task = "a[0]" }),
		seal(1, func(c *interrupt.Question) { c.Choices = []interrupt.Choice{{ID: "x"}} }),
	} {
		require.NotEqual(t, same, digest, "change %d", i)
	}
}
