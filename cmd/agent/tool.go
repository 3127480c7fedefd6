package main

import (
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// tool shows the call of a tool that a question is about, all of it, and reports
// whether it is one.
func (s *screen) tool(data any) bool {
	m, _ := data.(map[string]any)
	if m["tool"] == nil || m["call_id"] == nil {
		return false
	}
	s.field("tool", told(m["tool"]))
	if diff, ok := m["diff"].(map[string]any); ok {
		s.field("file", told(diff["path"]))
		text, _ := diff["new"].(string)
		old, there := diff["old"].(string)
		s.block(strings.Join(diffLines(old, text, there), "\n"), 0)
		return true
	}
	if line, ok := m["command"].(string); ok {
		s.work(map[string]any{"line": line, "cwd": m["cwd"]})
		return true
	}
	s.data(m["arguments"])
	return true
}

// call shows how a call of a tool ended.
func (s *screen) call(task string, c *engine.Call) {
	switch c.Status {
	case engine.CallCompleted:
		s.raw(oneLine(task+": "+c.Title) + "\n")
	case engine.CallFailed:
		reason, _, _ := strings.Cut(c.Text, "\n")
		s.raw(oneLine(task+": "+c.Title+": "+reason) + "\n")
	}
}

// around is how many lines that stay are shown beside a change.
const around = 3

// diffLines are the lines that go, with a -, and those that come, with a +,
// between the first and the last that differ.
func diffLines(old, text string, there bool) []string {
	var was []string
	if there {
		was = strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	}
	is := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	begin := 0
	for begin < len(was) && begin < len(is) && was[begin] == is[begin] {
		begin++
	}
	end := 0
	for end < len(was)-begin && end < len(is)-begin && was[len(was)-1-end] == is[len(is)-1-end] {
		end++
	}
	var out []string
	for _, line := range was[max(begin-around, 0):begin] {
		out = append(out, "  "+line)
	}
	for _, line := range was[begin : len(was)-end] {
		out = append(out, "- "+line)
	}
	for _, line := range is[begin : len(is)-end] {
		out = append(out, "+ "+line)
	}
	for _, line := range is[len(is)-end : min(len(is)-end+around, len(is))] {
		out = append(out, "  "+line)
	}
	if there && len(out) == 0 || there && strings.HasSuffix(old, "\n") != strings.HasSuffix(text, "\n") {
		out = append(out, "(the line end at the end of the file changes)")
	}
	return out
}
