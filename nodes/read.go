package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// This file reads typed values out of a tree. Each function reports what is
// wrong at its place and then gives false.

// object checks that t is an object that has only these keys.
func (d *decoder) object(t *tree, what string, known []string) bool {
	if t.kind != objectKind {
		d.wrong(t, "", "%s is an object, not %s", what, t.what())
		return false
	}
	d.only(t, what, known)
	return true
}

// only reports keys that are not known. A known key that begins like an
// annotation does not exist.
func (d *decoder) only(t *tree, what string, known []string) {
	for _, k := range t.keys {
		if isAnnotation(k.name) || slices.Contains(known, k.name) {
			continue
		}
		at := below(t.pointer, k.name)
		suggestion := engine.Nearest(k.name, known)
		if suggestion == "" {
			sorted := slices.Sorted(slices.Values(known))
			suggestion = "there are " + strings.Join(sorted, ", ") + "; a key of your own begins with x-"
		}
		if d.lenient {
			d.warn(k.at, at, suggestion, "unknown key %s in %s: it is ignored", k.name, what)
			continue
		}
		d.mistake(k.at, at, suggestion, "unknown key %s in %s", k.name, what)
	}
}

// onlyOf is only for a node of a type, whose schema may allow any key.
func (d *decoder) onlyOf(t *tree, name string, typ *Type) {
	if typ.closed() {
		d.only(t, "node "+name+" of type "+typ.Name, append(commonKeys(), typ.keys()...))
	}
}

// need gives the value of a key that must be there.
func (d *decoder) need(t *tree, name, what string) *tree {
	v := t.get(name)
	if v != nil && v.kind != nullKind {
		return v
	}
	if v == nil && !d.lenient && slices.ContainsFunc(t.keys, func(k key) bool { return engine.Nearest(k.name, []string{name}) != "" }) {
		d.bad[below(t.pointer, name)] = true
		return nil // it is there, misspelt, which is said already
	}
	at := d.at(t)
	if v != nil {
		at = v.at
	}
	d.mistake(at, below(t.pointer, name), "", "%s needs %s", what, name)
	return nil
}

func (d *decoder) text(t *tree, what string) (string, bool) {
	if t.kind != textKind {
		hint := ""
		if t.kind == numberKind || t.kind == boolKind {
			hint = fmt.Sprintf("write it in quotes: %q", t.raw)
		}
		d.wrong(t, hint, "%s is a text, not %s", what, t.what())
		return "", false
	}
	return t.raw, true
}

// word is a text that may look like a number or a boolean: it counts as it is
// written, so 1.10 stays 1.10.
func (d *decoder) word(t *tree, what string) (string, bool) {
	switch t.kind {
	case textKind, numberKind, boolKind:
		return t.raw, true
	}
	d.wrong(t, "", "%s is a text, not %s", what, t.what())
	return "", false
}

func (d *decoder) list(t *tree, what string) ([]*tree, bool) {
	if t.kind != listKind {
		d.wrong(t, "", "%s is a list, not %s", what, t.what())
		return nil, false
	}
	return t.items, true
}

func (d *decoder) integer(t *tree, what string) (int64, bool) {
	n, ok := t.value.(int64)
	if !ok || t.kind != numberKind {
		d.wrong(t, "", "%s is an integer, not %s", what, t.what())
		return 0, false
	}
	return n, true
}

// duration reads 30s, 5m, 1h30m.
func (d *decoder) duration(t *tree, what string) (time.Duration, string, bool) {
	if t.kind == numberKind {
		d.wrong(t, "write 30s, 5m or 1h30m", "%s is a duration with a unit, not a number", what)
		return 0, "", false
	}
	text, ok := d.text(t, what)
	if !ok {
		return 0, "", false
	}
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		d.wrong(t, "write 30s, 5m or 1h30m", "%s is a duration greater than zero, not %q", what, text)
		return 0, "", false
	}
	return v, text, true
}

// oneOf reads a text that is one of a few.
func (d *decoder) oneOf(t *tree, what string, options []string) (string, bool) {
	text, ok := d.text(t, what)
	if !ok {
		return "", false
	}
	if !slices.Contains(options, text) {
		d.wrong(t, engine.Nearest(text, options), "unknown %s %q; there are %s", what, text, strings.Join(options, ", "))
		return "", false
	}
	return text, true
}

// data reads any JSON value. Keys in it are data, also those that look like
// annotations.
func (d *decoder) data(t *tree) any {
	switch t.kind {
	case listKind:
		out := make([]any, len(t.items))
		for i, item := range t.items {
			out[i] = d.data(item)
		}
		return out
	case objectKind:
		out := make(map[string]any, len(t.keys))
		for _, k := range t.keys {
			out[k.name] = d.data(k.value)
		}
		return out
	}
	if t.broken != "" {
		d.wrong(t, "", "%s", t.broken)
	}
	return t.value
}

// channel reads the name of a declared channel.
func (d *decoder) channel(t *tree, what string) (string, bool) {
	name, ok := d.word(t, what)
	if !ok {
		return "", false
	}
	return name, d.declared(d.at(t), t.pointer, name)
}

func (d *decoder) declared(at place, pointer, name string) bool {
	if _, ok := d.def.Channels[name]; ok {
		return true
	}
	names := d.channels()
	suggestion := engine.Nearest(name, names)
	if suggestion == "" {
		suggestion = "declare it under channels"
		if len(names) > 0 {
			suggestion += "; declared are " + strings.Join(names, ", ")
		}
	}
	d.mistake(at, pointer, suggestion, "there is no channel %q", name)
	return false
}

// channels are the names of the declared channels, sorted.
func (d *decoder) channels() []string {
	names := make([]string, 0, len(d.def.Channels))
	for name := range d.def.Channels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
