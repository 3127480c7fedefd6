package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/roots"
)

func subgraphType() Type {
	mapSchema := func(description string) map[string]any {
		return map[string]any{"type": "object", "description": description, "additionalProperties": wordSchema("a channel")}
	}
	return Type{
		Name: "subgraph", Version: 1,
		Doc: "Runs a graph of its own, with a state of its own, to its end. Without input_map and output_map channels of one name are shared both ways; with one of them only what the maps name is exchanged. Only what the subgraph writes comes back. A question inside pauses the whole turn.",
		Schema: schema([]any{"definition"}, map[string]any{
			"definition": definitionSchema(),
			"input_map":  mapSchema("channel of this graph to channel of the subgraph, whose value it is at the start"),
			"output_map": mapSchema("channel of the subgraph to channel of this graph, which gets what is written to it"),
		}),
		careful: true, New: buildSubgraph,
	}
}

func definitionSchema() map[string]any {
	return map[string]any{"type": []any{"object", "string"}, "description": "the graph: written out, or the path of a graph file, relative to the folder of this one and inside the folder of the file that is loaded"}
}

func buildSubgraph(b *Config) engine.Node {
	sub := &engine.Subgraph{Input: b.channelMap("input_map"), Output: b.channelMap("output_map")}
	if t := b.get("on_crash"); t != nil && t.raw != string(engine.CrashRetry) {
		b.d.wrong(t, "write it to the nodes inside", "a subgraph goes on where it was: on_crash of node %s can only be retry", b.name)
	}
	t := b.get("definition")
	if t == nil {
		return engine.Node{}
	}
	if sub.Graph = b.definition(t, b.name, b.what("definition"), b.d.outside(sub)); sub.Graph == nil {
		return engine.Node{} // what is wrong with it is said
	}
	return engine.Node{Subgraph: sub}
}

// definition makes the graph that is written out, or in the file that is named;
// nil if it is wrong.
func (b *Config) definition(t *tree, name, what string, outside []string) (g *engine.Graph) {
	switch t.kind {
	case objectKind:
		g = b.d.inline(t, name, outside)
	case textKind:
		g = b.d.include(t, outside)
	default:
		b.d.wrong(t, "", "%s is a graph or the path of a graph file, not %s", what, t.what())
	}
	if g == nil {
		return nil
	}
	b.d.nested += len(g.Canonical())
	if b.d.nested > MaxFile {
		b.d.wrong(t, "", "with its subgraphs this graph has more than %d bytes", MaxFile)
	}
	return g
}

// channelMap reads a map of channels; Compile checks their names.
func (b *Config) channelMap(key string) map[string]string {
	t := b.get(key)
	if t == nil {
		return nil
	}
	if t.kind != objectKind {
		b.d.wrong(t, "write {from: to}", "%s is an object of channels by channel, not %s", b.what(key), t.what())
		return nil
	}
	out := map[string]string{}
	for _, k := range t.keys {
		out[k.name], _ = b.d.word(k.value, "a channel in "+key)
	}
	return out
}

// outside are the channels that a subgraph exchanges with this graph.
func (d *decoder) outside(sub *engine.Subgraph) []string {
	if sub.Input == nil && sub.Output == nil {
		return d.channels()
	}
	var names []string
	for _, inner := range sub.Input {
		names = append(names, inner)
	}
	for inner := range sub.Output {
		names = append(names, inner)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// includes are the files that definitions name, for all decoders of one load.
type includes struct {
	done map[string]*engine.Graph // by path and what is outside; nil: it has mistakes
	open []string                 // being read: one that is there includes itself
}

// child makes the decoder of a definition inside of this one.
func (d *decoder) child(t *tree, name string, outside []string) *decoder {
	if d.deepest == 0 {
		d.deepest = cmp.Or(d.def.Limits.Depth, engine.MaxDepth)
	}
	if d.depth+1 > d.deepest {
		d.wrong(t, "nest less, or raise limits.depth of the graph around all of them", "subgraphs are nested deeper than %d", d.deepest)
		return nil
	}
	c := newDecoder(d.types, name, d.dir, d.own)
	c.depth, c.deepest, c.includes, c.def.Outside = d.depth+1, d.deepest, d.includes, outside
	return c
}

// inline compiles a definition that stands in this file; nil if it is wrong.
func (d *decoder) inline(t *tree, name string, outside []string) *engine.Graph {
	c := d.child(t, name, outside)
	if c == nil {
		return nil
	}
	c.root, c.lines, c.lenient = t.pointer, d.lines, d.lenient
	g := c.compile(t)
	d.problems = append(d.problems, c.problems...)
	for pointer := range c.bad {
		d.bad[pointer] = true
	}
	d.adopt(g, func(p engine.Problem) engine.Problem { return p })
	return g
}

// include compiles the definition in another file; nil if it is wrong.
func (d *decoder) include(t *tree, outside []string) *engine.Graph {
	if !d.fromFile {
		d.wrong(t, "write the definition here", "%q: this graph is in no file, so it has no folder to look in", t.raw)
		return nil
	}
	if filepath.IsAbs(t.raw) {
		d.wrong(t, "write it relative to the folder of this file", "%s: a graph file names no file by its whole path", t.raw)
		return nil
	}
	path := filepath.Join(d.dir, t.raw)
	if slices.Contains(d.includes.open, path) {
		d.wrong(t, "", "%s includes itself: %s", t.raw, strings.Join(append(d.includes.open, path), ", "))
		return nil
	}
	key := fmt.Sprintf("%s %q", path, outside)
	if g, done := d.includes.done[key]; done {
		if g == nil {
			d.bad[t.pointer] = true
		}
		return g
	}
	data, err := d.includes.readFile(path)
	if errors.Is(err, roots.ErrOutside) {
		d.wrong(t, "keep what belongs together in one folder", "%s is outside of the folder of %s, the file that was loaded", t.raw, d.includes.open[0])
		return nil
	}
	if err != nil {
		d.wrong(t, "a path is relative to the folder of this file", "%v", err)
		return nil
	}
	base := filepath.Base(path)
	c := d.child(t, strings.TrimSuffix(base, filepath.Ext(base)), outside)
	if c == nil {
		return nil
	}
	c.fromFile, c.dir = true, filepath.Dir(path)
	d.includes.open = append(d.includes.open, path)
	g := c.read(data)
	d.includes.open = d.includes.open[:len(d.includes.open)-1]
	d.includes.done[key] = g
	// A place has no file: one of another file goes into the message.
	from := func(p engine.Problem) engine.Problem {
		at := d.at(t)
		suggestion := p.Suggestion
		p.Suggestion = ""
		return engine.Problem{Pointer: t.pointer, Line: at.line, Column: at.column, Message: t.raw + ":" + p.String(), Suggestion: suggestion}
	}
	c.sortProblems()
	for _, p := range c.problems {
		d.bad[t.pointer] = true
		d.problems = append(d.problems, from(p))
	}
	d.adopt(g, from)
	return g
}

func (d *decoder) adopt(g *engine.Graph, from func(engine.Problem) engine.Problem) {
	if g == nil {
		return
	}
	for _, w := range g.Warnings() {
		d.warnings = append(d.warnings, from(w))
	}
}

// readFile reads an included file: a regular one, which is in the folder of the
// file that was loaded, or below it, symbolic links included. A file from
// elsewhere can so be loaded without a look at what it names.
func (n *includes) readFile(path string) ([]byte, error) {
	root, err := filepath.Abs(filepath.Dir(n.open[0]))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	place, err := roots.Locate([]string{root}, path)
	if err != nil {
		return nil, err
	}
	f, err := place.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}
