package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func TestAGateBeforeANodePausesUntilItIsApproved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))

	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Equal(t, []string{"a"}, b.takeRuns())
	require.Len(t, turn.Questions, 1)
	q := turn.Questions[0]
	require.Equal(t, interrupt.GraphInterruptPayload{Kind: interrupt.Before, Node: "b", ThreadID: "t", CheckpointID: "t@3"}, q.Payload)
	require.Equal(t, []string{"input running", "step running", "pause paused"}, b.kinds("t"))

	// Going on without an answer changes nothing.
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Empty(t, b.takeRuns())

	// An input is refused.
	_, err = e.Start(t.Context(), "t", engine.Input{})
	require.ErrorIs(t, err, engine.ErrPaused)
	require.ErrorContains(t, err, "t@3")

	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"b"}, b.takeRuns())
	require.Equal(t, []any{"a", "b"}, turn.State["log"])
	require.Equal(t, []string{"input running", "step running", "pause paused", "answer running", "step done"}, b.kinds("t"))
	b.verify()
}

func TestARejectedGateNeverRunsItsNode(t *testing.T) {
	t.Parallel()
	for _, where := range []interrupt.Kind{interrupt.Before, interrupt.After} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a", "b", "c")
			if where == interrupt.Before {
				d.InterruptBefore = []engine.Gate{{Node: "b"}}
			} else {
				d.InterruptAfter = []engine.Gate{{Node: "a"}}
			}
			e := b.engine(b.compile(d))
			turn, err := e.Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			require.Equal(t, where, turn.Questions[0].Payload.Kind)
			turn, err = e.Resume(t.Context(), "t", reject())
			require.NoError(t, err)
			require.Equal(t, engine.Rejected, turn.Status)
			require.Equal(t, []string{"a"}, b.takeRuns())
			require.Equal(t, []any{"a"}, turn.State["log"], "what ran before keeps its writes")

			// The turn is over: nothing goes on.
			turn, err = e.Resume(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, engine.Rejected, turn.Status)
			require.Empty(t, b.takeRuns())
			b.verify()
		})
	}
}

func TestARejectedBranchGoesToOnReject(t *testing.T) {
	t.Parallel()
	for _, where := range []interrupt.Kind{interrupt.Before, interrupt.After} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a", "b")
			var seen *interrupt.Answer
			d.Nodes["sorry"] = engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				b.ran("sorry")
				seen = t.Answer()
				return engine.Set("log", "sorry"), nil
			}}
			if where == interrupt.Before {
				d.InterruptBefore = []engine.Gate{{Node: "b", OnReject: "sorry"}}
			} else {
				d.InterruptAfter = []engine.Gate{{Node: "a", OnReject: "sorry"}}
			}
			e := b.engine(b.compile(d))
			_, err := e.Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			turn, err := e.Resume(t.Context(), "t", reject())
			require.NoError(t, err)
			require.Equal(t, engine.Done, turn.Status, "the turn ends as the branch ends")
			require.Equal(t, []string{"a", "sorry"}, b.takeRuns())
			require.Equal(t, "not today", seen.Reason)
			b.verify()
		})
	}
}

// Case 3 of the seeds: asked three times, run three times, never twice
// without being asked.
func TestAGateInALoopAsksOnEveryArrival(t *testing.T) {
	t.Parallel()
	for _, where := range []interrupt.Kind{interrupt.Before, interrupt.After} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.chain("a")
			d.ConditionalEdges = []engine.ConditionalEdge{{From: "a", Route: func(s engine.State) ([]string, error) {
				if len(s["log"].([]any)) < 3 {
					return []string{"a"}, nil
				}
				return []string{engine.End}, nil
			}}}
			if where == interrupt.Before {
				d.InterruptBefore = []engine.Gate{{Node: "a"}}
			} else {
				d.InterruptAfter = []engine.Gate{{Node: "a"}}
			}
			e := b.engine(b.compile(d))
			turn, err := e.Start(t.Context(), "t", engine.Input{})
			require.NoError(t, err)
			asked := map[string]bool{}
			for turn.Status == engine.Paused {
				require.Len(t, turn.Questions, 1)
				require.False(t, asked[turn.Questions[0].ID()])
				asked[turn.Questions[0].ID()] = true
				if where == interrupt.Before {
					require.Equal(t, len(asked)-1, b.count("a"))
				} else {
					require.Equal(t, len(asked), b.count("a"))
				}
				turn, err = e.Resume(t.Context(), "t", approve())
				require.NoError(t, err)
			}
			require.Equal(t, engine.Done, turn.Status)
			require.Len(t, asked, 3)
			require.Equal(t, 3, b.count("a"))
			b.verify()
		})
	}
}

// Fault 4 of the first seed: approving what a ran must not approve running b.
func TestAGateBehindAndAGateInFrontAreTwoQuestions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptAfter = []engine.Gate{{Node: "a"}}
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, interrupt.After, turn.Questions[0].Payload.Kind)
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Equal(t, interrupt.Before, turn.Questions[0].Payload.Kind)
	require.Equal(t, []string{"a"}, b.takeRuns())
	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	b.verify()
}

// Fault 7 of the second seed and 4c of the first: two gated nodes side by side.
func TestTwoGatedNodesOfOneStepAreAskedAndDecidedSingly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	d.Nodes["b"], d.Nodes["c"], d.Nodes["free"] = b.node(), b.node(), b.node()
	for _, to := range []string{"b", "c", "free"} {
		d.Edges = append(d.Edges, engine.Edge{From: "a", To: to})
	}
	d.InterruptBefore = []engine.Gate{{Node: "b"}, {Node: "c"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Len(t, turn.Questions, 2)
	require.Equal(t, []string{"a"}, b.takeRuns(), "the whole step waits for its gates")

	_, err = e.Resume(t.Context(), "t", approve())
	require.ErrorContains(t, err, "t@3, t@4", "several are open: which one?")

	no := reject()
	no.Question = turn.Questions[0].ID()
	turn, err = e.Resume(t.Context(), "t", no)
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Len(t, turn.Questions, 1)
	require.Empty(t, b.takeRuns())

	turn, err = e.Resume(t.Context(), "t", approve())
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status, "another branch ran afterwards")
	require.ElementsMatch(t, []string{"c", "free"}, b.takeRuns())
	b.verify()
}

// langgraph#6663, #8836, heym#563.
func TestAnAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.InterruptBefore = []engine.Gate{{Node: "a"}, {Node: "b"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	yes := approve()
	yes.Question = turn.Questions[0].ID()

	turn, err = e.Answer(t.Context(), "t", yes)
	require.NoError(t, err)
	require.Equal(t, engine.Running, turn.Status)
	require.Empty(t, b.takeRuns(), "Answer runs nothing")

	_, err = e.Answer(t.Context(), "t", yes)
	require.NoError(t, err, "the same again is fine")

	no := reject()
	no.Question = yes.Question
	_, err = e.Answer(t.Context(), "t", no)
	require.ErrorIs(t, err, engine.ErrAnswered)
	require.ErrorContains(t, err, "by ada")

	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status, "the answer to a is no answer to b")
	require.Equal(t, []string{"a"}, b.takeRuns())

	for question, want := range map[string]error{
		"t@99": engine.ErrNotFound, "t@1": engine.ErrNotFound, "other@3": engine.ErrNotFound, "t@x": engine.ErrInvalid,
	} {
		_, err = e.Answer(t.Context(), "t", interrupt.Answer{Question: question, Choice: interrupt.Approve})
		require.ErrorIs(t, err, want, question)
	}
	for _, bad := range []interrupt.Answer{{}, {Value: true}, {Choice: "Approve"}, {Choice: "approve", Value: 3}, {Value: "yes"}} {
		_, err = e.Answer(t.Context(), "t", bad)
		require.ErrorIs(t, err, engine.ErrInvalid)
		require.ErrorContains(t, err, "t@5")
	}
	b.verify()
}

// extra#139.
func TestWhatWasApprovedIsWhatRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a")
	target := "staging"
	a := d.Nodes["a"]
	a.Type, a.Resolve = "test", func(*engine.Task) (any, error) { return map[string]any{"deploy_to": target}, nil }
	d.Nodes["a"] = a
	d.InterruptBefore = []engine.Gate{{Node: "a"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"deploy_to": "staging"}, turn.Questions[0].Shows)
	target = "production"
	_, err = e.Resume(t.Context(), "t", approve())
	require.ErrorContains(t, err, "not what was approved")
	require.Empty(t, b.takeRuns())
	target = "staging"
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
}

func TestAGateThatCannotBeShownFailsTheTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	broken := true
	n := d.Nodes["b"]
	n.Type, n.Resolve = "test", func(*engine.Task) (any, error) {
		if broken {
			return nil, errors.New("no such variable")
		}
		return "ls", nil
	}
	d.Nodes["b"] = n
	d.InterruptBefore = []engine.Gate{{Node: "b"}}
	e := b.engine(b.compile(d))
	turn, err := e.Start(t.Context(), "t", engine.Input{})
	require.ErrorContains(t, err, "no such variable")
	require.Equal(t, engine.Failed, turn.Status)
	broken = false
	turn, err = e.Resume(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Paused, turn.Status)
	require.Equal(t, "ls", turn.Questions[0].Shows)
	b.verify()
}
