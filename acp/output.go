package acp

import (
	"context"

	"github.com/holdfast-agent/holdfast/engine"
)

// outputs collects what the steps of a turn write.
type outputs struct {
	channels map[string]bool
	messages []any
}

// step takes what a step of the graph itself wrote. What an input wrote is no
// output, nor is what a subgraph wrote for itself.
func (o *outputs) step(e *engine.Entry) {
	if e.Kind != engine.KindStep || e.Namespace != "" {
		return
	}
	if o.channels == nil {
		o.channels = map[string]bool{}
	}
	for _, op := range e.Payload.Ops {
		o.channels[op.Channel] = true
		if op.Channel != messagesChannel {
			continue
		}
		if list, ok := op.Value.([]any); ok {
			o.messages = append(o.messages, list...)
		} else {
			o.messages = append(o.messages, op.Value)
		}
	}
}

// cutShort reports whether the newest message is an answer that was cut. One of an
// earlier turn was told with that turn.
func (o *outputs) cutShort() bool {
	if len(o.messages) == 0 {
		return false
	}
	last, _ := o.messages[len(o.messages)-1].(map[string]any)
	return last["role"] == "assistant" && last["stop_reason"] == string(StopMaxTokens)
}

// of gives the output of a turn that ended with this state.
func (o *outputs) of(thread string, turn int64, status engine.Status, state map[string]any) TurnOutput {
	out := TurnOutput{Thread: thread, Turn: turn, Status: status, Values: engine.Values{}, Messages: o.messages}
	for channel := range o.channels {
		out.Values[channel] = state[channel]
	}
	return out
}

// OutputOf reads what the steps of a turn wrote, from the log of its thread, whose
// newest turn it is. With [Adapter.AgentText] that is the reply of a turn that ran
// elsewhere than in a session:
//
//	output, err := acp.OutputOf(ctx, store, turn)
//	text, err := acp.Adapter{}.For(graph).AgentText(output)
func OutputOf(ctx context.Context, store engine.Store, turn *engine.Turn) (TurnOutput, error) {
	view, err := store.At(ctx, turn.Thread, 0)
	if err != nil {
		return TurnOutput{}, err
	}
	var wrote outputs
	err = store.Entries(ctx, turn.Thread, view.InputSeq-1, 0, func(e engine.Entry) error {
		if e.Turn == turn.Number {
			wrote.step(&e)
		}
		return nil
	})
	return wrote.of(turn.Thread, turn.Number, turn.Status, turn.State), err
}
