package nodes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// Load makes a graph of a graph file. name is the name of the graph if the
// file gives none, and how errors call it. The error is an
// *engine.CompileError with every mistake of the file, in the order of their
// places.
func Load(name string, data []byte) (*engine.Graph, error) {
	return load(name, name, data, false)
}

// LoadFile is Load for a file. A graph without name is called like the file,
// without folder and extension.
func LoadFile(path string) (*engine.Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("graph file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("graph file %s: %w", path, err)
	}
	base := filepath.Base(path)
	return load(path, strings.TrimSuffix(base, filepath.Ext(base)), data, false)
}

// load is Load; label is for errors. own marks the graphs of this program,
// which mean what a warning would be about.
func load(label, name string, data []byte, own bool) (*engine.Graph, error) {
	d := &decoder{own: own, places: map[string]place{}, bad: map[string]bool{}}
	d.def.Name = name
	d.def.Place = d.place
	t := d.readTree(data)
	if t == nil {
		return nil, d.failed(label)
	}
	d.index(t)
	d.graph(t)
	if len(d.problems) > 0 && t.kind != objectKind {
		return nil, d.failed(label)
	}
	d.def.Warnings = d.warnings
	g, err := engine.Compile(d.def)
	var mistakes *engine.CompileError
	if errors.As(err, &mistakes) {
		for _, p := range mistakes.Problems {
			if !d.followsFromBad(p.Pointer) {
				d.problems = append(d.problems, p)
			}
		}
	} else if err != nil {
		return nil, err
	}
	if len(d.problems) > 0 || err != nil {
		return nil, d.failed(label)
	}
	return g, nil
}

// decoder turns a tree into a definition and collects what is wrong.
type decoder struct {
	own      bool
	lenient  bool // schema_version 0: unknown keys are warnings
	lines    []string
	def      engine.Definition
	places   map[string]place // by pointer
	bad      map[string]bool  // pointers with a mistake
	problems []engine.Problem
	warnings []engine.Problem

	// Where the edges of the definition stand in the file.
	edgeAt, conditionalAt []string
}

func (d *decoder) failed(label string) error {
	slices.SortStableFunc(d.problems, func(a, b engine.Problem) int {
		switch p, q := (place{a.Line, a.Column}), (place{b.Line, b.Column}); {
		case p.before(q):
			return -1
		case q.before(p):
			return 1
		}
		return strings.Compare(a.Pointer, b.Pointer)
	})
	return &engine.CompileError{Name: label, Problems: d.problems}
}

func (d *decoder) mistake(at place, pointer, suggestion, format string, args ...any) {
	d.bad[pointer] = true
	d.problems = append(d.problems, engine.Problem{
		Pointer: pointer, Message: fmt.Sprintf(format, args...), Suggestion: suggestion, Line: at.line, Column: at.column,
	})
}

// wrong is a mistake about a value.
func (d *decoder) wrong(t *tree, suggestion, format string, args ...any) {
	d.mistake(d.at(t), t.pointer, suggestion, format, args...)
}

func (d *decoder) warn(at place, pointer, suggestion, format string, args ...any) {
	d.warnings = append(d.warnings, engine.Problem{
		Pointer: pointer, Message: fmt.Sprintf(format, args...), Suggestion: suggestion, Line: at.line, Column: at.column,
	})
}

// index notes where everything stands: a list or an object where its key is.
func (d *decoder) index(t *tree) {
	if _, there := d.places[t.pointer]; !there {
		d.places[t.pointer] = t.at
	}
	for _, item := range t.items {
		d.index(item)
	}
	for _, k := range t.keys {
		if k.value.kind == listKind || k.value.kind == objectKind {
			d.places[k.value.pointer] = k.at
		}
		d.index(k.value)
	}
}

func (d *decoder) at(t *tree) place {
	if at, ok := d.places[t.pointer]; ok {
		return at
	}
	return t.at
}

// place gives a problem of Compile its pointer and place in the file.
func (d *decoder) place(p engine.Problem) engine.Problem {
	if p.Line > 0 {
		return p
	}
	for prefix, list := range map[string][]string{"/edges/": d.edgeAt, "/conditional_edges/": d.conditionalAt} {
		rest, ok := strings.CutPrefix(p.Pointer, prefix)
		if !ok {
			continue
		}
		number, tail, more := strings.Cut(rest, "/")
		if i, err := strconv.Atoi(number); err == nil && i < len(list) {
			p.Pointer = list[i]
			if more {
				p.Pointer += "/" + tail
			}
		}
		break
	}
	for at := p.Pointer; ; at = at[:strings.LastIndexByte(at, '/')] {
		if found, ok := d.places[at]; ok {
			p.Line, p.Column = found.line, found.column
			return p
		}
		if at == "" {
			p.Line, p.Column = 1, 1
			return p
		}
	}
}

// followsFromBad reports whether something was said about this place already.
func (d *decoder) followsFromBad(pointer string) bool {
	for pointer != "" {
		if d.bad[pointer] {
			return true
		}
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return false
}
