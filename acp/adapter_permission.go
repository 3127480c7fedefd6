package acp

import (
	"encoding/json"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// interruptKey is the member of _meta that a client of the seed design reads.
const interruptKey = "neograph/interrupt"

// defaultPermission asks by the question's own choices, or those of a gate.
func defaultPermission(q interrupt.Question) (*Permission, error) {
	choices := q.Options()
	if len(choices) == 0 {
		return nil, nil
	}
	meta, err := interruptMeta(q)
	if err != nil {
		return nil, err
	}
	call := ToolCall{Title: q.Payload.Reason(), Kind: kindOfData(q.Payload.Data), Status: ToolPending, Content: showQuestion(q), Meta: meta}
	if q.Payload.Data != nil {
		call.RawInput = value.Append(nil, q.Payload.Data)
	}
	p := &Permission{ToolCall: call}
	for _, c := range choices {
		kind := PermissionKind(c.Kind)
		if kind == "" {
			kind = AllowOnce
		}
		p.Options = append(p.Options, PermissionOption{OptionID: c.ID, Name: c.Label(), Kind: kind})
	}
	if q.IsGate() {
		p.Options = append(p.Options, always(q)...)
	}
	return p, nil
}

// interruptMeta is what goes with a question, for clients that know interrupts.
func interruptMeta(q interrupt.Question) (Meta, error) {
	payload, err := json.Marshal(q.Payload)
	if err != nil {
		return nil, err
	}
	short := map[string]any{"node": q.AskingNode, "reason": q.Payload.Reason(), "checkpointId": q.ID()}
	if q.Payload.Data != nil {
		short["payload"] = json.RawMessage(value.Append(nil, q.Payload.Data))
	}
	beside := map[string]any{"asking_node": q.AskingNode, "task": q.Task, "digest": q.Digest, "asked_at": q.AskedAt}
	if len(q.Choices) > 0 {
		beside["choices"] = q.Choices
	}
	if q.Type != "" {
		beside["type"] = q.Type
	}
	if q.Format != "" {
		beside["format"] = q.Format
	}
	if q.Minimum != nil {
		beside["minimum"] = *q.Minimum
	}
	if q.Maximum != nil {
		beside["maximum"] = *q.Maximum
	}
	if q.Doubt != nil {
		// What was about to run is in the content of the tool call.
		beside["doubt"] = map[string]any{"key": q.Doubt.Key, "intent": q.Doubt.Intent, "pid": q.Doubt.PID}
	}
	if q.Deadline != nil {
		beside["deadline"] = q.Deadline
	}
	meta := Meta{interrupt.MetadataKey: payload}
	if err := meta.Set(interruptKey, short); err != nil {
		return nil, err
	}
	return meta, meta.Set(interrupt.QuestionKey, beside)
}
