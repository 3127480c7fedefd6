package nodes

import (
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// place is a line and a column of a graph file, from 1; columns count runes.
type place struct {
	line, column int
}

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

type kind int

const (
	nullKind kind = iota
	boolKind
	numberKind
	textKind
	listKind
	objectKind
)

// tree is a value of a graph file that still knows where it stands. Aliases
// and merge keys are resolved in it.
type tree struct {
	kind    kind
	at      place
	pointer string

	raw    string // of a scalar: its text as written, without quotes and escapes
	quoted bool
	value  any    // of a scalar: normalized
	broken string // why a scalar has no value, though it has a text

	items []*tree
	keys  []key
}

type key struct {
	name   string
	at     place
	merged bool // came in by a merge key
	value  *tree
}

// get is the value of a key, or nil.
func (t *tree) get(name string) *tree {
	for i := range t.keys {
		if t.keys[i].name == name {
			return t.keys[i].value
		}
	}
	return nil
}

func below(pointer, part string) string { return pointer + "/" + engine.EscapePointer(part) }

// isAnnotation reports whether a key of the format is for people and other
// programs, and skipped.
func isAnnotation(key string) bool {
	return strings.HasPrefix(key, "_") || strings.HasPrefix(key, "x-")
}

// move gives a copy of the tree at another pointer: an alias stands for it.
func (t *tree) move(pointer string, budget *int) *tree {
	*budget -= 1 + len(t.raw)/64 // a long text that is used often counts as several
	c := *t
	c.pointer = pointer
	if *budget < 0 {
		return &c
	}
	c.items = make([]*tree, len(t.items))
	for i, item := range t.items {
		c.items[i] = item.move(below(pointer, strconv.Itoa(i)), budget)
	}
	c.keys = make([]key, len(t.keys))
	for i, k := range t.keys {
		k.value = k.value.move(below(pointer, k.name), budget)
		c.keys[i] = k
	}
	return &c
}

// what names the kind for messages.
func (t *tree) what() string {
	switch t.kind {
	case nullKind:
		return "null"
	case boolKind:
		return "a boolean"
	case numberKind:
		return "a number"
	case textKind:
		return "a text"
	case listKind:
		return "a list"
	}
	return "an object"
}
