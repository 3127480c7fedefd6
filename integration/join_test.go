//go:build linux

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// joins is a graph whose join waits for a branch that never comes.
const joins = `schema_version: 1
name: joins
channels: {log: {reducer: append}, way: {initial: elsewhere}}
nodes:
  a: {type: set, values: {log: '"a"'}}
  b: {type: set, values: {log: '"b"'}}
  c: {type: set, values: {log: '"c"'}}
  j: {type: exec, command: '%s', output: log, on_crash: ask, barrier: {wait_for: [a, c], timeout: 300ms}}
edges:
  - {from: __start__, to: a}
  - {from: __start__, to: b}
  - {from: a, to: j}
  - {from: c, to: j}
conditional_edges:
  - {from: b, condition: way, routes: {here: c, elsewhere: __end__}}
`

// The timer of a join is in the file before anybody waits for it: whoever is
// killed at any commit, the next process runs the join when it is due, and once.
func TestTheTimeoutOfAJoinSurvivesKill9AtEveryCommit(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.before", "store.commit.after", "engine.resume.after"} {
		for n := 1; ; n++ {
			h := newHarness(t)
			graph := h.write("joins.yaml", fmt.Sprintf(joins, `printf "j 1 $$\n" >> effects; printf j`))
			first := h.command("run", graph, "--thread", "t").at(point, fmt.Sprintf("%d*kill", n)).run()
			if !first.killed() {
				first.exits(0)
				break
			}
			if n == 1 && point == "store.commit.before" {
				h.run("show", "t").exits(1).says("not found") // nothing was acknowledged, and nothing is there
				continue
			}
			for r := h.run("resume", "t"); ; r = h.run("answer", "t", "--choose", "done") {
				if r.code != 3 {
					r.exits(0)
					break
				}
			}
			require.LessOrEqual(t, len(h.effects()), 1, "%s, hit %d", point, n)
			require.Equal(t, "done", h.status("t"))
			h.verify()
		}
	}
}
