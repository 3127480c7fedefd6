package engine_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// bundle is a store in a file of its own, and what ran on it.
type bundle struct {
	*testing.T
	path  string
	store *store.Store

	mu   sync.Mutex
	runs []string // node names, in the order in which they started
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, path: filepath.Join(t.TempDir(), "test.db")}
	b.store = b.open()
	return b
}

// open opens the file once more, as another process would.
func (b *bundle) open() *store.Store {
	b.Helper()
	s, err := store.Open(b.Context(), b.path, store.Options{Synchronous: "NORMAL"})
	require.NoError(b, err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func (b *bundle) ran(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = append(b.runs, node)
}

// takeRuns gives the nodes that ran since it was last called.
func (b *bundle) takeRuns() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.runs
	b.runs = nil
	return out
}

// count is how often a node ran.
func (b *bundle) count(node string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.runs {
		if r == node {
			n++
		}
	}
	return n
}

// node is a node that notes its run and writes its name to "log".
func (b *bundle) node() engine.Node {
	return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran(t.Node())
		return engine.Set("log", t.Node()), nil
	}}
}

func (b *bundle) compile(d engine.Definition) *engine.Graph {
	b.Helper()
	if d.Channels == nil {
		d.Channels = map[string]engine.Channel{}
	}
	if _, ok := d.Channels["log"]; !ok {
		d.Channels["log"] = engine.Channel{Reducer: engine.Append}
	}
	g, err := engine.Compile(d)
	require.NoError(b, err)
	return g
}

// chain is a definition of nodes one after the other.
func (b *bundle) chain(names ...string) engine.Definition {
	d := engine.Definition{Name: "chain", Nodes: map[string]engine.Node{}}
	from := engine.Start
	for _, name := range names {
		d.Nodes[name] = b.node()
		d.Edges = append(d.Edges, engine.Edge{From: from, To: name})
		from = name
	}
	return d
}

func (b *bundle) engine(g *engine.Graph) *engine.Engine {
	return engine.New(g, b.store, engine.Options{})
}

func approve() interrupt.Answer { return interrupt.Answer{Choice: interrupt.Approve, Actor: "ada"} }
func reject() interrupt.Answer {
	return interrupt.Answer{Choice: interrupt.Reject, Actor: "ada", Reason: "not today"}
}

// kinds lists the log: each entry's kind and the status after it.
func (b *bundle) kinds(thread string) []string {
	b.Helper()
	var out []string
	require.NoError(b, b.store.Entries(b.Context(), thread, 0, 0, func(e engine.Entry) error {
		out = append(out, string(e.Kind)+" "+string(e.Status))
		return nil
	}))
	return out
}

// verify is the audit of the whole file.
func (b *bundle) verify() {
	b.Helper()
	report, err := b.store.Verify(b.Context(), "")
	require.NoError(b, err)
	require.Empty(b, report.Problems)
}

// answerOf answers a turn's one open question.
func answerOf(turn *engine.Turn, v any) interrupt.Answer {
	return interrupt.Answer{Question: turn.Questions[0].ID(), Value: v, Actor: "ada"}
}
