package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// world is a file, the process that has it open, and what nodes did outside of it.
type world struct {
	*rapid.T
	path  string
	store *store.Store
	spec  *graphSpec
	graph *engine.Graph
	limit int // of tasks at once

	dead   atomic.Bool  // the process died: nothing that it does any more counts
	point  atomic.Value // where it will die
	passes atomic.Int64 // so many hits later

	mu        sync.Mutex
	runs, did map[string]map[string]int // thread -> task -> how often
	fails     map[string]map[string]int // thread -> node -> failures left

	models  map[string]*model
	bases   map[string]map[int64]*place // thread -> seq -> where it stood
	crashes map[string]int              // on one base
}

var errDead = &store.FileError{Kind: store.ErrAccess, Advice: "this process is dead"}

var propertyThreads = []string{"property1", "property2", "property3"}

// deaths are the places where a process dies; those of the store have the file
// as their scope, those of the engine the thread.
var deaths = []string{
	"store.commit.begin", "store.commit.before", "store.put.before",
	"engine.input.after", "engine.resume.after", "engine.node.before", "engine.node.after",
	"engine.effect.before", "engine.effect.after", "engine.step.before", "engine.step.after",
}

func newWorld(t *rapid.T, path string, spec *graphSpec) *world {
	w := &world{
		T: t, path: path, spec: spec, models: map[string]*model{}, bases: map[string]map[int64]*place{}, crashes: map[string]int{},
		runs: map[string]map[string]int{}, did: map[string]map[string]int{}, fails: map[string]map[string]int{},
	}
	w.graph = w.compile(spec)
	w.limit = rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "tasks at once")
	w.point.Store("")
	for _, name := range deaths {
		scopes := []string{path}
		if strings.HasPrefix(name, "engine.") {
			scopes = propertyThreads
		}
		for _, scope := range scopes {
			failpoint.SetFunc(t, name, scope, func(int) error {
				if w.point.Load() == name && w.passes.Add(-1) == 0 {
					w.dead.Store(true)
				}
				if w.dead.Load() {
					return errDead
				}
				return nil
			})
		}
	}
	w.open()
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) open() {
	s, err := store.Open(context.Background(), w.path, store.Options{Synchronous: "NORMAL"})
	require.NoError(w, err)
	w.store = s
}

func (w *world) engine() *engine.Engine {
	return engine.New(w.graph, w.store, engine.Options{MaxConcurrency: w.limit})
}

// revive is another process, after the first one has died. Its lock is gone
// with it, which is here to say that its file is; and it gives nothing back.
func (w *world) revive() {
	owners, err := filepath.Glob(w.path + "-owner-*")
	require.NoError(w, err)
	for _, owner := range owners {
		require.NoError(w, os.Remove(owner))
	}
	_ = w.store.Close()
	w.point.Store("")
	w.dead.Store(false)
	w.open()
}

// compile makes a graph of the engine of a specification.
func (w *world) compile(spec *graphSpec) *engine.Graph {
	d := engine.Definition{
		Channels: map[string]engine.Channel{"log": {Reducer: engine.Append}, "x": {}},
		Nodes:    map[string]engine.Node{},
	}
	for _, name := range spec.entries {
		d.Edges = append(d.Edges, engine.Edge{From: engine.Start, To: name})
	}
	for _, n := range spec.nodes {
		d.Channels["c_"+n.name] = engine.Channel{Reducer: engine.Sum}
		d.Nodes[n.name] = w.node(n)
		for _, to := range n.plain {
			d.Edges = append(d.Edges, engine.Edge{From: n.name, To: to})
		}
		if n.loop != "" {
			d.ConditionalEdges = append(d.ConditionalEdges, engine.ConditionalEdge{
				From: n.name, Routes: map[string]string{"loop": n.loop, "exit": n.exit},
				Route: func(s engine.State) ([]string, error) {
					if s["c_"+n.name].(int64) < n.loops {
						return []string{"loop"}, nil
					}
					return []string{"exit"}, nil
				},
			})
		}
		if n.before {
			d.InterruptBefore = append(d.InterruptBefore, engine.Gate{Node: n.name, OnReject: n.rejects[interrupt.Before]})
		}
		if n.after {
			d.InterruptAfter = append(d.InterruptAfter, engine.Gate{Node: n.name, OnReject: n.rejects[interrupt.After]})
		}
	}
	g, err := engine.Compile(d)
	require.NoError(w, err)
	return g
}

func (w *world) node(n *nodeSpec) engine.Node {
	out := engine.Node{OnCrash: n.guard}
	if n.waitFor != nil {
		out.Barrier = &engine.Barrier{WaitFor: n.waitFor, Min: n.min}
	}
	if n.sub != nil {
		shared := map[string]string{"log": "log"}
		out.OnCrash, out.Subgraph = "", &engine.Subgraph{Graph: w.compile(n.sub), Input: shared, Output: shared}
		return out
	}
	out.Run = func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		if !w.note(w.runs, t) {
			return engine.Output{}, errDead
		}
		text := n.name
		if x, sent := t.Get("x").(int64); sent {
			text += fmt.Sprint(" x", x)
		}
		for i := range max(n.asks, 1) {
			if i < n.asks {
				a, err := t.Ask(engine.Ask{Message: fmt.Sprint(n.name, "?", i)})
				if err != nil {
					return engine.Output{}, err
				}
				text += fmt.Sprint(" ", a.Value)
			}
			if i == 0 && n.effect != "" {
				_, err := engine.Step(ctx, "e", func(context.Context) (bool, error) {
					if !w.note(w.did, t) {
						return false, errDead
					}
					return true, nil
				}, n.effect)
				if err != nil {
					return engine.Output{}, err
				}
			}
		}
		if w.unlucky(t) {
			return engine.Output{}, errors.New("no luck")
		}
		out := engine.Set("log", text).Set("c_"+n.name, 1)
		for i := range n.sends {
			out = out.Send(n.sendTo, engine.Values{"x": i})
		}
		return out, nil
	}
	return out
}

// note counts what a task did; a dead process does nothing.
func (w *world) note(what map[string]map[string]int, t *engine.Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead.Load() {
		return false
	}
	what[t.Thread()][t.ID()]++
	return true
}

func (w *world) unlucky(t *engine.Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead.Load() || w.fails[t.Thread()][t.Node()] == 0 {
		return false
	}
	w.fails[t.Thread()][t.Node()]--
	return true
}

// thread gives the model of a thread; a new one has done nothing.
func (w *world) thread(id string) *model {
	if w.models[id] == nil {
		m := &model{status: engine.Done, serial: w.limit == 1, runs: map[string]int{}, did: map[string]int{}, fails: map[string]int{}}
		w.spec.each(func(n *nodeSpec) { m.fails[n.name] = n.fails })
		w.models[id], w.bases[id] = m, map[int64]*place{}
		w.runs[id], w.did[id], w.fails[id] = map[string]int{}, map[string]int{}, maps.Clone(m.fails)
	}
	return w.models[id]
}

func (g *graphSpec) each(f func(*nodeSpec)) {
	for _, n := range g.nodes {
		f(n)
		if n.sub != nil {
			n.sub.each(f)
		}
	}
}

// act does something to a thread, in the model and for real, and compares.
// That the turn failed is errTurn.
func (w *world) act(id, what string, model func(*model) error, do func(*engine.Engine) error) {
	w.Log(what)
	before := w.thread(id)
	want := before.clone()
	want.begin()
	wantErr := model(want)
	head := w.head(id)
	err := do(w.engine())
	if w.dead.Load() {
		w.Log("... died at", w.point.Load(), "with", err)
		w.revive()
		w.models[id] = w.adopt(id, before, want, head)
	} else {
		switch {
		case wantErr == errTurn:
			require.ErrorAs(w, err, new(*engine.TurnError))
		case wantErr != nil:
			require.ErrorIs(w, err, wantErr)
		default:
			require.NoError(w, err)
		}
		rows, _ := w.rowsSince(id, head, want)
		require.Equal(w, want.rows, rows, "rows of the log")
		w.models[id] = want
	}
	w.compare(id)
}

var errTurn = errors.New("the turn fails")

func (w *world) head(id string) int64 {
	view, err := w.store.At(context.Background(), id, 0)
	if errors.Is(err, engine.ErrNotFound) {
		return 0
	}
	require.NoError(w, err)
	return view.Head.Seq
}

// rowsSince counts the rows since a head that are not a subgraph's own steps,
// and notes where the thread stood at each of its bases.
func (w *world) rowsSince(id string, head int64, m *model) (rows, bases int) {
	err := w.store.Entries(context.Background(), id, head, 0, func(e engine.Entry) error {
		if e.Namespace == "" && e.Kind.MovesBase() {
			require.Less(w, bases, len(m.bases), "entry %d moves the base once too often", e.Seq)
			w.bases[id][e.Seq] = m.bases[bases]
			bases++
		}
		if e.Namespace == "" || !e.Kind.MovesBase() {
			rows++
		}
		return nil
	})
	if !errors.Is(err, engine.ErrNotFound) {
		require.NoError(w, err)
	}
	return rows, bases
}

// adopt finds where a thread stands after a crash: at a commit that the model
// knows, with whatever results were stored for the step that was under way.
func (w *world) adopt(id string, before, want *model, head int64) *model {
	rows, bases := w.rowsSince(id, head, want)
	m := want.trace[rows]
	require.NotNil(w, m, "%d rows are no whole number of commits", rows)
	m = m.clone()
	if bases > 0 {
		w.crashes[id] = 0
	}
	w.crashes[id]++
	for _, was := range []struct{ now, before, most map[string]int }{{w.runs[id], before.runs, want.runs}, {w.did[id], before.did, want.did}} {
		for task, n := range was.now {
			require.LessOrEqual(w, n, was.most[task], "%s ran more often than without a crash", task)
		}
	}
	m.runs, m.did, m.fails = maps.Clone(w.runs[id]), maps.Clone(w.did[id]), maps.Clone(w.fails[id])
	if m.at == nil {
		return m
	}
	view, err := w.store.At(context.Background(), id, 0)
	require.NoError(w, err)
	if m.status == engine.Failed && view.Thread.Status == engine.Running {
		m.status = engine.Running // somebody had begun to go on with it
	}
	w.adoptPlace(view, m.at, want, "", view.Base().Seq)
	return m
}

func (w *world) adoptPlace(view *engine.View, p *place, want *model, ns string, base int64) {
	p.done, p.effects, p.intents = map[string]bool{}, map[string]bool{}, map[string]int64{}
	for _, r := range view.Results {
		if r.Base != base {
			continue
		}
		switch intent := r.Task + " " + r.Key; r.Kind {
		case engine.ResultTask:
			p.done[r.Task] = true
		case engine.ResultEffect:
			p.effects[r.Task] = true
			delete(p.intents, intent)
		case engine.ResultIntent:
			p.intents[intent] = r.N
		case engine.ResultAttempt:
			delete(p.intents, intent)
		}
	}
	kids := map[string]*place{}
	type visit struct {
		ns    string
		steps int
		base  int64
	}
	visits := map[string]*visit{}
	for _, e := range view.Tail {
		rest, below := strings.CutPrefix(e.Namespace, ns)
		if rest = strings.TrimPrefix(rest, "/"); !below || rest == "" || strings.Contains(rest, "/") {
			continue
		}
		_, task, _ := strings.Cut(rest, ":")
		task, at, _ := strings.Cut(task, "@")
		if at != fmt.Sprint(base) {
			continue // of an earlier base
		}
		v := visits[task]
		if v == nil {
			v = &visit{ns: e.Namespace, steps: -1}
			visits[task] = v
		}
		if e.Kind.MovesBase() {
			v.steps, v.base = v.steps+1, e.Seq
		}
	}
	for task, v := range visits {
		kid := p.kids[task]
		if kid == nil || kid.base != v.steps {
			kid = want.visits[fmt.Sprintf("%s/%d:%s#%d", p.path, p.base, task, v.steps)]
			require.NotNil(w, kid, "subgraph %s cannot have made %d steps", v.ns, v.steps)
			kid = kid.clone()
		}
		w.adoptPlace(view, kid, want, v.ns, v.base)
		kids[task] = kid
	}
	p.kids = kids
}

// compare holds a thread in the file against its model.
func (w *world) compare(id string) {
	m := w.models[id]
	view, err := w.store.At(context.Background(), id, 0)
	if m.at == nil {
		require.ErrorIs(w, err, engine.ErrNotFound)
		return
	}
	require.NoError(w, err)
	require.Equal(w, m.status, view.Thread.Status)
	require.Equal(w, m.turn, view.Thread.Turn)
	require.Equal(w, m.at.log, view.State["log"])
	for _, n := range w.spec.nodes {
		require.Equal(w, m.at.counts[n.name], view.State["c_"+n.name], n.name)
	}
	require.ElementsMatch(w, m.at.wouldBe(), view.Base().Next)
	var open, asked []string
	if m.status == engine.Paused {
		for _, q := range m.at.open() {
			open = append(open, q.key())
		}
		for _, q := range view.Open() {
			asked = append(asked, keyOf(q))
		}
		require.ElementsMatch(w, open, asked)
	}
	require.Equal(w, m.runs, w.runs[id])
	require.Equal(w, m.did, w.did[id])
	require.Equal(w, m.fails, w.fails[id])
}

func keyOf(q interrupt.Question) string {
	a := asking{kind: q.Payload.Kind, task: q.Task}
	switch {
	case q.IsDoubt():
		a.text = "doubt " + q.Doubt.Key
	case !q.IsGate():
		a.text = q.Payload.Message
	}
	return a.key()
}

// The state, the questions and what ran are what the model says after every
// action, whatever the graph, and wherever the process dies.
func TestEveryActionDoesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		w := newWorld(t, filepath.Join(dir, fmt.Sprint(files, ".db")), genSpec(t, "", 2))
		t.Log(w.spec)
		w.start(propertyThreads[0])
		for range rapid.IntRange(1, 12).Draw(t, "actions") {
			var ids []string
			for _, id := range propertyThreads {
				if w.thread(id).at != nil {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				w.start(propertyThreads[0])
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "thread")
			if w.crashes[id] < 2 && rapid.IntRange(0, 2).Draw(t, "dies") == 0 {
				w.passes.Store(int64(rapid.IntRange(1, 6).Draw(t, "passes")))
				w.point.Store(rapid.SampledFrom(deaths).Draw(t, "point"))
			}
			switch action := rapid.IntRange(0, 15).Draw(t, "action"); {
			case action < 7:
				w.resume(id, action < 5)
			case action < 9:
				w.answer(id)
			case action == 9:
				w.badAnswer(id)
			case action < 12:
				w.start(id)
			case action == 12:
				w.cancel(id)
			case action == 13:
				w.update(id)
			default:
				w.fork(id)
			}
			w.point.Store("")
		}
		report, err := w.store.Verify(context.Background(), "")
		require.NoError(t, err)
		require.Empty(t, report.Problems)
	})
}
