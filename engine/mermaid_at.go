package engine

import (
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// MermaidAt draws the graph with where a thread is in it: what ran in its turn,
// where it is now (running, asking, waiting, or at the end), and what is next.
// turn are the entries of the view's turn, without payloads if need be.
func (g *Graph) MermaidAt(v *View, turn []Entry) string {
	m := &marks{g: g, of: map[string]string{}}
	for i := range turn {
		if e := &turn[i]; e.Namespace == "" && e.Turn == v.Head.Turn && e.Seq <= v.Head.Seq {
			m.tasks("was", e.Tasks)
		}
	}
	base := v.Base()
	if base != nil {
		m.tasks("next", base.Next)
	}
	switch v.Head.Status {
	case Running:
		if base != nil {
			m.tasks("now", base.Next)
		}
	case Done:
		m.of[End] = "now"
	case Paused, Sleeping:
		own, children := byNamespace(v.Tail)
		for _, q := range waitingOf(v.Thread.ID, own, children) {
			m.question(q)
		}
	}
	picture := g.picture()
	for _, class := range []string{"was", "now", "next"} {
		if ids := m.ids(picture, class); len(ids) > 0 {
			picture.line("  classDef %s %s", class, classStyle[class])
			picture.line("  class %s %s", strings.Join(ids, ","), class)
		}
	}
	return picture.b.String()
}

// classStyle says how a node of a class is drawn: with colours that a light and
// a dark page can show.
var classStyle = map[string]string{
	"was":  "fill:#d5e8d4,stroke:#82b366,color:#000",
	"now":  "fill:#ffe6cc,stroke:#d79b00,color:#000,stroke-width:4px",
	"next": "fill:#dae8fc,stroke:#6c8ebf,color:#000,stroke-dasharray:5 5",
}

// marks are the classes of nodes, by name, and of gates, by name with a suffix.
// What is said later counts.
type marks struct {
	g  *Graph
	of map[string]string
}

const (
	gateBefore = "\x00b" // no node's name ends like this
	gateAfter  = "\x00a"
)

func (m *marks) tasks(class string, tasks []string) {
	for _, task := range tasks {
		if name := nodeOf(task); m.g.nodes[name] != nil {
			m.of[name] = class
		}
	}
}

func (m *marks) question(q asked) {
	task := q.question.Task
	if q.ns != "" {
		// Something in a subgraph: here it is the subgraph's node that waits.
		m.tasks("now", []string{outermost(q.ns)})
		return
	}
	switch q.question.Payload.Kind {
	case interrupt.Before:
		m.of[nodeOf(task)+gateBefore] = "now"
	case interrupt.After:
		m.of[nodeOf(task)+gateAfter] = "now"
	default:
		m.tasks("now", []string{task})
	}
}

// outermost is the task that a namespace begins with; see namespace.
func outermost(ns string) string {
	length, rest, _ := strings.Cut(ns, ":")
	if n, err := strconv.Atoi(length); err == nil && n <= len(rest) {
		return rest[:n]
	}
	return ""
}

func (m *marks) ids(p *picture, class string) []string {
	var ids []string
	for _, name := range m.g.Nodes() {
		for _, suffix := range []string{"", gateBefore, gateAfter} {
			if m.of[name+suffix] == class {
				ids = append(ids, p.ids[name]+strings.TrimPrefix(suffix, "\x00"))
			}
		}
	}
	if m.of[End] == class {
		ids = append(ids, p.ids[End])
	}
	return ids
}
