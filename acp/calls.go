package acp

import (
	"fmt"
	"slices"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// toolCall is a tool call of a session: a task that does something or is asked
// about, or a question. Its id follows from the log, so that it is the same in
// every process, live and replayed.
type toolCall struct {
	ToolCall // as it is announced; Status is unused

	task     string
	about    []ToolCallContent // what it is about
	notes    []ToolCallContent // what was decided
	resolved any               // what runs
	shown    any               // what its approver was shown, which is what runs then
	terminal string            // of the client, in which it runs
	inside   string            // of a call that a task made: the id of the task's own
	output   string            // the newest of what it printed
	told     int64             // when that was told last, in ms

	announced bool       // to this client
	status    ToolStatus // as this client knows it
	known     ToolCall   // what else it knows
}

// showing is what the call shows, with more behind it.
func (c *toolCall) showing(more ...ToolCallContent) []ToolCallContent {
	if c.terminal != "" {
		more = append([]ToolCallContent{ToolTerminal(c.terminal)}, more...)
	}
	return slices.Concat(c.about, c.notes, more)
}

func (c *toolCall) over() bool { return c.status == ToolCompleted || c.status == ToolFailed }

// asked is a question of the turn.
type asked struct {
	question  interrupt.Question
	namespace string // of the subgraph that asks
	options   []PermissionOption
	call      *toolCall // nil where no choice answers it
	err       error     // of the adapter
}

// taskCallID is the id of a task's tool call. The seq of its base belongs to one
// namespace, so that it needs no mention.
func taskCallID(base int64, task string) string { return fmt.Sprintf("call-%d-%s", base, task) }

// questionCallID is the id of a question's tool call. That of a gate in front of a
// node, and of a doubt, is the node's own.
func questionCallID(q interrupt.Question, base, seq int64) string {
	switch {
	case q.Payload.Kind == interrupt.Before, q.IsDoubt():
		return taskCallID(base, q.Task)
	case q.Payload.Kind == interrupt.After:
		return fmt.Sprintf("gate-%d", seq)
	}
	return fmt.Sprintf("ask-%d", seq)
}

// runs makes the call one that runs: it says what.
func (c *toolCall) runs(node string, resolved any) {
	c.resolved = resolved
	line := workLine(resolved)
	switch {
	case line != "":
		c.Title = oneLine(line, 200)
	case c.Title == "":
		c.Title = node
	}
	switch {
	case isCommand(resolved):
		c.Kind = ToolExecute
	case line != "":
		c.Kind = ToolFetch
	case c.Kind == "":
		c.Kind = ToolOther
	}
	if resolved != nil {
		c.RawInput = value.Append(nil, resolved)
		c.about = showWork(resolved)
	}
}

// writtenBy is what a task wrote: the value itself, where it is one.
func writtenBy(task string, ops []engine.Op) any {
	var writes []engine.Write
	for _, op := range ops {
		if op.Task == task {
			writes = append(writes, engine.Write{Channel: op.Channel, Value: op.Value})
		}
	}
	return written(writes)
}

func written(writes []engine.Write) any {
	switch len(writes) {
	case 0:
		return nil
	case 1:
		return writes[0].Value
	}
	all := map[string]any{}
	for _, w := range writes {
		all[w.Channel] = w.Value
	}
	return all
}

// decided says who decided what.
func decided(q interrupt.Question, a interrupt.Answer) string {
	what := a.Choice
	for _, o := range q.Options() {
		if o.ID == a.Choice {
			what = o.Label()
		}
	}
	text := fmt.Sprintf("%s: %s via %s", oneLine(what, 200), oneLine(a.Actor, 200), oneLine(a.Via, 50))
	if a.Reason != "" {
		text += ": " + visible(a.Reason)
	}
	return text
}
