package nodes

import (
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

func sortStrings(s []string) []string {
	slices.Sort(s)
	return s
}

// template is a text with ${{ expression }} in it. $${{ stands for ${{ itself.
type template struct {
	parts []part
}

type part struct {
	text string
	code *program // nil: text
}

// template reads a text; nil if an expression in it is wrong.
func (d *decoder) template(t *tree, w where) *template {
	ok := true
	out := &template{}
	for _, s := range cut(t.raw) {
		switch {
		case s.open:
			d.mistake(d.inside(t, s.offset), t.pointer, "end it with }}, or write $${{ for the text", "%s without its end", "${{")
			ok = false
		case s.code:
			p := d.expression(t, s.span, w)
			ok = ok && p != nil
			out.parts = append(out.parts, part{code: p})
		default:
			out.parts = append(out.parts, part{text: s.text})
		}
	}
	if !ok {
		return nil
	}
	return out
}

type piece struct {
	span
	code bool
	open bool // ${{ without }}
}

// cut takes a text apart.
func cut(text string) []piece {
	var out []piece
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			out = append(out, piece{span: span{text: plain.String()}})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${{"):
			plain.WriteString("${{")
			i += len("$${{")
		case strings.HasPrefix(text[i:], "${{"):
			flush()
			begin := i + len("${{")
			end := endOfExpression(text[begin:])
			if end < 0 {
				return append(out, piece{span: span{offset: i}, open: true})
			}
			out = append(out, piece{span: span{text: text[begin : begin+end], offset: begin}, code: true})
			i = begin + end + len("}}")
		default:
			plain.WriteByte(text[i])
			i++
		}
	}
	flush()
	return out
}

// endOfExpression finds the }} that closes an expression, past those in its
// texts and objects.
func endOfExpression(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'', '`':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(s[i:], "}}") {
				return i
			}
		}
	}
	return -1
}

// value is the text with its expressions replaced; of a text that is nothing
// but one expression it is the value itself.
func (t *template) value(s engine.State, extra map[string]any) (any, error) {
	if len(t.parts) == 1 && t.parts[0].code != nil {
		return t.parts[0].code.run(s, extra)
	}
	return t.text(s, extra)
}

// text is the text with its expressions replaced: strings as they are, other
// values as JSON.
func (t *template) text(s engine.State, extra map[string]any) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.code == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.code.run(s, extra)
		if err != nil {
			return "", err
		}
		b.WriteString(asText(v))
		if b.Len() > maxMade {
			return "", p.code.failed(s, tooLarge())
		}
	}
	return b.String(), nil
}

// literal reports whether the text holds no expression.
func (t *template) literal() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { return p.code != nil })
}

// json is a JSON value whose texts are templates.
type jsonTemplate struct {
	text   *template
	value  any
	list   []*jsonTemplate
	object map[string]*jsonTemplate
}

func (d *decoder) jsonTemplate(t *tree, w where) *jsonTemplate {
	switch t.kind {
	case textKind:
		text := d.template(t, w)
		if text == nil {
			return &jsonTemplate{}
		}
		return &jsonTemplate{text: text}
	case listKind:
		out := &jsonTemplate{list: []*jsonTemplate{}}
		for _, item := range t.items {
			out.list = append(out.list, d.jsonTemplate(item, w))
		}
		return out
	case objectKind:
		out := &jsonTemplate{object: map[string]*jsonTemplate{}}
		for _, k := range t.keys {
			out.object[k.name] = d.jsonTemplate(k.value, w)
		}
		return out
	}
	return &jsonTemplate{value: t.value}
}

// literal reports whether no text in it holds an expression.
func (j *jsonTemplate) literal() bool {
	if j.text != nil && !j.text.literal() {
		return false
	}
	for _, e := range j.list {
		if !e.literal() {
			return false
		}
	}
	for _, e := range j.object {
		if !e.literal() {
			return false
		}
	}
	return true
}

func (j *jsonTemplate) make(s engine.State, extra map[string]any) (any, error) {
	switch {
	case j == nil:
		return nil, nil
	case j.text != nil:
		return j.text.value(s, extra)
	case j.list != nil:
		out := make([]any, len(j.list))
		for i, e := range j.list {
			v, err := e.make(s, extra)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case j.object != nil:
		out := make(map[string]any, len(j.object))
		for k, e := range j.object {
			v, err := e.make(s, extra)
			if err != nil {
				return nil, err
			}
			out[k] = v
		}
		return out, nil
	}
	return j.value, nil
}

// inside is the place of a byte of a scalar's value, where its text stands in
// the file as it is; else where the scalar begins.
func (d *decoder) inside(t *tree, offset int) place {
	if offset > len(t.raw) {
		offset = len(t.raw)
	}
	row := strings.Count(t.raw[:offset], "\n")
	begin := strings.LastIndexByte(t.raw[:offset], '\n') + 1
	line, _, _ := strings.Cut(t.raw[begin:], "\n")
	column := runes(t.raw[begin:offset])
	n := t.at.line - 1
	if n < 0 || n >= len(d.lines) {
		return t.at
	}
	// On the line of the scalar: behind its quote, if it has one.
	if row == 0 {
		rest := []rune(d.lines[n])
		if from := t.at.column - 1; from <= len(rest) {
			after := string(rest[from:])
			if strings.HasPrefix(after, line) && line != "" {
				return place{t.at.line, t.at.column + column}
			}
			if len(after) > 0 && (after[0] == '"' || after[0] == '\'') && strings.HasPrefix(after[1:], line) {
				return place{t.at.line, t.at.column + 1 + column}
			}
		}
	}
	// A block scalar: its lines follow, indented.
	if n := n + 1 + row; n < len(d.lines) && line != "" && strings.HasSuffix(d.lines[n], line) {
		return place{n + 1, runes(strings.TrimSuffix(d.lines[n], line)) + column + 1}
	}
	return t.at
}

func runes(s string) int { return len([]rune(s)) }
