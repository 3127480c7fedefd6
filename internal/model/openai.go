package model

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// openAI makes a call of chat completions.
func (c *Client) openAI(ctx context.Context, req Request, a *answer) error {
	// A service without a client takes nothing from the environment: neither
	// another key nor another server.
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
	service := openai.NewChatCompletionService(options...)
	stream := service.NewStreaming(ctx, c.openAIParams(req))
	defer stream.Close()
	for stream.Next() {
		a.alive()
		if !a.chunk(stream.Current()) {
			return a.err
		}
	}
	return stream.Err()
}

func (c *Client) openAIParams(req Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:         req.Model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if req.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		p.Messages = append(p.Messages, openAIMessage(m))
	}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: t.Schema,
		}))
	}
	if req.Temperature != nil {
		p.Temperature = param.NewOpt(*req.Temperature)
	}
	// OpenAI's own newer models know only the new name, most other servers the
	// old one.
	switch {
	case req.MaxTokens == 0:
	case c.ownServer():
		p.MaxCompletionTokens = param.NewOpt(req.MaxTokens)
	default:
		p.MaxTokens = param.NewOpt(req.MaxTokens)
	}
	if req.Schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: req.Schema},
		}
	}
	return p
}

func openAIMessage(m Message) openai.ChatCompletionMessageParamUnion {
	switch m.Role {
	case "system", "developer":
		return openai.SystemMessage(m.Content)
	case "user":
		return openai.UserMessage(m.Content)
	case "tool":
		return openai.ToolMessage(m.Content, m.ToolCallID)
	}
	out := &openai.ChatCompletionAssistantMessageParam{}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		out.Content.OfString = param.NewOpt(m.Content)
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       call.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Function.Name, Arguments: string(call.arguments())},
			},
		})
	}
	if m.Reasoning != "" {
		out.SetExtraFields(map[string]any{"reasoning_content": m.Reasoning})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: out}
}

// chunk takes a piece of an answer, and reports whether to go on.
func (a *answer) chunk(chunk openai.ChatCompletionChunk) bool {
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		a.usage = Usage{Input: u.PromptTokens, Output: u.CompletionTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		delta := choice.Delta
		if !a.say(delta.Content) || !a.refuse(delta.Refusal) {
			return false
		}
		for _, name := range []string{"reasoning_content", "reasoning"} {
			var piece string
			if field, there := delta.JSON.ExtraFields[name]; there && json.Unmarshal([]byte(field.Raw()), &piece) == nil && piece != "" {
				if !a.think(piece) {
					return false
				}
				a.reason = a.reason || name == "reasoning_content"
				break
			}
		}
		for _, call := range delta.ToolCalls {
			if !a.call(call.Index, call.ID, call.Function.Name, call.Function.Arguments) {
				return false
			}
		}
		switch choice.FinishReason {
		case "":
			continue
		case "length":
			a.stop = StopMaxTokens
		case "content_filter":
			a.stop = StopRefusal
			if a.refusal.Len() == 0 {
				a.refusal.WriteString("a content filter of the server broke the answer off")
			}
		}
		a.finished = true
	}
	return true
}
