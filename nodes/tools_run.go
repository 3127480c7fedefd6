package nodes

import (
	"context"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// toolCall is one call under way.
type toolCall struct {
	set  *toolset
	task *engine.Task
	id   string
	args map[string]any
	plan *toolPlan
	*tool
}

// toolPlan is what a call would do, as it is shown before it does it.
type toolPlan struct {
	Title   string           `json:"title"`
	Paths   []string         `json:"paths,omitempty"`
	Diff    *engine.FileDiff `json:"diff,omitempty"`
	Command string           `json:"command,omitempty"`
	Cwd     string           `json:"cwd,omitempty"`
	Problem string           `json:"problem,omitempty"` // it cannot be done: this is its answer
}

// calls are those of the last message of the assistant that have no answer yet.
func (s *toolset) calls(t *engine.Task) ([]model.ToolCall, error) {
	messages, err := model.Messages(value.Append(nil, t.Get(s.messages)))
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", s.messages, err)
	}
	answered := map[string]bool{}
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := messages[i]; m.Role {
		case "tool":
			answered[m.ToolCallID] = true
		case "assistant":
			var out []model.ToolCall
			for _, call := range m.ToolCalls {
				if !answered[call.ID] {
					out = append(out, call)
				}
			}
			return out, nil
		}
	}
	return nil, nil
}

func (s *toolset) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	asked, err := s.calls(t)
	if err != nil || len(asked) == 0 {
		return engine.Output{}, err
	}
	hosted, err := s.hosted(ctx, t)
	if err != nil {
		return engine.Output{}, err
	}
	batch := &batch{set: s, task: t, calls: map[string]*toolCall{}, files: map[string]string{}, ran: map[string]bool{}}
	calls := make([]engine.ToolCall, len(asked))
	for i, call := range asked {
		calls[i] = batch.add(call, hosted)
	}
	outcomes, err := engine.DispatchTools(ctx, t, calls, []engine.ToolGate{batch.gate}, batch.run)
	if err != nil {
		return engine.Output{}, err
	}
	results := make([]any, len(outcomes))
	for i, o := range outcomes {
		text := s.text(o)
		if err := batch.show(o, text); err != nil {
			return engine.Output{}, err
		}
		results[i] = map[string]any{"role": "tool", "tool_call_id": o.Call.ID, "name": o.Call.Name, "content": text}
	}
	return engine.Set(s.messages, results), nil
}

// text is what the model gets of an outcome.
func (s *toolset) text(o engine.ToolOutcome) string {
	text := asText(o.Result)
	if o.Failed || o.Denied {
		doc, _ := o.Result.(map[string]any)
		message, _ := doc["error"].(string)
		text = "error: " + message
	} else if o.Result == nil {
		text = "done"
	}
	kept := newCapture(s.maxOutput)
	kept.add([]byte(text))
	return kept.text(s.maxOutput)
}
