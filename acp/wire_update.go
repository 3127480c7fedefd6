package acp

import (
	"encoding/json"
	"errors"
)

// SessionUpdate is what a session/update notification tells. The types below
// implement it, each with the fields of its kind.
type SessionUpdate interface {
	kindOfUpdate() string
}

// SessionNotification are the params of session/update.
type SessionNotification struct {
	SessionID string
	Update    SessionUpdate
	Meta      Meta
}

// MarshalJSON implements json.Marshaler.
func (n SessionNotification) MarshalJSON() ([]byte, error) {
	if n.Update == nil {
		return nil, errNoUpdate
	}
	update, err := tagged("sessionUpdate", n.Update.kindOfUpdate(), n.Update)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
		Meta      Meta            `json:"_meta,omitempty"`
	}{n.SessionID, update, n.Meta})
}

var errNoUpdate = errors.New("session/update without an update")

// Chunk is a part of a message. Chunks with one MessageID are one message.
type Chunk struct {
	Content   ContentBlock `json:"content"`
	MessageID string       `json:"messageId,omitempty"`
	Meta      Meta         `json:"_meta,omitempty"`
}

// UserMessageChunk is what the user said, in a replay.
type UserMessageChunk Chunk

// AgentMessageChunk is what the agent says.
type AgentMessageChunk Chunk

// AgentThoughtChunk is what the agent thinks.
type AgentThoughtChunk Chunk

// Plan is the whole plan; a client replaces the one that it has.
type Plan struct {
	Entries List[PlanEntry] `json:"entries"`
	Meta    Meta            `json:"_meta,omitempty"`
}

// PlanEntry is one task of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"` // high, medium, low
	Status   string `json:"status"`   // pending, in_progress, completed
	Meta     Meta   `json:"_meta,omitempty"`
}

// AvailableCommandsUpdate is the whole list of slash commands.
type AvailableCommandsUpdate struct {
	AvailableCommands List[AvailableCommand] `json:"availableCommands"`
	Meta              Meta                   `json:"_meta,omitempty"`
}

// AvailableCommand comes back as the prompt text "/name rest".
type AvailableCommand struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *CommandInput `json:"input,omitempty"`
	Meta        Meta          `json:"_meta,omitempty"`
}

// CommandInput says that a command takes text, and what to type.
type CommandInput struct {
	Hint string `json:"hint"`
}

// CurrentModeUpdate says that the mode has changed.
type CurrentModeUpdate struct {
	CurrentModeID string `json:"currentModeId"`
	Meta          Meta   `json:"_meta,omitempty"`
}

// ConfigOptionUpdate is the whole list of options.
type ConfigOptionUpdate struct {
	ConfigOptions List[ConfigOption] `json:"configOptions"`
	Meta          Meta               `json:"_meta,omitempty"`
}

// SessionInfoUpdate changes what a list of sessions shows. Empty fields stay as
// they are.
type SessionInfoUpdate struct {
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"` // ISO 8601
	Meta      Meta   `json:"_meta,omitempty"`
}

// UsageUpdate tells how full the context is, in tokens, and what it cost.
type UsageUpdate struct {
	Used uint64 `json:"used"`
	Size uint64 `json:"size"`
	Cost *Cost  `json:"cost,omitempty"`
	Meta Meta   `json:"_meta,omitempty"`
}

// Cost is an amount of money; Currency is ISO 4217.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// Notice is a remark beside the conversation. It may be sent only to a client
// that has Session.Notices, and is not part of the history.
type Notice struct {
	Severity    string `json:"severity"` // info, warning, error
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Meta        Meta   `json:"_meta,omitempty"`
}

func (UserMessageChunk) kindOfUpdate() string        { return "user_message_chunk" }
func (AgentMessageChunk) kindOfUpdate() string       { return "agent_message_chunk" }
func (AgentThoughtChunk) kindOfUpdate() string       { return "agent_thought_chunk" }
func (ToolCall) kindOfUpdate() string                { return "tool_call" }
func (ToolCallUpdate) kindOfUpdate() string          { return "tool_call_update" }
func (Plan) kindOfUpdate() string                    { return "plan" }
func (AvailableCommandsUpdate) kindOfUpdate() string { return "available_commands_update" }
func (CurrentModeUpdate) kindOfUpdate() string       { return "current_mode_update" }
func (ConfigOptionUpdate) kindOfUpdate() string      { return "config_option_update" }
func (SessionInfoUpdate) kindOfUpdate() string       { return "session_info_update" }
func (UsageUpdate) kindOfUpdate() string             { return "usage_update" }
func (Notice) kindOfUpdate() string                  { return "notice" }
