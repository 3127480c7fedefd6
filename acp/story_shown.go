package acp

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// What tasks show of themselves: messages, thoughts and tool calls. Their ids follow
// from the log, as those of tasks do, so that a replay tells the same as it happened.

func shownID(kind string, base int64, task, id string) string {
	return fmt.Sprintf("%s-%d-%s-%s", kind, base, task, id)
}

// shownLive tells a piece of a message, or how far a tool call is.
func (s *story) shownLive(ev engine.Event) {
	shown := ev.Shown
	if shown == nil {
		return
	}
	if shown.Kind == engine.ShownCall {
		if shown.Call != nil {
			s.showCall(ev.Base, ev.Task, shown.ID, *shown.Call)
		}
		return
	}
	id := shownID(string(shown.Kind), ev.Base, ev.Task, shown.ID)
	// A node that runs again says it again.
	told := len(s.texts[id])
	if at := told - ev.Offset; at >= 0 && at < len(shown.Text) {
		s.sayShown(shown.Kind, id, shown.Text[at:])
	}
}

// showAll tells what a finished task showed, unless it was told as it came.
func (s *story) showAll(e *engine.Entry, base int64, task string) {
	for _, shown := range e.Payload.Shown[task] {
		if shown.Kind == engine.ShownCall {
			if shown.Call != nil {
				s.showCall(base, task, shown.ID, *shown.Call)
			}
			continue
		}
		id := shownID(string(shown.Kind), base, task, shown.ID)
		text := e.ShownText(task, shown)
		if told := len(s.texts[id]); told < len(text) {
			s.sayShown(shown.Kind, id, text[told:])
		}
	}
}

func (s *story) sayShown(kind engine.ShownKind, id, text string) {
	s.texts[id] = append(s.texts[id], text...)
	for _, part := range SplitText(text) {
		chunk := Chunk{Content: TextBlock(part), MessageID: id}
		if kind == engine.ShownThought {
			s.say(AgentThoughtChunk(chunk))
			continue
		}
		s.said = id
		s.say(AgentMessageChunk(chunk))
	}
}

// wasSaid reports whether this text is the last message that was told as it came.
func (s *story) wasSaid(text string) bool { return s.said != "" && string(s.texts[s.said]) == text }

// showCall tells a tool call that a task makes.
func (s *story) showCall(base int64, task, name string, shown engine.Call) {
	id := shownID("tool", base, task, name)
	c := s.calls[id]
	if c == nil {
		c = s.call(id, task)
		c.inside = taskCallID(base, task)
	}
	status := ToolStatus(shown.Status)
	switch status {
	case ToolPending, ToolInProgress, ToolCompleted, ToolFailed:
	default:
		status = ToolInProgress
	}
	switch {
	case s.replaying || !c.announced:
	case c.over() && c.status == status:
		return // told as it happened
	case c.status == ToolCompleted && status != ToolFailed:
		return // its node runs again, and comes by here on its way
	}
	c.Title, c.Kind = oneLine(shown.Title, 200), kindOf(shown.Kind)
	if c.Title == "" {
		c.Title = name
	}
	if shown.Input != nil {
		c.RawInput = value.Append(nil, shown.Input)
	}
	if shown.Output != nil {
		c.RawOutput = value.Append(nil, shown.Output)
	}
	c.about, c.Locations = nil, nil
	if shown.Text != "" {
		c.about = append(c.about, ToolText(cut(visible(shown.Text))))
	}
	for _, d := range shown.Diffs {
		if filepath.IsAbs(d.Path) {
			c.about = append(c.about, ToolDiff(d.Path, d.Old, d.New))
		}
	}
	for _, path := range shown.Paths {
		if filepath.IsAbs(path) {
			c.Locations = append(c.Locations, Location{Path: path})
		}
	}
	c.Content = c.showing()
	s.update(c, status)
}

// kindOf gives a kind that clients know: an unknown one would be dropped.
func kindOf(kind string) ToolKind {
	switch k := ToolKind(kind); k {
	case ToolRead, ToolEdit, ToolDelete, ToolMove, ToolSearch, ToolExecute, ToolThink, ToolFetch:
		return k
	}
	return ToolOther
}

// endShown fails the calls that a task left open when it ended.
func (s *story) endShown(base int64, task, why string) {
	inside := taskCallID(base, task)
	for _, c := range s.order {
		if c.inside != inside || c.over() {
			continue
		}
		c.Content = c.showing()
		if why != "" {
			c.Content = c.showing(ToolText(cut(visible(why))))
		}
		s.update(c, ToolFailed)
	}
}
