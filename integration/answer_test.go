//go:build unix

package integration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gated is a turn with a gate before deploy; gate is what else stands in its
// entry, and more are further edges. Either may lead to the node sorry.
func gated(gate, more string) string {
	sorry := ""
	if gate+more != "" {
		sorry = `
  sorry: {type: set, values: {response: '"not deployed"'}}`
	}
	return `
schema_version: 1
name: gated
channels: {log: {reducer: append}, response: {}}
nodes:
  deploy: {type: exec, command: ` + quoted(does("deploy", "0", "")) + `, output: log}` + sorry + `
  thanks: {type: set, values: {response: '"deployed"'}}
edges:
  - {from: __start__, to: deploy}
  - {from: deploy, to: thanks}
` + more + `
interrupt_before:
  - {node: deploy` + gate + `}
`
}

func TestARejectedNodeNeverRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gates.yaml", specs()[2].graph)

	h.run("run", graph, "--thread", "before").exits(3)
	h.run("answer", "before", "--reject", "--reason", "not on a Friday", "--as", "alice").exits(1).says("rejected")
	require.Equal(t, map[string]int{"test 0": 1}, counts(h.effects()))
	require.Equal(t, "rejected", h.status("before"))
	h.run("resume", "before").exits(1) // changes nothing
	h.run("answer", "before", "--approve").exits(4).says("alice")
	require.Equal(t, map[string]int{"test 0": 1}, counts(h.effects()))

	// A rejected gate behind a node: its effect stays, what follows does not run.
	h.run("run", graph, "--thread", "after").exits(3)
	h.run("answer", "after", "--approve").exits(3)
	h.run("answer", "after", "--reject").exits(1)
	require.Equal(t, map[string]int{"test 0": 2, "deploy 0": 1}, counts(h.effects()))
	require.Equal(t, "rejected", h.status("after"))
	require.Nil(t, h.show("after").State["response"])
	h.verify()
}

func TestARejectionMayLeadToAnotherNode(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gated.yaml", gated(", on_reject: sorry", ""))
	h.run("run", graph, "--thread", thread).exits(3)
	h.run("answer", thread, "--reject").exits(0).says("not deployed")
	require.Empty(t, h.effects())
	require.Equal(t, "done", h.status(thread))
	h.verify()
}

// TestARejectionSurvivesKill9 kills the process that stores a rejection, at
// each point: the gated node never runs.
func TestARejectionSurvivesKill9(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.begin", "store.commit.before", "store.commit.after", "engine.resume.after"} {
		h := newHarness(t)
		graph := h.write("gated.yaml", gated("", "  - {from: __start__, to: sorry}"))
		h.run("run", graph, "--thread", thread).exits(3)
		for n := 1; h.status(thread) == "paused" || h.status(thread) == "running"; n++ {
			require.Less(t, n, 10)
			c := h.command("answer", thread, "--reject")
			if h.status(thread) == "running" {
				c = h.command("resume", thread)
			}
			if n <= 2 {
				c.at(point, fmt.Sprintf("%d*kill", n))
			}
			if r := c.run(); !r.killed() {
				require.Contains(t, []int{0, 1}, r.code, "%v", r)
			}
			h.verify()
		}
		require.Empty(t, h.effects(), "deploy was rejected")
		require.Equal(t, 1, kinds(h.history(thread))["answer"])
	}
}

// TestAnAcceptedAnswerSurvives: exit code 0 or 3 says that it is stored,
// whatever happens then, and whoever goes on.
func TestAnAcceptedAnswerSurvives(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gated.yaml", gated("", ""))
	h.run("run", graph, "--thread", thread).exits(3)
	id := h.inbox()[0].CheckpointID

	h.run("answer", id, "--approve", "--no-run", "--as", "alice").exits(0).says("resume " + thread)
	require.Empty(t, h.effects(), "nothing runs")
	require.Equal(t, "running", h.status(thread))
	h.run("answer", id, "--reject", "--as", "bob").exits(4).says("already answered", "alice")
	h.run("answer", id, "--approve", "--no-run").exits(0) // the same again

	// Whoever goes on first is killed before it runs anything.
	require.True(t, h.command("resume", thread).at("engine.resume.after", "kill").run().killed())
	require.Empty(t, h.effects())

	// Another copy of the program, in another folder, without the graph's file.
	require.NoError(t, os.Remove(graph))
	elsewhere := t.TempDir()
	copyFile(t, program, filepath.Join(elsewhere, "another-name"), 0o755)
	h.bin = filepath.Join(elsewhere, "another-name")
	c := h.command("resume", thread)
	c.dir = elsewhere
	c.run().exits(0).says("deployed")
	// In the thread's folder, wherever the program was started.
	require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
	var actors []string
	for _, e := range h.history(thread) {
		if e.Kind == "answer" {
			actors = append(actors, e.Actor)
		}
	}
	require.Equal(t, []string{"alice"}, actors)
	h.verify()
}

// TestTheLastLineOfAPausedTurnAnswersIt takes it as it is, into a shell.
func TestTheLastLineOfAPausedTurnAnswersIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gates.yaml", specs()[2].graph)
	r := h.run("run", graph, "--thread", thread).exits(3)
	for range 2 { // before deploy, and after it
		require.Regexp(t, `^agent answer t@\d+ --approve$`, r.lastLine(), "%v", r)
		c := h.command()
		c.argv = []string{"sh", "-c", `agent() { "$AGENT" "$@"; }; ` + r.lastLine()}
		c.env = []string{"AGENT=" + program}
		r = c.run()
	}
	r.exits(0)
	require.Equal(t, "deployed: deploy\n", r.stdout, "stdout is the reply and nothing else")
	require.Equal(t, "done", h.status(thread))
}

// TestAQuestionOutlivesItsProcess kills a process that waits with a question
// written a moment ago; the answer comes from another one.
func TestAQuestionOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gated.yaml", gated("", ""))
	// The first commit is the input with the gate's question.
	require.True(t, h.command("run", graph, "--thread", thread).at("store.commit.after", "kill").run().killed())
	require.Equal(t, "paused", h.status(thread))
	id := h.inbox()[0].CheckpointID
	h.run("answer", id, "--approve").exits(0).says("deployed")
	require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
	h.verify()
}

// TestDoubtsAreAskedAndNeverGuessed goes through the answers of a doubt.
func TestDoubtsAreAskedAndNeverGuessed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		answer  []string
		code    int
		effects int
		status  string
	}{
		{[]string{"--choose", "run_again"}, 0, 2, "done"},
		{[]string{"--choose", "done"}, 0, 1, "done"},
		{[]string{"--choose", "done", "--value", `{"stdout":"x","stderr":"","exit_code":0,"truncated":false}`}, 0, 1, "done"},
		{[]string{"--choose", "fail"}, 1, 1, "failed"},
	} {
		h := newHarness(t)
		graph := h.write("gated.yaml", gated("", ""))
		h.run("run", graph, "--thread", thread).exits(3)
		require.True(t, h.command("answer", thread, "--approve").at("engine.node.after", "kill").run().killed())
		require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
		h.run("resume", thread).exits(3).says("deploy", "run_again")
		// No mode answers a doubt, and a gate's answer is none.
		h.run("run", graph, "--thread", thread, "--yes").exits(3)
		h.run("answer", thread, "--approve").exits(2)
		q := h.inbox()
		require.Len(t, q, 1)
		require.True(t, q[0].doubt())
		require.Equal(t, "dynamic", q[0].Kind)
		require.Equal(t, "deploy", q[0].AskingNode)
		require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))

		h.run(append([]string{"answer", q[0].CheckpointID}, tc.answer...)...).exits(tc.code)
		require.Equal(t, map[string]int{"deploy 0": tc.effects}, counts(h.effects()))
		require.Equal(t, tc.status, h.status(thread))
		h.verify()
	}
}

// TestOnCrashFailFailsAndResumeIsADecision: nothing is asked, nothing is
// guessed, and somebody who resumes says that the work is to be done anew.
func TestOnCrashFailFailsAndResumeIsADecision(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("fail.yaml", strings.Replace(gated("", ""), "output: log}", "output: log, on_crash: fail}", 1))
	h.run("run", graph, "--thread", thread).exits(3)
	require.True(t, h.command("answer", thread, "--approve").at("engine.node.after", "kill").run().killed())
	h.run("resume", thread).exits(1).says("deploy", "may have done its work")
	require.Equal(t, "failed", h.status(thread))
	require.Empty(t, h.inbox())
	require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
	h.run("resume", thread).exits(0)
	require.Equal(t, map[string]int{"deploy 0": 2}, counts(h.effects()))
	h.verify()
}

// TestATurnThatKillsItsProcessesIsParked: three processes die at one place, the
// fourth does not try; resume by somebody is one more try.
func TestATurnThatKillsItsProcessesIsParked(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("chain.yaml", specs()[0].graph)
	require.True(t, h.command("run", graph, "--thread", thread).at("engine.step.after", "kill").run().killed())
	// From here on node b, which is on_crash: retry, kills its agent.
	for range 2 {
		require.True(t, h.command("resume", thread).at("engine.node.before", "kill").run().killed())
	}
	require.Equal(t, map[string]int{"a 0": 1}, counts(h.effects()))
	h.run("resume", thread).exits(1).says("processes died", "resume")
	require.Equal(t, "failed", h.status(thread))
	h.run("resume", thread).exits(0)
	require.Equal(t, map[string]int{"a 0": 1, "b 0": 1, "c 0": 1}, counts(h.effects()))
	h.verify()
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
