// Package examples_test runs the examples as their READMEs say.
package examples_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/nodes"
	"github.com/holdfast-agent/holdfast/store"
)

// example is a thread of an example, in a folder of its own.
type example struct {
	t    *testing.T
	e    *engine.Engine
	now  *clock.Fake
	dir  string
	turn *engine.Turn
}

func begin(t *testing.T, file, prompt string) *example {
	t.Helper()
	g, err := nodes.LoadFile(filepath.FromSlash(file))
	require.NoError(t, err)
	require.Empty(t, g.Warnings())
	x := &example{t: t, dir: t.TempDir(), now: clock.NewFake(time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC))}
	s, err := store.Open(t.Context(), filepath.Join(x.dir, "agent.db"), store.Options{Synchronous: "NORMAL"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	x.e = engine.New(g, s, engine.Options{Clock: x.now, Load: nodes.Load})
	x.turn, err = x.e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"prompt": prompt}, Cwd: x.dir})
	require.NoError(t, err)
	return x
}

func (x *example) choose(choice string) {
	x.t.Helper()
	require.Len(x.t, x.turn.Questions, 1)
	x.resume(interrupt.Answer{Question: x.turn.Questions[0].ID(), Choice: choice, Value: choice})
}

func (x *example) resume(answers ...interrupt.Answer) {
	x.t.Helper()
	turn, err := x.e.Resume(x.t.Context(), "t", answers...)
	require.NoError(x.t, err)
	x.turn = turn
}

func (x *example) asks(message string) {
	x.t.Helper()
	require.Equal(x.t, engine.Paused, x.turn.Status)
	require.Len(x.t, x.turn.Questions, 1)
	require.Contains(x.t, x.turn.Questions[0].Payload.Message, message)
}

func (x *example) later(d time.Duration) {
	x.t.Helper()
	x.now.Advance(d)
	x.resume()
}

func TestAReleaseIsBuiltTestedApprovedAndDeployed(t *testing.T) {
	t.Parallel()
	x := begin(t, "release/release.yaml", "v1.2.0; rm -rf /")
	require.Equal(t, engine.Paused, x.turn.Status)
	require.NoFileExists(t, filepath.Join(x.dir, "deployed.txt"))
	x.choose(interrupt.Approve)
	require.Equal(t, engine.Done, x.turn.Status)
	require.Equal(t, "deployed v1.2.0; rm -rf /\n", x.turn.State["response"])
	data, err := os.ReadFile(filepath.Join(x.dir, "deployed.txt"))
	require.NoError(t, err)
	require.Equal(t, "v1.2.0; rm -rf /\n", string(data))

	x = begin(t, "release/release.yaml", "v2")
	x.choose(interrupt.Reject)
	require.Equal(t, engine.Rejected, x.turn.Status)
	require.NoFileExists(t, filepath.Join(x.dir, "deployed.txt"))
}

func TestAnAlertIsTakenFixedAndLookedAtAgain(t *testing.T) {
	t.Parallel()
	x := begin(t, "oncall/oncall.yaml", "disk full")
	x.asks("Alert: disk full. Do you take it?")
	x.later(15 * time.Minute)
	x.asks("The first on call did not take it")
	require.NoError(t, os.WriteFile(filepath.Join(x.dir, "BROKEN"), nil, 0o600))
	x.choose("mine")
	require.Equal(t, engine.Sleeping, x.turn.Status)
	require.NoError(t, x.e.Signal(t.Context(), "t", "fixed", map[string]any{"note": "removed old logs"}, engine.By{}))
	x.resume()
	require.Equal(t, engine.Sleeping, x.turn.Status)
	x.later(10 * time.Minute)
	x.asks("Alert: disk full. Do you take it?") // it is still broken

	x.choose("mine")
	require.NoError(t, os.Remove(filepath.Join(x.dir, "BROKEN")))
	x.later(4 * time.Hour) // nobody says that it is fixed
	x.later(10 * time.Minute)
	require.Equal(t, engine.Done, x.turn.Status)
	require.Equal(t, "resolved: nobody said that it is fixed", x.turn.State["response"])
	require.EqualValues(t, 2, x.turn.State["calls"])
}

func TestAnAlertThatNobodyTakesGoesToTheManager(t *testing.T) {
	t.Parallel()
	x := begin(t, "oncall/oncall.yaml", "disk full")
	x.choose("pass")
	x.asks("The first on call did not take it")
	x.later(15 * time.Minute)
	require.Equal(t, engine.Done, x.turn.Status)
	require.Equal(t, "not resolved, taken 0 times: call the manager", x.turn.State["response"])
}

func TestEveryExampleHasAReadme(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		require.FileExists(t, filepath.Join(entry.Name(), "README.md"))
	}
}
