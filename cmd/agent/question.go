package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// maxTold is how many lines of a message or of data are shown. What will run
// is always shown in full.
const maxTold = 100

// ask shows a question: what is asked, where, and what will run.
func (s *screen) ask(q interrupt.Question) {
	s.mu.Lock()
	s.asked = q.ID()
	s.raw("\n" + s.style(bold, "? "+oneLine(q.ID())) + " " + oneLine(where(q)) + "\n")
	s.mu.Unlock()
	if q.Payload.Message != "" {
		s.block(q.Payload.Message, maxTold)
	}
	if shown := q.Shows; shown != nil {
		s.work(shown)
	}
	switch {
	case q.IsDoubt():
		// The data of a doubt says the same as this.
		if q.Doubt.Effect != nil {
			s.work(q.Doubt.Effect)
		}
		if q.Doubt.PID != 0 {
			s.field("process", fmt.Sprintf("%d still lives", q.Doubt.PID))
		}
	case q.Payload.Data != nil && !s.tool(q.Payload.Data):
		s.data(q.Payload.Data)
	}
	if q.Deadline != nil {
		s.field("until", deadline(q))
	}
}

// deadline says until when a question is open, and what is the answer then.
func deadline(q interrupt.Question) string {
	return localTime(*q.Deadline) + " (" + ahead(*q.Deadline) + "), then the answer is " + compact(q.Default)
}

// seen reports whether this question is the one that was shown last.
func (s *screen) seen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked == id
}

// where says who asks.
func where(q interrupt.Question) string {
	switch {
	case q.IsDoubt():
		return "node " + q.AskingNode + " is in doubt"
	case q.Payload.Kind == interrupt.Before:
		return "before node " + q.Payload.Node
	case q.Payload.Kind == interrupt.After:
		return "after node " + q.Payload.Node
	case q.Wait != nil:
		return "node " + q.AskingNode + " waits"
	case q.AskingNode != "":
		return "node " + q.AskingNode + " asks"
	}
	return string(q.Payload.Kind)
}

// work shows what a node is about to do, all of it.
func (s *screen) work(resolved any) {
	m, ok := resolved.(map[string]any)
	if !ok {
		s.field("runs", told(resolved))
		return
	}
	for _, name := range workFields(m) {
		switch v := m[name]; name {
		case "command":
			s.argv(v)
		case "line":
			s.field("shell", told(v))
		case "cwd":
			s.field("folder", told(v))
		case "env":
			s.environment(v)
		default:
			s.field(oneLine(name), told(v))
		}
	}
}

// argv shows a program and its arguments as a line that can be copied. A text
// of several lines, such as a script, is easier to read in a field of its own.
func (s *screen) argv(v any) {
	list, ok := v.([]any)
	several := slices.ContainsFunc(list, func(word any) bool { return strings.Contains(told(word), "\n") })
	if !ok || !several {
		s.field("command", work(map[string]any{"command": v}))
		return
	}
	for i, word := range list {
		name := "command"
		if i > 0 {
			name = "arg " + strconv.Itoa(i)
		}
		s.field(name, told(word))
	}
}

// environment shows the variables that a command gets beside its own.
func (s *screen) environment(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		s.field("env", told(v))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s.field("env", name+"="+quote(told(m[name])))
	}
}

// workFields orders the fields of a resolved node: what runs, and where, first.
func workFields(m map[string]any) []string {
	first := map[string]int{"line": 1, "command": 1, "method": 2, "url": 3, "cwd": 4, "env": 5}
	names := make([]string, 0, len(m))
	for name, v := range m {
		if v != nil {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		if n := first[name]; n > 0 {
			return n
		}
		return len(first) + 1
	}
	sort.Slice(names, func(i, j int) bool {
		if a, b := rank(names[i]), rank(names[j]); a != b {
			return a < b
		}
		return names[i] < names[j]
	})
	return names
}

// work is what a node is about to do in one text: a command line that can be
// copied, or the shell line itself.
func work(resolved any) string {
	m, ok := resolved.(map[string]any)
	if !ok {
		if resolved == nil {
			return ""
		}
		return told(resolved)
	}
	if line, ok := m["line"].(string); ok {
		return line
	}
	switch c := m["command"].(type) {
	case string:
		return c
	case []any:
		words := make([]string, len(c))
		for i, w := range c {
			words[i] = told(w)
		}
		return commandLine(words...)
	}
	if u, ok := m["url"].(string); ok {
		method, _ := m["method"].(string)
		return strings.TrimSpace(method + " " + u)
	}
	if len(m) == 0 {
		return ""
	}
	return compact(m)
}

// told is a value for a person: a string as it is, all else as JSON.
func told(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return compact(v)
}

// data shows the data of a question.
func (s *screen) data(v any) {
	text := told(v)
	switch v.(type) {
	case map[string]any, []any:
		var b bytes.Buffer
		if len(text) > 60 && json.Indent(&b, []byte(text), "", "  ") == nil {
			text = b.String()
		}
	}
	s.line("  data")
	s.block(text, maxTold)
}

// option is a choice with the keys that a person may type for it.
type option struct {
	interrupt.Choice
	keys []string
}

// options gives the choices of a question, each with its short key first:
// a letter for a gate, a number for any other; the id itself where a choice is
// a number, which could be taken for another one's key.
func options(q interrupt.Question) []option {
	var out []option
	numbers := slices.ContainsFunc(q.Options(), func(c interrupt.Choice) bool {
		_, errID := strconv.Atoi(c.ID)
		_, errName := strconv.Atoi(c.Name)
		return errID == nil || errName == nil
	})
	for i, c := range q.Options() {
		key := strconv.Itoa(i + 1)
		switch {
		case q.IsGate():
			key = c.ID[:1]
		case numbers:
			key = c.ID
		}
		o := option{Choice: c, keys: []string{key, c.ID}}
		if c.Name != "" {
			o.keys = append(o.keys, c.Name)
		}
		out = append(out, o)
	}
	return out
}

// pick finds what was typed: exactly an id, else a key or a name in any case,
// if it means one option only.
func pick(all []option, typed string) (option, bool) {
	for _, o := range all {
		if o.ID == typed {
			return o, true
		}
	}
	var found []option
	for _, o := range all {
		for _, k := range o.keys {
			if strings.EqualFold(k, typed) {
				found = append(found, o)
				break
			}
		}
	}
	if len(found) != 1 {
		return option{}, false
	}
	return found[0], true
}

// answers shows the commands that answer a question, one a line. The last one
// is the last line of a program that ends with the question open.
func (a *app) answers(q interrupt.Question) {
	for _, c := range a.answerCommands(q) {
		a.screen.line("%s", c)
	}
}

func (a *app) answerCommands(q interrupt.Question) []string {
	command := func(words ...string) string {
		return a.command(append([]string{"answer", q.ID()}, words...)...)
	}
	if q.IsGate() {
		return []string{command("--reject"), command("--approve")}
	}
	var out []string
	for _, c := range q.Options() {
		out = append(out, command("--choose", c.ID))
	}
	if len(out) > 0 {
		return out
	}
	return []string{command("--value", example(q))}
}

// example is an answer to a question without options, as JSON.
func example(q interrupt.Question) string {
	if q.Multi() {
		return compact([]any{q.Choices[0].ID})
	}
	switch q.Type {
	case "integer":
		return "1"
	case "number":
		return "1.5"
	case "boolean":
		return "true"
	case "list":
		return "[]"
	case "object":
		return "{}"
	}
	return `"TEXT"`
}

// command is a command of this program as a person would type it here.
func (a *app) command(words ...string) string {
	words = append([]string{"agent"}, words...)
	if a.db != "" {
		words = append(words, "--db", a.db)
	}
	return commandLine(words...)
}
