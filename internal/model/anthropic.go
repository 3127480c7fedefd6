package model

import (
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// anthropic makes a call of messages.
func (c *Client) anthropic(ctx context.Context, req Request, a *answer) error {
	// See openAI: nothing comes from the environment.
	options := []option.RequestOption{
		option.WithBaseURL(c.BaseURL), option.WithMaxRetries(0), option.WithHTTPClient(c.httpClient()),
		option.WithHeader("Accept", "text/event-stream"),
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	for name, v := range req.Parameters {
		options = append(options, option.WithJSONSet(name, v))
	}
	service := anthropic.NewMessageService(options...)
	stream := service.NewStreaming(ctx, c.anthropicParams(req))
	defer stream.Close()
	for stream.Next() {
		a.alive()
		if !a.event(stream.Current()) {
			return a.err
		}
	}
	return stream.Err()
}

func (c *Client) anthropicParams(req Request) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: req.Model, MaxTokens: req.MaxTokens}
	if p.MaxTokens == 0 {
		p.MaxTokens = DefaultMaxTokens
	}
	if req.System != "" {
		p.System = append(p.System, anthropic.TextBlockParam{Text: req.System})
	}
	for _, m := range req.Messages {
		if m.Role == "system" || m.Role == "developer" {
			if m.Content != "" {
				p.System = append(p.System, anthropic.TextBlockParam{Text: m.Content})
			}
			continue
		}
		blocks := anthropicBlocks(m)
		role := anthropic.MessageParamRoleUser
		if m.Role == "assistant" {
			role = anthropic.MessageParamRoleAssistant
		}
		if len(blocks) == 0 {
			continue
		}
		// Roles take turns: the answers of a batch are one message.
		if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == role {
			p.Messages[n-1].Content = append(p.Messages[n-1].Content, blocks...)
			continue
		}
		p.Messages = append(p.Messages, anthropic.MessageParam{Role: role, Content: blocks})
	}
	for _, t := range req.Tools {
		extra := map[string]any{}
		for name, v := range t.Schema {
			if name != "type" && name != "properties" && name != "required" {
				extra[name] = v
			}
		}
		tool := &anthropic.ToolParam{Name: t.Name, InputSchema: anthropic.ToolInputSchemaParam{Properties: t.Schema["properties"], ExtraFields: extra}}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		list, _ := t.Schema["required"].([]any)
		for _, name := range list {
			if text, ok := name.(string); ok {
				tool.InputSchema.Required = append(tool.InputSchema.Required, text)
			}
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	if len(req.Tools) > 0 && c.ownServer() {
		// A loop of tool calls sends the same beginning again and again.
		p.CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	if req.Temperature != nil {
		p.Temperature = param.NewOpt(*req.Temperature)
	}
	if req.Schema != nil {
		p.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: req.Schema}}
	}
	return p
}

// anthropicBlocks are the parts of a message. An empty text is refused there.
func anthropicBlocks(m Message) (blocks []anthropic.ContentBlockParamUnion) {
	if m.Role == "tool" {
		return []anthropic.ContentBlockParamUnion{anthropic.NewToolResultBlock(m.ToolCallID, m.Content, false)}
	}
	for _, t := range m.Thinking {
		if t.Sealed != "" {
			blocks = append(blocks, anthropic.NewRedactedThinkingBlock(t.Sealed))
		} else if t.Signature != "" {
			blocks = append(blocks, anthropic.NewThinkingBlock(t.Signature, t.Text))
		}
	}
	if strings.TrimSpace(m.Content) != "" {
		blocks = append(blocks, anthropic.NewTextBlock(m.Content))
	}
	for _, call := range m.ToolCalls {
		blocks = append(blocks, anthropic.NewToolUseBlock(call.ID, call.arguments(), call.Function.Name))
	}
	return blocks
}

// event takes a piece of an answer, and reports whether to go on.
func (a *answer) event(ev anthropic.MessageStreamEventUnion) bool {
	switch ev.Type {
	case "message_start":
		u := ev.Message.Usage
		a.usage.Input = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		a.usage.Output = u.OutputTokens
	case "content_block_start":
		switch b := ev.ContentBlock; b.Type {
		case "text":
			return a.say(b.Text)
		case "tool_use":
			return a.call(ev.Index, b.ID, b.Name, "")
		case "thinking", "redacted_thinking":
			for int64(len(a.blocks)) <= ev.Index && len(a.blocks) < maxCalls {
				a.blocks = append(a.blocks, nil)
			}
			if !a.take(b.Data) || ev.Index < 0 || ev.Index >= int64(len(a.blocks)) {
				return a.err == nil
			}
			a.blocks[ev.Index] = &block{Thought: Thought{Sealed: b.Data}}
			return a.thinks(ev.Index, b.Thinking, b.Signature)
		}
	case "content_block_delta":
		switch d := ev.Delta; d.Type {
		case "text_delta":
			return a.say(d.Text)
		case "input_json_delta":
			return a.call(ev.Index, "", "", d.PartialJSON)
		case "thinking_delta":
			return a.thinks(ev.Index, d.Thinking, "")
		case "signature_delta":
			return a.thinks(ev.Index, "", d.Signature)
		}
	case "message_delta":
		u := ev.Usage
		if n := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens; n > 0 {
			a.usage.Input = n
		}
		if u.OutputTokens > 0 {
			a.usage.Output = u.OutputTokens
		}
		switch ev.Delta.StopReason {
		case "":
			return true
		case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
			a.stop = StopMaxTokens
		case anthropic.StopReasonRefusal:
			a.stop = StopRefusal
			if a.refusal.Len() == 0 {
				a.refusal.WriteString("the model refused")
			}
		}
		a.finished = true
	}
	return true
}

func (a *answer) thinks(index int64, text, signature string) bool {
	if !a.think(text) || !a.take(signature) {
		return false
	}
	if index >= 0 && index < int64(len(a.blocks)) && a.blocks[index] != nil {
		a.blocks[index].text.WriteString(text)
		a.blocks[index].signature.WriteString(signature)
	}
	return true
}
