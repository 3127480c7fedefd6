package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message is one message of a conversation, in the shape of OpenAI's chat
// completions, which is what a channel of messages holds.
type Message struct {
	ID         string     `json:"id,omitempty"`
	Role       string     `json:"role"` // system, developer, user, assistant or tool
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"` // of role tool: the call that it answers
	// Stop is there where an answer did not end by itself.
	Stop Stop `json:"stop_reason,omitempty"`

	// What some models thought before they called tools. Their servers want it
	// back, as it was.
	Thinking  []Thought `json:"thinking,omitempty"`          // Anthropic
	Reasoning string    `json:"reasoning_content,omitempty"` // servers like OpenAI's
}

// ToolCall is a call that the assistant asks for.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // function
	Function Function `json:"function"`
}

// Function names a tool. Arguments is the text that the model wrote; it should be
// a JSON object.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Thought is a signed piece of what a model thought, or a sealed one.
type Thought struct {
	Text      string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Sealed    string `json:"data,omitempty"`
}

// UnmarshalJSON takes a content that is a text, null, or a list of texts.
func (m *Message) UnmarshalJSON(raw []byte) error {
	type plain Message
	wide := struct {
		*plain
		Content json.RawMessage `json:"content"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(raw, &wide); err != nil {
		return err
	}
	m.Content = ""
	if len(wide.Content) == 0 || string(wide.Content) == "null" {
		return nil
	}
	if wide.Content[0] == '"' {
		return json.Unmarshal(wide.Content, &m.Content)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(wide.Content, &parts); err != nil {
		return errors.New("content is a text, or a list of {type: text, text: ...}")
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("part %d of the content has the type %q: only text can be sent", i, p.Type)
		}
		texts[i] = p.Text
	}
	m.Content = strings.Join(texts, "\n")
	return nil
}

// Messages reads a conversation from the JSON of a channel.
func Messages(raw []byte) ([]Message, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("it holds no list of messages")
	}
	out := make([]Message, len(list))
	for i, item := range list {
		if err := json.Unmarshal(item, &out[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		switch out[i].Role {
		case "system", "developer", "user", "assistant", "tool":
		default:
			return nil, fmt.Errorf("message %d has the role %q; there are system, developer, user, assistant, tool", i, out[i].Role)
		}
	}
	return out, nil
}

// notRun answers a call that nobody answered.
const notRun = "This call was not run."

// checked makes a conversation that servers accept: each tool call is followed
// by its answer. A turn that was cancelled, rejected or failed leaves calls
// without one, and the next turn of the thread must be possible all the same.
func checked(messages []Message) ([]Message, error) {
	var out []Message
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == "tool" {
			continue // it was put behind its call, or has none
		}
		out = append(out, m)
		if len(m.ToolCalls) == 0 {
			continue
		}
		answers := map[string]Message{}
		for _, later := range messages[i+1:] {
			if later.Role == "assistant" {
				break
			}
			if later.Role == "tool" {
				answers[later.ToolCallID] = later
			}
		}
		for _, call := range m.ToolCalls {
			answer, there := answers[call.ID]
			if !there {
				answer = Message{Role: "tool", ToolCallID: call.ID, Content: notRun}
			}
			out = append(out, answer)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no message to answer: the conversation is empty")
	}
	return out, nil
}

// arguments are those of a call as JSON. What is no object is put into one:
// servers read it again, and refuse the whole conversation otherwise.
func (c ToolCall) arguments() json.RawMessage {
	text := strings.TrimSpace(c.Function.Arguments)
	if text == "" {
		return json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return json.RawMessage(text)
	}
	raw, _ := json.Marshal(map[string]string{"invalid_json": c.Function.Arguments})
	return raw
}
