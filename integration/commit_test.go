//go:build unix

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACommitWhoseOutcomeIsUnknownIsReadBack makes commits fail: before, so that
// they must be tried again, and behind, so that they are stored and the program
// is told that they are not. The turn goes on as if nothing had happened.
func TestACommitWhoseOutcomeIsUnknownIsReadBack(t *testing.T) {
	t.Parallel()
	s := specs()[0]
	b := baselineOf(t, s)
	for _, point := range []string{"store.commit.begin", "store.commit.before", "store.commit.after"} {
		for _, n := range []int{1, 2, 4, 6, 9} {
			h := newHarness(t)
			graph := h.write("chain.yaml", s.graph)
			h.command("run", graph, "--thread", thread).at(point, fmt.Sprintf("%d*error", n)).run().exits(0)
			require.Equal(t, b.effects, counts(h.effects()), "%s, hit %d", point, n)
			log := h.history(thread)
			require.Equal(t, b.steps, steps(log), "%s, hit %d", point, n)
			require.Equal(t, map[string]int{"input": 1, "step": 4}, kinds(log))
			h.verify()
		}
	}
}

// TestAFileThatTakesNoCommitsFailsClearly: from the n-th commit on none works.
// What was acknowledged is there, and when the file works again the turn goes
// on.
func TestAFileThatTakesNoCommitsFailsClearly(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5, 8} {
		d := newDrive(t, specs()[0])
		d.call = func(k int, c *command) *result {
			if k > 0 {
				return c.run()
			}
			r := c.at("store.commit.before", fmt.Sprintf("%d+*error", n)).run().exits(1)
			require.NotEmpty(t, r.stderr)
			// From here on as after a kill: the thread is left as it was.
			return &result{t: t, code: -1, signal: 9, stderr: r.stderr}
		}
		d.run()
	}
}
