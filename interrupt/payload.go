package interrupt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// Kind says where a turn paused. Unknown kinds are accepted when read, so that
// an older reader survives a newer writer.
type Kind string

// The kinds of an interrupt.
const (
	Before  Kind = "before"  // a static gate in front of a node: the node has not run
	After   Kind = "after"   // a static gate behind a node: the node has run, its successors have not
	Dynamic Kind = "dynamic" // a node, or the engine on its behalf, asks
	Timer   Kind = "timer"   // a node waits for a time: no person is asked
	Signal  Kind = "signal"  // a node waits for a signal: no person is asked
)

// MetadataKey is the key under which event metadata carries a
// GraphInterruptPayload as a JSON string.
const MetadataKey = "adk.graph.interrupt"

// QuestionKey is the key beside MetadataKey for what the payload has no field for.
const QuestionKey = "holdfast.question"

// EventAuthor is the author of the event that a question becomes.
const EventAuthor = "graph_interrupted"

// Interrupt is what a gate or a node asks, before it has a place in a log.
type Interrupt struct {
	Kind    Kind
	Node    string // the gated node; empty for a dynamic one
	Message string
	Data    any // a JSON value; nil is none
}

// Reason is the text that a person reads: the message, or for a gate without
// one where it stands.
func (i Interrupt) Reason() string { return reason(i.Kind, i.Node, i.Message) }

func reason(kind Kind, node, message string) string {
	switch {
	case message != "":
		return message
	case kind == Before:
		return "Interrupt before node: " + node
	case kind == After:
		return "Interrupt after node: " + node
	}
	return "Interrupt"
}

// GraphInterruptPayload is an interrupt with its place: the thread, and the
// checkpoint that asked. Absent options are omitted when written; absent and
// null are both read.
type GraphInterruptPayload struct {
	Kind         Kind
	Node         string // the gated node of a static interrupt; absent for a dynamic one
	Message      string // always there for a dynamic interrupt
	Data         any    // a JSON value; nil is absent
	ThreadID     string
	CheckpointID string
}

// New places an interrupt: thread and checkpoint say where it was asked.
func New(i Interrupt, thread, checkpoint string) GraphInterruptPayload {
	return GraphInterruptPayload{
		Kind: i.Kind, Node: i.Node, Message: i.Message, Data: i.Data,
		ThreadID: thread, CheckpointID: checkpoint,
	}
}

// Reason is the text that a person reads; see Interrupt.Reason.
func (p GraphInterruptPayload) Reason() string { return reason(p.Kind, p.Node, p.Message) }

// payloadJSON is the wire form: pointers tell absent from empty.
type payloadJSON struct {
	Kind         *Kind           `json:"kind"`
	Node         *string         `json:"node,omitempty"`
	Message      *string         `json:"message,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	ThreadID     *string         `json:"thread_id"`
	CheckpointID *string         `json:"checkpoint_id"`
}

// MarshalJSON writes the payload exactly as clients expect it.
func (p GraphInterruptPayload) MarshalJSON() ([]byte, error) {
	w := payloadJSON{Kind: &p.Kind, ThreadID: &p.ThreadID, CheckpointID: &p.CheckpointID}
	if p.Node != "" {
		w.Node = &p.Node
	}
	if p.Message != "" || p.Kind == Dynamic {
		w.Message = &p.Message
	}
	if p.Data != nil {
		data, err := value.Marshal(p.Data)
		if err != nil {
			return nil, fmt.Errorf("interrupt data: %w", err)
		}
		w.Data = data
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// UnmarshalJSON reads a payload. Unknown fields and kinds are accepted; kind,
// thread_id and checkpoint_id must be there.
func (p *GraphInterruptPayload) UnmarshalJSON(data []byte) error {
	var w payloadJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("not an interrupt: %w", err)
	}
	if w.Kind == nil || w.ThreadID == nil || w.CheckpointID == nil {
		return errors.New("not an interrupt: kind, thread_id and checkpoint_id are required")
	}
	out := GraphInterruptPayload{Kind: *w.Kind, ThreadID: *w.ThreadID, CheckpointID: *w.CheckpointID}
	if w.Node != nil {
		out.Node = *w.Node
	}
	if w.Message != nil {
		out.Message = *w.Message
	}
	if len(w.Data) > 0 {
		v, err := value.Decode(w.Data)
		if err != nil {
			return fmt.Errorf("not an interrupt: data: %w", err)
		}
		out.Data = v
	}
	*p = out
	return nil
}

// MetadataValue is the payload as the string that event metadata carries under
// MetadataKey.
func (p GraphInterruptPayload) MetadataValue() (string, error) {
	b, err := p.MarshalJSON()
	return string(b), err
}

// FromMetadata finds the payload in an event's metadata: the JSON string under
// MetadataKey, or the object itself. Anything malformed is not an interrupt.
func FromMetadata(metadata map[string]any) (GraphInterruptPayload, bool) {
	var p GraphInterruptPayload
	var raw []byte
	switch v := metadata[MetadataKey].(type) {
	case nil:
		return p, false
	case string:
		raw = []byte(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return p, false
		}
		raw = b
	}
	if err := p.UnmarshalJSON(raw); err != nil {
		return GraphInterruptPayload{}, false
	}
	return p, true
}
