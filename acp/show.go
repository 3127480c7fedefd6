package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/internal/seen"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// maxShown is how much of an output a tool call shows. What will run is shown in
// full.
const maxShown = 64 << 10

// showQuestion is what a person sees of a question beside its title: what will
// run, or what it is about.
func showQuestion(q interrupt.Question) []ToolCallContent {
	var content []ToolCallContent
	switch {
	case q.IsDoubt():
		if q.Payload.Message != "" {
			content = append(content, ToolText(visible(q.Payload.Message)))
		}
		content = append(content, showWork(q.Doubt.Effect)...)
	case q.Shows != nil:
		content = append(content, showWork(q.Shows)...)
	}
	if q.Payload.Data != nil && !q.IsDoubt() {
		content = append(content, showData(q.Payload.Data)...)
	}
	return content
}

// showData is what a question is about: of a call of a tool its diff or its
// command, all else as JSON.
func showData(data any) []ToolCallContent {
	m, _ := data.(map[string]any)
	if m["tool"] != nil && m["call_id"] != nil {
		if diff, ok := m["diff"].(map[string]any); ok {
			path, _ := diff["path"].(string)
			text, _ := diff["new"].(string)
			var old *string
			if was, there := diff["old"].(string); there {
				old = &was
			}
			return []ToolCallContent{ToolDiff(path, old, text)}
		}
		if line, ok := m["command"].(string); ok {
			return showWork(map[string]any{"line": line, "cwd": m["cwd"]})
		}
		if args := m["arguments"]; args != nil {
			return []ToolCallContent{fenced("json", indented(args))}
		}
	}
	return []ToolCallContent{fenced("json", indented(data))}
}

// kindOfData is the kind of a call that a question is about.
func kindOfData(data any) ToolKind {
	m, _ := data.(map[string]any)
	switch {
	case m["tool"] == nil || m["call_id"] == nil:
	case m["diff"] != nil:
		return ToolEdit
	case m["command"] != nil:
		return ToolExecute
	}
	return ToolOther
}

// showWork is what a node is about to do: its command line, and where it runs.
func showWork(resolved any) []ToolCallContent {
	if resolved == nil {
		return nil
	}
	m, ok := resolved.(map[string]any)
	line := workLine(resolved)
	if !ok || line == "" {
		return []ToolCallContent{fenced("json", indented(resolved))}
	}
	content := []ToolCallContent{fenced("sh", line)}
	var rest []string
	if cwd, ok := m["cwd"].(string); ok {
		rest = append(rest, "folder: "+cwd)
	}
	if env, ok := m["env"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			rest = append(rest, "env: "+name+"="+quote(told(env[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch name {
		case "line", "command", "url", "method", "cwd", "env":
		default:
			rest = append(rest, name+": "+told(m[name]))
		}
	}
	if len(rest) > 0 {
		content = append(content, fenced("", strings.Join(rest, "\n")))
	}
	return content
}

// workLine is what a node is about to do in one text: the shell line, the words
// of a command, the method and the URL.
func workLine(resolved any) string {
	m, _ := resolved.(map[string]any)
	if line, ok := m["line"].(string); ok {
		return line
	}
	switch c := m["command"].(type) {
	case string:
		return c
	case []any:
		words := make([]string, len(c))
		for i, w := range c {
			words[i] = quote(told(w))
		}
		return strings.Join(words, " ")
	}
	if url, ok := m["url"].(string); ok {
		method, _ := m["method"].(string)
		return strings.TrimSpace(method + " " + url)
	}
	return ""
}

// isCommand reports whether what was resolved is a command that runs here.
func isCommand(resolved any) bool {
	m, _ := resolved.(map[string]any)
	return m["line"] != nil || m["command"] != nil
}

// quote writes a word as a shell reads it.
func quote(word string) string {
	plain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	})
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// showResult is what a finished task wrote, for a person: the streams of a
// command, or JSON.
func showResult(written any) []ToolCallContent {
	m, ok := written.(map[string]any)
	stdout, isText := m["stdout"].(string)
	if !ok || !isText {
		if written == nil {
			return nil
		}
		if s, ok := written.(string); ok {
			return []ToolCallContent{fenced("", cut(s))}
		}
		return []ToolCallContent{fenced("json", cut(indented(written)))}
	}
	var content []ToolCallContent
	if stdout != "" {
		content = append(content, fenced("", cut(stdout)))
	}
	if stderr, _ := m["stderr"].(string); stderr != "" {
		content = append(content, ToolText("stderr:"), fenced("", cut(stderr)))
	}
	if code, _ := m["exit_code"].(int64); code != 0 {
		content = append(content, ToolText(fmt.Sprintf("exit code %d", code)))
	}
	return content
}

// fenced shows text as it is, whatever Markdown a client makes of texts: in a
// fence that is longer than any in the text.
func fenced(language, text string) ToolCallContent {
	fence, run := 3, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		fence = max(fence, run+1)
	}
	ticks := strings.Repeat("`", fence)
	return ToolText(ticks + language + "\n" + strings.TrimSuffix(visible(text), "\n") + "\n" + ticks)
}

func indented(v any) string {
	text, err := json.MarshalIndent(json.RawMessage(value.Append(nil, v)), "", "  ")
	if err != nil {
		return told(v)
	}
	return string(text)
}

// cut keeps the beginning and the end of a long text.
func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	head, tail := text[:maxShown/4], text[len(text)-maxShown*3/4:]
	head = strings.ToValidUTF8(head, "")
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n... %d bytes left out ...\n%s", head, len(text)-len(head)-len(tail), tail)
}

// visible writes characters that cannot be seen, or that change how others are
// shown, as escapes: a person approves what is read and nothing else.
func visible(text string) string {
	escaped := func(r rune) bool { return r != '\n' && r != '\t' && seen.Hidden(r) }
	if !strings.ContainsFunc(text, escaped) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case escaped(r):
			b.WriteString(seen.Escape(r))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// oneLine is text for a place that has one line, shortened.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(visible(text)), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
