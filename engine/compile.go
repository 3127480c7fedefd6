package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Graph is a compiled definition. It is immutable and may be used by many
// engines and goroutines at once.
type Graph struct {
	name        string
	channels    map[string]*channel
	nodes       map[string]*node
	entries     []string
	before      map[string]Gate
	after       map[string]Gate
	ephemeral   bool // a channel is
	joins       bool // a node is a join
	timeouts    bool // a join has a timeout
	roams       bool // a node may lead elsewhere than its edges say
	lenient     bool // as Definition.Lenient
	commands    []SlashCommand
	limits      Limits   // filled
	retry       *Retry   // of nodes without one of their own
	effects     *Effects // of all nodes together; nil: unknown
	warnings    []Problem
	canonical   []byte
	fingerprint string
}

// node is a compiled node: with where it leads.
type node struct {
	Node
	name  string
	plain []string // targets of its plain edges, sorted; may hold End
	route *ConditionalEdge
	// called are the Calls, with a graph for each.
	called map[string]*Graph
}

type channel struct {
	Channel
	name    string
	initial any
}

// Name is the graph's name.
func (g *Graph) Name() string { return g.name }

// Fingerprint is the SHA-256 of the canonical form, in hex. A turn is pinned to it.
func (g *Graph) Fingerprint() string { return g.fingerprint }

// Canonical is the graph as JSON with sorted keys: a graph file that compiles
// to this graph, if all its nodes are of types that files can name.
func (g *Graph) Canonical() []byte { return slices.Clone(g.canonical) }

// Warnings are findings that do not keep a graph from running.
func (g *Graph) Warnings() []Problem { return slices.Clone(g.warnings) }

// Channels are the names of the declared channels, sorted.
func (g *Graph) Channels() []string { return sortedKeys(g.channels) }

// Nodes are the names of the nodes, sorted.
func (g *Graph) Nodes() []string { return sortedKeys(g.nodes) }

// HasChannel reports whether the graph declares a channel.
func (g *Graph) HasChannel(name string) bool { return g.channels[name] != nil }

// Problem is one mistake in a definition.
type Problem struct {
	Pointer    string // where: an RFC 6901 pointer into the graph file
	Message    string
	Suggestion string // what was probably meant; may be empty
	OfKey      bool   // it is about the last key of Pointer, not about its value
	Line       int    // in the file it came from; 0 if unknown
	Column     int
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Pointer != "" {
		b.WriteString(p.Pointer + ": ")
	}
	b.WriteString(p.Message)
	if p.Suggestion != "" {
		b.WriteString("; " + p.Suggestion)
	}
	return b.String()
}

// CompileError holds every mistake of a definition, in the order of its places.
type CompileError struct {
	Name     string // of the graph or its file
	Problems []Problem
}

func (e *CompileError) Error() string {
	var b strings.Builder
	noun := "mistakes"
	if len(e.Problems) == 1 {
		noun = "mistake"
	}
	fmt.Fprintf(&b, "graph %s has %d %s:", e.Name, len(e.Problems), noun)
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *CompileError) Is(target error) bool { return target == ErrInvalid }

// Compile checks a definition and makes a graph of it. The error is a
// *CompileError with every mistake at once.
func Compile(d Definition) (*Graph, error) {
	c := &compiler{d: d, g: &Graph{
		name: d.Name, channels: map[string]*channel{}, nodes: map[string]*node{},
		before: map[string]Gate{}, after: map[string]Gate{}, lenient: d.Lenient,
	}}
	if c.g.name == "" {
		c.g.name = "unnamed_graph"
	}
	c.compileLimits()
	c.compileChannels()
	c.compileNodes()
	c.compileEdges()
	c.compileConditional()
	c.compileHandlers()
	c.compileBarriers()
	c.compileGates("interrupt_before", d.InterruptBefore, c.g.before)
	c.compileGates("interrupt_after", d.InterruptAfter, c.g.after)
	c.compileCommands()
	c.checkCalls()
	c.checkReach()
	c.checkEffects()
	c.g.warnings = append(slices.Clone(d.Warnings), c.g.warnings...)
	if d.Place != nil {
		for _, list := range [][]Problem{c.problems, c.g.warnings} {
			for i := range list {
				list[i] = d.Place(list[i])
			}
		}
	}
	if len(c.problems) > 0 {
		return nil, &CompileError{Name: c.g.name, Problems: c.problems}
	}
	for _, n := range c.g.nodes {
		sort.Strings(n.plain)
	}
	sort.Strings(c.g.entries)
	canonical, err := canonicalForm(c.g)
	if err != nil {
		return nil, &CompileError{Name: c.g.name, Problems: []Problem{{Message: err.Error()}}}
	}
	sum := sha256.Sum256(canonical)
	c.g.canonical, c.g.fingerprint = canonical, hex.EncodeToString(sum[:])
	if err := c.g.readyCalls(); err != nil {
		return nil, err
	}
	return c.g, nil
}

// MustCompile is Compile for graphs that are part of a program.
func MustCompile(d Definition) *Graph {
	g, err := Compile(d)
	if err != nil {
		panic(err)
	}
	return g
}

type compiler struct {
	d        Definition
	g        *Graph
	problems []Problem
	// assumed are edges that a mistake hides: what they would reach is not said
	// to be unreachable, so that one mistake is one report.
	assumed []Edge
}

// assume notes where an edge with a misspelt end probably leads.
func (c *compiler) assume(from, to string) {
	if c.g.nodes[from] == nil {
		from = Start
	}
	if c.g.nodes[to] == nil {
		c.assumed = append(c.assumed, Edge{from, End})
		if to = nearest(to, sortedKeys(c.g.nodes)); to == "" {
			return
		}
		from = Start
	}
	c.assumed = append(c.assumed, Edge{from, to})
}

func (c *compiler) problem(pointer, suggestion, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...), Suggestion: suggestion})
}

func (c *compiler) warn(pointer, suggestion, format string, args ...any) {
	c.g.warnings = append(c.g.warnings, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...), Suggestion: suggestion})
}

// finding is a mistake that would not keep the graph from running: a lenient
// definition is only warned about it.
func (c *compiler) finding(p Problem) {
	if c.d.Lenient {
		c.g.warnings = append(c.g.warnings, p)
		return
	}
	c.problems = append(c.problems, p)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
