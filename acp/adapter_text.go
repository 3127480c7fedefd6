package acp

import (
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
)

func defaultUserText(blocks []ContentBlock) (string, error) {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case ContentText:
			parts = append(parts, b.Text)
		case ContentResourceLink:
			parts = append(parts, "["+b.Name+"]("+b.URI+")")
		case ContentResource:
			switch r := b.Resource; {
			case r == nil:
			case r.IsBlob:
				parts = append(parts, "["+baseName(r.URI)+"]("+r.URI+")")
			default:
				parts = append(parts, r.Text)
			}
		}
	}
	return strings.Join(parts, " "), nil
}

// baseName is the last part of a URI, which has no other name.
func baseName(uri string) string {
	name := strings.TrimRight(uri, "/")
	return name[strings.LastIndexByte(name, '/')+1:]
}

func (a *Adapter) agentText(output TurnOutput) (string, error) {
	if v := output.Values[a.OutputChannel]; v != nil && v != "" {
		return told(v), nil
	}
	for i := len(output.Messages) - 1; i >= 0; i-- {
		if text := assistantText(output.Messages[i]); text != "" {
			return text, nil
		}
	}
	return "", nil
}

// assistantText is the text of a message, if it is the assistant's.
func assistantText(message any) string {
	m, _ := message.(map[string]any)
	if m["role"] != "assistant" {
		return ""
	}
	switch content := m["content"].(type) {
	case nil:
		return ""
	case string:
		return content
	case []any:
		var texts []string
		for _, b := range content {
			block, _ := b.(map[string]any)
			if text, ok := block["text"].(string); ok {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, " ")
	default:
		return told(content)
	}
}

// told is a value for a person: a string as it is, all else as compact JSON.
func told(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(value.Append(nil, v))
}
