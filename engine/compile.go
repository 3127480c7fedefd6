package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
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
	extra       map[string]any
	ephemeral   bool   // a channel is
	retry       *Retry // of nodes without one of their own
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
		before: map[string]Gate{}, after: map[string]Gate{}, retry: d.Retry,
	}}
	if c.g.name == "" {
		c.g.name = "unnamed_graph"
	}
	c.compileChannels()
	c.compileNodes()
	c.compileEdges()
	c.compileConditional()
	c.compileHandlers()
	c.compileBarriers()
	c.compileGates("interrupt_before", d.InterruptBefore, c.g.before)
	c.compileGates("interrupt_after", d.InterruptAfter, c.g.after)
	c.checkReach()
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
	c.g.extra = d.Extra
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

func (c *compiler) warn(pointer, format string, args ...any) {
	c.g.warnings = append(c.g.warnings, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) compileChannels() {
	for _, name := range sortedKeys(c.d.Channels) {
		at := "/channels/" + EscapePointer(name)
		if name == "" {
			c.problem(at, "", "a channel needs a name")
		}
		ch := &channel{Channel: c.d.Channels[name], name: name}
		if ch.Reducer == "" {
			ch.Reducer = Overwrite
		}
		if ch.Reduce == nil && !slices.Contains(Reducers(), ch.Reducer) {
			c.problem(at+"/reducer", Nearest(ch.Reducer, Reducers()), "unknown reducer %q; there are %s", ch.Reducer, strings.Join(Reducers(), ", "))
		}
		initial, err := ch.startValue()
		if err != nil {
			c.problem(at+"/initial", "", "%v", err)
		}
		ch.initial = initial
		if ch.Keep < 0 {
			c.problem(at+"/retention_limit", "", "channel %s cannot keep %d items", name, ch.Keep)
		}
		if ch.Keep > 0 && ch.Reduce == nil && ch.Reducer != Append && ch.Reducer != Messages && ch.Reducer != Overwrite {
			c.problem(at+"/retention", "", "channel %s with reducer %s is no list: it has no items to keep", name, ch.Reducer)
		}
		c.g.ephemeral = c.g.ephemeral || ch.Ephemeral
		c.g.channels[name] = ch
	}
}

func (c *compiler) compileNodes() {
	if len(c.d.Nodes) == 0 {
		c.problem("/nodes", "", "a graph needs at least one node")
	}
	for _, name := range sortedKeys(c.d.Nodes) {
		at := "/nodes/" + EscapePointer(name)
		n := &node{Node: c.d.Nodes[name], name: name}
		switch {
		case name == Start || name == End:
			c.problem(at, "", "%s is a pseudo node and cannot be defined", name)
		case name == "" || strings.ContainsAny(name, "[]@") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
			c.problem(at, "", "%q is no name for a node: it is not empty and has no control character, '[', ']' or '@'", name)
		}
		switch {
		case n.Subgraph != nil:
			c.compileSubgraph(at, n)
		case n.Run == nil:
			c.problem(at, "", "node %s does nothing: Run is not set", name)
		}
		switch n.OnCrash {
		case "":
			n.OnCrash = CrashRetry
		case CrashRetry, CrashAsk, CrashFail:
		default:
			c.problem(at+"/on_crash", Nearest(string(n.OnCrash), []string{"ask", "retry", "fail"}), "unknown on_crash %q; there are ask, retry, fail", n.OnCrash)
		}
		if n.Type == "" {
			n.Type = "go"
		}
		if n.Retry == nil {
			n.Retry = c.d.Retry
		}
		if n.Retry != nil && (n.Retry.MaxRetries < 0 || n.Retry.Jitter < 0 || n.Retry.Jitter > 1) {
			c.problem(at+"/retry_policy", "", "a retry policy has at least 0 retries, and a jitter between 0 and 1")
		}
		if n.Timeout != nil {
			switch n.Timeout.On {
			case "", TimeoutFail, TimeoutRetry, TimeoutSkip:
			default:
				c.problem(at+"/on_timeout", Nearest(string(n.Timeout.On), []string{"fail", "retry", "skip"}), "unknown on_timeout %q; there are fail, retry, skip", n.Timeout.On)
			}
		}
		c.g.nodes[name] = n
	}
}

// target checks the end of an edge and reports whether it can be used.
func (c *compiler) target(at, name string) bool {
	if name == End || c.g.nodes[name] != nil {
		return true
	}
	if name == Start {
		c.problem(at, "", "%s is only the source of an edge", Start)
		return false
	}
	c.unknownNode(at, name)
	return false
}

func (c *compiler) unknownNode(at, name string) {
	names := append(sortedKeys(c.g.nodes), Start, End)
	c.problem(at, Nearest(name, names), "there is no node %q", name)
}

func (c *compiler) compileEdges() {
	seen := map[Edge]bool{}
	for i, e := range c.d.Edges {
		at := fmt.Sprintf("/edges/%d", i)
		if seen[e] {
			c.problem(at, "", "the edge from %s to %s is there twice", e.From, e.To)
			continue
		}
		seen[e] = true
		ok := c.target(at+"/to", e.To)
		if !ok || (e.From != Start && c.g.nodes[e.From] == nil) {
			c.assume(e.From, e.To)
		}
		switch from := c.g.nodes[e.From]; {
		case e.From == Start && e.To == End:
			c.problem(at, "", "an edge from %s to %s runs nothing", Start, End)
		case e.From == Start:
			if ok {
				c.g.entries = append(c.g.entries, e.To)
			}
		case e.From == End:
			c.problem(at+"/from", "", "%s is only the target of an edge", End)
		case from == nil:
			c.unknownNode(at+"/from", e.From)
		case ok:
			from.plain = append(from.plain, e.To)
		}
	}
	if len(c.g.entries) == 0 && len(c.d.Nodes) > 0 {
		c.problem("/edges", "add an edge from __start__ to the first node", "no node is an entry: nothing leads from %s", Start)
	}
}

func (c *compiler) compileConditional() {
	for i := range c.d.ConditionalEdges {
		e := c.d.ConditionalEdges[i]
		at := fmt.Sprintf("/conditional_edges/%d", i)
		from := c.g.nodes[e.From]
		switch {
		case e.From == Start:
			c.problem(at+"/from", "let a node of its own decide", "an edge from %s cannot be conditional", Start)
		case from == nil:
			c.unknownNode(at+"/from", e.From)
		case from.route != nil:
			c.problem(at, "", "node %s has a conditional edge already", e.From)
		default:
			from.route = &e
			if len(from.plain) > 0 {
				c.warn(at, "node %s has conditional and plain edges: the plain ones are not followed", e.From)
			}
		}
		if e.Route == nil {
			c.problem(at+"/condition", "", "the conditional edge of %s has no condition", e.From)
		}
		if e.Routes != nil && len(e.Routes) == 0 {
			c.problem(at+"/routes", "", "the conditional edge of %s leads nowhere: routes is empty", e.From)
		}
		for _, key := range sortedKeys(e.Routes) {
			if ok := c.target(at+"/routes/"+EscapePointer(key), e.Routes[key]); !ok || from == nil {
				c.assume(e.From, e.Routes[key])
			}
		}
	}
}

// compileHandlers checks where failures lead.
func (c *compiler) compileHandlers() {
	for _, name := range sortedKeys(c.g.nodes) {
		to := c.g.nodes[name].OnError
		at := "/nodes/" + EscapePointer(name) + "/on_error"
		switch {
		case to == "":
		case to == name:
			c.problem(at, "use a retry policy", "node %s cannot handle its own failure", name)
		case !c.target(at, to):
			c.assume(name, to)
		case c.g.nodes[to].excludes(name):
			c.problem(at, "add it to wait_for", "a failure of %s leads into join %s, which does not wait for it", name, to)
		}
	}
}

func (c *compiler) compileGates(list string, gates []Gate, into map[string]Gate) {
	for i, gate := range gates {
		at := fmt.Sprintf("/%s/%d", list, i)
		if c.g.nodes[gate.Node] == nil {
			c.problem(at, Nearest(gate.Node, sortedKeys(c.g.nodes)), "an interrupt on node %q, which does not exist", gate.Node)
			continue
		}
		if _, twice := into[gate.Node]; twice {
			c.problem(at, "", "node %s is there twice", gate.Node)
			continue
		}
		if gate.OnReject != "" {
			if gate.OnReject == gate.Node {
				c.problem(at+"/on_reject", "", "a rejected node cannot be its own on_reject")
				continue
			}
			if !c.target(at+"/on_reject", gate.OnReject) {
				c.assume(gate.Node, gate.OnReject)
				continue
			}
			if c.g.nodes[gate.OnReject].excludes(gate.Node) {
				c.problem(at+"/on_reject", "add it to wait_for", "a rejection of %s leads into join %s, which does not wait for it", gate.Node, gate.OnReject)
			}
		}
		if gate.Deadline < 0 {
			c.problem(at+"/deadline", "", "a deadline is a time after the question, not before it")
		}
		if gate.Default != "" && gate.Default != interrupt.Approve && gate.Default != interrupt.Reject {
			c.problem(at+"/default", "", "the default of a gate is approve or reject, not %q", gate.Default)
		}
		into[gate.Node] = gate
	}
}

// checkReach finds nodes that nothing leads to, and nodes from which nothing
// leads to the end. A node may leave by Goto, which nobody can see here; so
// a node in Go is never said to be a trap, and is only warned about when
// nothing leads to it.
func (c *compiler) checkReach() {
	forward := map[string][]string{Start: c.g.entries}
	for name, n := range c.g.nodes {
		next := slices.Clone(n.plain)
		if n.route != nil {
			next = nil
			if n.route.Routes == nil {
				next = append(sortedKeys(c.g.nodes), End)
			}
			for _, to := range n.route.Routes {
				next = append(next, to)
			}
		} else if len(n.plain) == 0 {
			next = []string{End}
		}
		if n.OnError != "" {
			next = append(next, n.OnError)
		}
		for _, gates := range []map[string]Gate{c.g.before, c.g.after} {
			if to := gates[name].OnReject; to != "" {
				next = append(next, to)
			}
		}
		forward[name] = next
	}
	for _, e := range c.assumed {
		forward[e.From] = append(slices.Clone(forward[e.From]), e.To)
	}
	canGoto := slices.ContainsFunc(sortedKeys(c.g.nodes), func(n string) bool { return c.g.nodes[n].Type == "go" })
	reached := reach(Start, forward)
	backward := map[string][]string{}
	for from, targets := range forward {
		for _, to := range targets {
			backward[to] = append(backward[to], from)
		}
	}
	ends := reach(End, backward)
	for _, name := range sortedKeys(c.g.nodes) {
		at := "/nodes/" + EscapePointer(name)
		if !reached[name] && len(c.g.entries) > 0 {
			if canGoto {
				c.warn(at, "node %s is unreachable, unless a node goes to it with Goto", name)
			} else {
				c.problem(at, "", "node %s is unreachable: no edge leads to it", name)
			}
		}
		if !ends[name] {
			if canGoto {
				c.warn(at, "no way leads from node %s to %s, unless a node leaves with Goto", name, End)
			} else {
				c.problem(at, "", "no way leads from node %s to %s", name, End)
			}
		}
	}
}

func reach(from string, edges map[string][]string) map[string]bool {
	seen := map[string]bool{from: true}
	queue := []string{from}
	for len(queue) > 0 {
		for _, to := range edges[queue[0]] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	return seen
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
