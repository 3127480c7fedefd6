package store

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func fullPayload(v any) engine.Payload {
	deadline := start.Add(time.Hour)
	cost := 0.25
	if v == nil {
		cost = 2 // which is stored as an integer, as every number without a fraction
	}
	return engine.Payload{
		Ops: []engine.Op{
			{Task: "t", Channel: "c", Op: engine.OpAppend, Value: v, Keep: 3}, {Channel: "d", Op: engine.OpSet, Value: nil, Raw: []any{v}},
		},
		Input:     &engine.InputRecord{Graph: "g", Name: "n", Text: "t", MaxSteps: 7, Via: "cli", OSUser: "u", Client: "c"},
		Routes:    map[string][]string{"a": {"b", "c"}},
		Failures:  map[string]engine.Failure{"t": {Node: "n", Task: "t", Cause: "c"}},
		Arrivals:  map[string][]string{"j": {"a"}},
		Question:  &interrupt.Question{AskingNode: "a", Task: "a", Ordinal: 1, Choices: []interrupt.Choice{{ID: "x"}}, Type: "string", Doubt: &interrupt.Doubt{Key: "k", Intent: 3, Effect: v, PID: 4}, Shows: v, Deadline: &deadline, Digest: "d", AskedAt: start, Voids: "x@1"},
		Interrupt: &engine.InterruptRecord{Kind: interrupt.Dynamic, Node: "n", Message: "m <&>", Data: v},
		Answer:    &interrupt.Answer{Question: "x@1", Choice: "c", Value: v, Actor: "a", Via: "v", Reason: "r", OSUser: "u", Client: "c", Digest: "d", At: start},
		End:       &engine.EndRecord{Cause: "c", Node: "n", Task: "t", Code: "x", Reason: "r", Via: "v"},
		State:     map[string]any{"s": v},
		From:      "x@1",
		Pruned:    4,
		Redacts:   []string{"x@2"},
		Notes:     []string{"a note"},
		Shown: map[string][]engine.Shown{"t": {
			{Kind: engine.ShownMessage, ID: "m", Text: "t"},
			{Kind: engine.ShownCall, ID: "c", Call: &engine.Call{
				Title: "t", Kind: "edit", Status: engine.CallFailed, Input: v, Output: v, Text: "x", Paths: []string{"/p"},
				Diffs: []engine.FileDiff{{Path: "/p", New: "n"}, {Path: "/q", Old: new(string)}},
			}},
		}},
		Timers:   map[string]time.Time{"j": deadline},
		Usage:    &engine.Usage{InputTokens: 1, OutputTokens: 2, Cost: cost, Currency: "EUR", Context: 3, Window: 4},
		Sends:    map[string]engine.Values{"t": {"k": v}},
		Left:     []string{"n"},
		Refused:  "r",
		Rejected: []string{"n"},
		Debts:    map[string][]string{"j": {"b"}},
		Ran:      map[string]any{"t": v},
		Edit:     &engine.EditRecord{Via: "v", Reason: "r", OSUser: "u", Client: "c"},
	}
}

func TestAPayloadIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		p := fullPayload(v)
		for i, fields := 0, reflect.ValueOf(p); i < fields.NumField(); i++ {
			if fields.Field(i).IsZero() {
				t.Fatalf("fullPayload has no %s", fields.Type().Field(i).Name)
			}
		}
		b, err := appendPayload(nil, &p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodePayload(b)
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("got  %+v\nwant %+v\nfrom %s", got, p, b)
		}
		if again, err := value.Decode(b); err != nil || string(value.Append(nil, again)) != string(b) {
			t.Fatalf("not canonical: %s", b)
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Float64(), func(f float64) any { v, _, _ := value.Normalize(f); return v }),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 4), func(l []any) any { return append([]any{}, l...) }),
			rapid.Map(rapid.MapOfN(rapid.String(), anyValue(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	return rapid.OneOf(leaves...)
}
