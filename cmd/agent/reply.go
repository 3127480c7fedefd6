package main

import (
	"context"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// reply is the text that a turn leaves for whoever gave the input: what it
// wrote to response (a value that is no string as JSON; empty and null count as
// nothing), else the last assistant message that it appended to messages.
func reply(ctx context.Context, s *store.Store, turn *engine.Turn) (string, error) {
	view, err := s.At(ctx, turn.Thread, 0)
	if err != nil {
		return "", err
	}
	after := view.InputSeq - 1
	wrote, message := false, ""
	err = s.Entries(ctx, turn.Thread, after, 0, func(e engine.Entry) error {
		if e.Turn != turn.Number || e.Kind != engine.KindStep {
			return nil // what an input wrote is no reply
		}
		for _, op := range e.Payload.Ops {
			switch op.Channel {
			case outputChannel:
				wrote = true
			case messagesChannel:
				if text := assistantText(op.Value); text != "" {
					message = text
				}
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if v := turn.State[outputChannel]; wrote && v != nil && v != "" {
		return told(v), nil
	}
	return message, nil
}

// assistantText is the text of the last assistant message in what was written
// to messages: one message, or a list of them.
func assistantText(v any) string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for i := len(list) - 1; i >= 0; i-- {
		m, _ := list[i].(map[string]any)
		if m["role"] != "assistant" {
			continue
		}
		switch content := m["content"].(type) {
		case nil:
		case string:
			if content != "" {
				return content
			}
		case []any:
			if text := blocksText(content); text != "" {
				return text
			}
		default:
			return compact(content)
		}
	}
	return ""
}

// blocksText joins the text blocks of a message.
func blocksText(blocks []any) string {
	var texts []string
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		if text, ok := block["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " ")
}
