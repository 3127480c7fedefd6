package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// parallel is start -> a, and a fan-out behind it of ask (which asks) and b.
func (b *bundle) asksBeside(more ...string) engine.Definition {
	d := b.chain("a", "ask")
	d.Nodes["ask"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		b.ran("ask")
		answer, err := t.Ask(engine.Ask{Message: "well?"})
		return engine.Set("log", answer.Value), err
	}}
	for _, name := range append([]string{"b"}, more...) {
		d.Nodes[name] = b.node()
		d.Edges = append(d.Edges, engine.Edge{From: "a", To: name})
	}
	return d
}

// TradingAgents#1089, openhuman PR5293, dbos-transact-golang#174.
func TestAChangedGraphIsRefusedWithWhatChangedUntilSomebodyAcceptsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.asksBeside()
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	question := turn.Questions[0].ID()
	b.takeRuns()

	// A new version of the program: a node more, another policy, a new channel.
	d = b.asksBeside()
	d.Nodes["after"] = b.node()
	d.Edges = append(d.Edges, engine.Edge{From: "ask", To: "after"})
	d.Channels = map[string]engine.Channel{"log": {Reducer: engine.Append}, "new": {Initial: "here"}}
	d.InterruptBefore = []engine.Gate{{Node: "after"}}
	n := d.Nodes["b"]
	n.OnCrash = engine.CrashAsk
	d.Nodes["b"] = n
	g := b.compile(d)
	e := engine.New(g, b.open(), engine.Options{})
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Question: question, Value: "yes"})
	require.ErrorIs(t, err, engine.ErrGraphChanged)
	var changed *engine.GraphChangedError
	require.ErrorAs(t, err, &changed)
	want := []string{
		"channel new was added", `node b was changed (on_crash from "retry" to "ask")`, "node after was added",
		"edge ask -> after was added", "gate before after was added",
	}
	require.Equal(t, want, changed.Changes)
	require.Empty(t, changed.Missing)

	// The answer was stored all the same, and nothing has run.
	require.Empty(t, b.takeRuns())
	turn, err = e.AcceptGraph(t.Context(), "t", engine.By{Actor: "ada", Via: "cli", Reason: "only additions"})
	require.NoError(t, err)
	require.Equal(t, engine.Running, turn.Status)
	view, err := e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, engine.KindGraph, view.Head.Kind)
	require.Equal(t, "ada", view.Head.Actor)
	require.Equal(t, "only additions", view.Head.Payload.Edit.Reason)
	require.NotEmpty(t, view.Head.Payload.Edit.OSUser)
	require.Equal(t, want, view.Head.Payload.Notes)
	require.Equal(t, "here", view.State["new"])
	require.Equal(t, g.Fingerprint(), view.Thread.Graph)

	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status, "the new gate is asked")
	require.Equal(t, []string{"ask"}, b.takeRuns(), "what had finished is not run again")
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, []any{"a", "yes", "b", "after"}, turn.State["log"])

	_, err = e.AcceptGraph(t.Context(), "t", engine.By{})
	require.ErrorIs(t, err, engine.ErrInvalid, "the turn is over")

	// Its payload can be removed like any other, and nothing behind it is lost.
	_, err = b.store.Redact(t.Context(), engine.CheckpointID("t", view.Head.Seq), engine.By{Actor: "ada"})
	require.NoError(t, err)
	b.verify()
	view, err = e.State(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, engine.State(view.State), turn.State)
	_, err = b.engine(b.compile(b.asksBeside())).AcceptGraph(t.Context(), "nobody", engine.By{})
	require.ErrorIs(t, err, engine.ErrNotFound)
	b.verify()
}

func TestAnOpenQuestionStaysOpenWhenAChangedGraphIsAccepted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	turn, err := b.engine(b.compile(b.asksBeside())).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	b.takeRuns()
	e := b.engine(b.compile(b.asksBeside("c")))
	paused, err := e.AcceptGraph(t.Context(), "t", engine.By{})
	require.NoError(t, err)
	require.Equal(t, turn.Questions[0].ID(), paused.Questions[0].ID())
	again, err := e.AcceptGraph(t.Context(), "t", engine.By{})
	require.NoError(t, err)
	require.Equal(t, paused.Head, again.Head, "accepting it twice is fine, and once is enough")
	turn, err = e.Resume(t.Context(), "t", answerOf(paused, false))
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"ask"}, b.takeRuns(), "c was not ready when the step began")
	// What began with the old graph is read with it.
	_, err = b.engine(b.compile(b.asksBeside())).Fork(t.Context(), "t@3", "old", engine.By{})
	require.NoError(t, err)
	_, err = e.Fork(t.Context(), "t", "new", engine.By{})
	require.NoError(t, err)
	b.verify()
}

func TestAChangedGraphIsNotAcceptedIfTheTurnNeedsWhatIsGone(t *testing.T) {
	t.Parallel()
	gated := func(b *bundle, message string, onCrash engine.OnCrash, names ...string) engine.Definition {
		d := b.chain(names...)
		n := d.Nodes["deploy"]
		n.OnCrash = onCrash
		d.Nodes["deploy"] = n
		d.InterruptBefore = []engine.Gate{{Node: "deploy", Message: message}}
		return d
	}
	for name, tc := range map[string]struct {
		before, now func(b *bundle) engine.Definition
		want        string
	}{
		"a node that is next": {
			func(b *bundle) engine.Definition { return b.asksBeside() },
			func(b *bundle) engine.Definition { return b.chain("a", "b") }, "node ask, which is next, is gone",
		},
		"a channel": {
			func(b *bundle) engine.Definition {
				d := b.asksBeside()
				d.Channels = map[string]engine.Channel{"old": {}}
				return d
			},
			func(b *bundle) engine.Definition { return b.asksBeside() }, "channel old is gone",
		},
		"the gate that was asked": {
			func(b *bundle) engine.Definition { return gated(b, "sure?", "", "a", "deploy") },
			func(b *bundle) engine.Definition { return b.chain("a", "deploy") }, "the gate of node deploy was asked (t@3), and is another now",
		},
		"what the gate asked": {
			func(b *bundle) engine.Definition { return gated(b, "sure?", "", "a", "deploy") },
			func(b *bundle) engine.Definition { return gated(b, "quite sure?", "", "a", "deploy") }, "and is another now",
		},
		"the node as it was approved": {
			func(b *bundle) engine.Definition { return gated(b, "", "", "a", "deploy") },
			func(b *bundle) engine.Definition { return gated(b, "", engine.CrashAsk, "a", "deploy") }, "and the node is another now",
		},
		"a join that waits": {
			func(b *bundle) engine.Definition {
				d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			},
			func(b *bundle) engine.Definition {
				d := b.joined(nil)
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			}, "join j, which waits, is gone",
		},
		"the others that a join waits for": {
			func(b *bundle) engine.Definition {
				d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			},
			func(b *bundle) engine.Definition {
				d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}, Min: 1})
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			}, "join j, which waits, waits for nobody any more",
		},
		"the time that a waiting join has": {
			func(b *bundle) engine.Definition {
				d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}, Timeout: time.Hour})
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			},
			func(b *bundle) engine.Definition {
				d := b.joined(&engine.Barrier{WaitFor: []string{"a", "s2"}})
				d.InterruptBefore = []engine.Gate{{Node: "s2"}}
				return d
			}, "at most, has no timeout any more",
		},
		"a subgraph in the middle of a visit": {
			func(b *bundle) engine.Definition {
				d := b.chain("sub")
				d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(b.asksBeside())}}
				return d
			},
			func(b *bundle) engine.Definition {
				d := b.chain("sub")
				d.Nodes["sub"] = engine.Node{Subgraph: &engine.Subgraph{Graph: b.compile(b.asksBeside("c"))}}
				return d
			}, "subgraph sub is in the middle of a visit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			turn, err := b.engine(b.compile(tc.before(b))).Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			require.Equal(t, engine.Paused, turn.Status)
			after, err := b.engine(b.compile(tc.now(b))).AcceptGraph(t.Context(), "t", engine.By{})
			require.ErrorIs(t, err, engine.ErrGraphChanged)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, turn.Head, after.Head, "nothing was appended")
			b.verify()
		})
	}
}

func TestAFailedTurnGoesOnWithAnAcceptedGraphAndRunsNothingTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Nodes["b"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Output{}, errors.New("a mistake in the program")
	}}
	_, err := b.engine(b.compile(d)).Start(t.Context(), "t", engine.Input{Deadline: time.Now().Add(time.Hour)})
	require.ErrorContains(t, err, "a mistake in the program")
	fixed := engine.New(b.compile(b.chain("a", "b", "c")), b.open(), engine.Options{})
	_, err = fixed.Resume(t.Context(), "t")
	require.ErrorContains(t, err, "edge b -> c was added")
	turn, err := fixed.AcceptGraph(t.Context(), "t", engine.By{})
	require.NoError(t, err)
	require.Equal(t, engine.Failed, turn.Status)
	b.takeRuns()
	turn, err = fixed.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"b", "c"}, b.takeRuns())
	b.verify()
}

func TestATurnWhoseProcessWasKilledGoesOnWithAnAcceptedGraph(t *testing.T) {
	t.Parallel()
	for _, accept := range []bool{false, true} {
		b := setup(t)
		thread := fmt.Sprintf("killed-%t", accept)
		dead, steps := false, 0
		for _, point := range []string{"engine.step.before", "engine.step.after"} {
			failpoint.SetFunc(t, point, thread, func(int) error {
				if steps++; steps == 3 || dead { // before the second step
					dead = true
					return errDead
				}
				return nil
			})
		}
		s := b.open()
		was := b.compile(b.chain("a", "b"))
		_, err := engine.New(was, s, engine.Options{}).Start(t.Context(), thread, engine.Input{})
		require.Error(t, err)
		dead, steps = false, 100
		owners, err := filepath.Glob(b.path + "-owner-*")
		require.NoError(t, err)
		for _, owner := range owners {
			require.NoError(t, os.Remove(owner)) // its lock is gone, as after a kill
		}
		_ = s.Close()
		b.store = b.open()

		changed := b.engine(b.compile(b.chain("a", "b", "c")))
		_, err = changed.Resume(t.Context(), thread)
		require.ErrorIs(t, err, engine.ErrGraphChanged)
		e, want := b.engine(was), []any{"a", "b"}
		if accept {
			turn, err := changed.AcceptGraph(t.Context(), thread, engine.By{Actor: "ada"})
			require.NoError(t, err)
			require.Equal(t, engine.Running, turn.Status)
			_, err = e.Resume(t.Context(), thread)
			require.ErrorContains(t, err, "node c was removed", "the old program is the stranger now")
			e, want = changed, []any{"a", "b", "c"}
		}
		turn, err := e.Resume(t.Context(), thread)
		require.NoError(t, err)
		require.Equal(t, engine.Done, turn.Status)
		require.Equal(t, want, turn.State["log"])
		require.Equal(t, 1, b.count("a"))
		b.verify()
	}
}
