package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// Load makes a graph of a graph file that names types of this registry; see the
// function Load.
func (r *Registry) Load(name string, data []byte) (*engine.Graph, error) {
	return load(newDecoder(r, name, "", false), name, data)
}

// LoadFile makes a graph of a file on the disk; see the function LoadFile.
func (r *Registry) LoadFile(path string) (*engine.Graph, error) {
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
	d := newDecoder(r, strings.TrimSuffix(base, filepath.Ext(base)), filepath.Dir(path), false)
	d.fromFile = true
	d.includes.open = []string{filepath.Clean(path)}
	return load(d, path, data)
}

// load is Load; label is for errors.
func load(d *decoder, label string, data []byte) (*engine.Graph, error) {
	g := d.read(data)
	if g != nil && !d.own {
		d.roundTrip(g, data)
	}
	if len(d.problems) > 0 {
		d.sortProblems()
		return nil, &engine.CompileError{Name: label, Problems: d.problems}
	}
	return g, nil
}

// roundTrip checks that the graph can be stored: a turn that is paused goes on
// with what its canonical form says, so that must say the same.
func (d *decoder) roundTrip(g *engine.Graph, data []byte) {
	canonical := g.Canonical()
	if bytes.Equal(canonical, data) {
		return
	}
	again := newDecoder(d.types, g.Name(), "", false)
	again.programs = d.programs
	switch stored := again.read(canonical); {
	case stored == nil:
		d.mistake(place{1, 1}, "", "", "this graph cannot be stored, because its canonical form is no graph: %s", again.problems[0])
	case stored.Fingerprint() != g.Fingerprint():
		d.mistake(place{1, 1}, "", "", "this graph cannot be stored: its canonical form is another graph")
	}
}

// decoder turns a tree into a definition and collects what is wrong.
type decoder struct {
	types    *Registry
	own      bool // a graph of this program, which means what a warning would be about
	lenient  bool // schema_version 0: what keeps no graph from running is a warning
	fromFile bool
	dir      string // where files that a definition names are looked for
	depth    int    // of subgraphs
	deepest  int    // how deep they may be; 0: as the definition says
	root     string // the pointer of the definition in its file
	nested   int    // bytes of the subgraphs
	includes *includes

	lines    []string
	def      engine.Definition
	places   map[string]place // by pointer
	keys     map[string]place // of the last key of a pointer
	bad      map[string]bool  // pointers with a mistake
	problems []engine.Problem
	warnings []engine.Problem
	effects  *engine.Effects // of the node, or the condition, that is being read
	programs map[programKey]*program
	scope    string // the channels, as a programKey has them

	nodeNames *tree // the nodes

	toolsets map[string]*toolset // by node
	later    []func()            // checks that need every node

	// Where the edges of the definition stand in the file.
	edgeAt, conditionalAt []string
}

// newDecoder makes a decoder of a graph that is called name unless it says
// otherwise.
func newDecoder(types *Registry, name, dir string, own bool) *decoder {
	d := &decoder{
		types: types, own: own, dir: dir, places: map[string]place{}, keys: map[string]place{}, bad: map[string]bool{},
		includes: &includes{done: map[string]*engine.Graph{}}, effects: &engine.Effects{}, programs: map[programKey]*program{},
	}
	d.def.Name, d.def.Place = name, d.place
	return d
}

// read makes a graph of a text; nil if it has mistakes.
func (d *decoder) read(data []byte) *engine.Graph {
	t := d.readTree(data)
	if t == nil {
		return nil
	}
	return d.compile(t)
}

// compile makes a graph of a definition; nil if it has mistakes.
func (d *decoder) compile(t *tree) *engine.Graph {
	d.index(t)
	d.graph(t)
	if len(d.problems) > 0 && t.kind != objectKind {
		return nil
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
	}
	if len(d.problems) > 0 || err != nil {
		return nil
	}
	for _, node := range slices.Sorted(maps.Keys(d.toolsets)) {
		d.toolsets[node].describe(d, g)
	}
	if len(d.problems) > 0 {
		return nil
	}
	return g
}

// sortProblems puts the mistakes in the order of their places.
func (d *decoder) sortProblems() {
	slices.SortStableFunc(d.problems, func(a, b engine.Problem) int {
		switch p, q := (place{a.Line, a.Column}), (place{b.Line, b.Column}); {
		case p.before(q):
			return -1
		case q.before(p):
			return 1
		}
		return strings.Compare(a.Pointer, b.Pointer)
	})
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
		d.keys[k.value.pointer] = k.at
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
	inEdge := false
	for prefix, list := range map[string][]string{"/edges/": d.edgeAt, "/conditional_edges/": d.conditionalAt} {
		rest, ok := strings.CutPrefix(p.Pointer, prefix)
		if !ok {
			continue
		}
		number, tail, more := strings.Cut(rest, "/")
		if i, err := strconv.Atoi(number); err == nil && i < len(list) {
			inEdge, p.Pointer = true, list[i]
			if more {
				p.Pointer += "/" + tail
			}
		}
		break
	}
	if !inEdge {
		p.Pointer = d.root + p.Pointer
	}
	if at, ok := d.keys[p.Pointer]; ok && p.OfKey {
		p.Line, p.Column = at.line, at.column
		return p
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
