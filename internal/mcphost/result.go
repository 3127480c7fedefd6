package mcphost

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-agent/holdfast/engine"
)

// resultOf is what a tool answered, as JSON.
func resultOf(name string, r *mcp.CallToolResult) (any, error) {
	text, onlyText := textOf(r.Content)
	switch {
	case r.IsError && text == "":
		return nil, &engine.ToolError{Message: "tool " + name + " failed and did not say why"}
	case r.IsError:
		return nil, &engine.ToolError{Message: text}
	case r.StructuredContent != nil:
		return r.StructuredContent, nil
	case onlyText:
		return text, nil
	}
	raw, err := json.Marshal(r.Content)
	if err != nil {
		return nil, fmt.Errorf("tool %s: its result: %w", name, err)
	}
	var content []any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("tool %s: its result: %w", name, err)
	}
	return content, nil
}

// textOf joins the texts of a content, a line each.
func textOf(content []mcp.Content) (text string, only bool) {
	var texts []string
	only = true
	for _, c := range content {
		t, is := c.(*mcp.TextContent)
		if !is {
			only = false
			continue
		}
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "\n"), only
}
