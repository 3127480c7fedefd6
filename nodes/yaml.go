package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a graph file. The reader's time grows faster than the file, and
// far faster with its depth.
const (
	MaxFile   = 1 << 20 // bytes
	maxDepth  = 100     // levels
	maxTokens = 200_000 // texts, numbers and signs
	maxTree   = 100_000 // values, with every alias as often as it stands there
)

// readTree makes a tree of a YAML or JSON text. It reports what is wrong with
// the text as such; nil means that there is nothing to go on with.
func (d *decoder) readTree(data []byte) *tree {
	if len(data) > MaxFile {
		d.mistake(place{1, 1}, "", "", "the file has %d bytes; a graph file has at most %d", len(data), MaxFile)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if i := badText(data); i >= 0 {
		line := bytes.Count(data[:i], []byte("\n")) + 1
		column := utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i]) + 1
		d.mistake(place{line, column}, "", "", "the byte %#02x does not belong into a text: a graph file is UTF-8 without control characters", data[i])
		return nil
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	d.lines = strings.Split(text, "\n")
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		d.mistake(placeOf(tokens[maxTokens]), "", "", "the file has more than %d parts", maxTokens)
		return nil
	}
	if deep := tooDeep(tokens); deep != nil {
		d.mistake(placeOf(deep), "", "", "nested deeper than %d levels", maxDepth)
		return nil
	}
	file, err := parse(tokens)
	if err != nil {
		d.syntax(err)
		return nil
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			docs = append(docs, doc.Body)
		}
	}
	switch {
	case len(docs) == 0:
		d.mistake(place{1, 1}, "", "a graph file has at least nodes and edges", "the file is empty")
		return nil
	case len(docs) > 1:
		d.mistake(place{placeOf(docs[1].GetToken()).line, 1}, "", "put each graph into a file of its own", "the file has %d documents; a graph file has one", len(docs))
		return nil
	}
	b := &treeBuilder{d: d, anchors: map[string]*tree{}, budget: maxTree}
	t := b.build(docs[0], "", 0)
	if b.budget < 0 {
		d.mistake(place{1, 1}, "", "", "the file has more than %d values, counting every alias as often as it is used", maxTree)
		return nil
	}
	return t
}

// parse keeps a fault of the YAML library from ending the program: a graph
// file comes from anywhere.
func parse(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this is not YAML that can be read (%v)", r)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// badText gives the offset of the first byte that no YAML text has, or -1.
func badText(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return i
		}
		i += size
	}
	return -1
}

// tooDeep finds the token that goes too deep, before the parser, which
// recurses, sees it. Other block levels need an indentation each; only those
// on one line and those in brackets are cheap to write.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, entries, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position != nil && tk.Position.Line != line {
			entries, line = 0, tk.Position.Line
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			entries++
		}
		if depth > maxDepth || entries > maxDepth {
			return tk
		}
	}
	return nil
}

// syntax reports an error of the parser with the line that it is about.
func (d *decoder) syntax(err error) {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil || y.GetToken().Position == nil {
		d.mistake(place{1, 1}, "", "", "%v", err)
		return
	}
	at := placeOf(y.GetToken())
	line := ""
	if n := at.line - 1; n >= 0 && n < len(d.lines) {
		line = strings.TrimSpace(d.lines[n])
	}
	hint := ""
	switch {
	case strings.Contains(line, "${{") && !strings.Contains(line, `"${{`):
		hint = "inside [ ] and { } a text with ${{ }} needs quotes"
	case strings.Contains(y.GetMessage(), "mapping value is not allowed"):
		hint = "a text with \": \" in it needs quotes"
	case strings.Contains(line, "\t") || strings.Contains(y.GetMessage(), "\t"):
		hint = "YAML is indented with spaces, never with tabs"
	}
	message := strings.ReplaceAll(y.GetMessage(), "\t", `\t`)
	d.mistake(at, "", hint, "%s: %s", message, shorten(line, 80))
}

func placeOf(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{1, 1}
	}
	return place{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
}

type treeBuilder struct {
	d       *decoder
	anchors map[string]*tree
	budget  int // how many more values there may be
}

// build makes the tree of a node. It never gives nil.
func (b *treeBuilder) build(n ast.Node, pointer string, depth int) *tree {
	b.budget--
	t := &tree{pointer: pointer, at: placeOf(n.GetToken())}
	if b.budget < 0 {
		return t
	}
	if depth > maxDepth {
		b.d.mistake(t.at, pointer, "", "nested deeper than %d levels", maxDepth)
		b.budget = 0
		return t
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		if n.Value == nil {
			return t
		}
		t = b.build(n.Value, pointer, depth)
		b.anchors[n.Name.GetToken().Value] = t
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target := b.anchors[name]
		if target == nil {
			b.d.mistake(t.at, pointer, "", "there is no anchor &%s above this alias", name)
			return t
		}
		t = target.move(pointer, &b.budget)
	case *ast.TagNode:
		return b.tagged(n, pointer, depth)
	case *ast.MappingNode:
		b.object(t, n.Values, depth)
	case *ast.MappingValueNode:
		b.object(t, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t.kind = listKind
		for i, item := range n.Values {
			t.items = append(t.items, b.build(item, below(pointer, strconv.Itoa(i)), depth+1))
		}
	case *ast.LiteralNode:
		t.text(n.Value.Value)
	case *ast.StringNode:
		if tk := n.GetToken(); tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType {
			t.text(n.Value)
			return t
		}
		t.raw = n.Value
		t.plainScalar()
	case *ast.NullNode:
		if n.GetToken().Type != token.ImplicitNullType {
			t.raw = n.GetToken().Value
		}
	default:
		if _, scalar := n.(ast.ScalarNode); !scalar {
			b.d.mistake(t.at, pointer, "", "this part of YAML does not belong into a graph file")
			return t
		}
		t.raw = n.GetToken().Value
		t.plainScalar()
	}
	return t
}

func (b *treeBuilder) object(t *tree, values []*ast.MappingValueNode, depth int) {
	t.kind = objectKind
	if len(values) > 0 && t.at.line == placeOf(values[0].GetToken()).line && values[0].GetToken() != nil {
		// A block mapping has the token of its first colon: the key says better
		// where it begins.
		if at := placeOf(values[0].Key.GetToken()); at.before(t.at) {
			t.at = at
		}
	}
	type merge struct {
		from *tree
		at   place
	}
	var merges []merge
	seen := make(map[string]place, len(values))
	for _, v := range values {
		at := placeOf(v.Key.GetToken())
		if v.Key.IsMergeKey() && v.Key.GetToken().Type == token.MergeKeyType {
			merges = append(merges, merge{b.build(v.Value, t.pointer, depth+1), at})
			continue
		}
		name, ok := keyText(v.Key)
		if !ok {
			b.d.mistake(at, t.pointer, "", "a key is a text, not a list, an object, an alias or tagged")
			continue
		}
		if first, twice := seen[name]; twice {
			b.d.mistake(at, below(t.pointer, name), "", "the key %s is there twice; the first is in line %d", name, first.line)
			continue
		}
		seen[name] = at
		t.keys = append(t.keys, key{name: name, at: at, value: b.build(v.Value, below(t.pointer, name), depth+1)})
	}
	for _, m := range merges {
		sources := []*tree{m.from}
		if m.from.kind == listKind {
			sources = m.from.items
		}
		for _, source := range sources {
			if source.kind != objectKind {
				b.d.mistake(m.at, t.pointer, "", "<< merges objects, not %s", source.what())
				continue
			}
			// What is written here wins over what is merged, and what is merged
			// first over what is merged later.
			for _, k := range source.keys {
				if _, there := seen[k.name]; there {
					continue
				}
				seen[k.name] = m.at
				k.merged, k.value = true, k.value.move(below(t.pointer, k.name), &b.budget)
				t.keys = append(t.keys, k)
			}
		}
	}
}

// keyText is a key as it is written: true, 1 and null are names like any other.
func keyText(n ast.MapKeyNode) (string, bool) {
	if k, ok := n.(*ast.MappingKeyNode); ok {
		inner, ok := k.Value.(ast.MapKeyNode)
		if !ok {
			return "", false
		}
		return keyText(inner)
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "", false
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// tagged reads a value with a tag of the core schema.
func (b *treeBuilder) tagged(n *ast.TagNode, pointer string, depth int) *tree {
	tag := n.Start.Value
	at := placeOf(n.GetToken())
	if n.Value == nil {
		t := &tree{pointer: pointer, at: at}
		if tag == "!!str" {
			t.text("")
		}
		return t
	}
	t := b.build(n.Value, pointer, depth)
	scalar := t.kind != listKind && t.kind != objectKind
	ok := false
	switch tag {
	case "!!str":
		if ok = scalar; ok {
			t.broken = ""
			t.text(t.raw)
		}
	case "!!int", "!!float", "!!bool", "!!null":
		if scalar {
			t.broken = ""
			t.value, t.quoted = nil, false
			t.plainScalar()
			_, isInteger := t.value.(int64)
			ok = tag == "!!int" && isInteger || tag == "!!float" && t.kind == numberKind ||
				tag == "!!bool" && t.kind == boolKind || tag == "!!null" && t.kind == nullKind
		}
	case "!!map":
		ok = t.kind == objectKind
	case "!!seq":
		ok = t.kind == listKind
	default:
		b.d.mistake(at, pointer, "", "the tag %s is not known; there are !!str, !!int, !!float, !!bool, !!null, !!map, !!seq", tag)
		return t
	}
	if !ok {
		b.d.mistake(at, pointer, "", "this is no %s", tag)
	}
	return t
}
