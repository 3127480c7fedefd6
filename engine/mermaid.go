package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws the graph as a Mermaid flowchart: what leads where, under
// which key, and where a person is asked. Equal graphs give equal pictures.
func (g *Graph) Mermaid() string { return g.picture().b.String() }

func (g *Graph) picture() *picture {
	m := &picture{g: g, ids: map[string]string{Start: "start", End: "finish"}}
	m.line("flowchart TD")
	m.line("  start([%s])", mermaidText(Start))
	for i, name := range g.Nodes() {
		id := fmt.Sprintf("n%d", i+1)
		m.ids[name] = id
		m.line("  %s[%s]", id, mermaidText(name, g.nodes[name].Type))
		// A gate is drawn as a node of its own, in front of its node or behind
		// it: the picture shows that nothing passes unasked.
		if gate, ok := g.before[name]; ok {
			m.line("  %sb{%s}", id, mermaidText("before "+name, gate.Message))
		}
		if gate, ok := g.after[name]; ok {
			m.line("  %sa{%s}", id, mermaidText("after "+name, gate.Message))
		}
	}
	m.line("  finish([%s])", mermaidText(End))
	for _, to := range slices.Sorted(slices.Values(g.entries)) {
		m.edge("start", "", to)
	}
	for _, name := range g.Nodes() {
		m.node(name)
		m.sends(name)
		m.calls(name)
	}
	return m
}

type picture struct {
	g   *Graph
	b   strings.Builder
	ids map[string]string
}

func (m *picture) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// into is where an edge to a node arrives: at its gate, if it has one.
func (m *picture) into(name string) string {
	if _, gated := m.g.before[name]; gated {
		return m.ids[name] + "b"
	}
	return m.ids[name]
}

func (m *picture) edge(from, key, to string) {
	if key == "" {
		m.line("  %s --> %s", from, m.into(to))
		return
	}
	m.line("  %s -->|%s| %s", from, mermaidText(key), m.into(to))
}

func (m *picture) node(name string) {
	n, from := m.g.nodes[name], m.ids[name]
	if gate, ok := m.g.before[name]; ok {
		m.line("  %sb -->|%s| %s", from, mermaidText("approve"), from)
		m.rejected(from+"b", gate)
	}
	if gate, ok := m.g.after[name]; ok {
		m.line("  %s --> %sa", from, from)
		from += "a"
		m.rejected(from, gate)
	}
	switch {
	case n.route == nil && len(n.plain) == 0:
		m.edge(from, "", End)
	case n.route == nil:
		for _, to := range slices.Sorted(slices.Values(n.plain)) {
			m.edge(from, "", to)
		}
	case n.route.Routes == nil:
		// The keys are names of nodes, and only the run knows which.
		for _, to := range append(m.g.Nodes(), End) {
			m.line("  %s -.-> %s", from, m.into(to))
		}
	default:
		for _, key := range sortedKeys(n.route.Routes) {
			label := key
			if key == "" {
				label = `""`
			}
			m.edge(from, label, n.route.Routes[key])
		}
	}
}

// sends draws where a node sends tasks to.
func (m *picture) sends(name string) {
	for _, to := range slices.Sorted(slices.Values(m.g.nodes[name].Sends)) {
		m.line("  %s -.->|%s| %s", m.ids[name], mermaidText("for each"), m.into(to))
	}
}

// calls draws what a node runs inside of itself.
func (m *picture) calls(name string) {
	n, from := m.g.nodes[name], m.ids[name]
	for i, call := range sortedKeys(n.Calls) {
		if g := n.Calls[call]; g != nil {
			m.line("  %s -.->|%s| %sc%d[[%s]]", from, mermaidText("calls"), from, i+1, mermaidText(call, "graph "+g.name))
		} else {
			m.line("  %s -.->|%s| %s", from, mermaidText("calls"), m.into(call))
		}
	}
}

func (m *picture) rejected(from string, gate Gate) {
	if gate.OnReject != "" {
		m.edge(from, "reject", gate.OnReject)
		return
	}
	m.line("  %s -->|%s| finish", from, mermaidText("reject"))
}

// mermaidText quotes lines for a label. Mermaid reads HTML and entities also
// inside quotes, so what could be one, or end the label, is an entity itself.
func mermaidText(lines ...string) string {
	var b strings.Builder
	b.WriteByte('"')
	written := false
	for _, line := range lines {
		if line == "" {
			continue
		}
		if written {
			b.WriteString("<br>")
		}
		written = true
		for _, r := range line {
			switch {
			case r == '\n':
				b.WriteString("<br>")
			case strings.ContainsRune("\"#&<>`|\\;%", r) || !printable(r) && r != ' ':
				fmt.Fprintf(&b, "#%d;", r)
			default:
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
