package acp

import (
	"encoding/json"
	"fmt"
)

// ToolKind tells a client which icon a tool call gets.
type ToolKind string

// The kinds.
const (
	ToolRead       ToolKind = "read"
	ToolEdit       ToolKind = "edit"
	ToolDelete     ToolKind = "delete"
	ToolMove       ToolKind = "move"
	ToolSearch     ToolKind = "search"
	ToolExecute    ToolKind = "execute"
	ToolThink      ToolKind = "think"
	ToolFetch      ToolKind = "fetch"
	ToolSwitchMode ToolKind = "switch_mode"
	ToolOther      ToolKind = "other"
)

// ToolStatus is how far a tool call is. There is none for a call that was denied
// or cancelled: that is failed.
type ToolStatus string

// The statuses. Pending is also a call that waits for approval.
const (
	ToolPending    ToolStatus = "pending"
	ToolInProgress ToolStatus = "in_progress"
	ToolCompleted  ToolStatus = "completed"
	ToolFailed     ToolStatus = "failed"
)

// ToolCall announces a tool call, once. Its id is unique in the session, across
// turns and restarts.
type ToolCall struct {
	ToolCallID string            `json:"toolCallId"`
	Title      string            `json:"title"`
	Kind       ToolKind          `json:"kind,omitempty"`
	Status     ToolStatus        `json:"status,omitempty"` // absent: pending
	Content    []ToolCallContent `json:"content,omitempty"`
	Locations  []Location        `json:"locations,omitempty"`
	RawInput   json.RawMessage   `json:"rawInput,omitempty"`
	RawOutput  json.RawMessage   `json:"rawOutput,omitempty"`
	Meta       Meta              `json:"_meta,omitempty"`
}

// ToolCallUpdate changes a tool call: what is absent stays, a list replaces the
// list that was there, and an empty list that is not nil removes it.
type ToolCallUpdate struct {
	ToolCallID string            `json:"toolCallId"`
	Title      string            `json:"title,omitempty"`
	Kind       ToolKind          `json:"kind,omitempty"`
	Status     ToolStatus        `json:"status,omitempty"`
	Content    []ToolCallContent `json:"content,omitzero"`
	Locations  []Location        `json:"locations,omitzero"`
	RawInput   json.RawMessage   `json:"rawInput,omitempty"`
	RawOutput  json.RawMessage   `json:"rawOutput,omitempty"`
	Meta       Meta              `json:"_meta,omitempty"`
}

// Update gives the same call as an update, for a permission request: a client
// may show only what is in the request itself.
func (c ToolCall) Update() ToolCallUpdate {
	return ToolCallUpdate(c)
}

// Location is a file that a tool call works on. Line counts from 1; 0 is absent.
type Location struct {
	Path string `json:"path"`
	Line uint32 `json:"line,omitempty"`
	Meta Meta   `json:"_meta,omitempty"`
}

// Types of what a tool call shows.
const (
	ToolContentBlock    = "content"
	ToolContentDiff     = "diff"
	ToolContentTerminal = "terminal"
)

// ToolCallContent is something that a tool call shows. Type says which fields
// count. A bare content block in its place would be dropped by clients.
type ToolCallContent struct {
	Type string

	Content ContentBlock // content

	Path    string  // diff: an absolute path
	OldText *string // diff: nil for a new file
	NewText string  // diff

	TerminalID string // terminal

	Meta Meta
}

// ToolText shows a text.
func ToolText(text string) ToolCallContent {
	return ToolCallContent{Type: ToolContentBlock, Content: TextBlock(text)}
}

// ToolDiff shows a change of a file.
func ToolDiff(path string, oldText *string, newText string) ToolCallContent {
	return ToolCallContent{Type: ToolContentDiff, Path: path, OldText: oldText, NewText: newText}
}

// ToolTerminal shows a terminal of the client, live.
func ToolTerminal(terminalID string) ToolCallContent {
	return ToolCallContent{Type: ToolContentTerminal, TerminalID: terminalID}
}

// MarshalJSON implements json.Marshaler.
func (c ToolCallContent) MarshalJSON() ([]byte, error) {
	switch c.Type {
	case ToolContentBlock:
		return tagged("type", c.Type, struct {
			Content ContentBlock `json:"content"`
			Meta    Meta         `json:"_meta,omitempty"`
		}{c.Content, c.Meta})
	case ToolContentDiff:
		return tagged("type", c.Type, struct {
			Path    string  `json:"path"`
			OldText *string `json:"oldText,omitempty"`
			NewText string  `json:"newText"`
			Meta    Meta    `json:"_meta,omitempty"`
		}{c.Path, c.OldText, c.NewText, c.Meta})
	case ToolContentTerminal:
		return tagged("type", c.Type, struct {
			TerminalID string `json:"terminalId"`
			Meta       Meta   `json:"_meta,omitempty"`
		}{c.TerminalID, c.Meta})
	}
	return nil, fmt.Errorf("tool call content of unknown type %q", c.Type)
}
