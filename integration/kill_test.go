//go:build linux

package integration

// Linux only, as a command dies with its agent only there: elsewhere one that
// was left behind would still write its effect, and no test could tell that
// from an agent that did the work twice.

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failPoints are the crash windows of the program. The value says why a turn of
// the program does not come by; empty is a point that must be hit.
var failPoints = map[string]string{
	"store.open.migrate":   "",
	"store.commit.begin":   "",
	"store.commit.before":  "",
	"store.commit.after":   "",
	"store.put.before":     "",
	"store.put.after":      "",
	"store.prune.rest":     "a turn prunes nothing; the store's own tests kill there",
	"store.backup.begin":   "a turn makes no backup; the store's own tests kill there",
	"store.backup.rename":  "a turn makes no backup; the store's own tests kill there",
	"engine.input.after":   "",
	"engine.resume.after":  "",
	"engine.node.before":   "",
	"engine.node.after":    "",
	"engine.step.before":   "",
	"engine.step.after":    "",
	"engine.effect.before": "TestAKilledProcessPaysNoAnswerTwice kills there",
	"engine.effect.after":  "TestAKilledProcessPaysNoAnswerTwice kills there",
}

// TestEveryFailPointIsInTheTable keeps a new crash window from being forgotten
// here.
func TestEveryFailPointIsInTheTable(t *testing.T) {
	t.Parallel()
	hit := regexp.MustCompile(`failpoint\.Hit(?:In)?\("([^"]+)"`)
	found := map[string]bool{}
	err := filepath.WalkDir(moduleRoot, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == ".git" || path == filepath.Join(moduleRoot, "internal", "failpoint")):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range hit.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return nil
	})
	require.NoError(t, err)
	for name := range found {
		require.Contains(t, failPoints, name, "a fail point of the source is not in the table of this test")
	}
	for name := range failPoints {
		require.Contains(t, found, name, "a fail point of the table is not in the source")
	}
}

// TestKill9AtEveryFailPointLosesNothing kills, for each turn, each of its
// processes at each hit of each fail point, and drives the turn to its end: some
// 200 kills, from the one before the file is made to the one after the last commit.
func TestKill9AtEveryFailPointLosesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	hits := map[string]int{}
	planned, ran := 0, 0
	t.Run("turns", func(t *testing.T) {
		for _, s := range specs() {
			if s.name == "loop" {
				continue // every point of it is one of gated-loop too
			}
			calls := len(baselineOf(t, s).took)
			for k := range calls {
				for _, point := range slices.Sorted(maps.Keys(failPoints)) {
					unreachable := failPoints[point]
					if unreachable != "" && k > 0 {
						continue
					}
					// Before and after BEGIN the file is the same: that is looked
					// at in two of the turns only.
					if point == "store.commit.begin" && s.name != "chain" && s.name != "gates" {
						continue
					}
					planned++
					t.Run(fmt.Sprintf("%s/call-%d/%s", s.name, k, point), func(t *testing.T) {
						t.Parallel()
						n := 0
						for killAt(t, s, k, point, n+1) {
							n++
							require.Empty(t, unreachable, "%s was hit after all", point)
						}
						mu.Lock()
						defer mu.Unlock()
						hits[point] += n
						ran++
					})
				}
			}
		}
	})
	all := 0
	for point, unreachable := range failPoints {
		all += hits[point]
		// A run of only some of them, chosen with -run, cannot tell.
		require.True(t, hits[point] > 0 || unreachable != "" || ran < planned, "no turn comes by %s", point)
	}
	t.Logf("%d kills: %v", all, hits)
}

// killAt drives a turn whose k-th process is killed at the n-th hit of a point.
// False: it was not hit as often.
func killAt(t *testing.T, s *spec, k int, point string, n int) bool {
	t.Helper()
	d := newDrive(t, s)
	killed := false
	d.call = func(i int, c *command) *result {
		if i != k {
			return c.run()
		}
		r := c.at(point, strconv.Itoa(n)+"*kill").run()
		killed = r.killed()
		d.quit = !killed
		return r
	}
	d.run()
	return killed
}

// TestKill9At200RandomMomentsLosesNothing kills processes at any moment of
// their lives, also those that recover from an earlier kill. Where nobody waits
// for a whole CI run it is content with fewer.
func TestKill9At200RandomMomentsLosesNothing(t *testing.T) {
	t.Parallel()
	total := int64(50)
	switch {
	case testing.Short():
		total = 10
	case os.Getenv("CI") != "":
		total = 200
	}
	seed := seedOf(t)
	var kills, doubts, turns atomic.Int64
	t.Run("turns", func(t *testing.T) {
		for worker := range uint64(4) {
			t.Run(fmt.Sprintf("worker-%d", worker), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, worker))
				all := slowSpecs()
				for n := 0; kills.Load() < total; n++ {
					s := all[random.IntN(len(all))]
					name := fmt.Sprintf("%d-%s", n, s.name)
					// A subtest, so that its folder goes as soon as it is over.
					ok := t.Run(name, func(t *testing.T) {
						d := newDrive(t, s)
						d.killRandomly(random)
						d.run()
						kills.Add(int64(d.kills))
						doubts.Add(int64(len(d.doubts)))
						turns.Add(1)
					})
					if !ok {
						return
					}
				}
			})
		}
	})
	t.Logf("%d kills in %d turns, of which %d left an effect in doubt", kills.Load(), turns.Load(), doubts.Load())
}

// killRandomly makes every second process of a drive die at a random moment,
// and a third of the doubts be answered with run_again though it happened.
func (d *drive) killRandomly(random *rand.Rand) {
	b := baselineOf(d.h.t, d.s)
	d.call = func(k int, c *command) *result {
		if d.kills >= 4 || random.IntN(2) == 0 {
			return c.run()
		}
		span := b.took[min(k, len(b.took)-1)]
		after := time.Duration(random.Int64N(int64(span)))
		p := c.start()
		// A moment is what is tested here: a timer, and nothing that a process
		// says of itself.
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			p.kill()
		}
		return p.wait()
	}
	d.doubt = func(_ question, happened bool) bool {
		return !happened || random.IntN(3) == 0
	}
}
