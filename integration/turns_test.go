//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spec is a turn that can be killed anywhere.
type spec struct {
	name  string
	graph string
	// policy is on_crash of the nodes that leave an effect.
	policy map[string]string
}

// quoted is a text as YAML and JSON write it.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// specs are the turns of the crash tests: short, so that many fit in a minute,
// and between them everything that a turn can do.
func specs() []*spec { return specsWith("") }

// slowSpecs are the same turns with commands that take a while, so that a
// random moment is often one of theirs.
func slowSpecs() []*spec {
	// The moment after the effect is the one of which nobody knows.
	return specsWith("sleep 0.02")
}

func specsWith(more string) []*spec {
	return []*spec{
		{
			name: "chain", policy: map[string]string{"a": "ask", "b": "retry", "c": "ask"},
			graph: `
schema_version: 1
name: chain
channels: {log: {reducer: append}, note: {}}
nodes:
  a: {type: exec, command: ` + quoted(does("a", "0", more)) + `, output: log, on_crash: ask}
  b: {type: exec, command: ` + quoted(does("b", "0", more)) + `, output: log, on_crash: retry}
  s: {type: set, values: {note: '"log has " + string(len(log))'}}
  c: {type: exec, command: ` + quoted(does("c", "0", more)) + `, output: log}
edges:
  - {from: __start__, to: a}
  - {from: a, to: b}
  - {from: b, to: s}
  - {from: s, to: c}
`},
		{
			name: "loop", policy: map[string]string{"work": "retry"},
			graph: `
schema_version: 1
name: loop
channels: {log: {reducer: append}, n: {reducer: sum}}
nodes:
  work: {type: exec, command: ` + quoted(does("work", "${{ n }}", more)) + `, output: log, on_crash: retry}
  count: {type: set, values: {n: "1"}}
edges:
  - {from: __start__, to: work}
  - {from: work, to: count}
conditional_edges:
  - {from: count, condition: "n < 2", routes: {true: work, false: __end__}}
`},
		{
			name: "gates", policy: map[string]string{"test": "retry", "deploy": "ask"},
			graph: `
schema_version: 1
name: gates
channels: {log: {reducer: append}, response: {}}
nodes:
  test: {type: exec, command: ` + quoted(does("test", "0", more)) + `, output: log, on_crash: retry}
  deploy: {type: exec, command: ` + quoted(does("deploy", "0", more)) + `, output: log, on_crash: ask}
  done: {type: set, values: {response: '"deployed: " + log[-1].stdout'}}
edges:
  - {from: __start__, to: test}
  - {from: test, to: deploy}
  - {from: deploy, to: done}
interrupt_before: [deploy]
interrupt_after: [deploy]
`},
		{
			name: "gated-loop", policy: map[string]string{"work": "ask"},
			graph: `
schema_version: 1
name: gated-loop
channels: {log: {reducer: append}, n: {reducer: sum}}
nodes:
  work: {type: exec, command: ` + quoted(does("work", "${{ n }}", more)) + `, output: log, on_crash: ask}
  count: {type: set, values: {n: "1"}}
edges:
  - {from: __start__, to: work}
  - {from: work, to: count}
conditional_edges:
  - {from: count, condition: "n < 2", routes: {true: work, false: __end__}}
interrupt_before: [work]
`},
		{
			name: "question", policy: map[string]string{"paint": "ask"},
			graph: `
schema_version: 1
name: question
channels: {log: {reducer: append}, color: {}}
nodes:
  pick: {type: ask, message: "Which color?", choices: [red, blue], output: color}
  paint: {type: exec, command: ` + quoted(does("paint", "${{ color }}", more)) + `, output: log, on_crash: ask}
edges:
  - {from: __start__, to: pick}
  - {from: pick, to: paint}
`},
		{
			name: "fan", policy: map[string]string{"left": "ask", "right": "retry", "last": "ask"},
			graph: `
schema_version: 1
name: fan
channels: {log: {reducer: append}}
nodes:
  left: {type: exec, command: ` + quoted(does("left", "0", more)) + `, output: log, on_crash: ask}
  right: {type: exec, command: ` + quoted(does("right", "0", more)) + `, output: log, on_crash: retry}
  last: {type: exec, command: ` + quoted(does("last", "0", more)) + `, output: log, on_crash: ask}
edges:
  - {from: __start__, to: left}
  - {from: __start__, to: right}
  - {from: left, to: last}
  - {from: right, to: last}
`},
	}
}

const thread = "t"

// drive brings one turn to its end, whoever kills the processes that move it,
// and checks on the way and at the end that nothing was lost and nothing was
// done twice. It does what a person would do who sees nothing but what the
// program shows: run, resume what was cut short, answer what is asked.
type drive struct {
	h     *harness
	s     *spec
	graph string

	// call makes the k-th call of the program; nil just runs it.
	call func(k int, c *command) *result
	// doubt answers a doubt; happened says whether the effect is there. Nil is
	// a person who looks and says what is true.
	doubt func(q question, happened bool) (again bool)

	quit     bool            // set by call: the drive ends here
	took     []time.Duration // of each call
	status   string          // of the thread, as far as it is known; empty: there is none yet
	log      []entry         // as seen last; every later log begins with it
	settled  map[string]int  // effects of finished tasks, by key: they never grow
	owed     map[string]bool // nodes of which a doubt must be asked
	stored   map[string]bool // tasks whose result was stored before their step was committed
	accepted []string        // names of answers that the program said it took
	kills    int
	doubts   map[string]bool // ids of the doubts that were asked
	again    map[string]int  // doubts answered with run_again though it had happened, by node
	end      *shown          // the thread when its turn is over
}

func newDrive(t *testing.T, s *spec) *drive {
	t.Helper()
	h := newHarness(t)
	return &drive{
		h: h, s: s, graph: h.write(s.name+".yaml", s.graph),
		log: []entry{}, settled: map[string]int{}, owed: map[string]bool{}, stored: map[string]bool{}, doubts: map[string]bool{}, again: map[string]int{},
	}
}

// run drives the turn to its end and gives it; nil if quit said that this one
// is not worth it.
func (d *drive) run() *shown {
	t := d.h.t
	t.Helper()
	for k := 0; ; k++ {
		require.Less(t, k, 40, "the turn does not come to an end")
		c, actor := d.next()
		if c == nil {
			break // and d.end is what was shown
		}
		var r *result
		if d.call != nil {
			r = d.call(k, c)
		} else {
			r = c.run()
		}
		if d.quit {
			return nil
		}
		d.took = append(d.took, r.took)
		switch {
		case r.killed():
			d.kills++
			d.h.verify()
			d.look()
			d.status = ""
			if n := len(d.log); n > 0 {
				d.status = d.log[n-1].Status
			}
			continue
		case r.code == 1 && d.kills >= 3 && strings.Contains(r.stderr, "processes died"):
			d.status = "failed" // parked: resume is one more try
		case r.code == 3:
			d.status = "paused"
		default:
			// Never 4: after a kill nobody waits for anything.
			require.Equal(t, 0, r.code, "after %d kills: %v", d.kills, r)
			d.status = "done"
		}
		d.accepted = append(d.accepted, actor)
	}
	d.h.verify()
	d.look()
	require.Equal(t, "done", d.end.Status)
	d.check()
	return d.end
}

// next is the command that goes on, and the name under which it is given; nil
// if the turn is over.
func (d *drive) next() (*command, string) {
	t := d.h.t
	t.Helper()
	actor := fmt.Sprintf("person-%d", len(d.took))
	switch d.status {
	case "":
		return d.h.command("run", d.graph, "--thread", thread, "--as", actor), actor
	case "running", "failed":
		return d.h.command("resume", thread), ""
	case "paused":
		now := d.h.show(thread)
		require.Equal(t, "paused", now.Status)
		require.NotEmpty(t, now.Questions, "paused, and nothing is asked")
		q := now.Questions[0]
		return d.h.command(append([]string{"answer", q.CheckpointID, "--as", actor}, d.answer(q)...)...), actor
	}
	d.end = d.h.show(thread)
	return nil, ""
}

func (d *drive) answer(q question) []string {
	t := d.h.t
	t.Helper()
	switch {
	case q.doubt():
		require.Equal(t, "ask", d.s.policy[q.AskingNode], "a doubt about node %s", q.AskingNode)
		require.False(t, d.stored[q.AskingNode], "a doubt about node %s, whose result is stored", q.AskingNode)
		d.doubts[q.CheckpointID] = true
		require.LessOrEqual(t, len(d.doubts), d.kills, "more effects in doubt than kills")
		delete(d.owed, q.AskingNode)
		// The node's newest round is the one in doubt; the earlier are settled.
		happened := false
		for key, n := range counts(d.h.effects()) {
			if node(key) == q.AskingNode && n > d.settled[key] {
				happened = true
			}
		}
		again := !happened
		if d.doubt != nil {
			again = d.doubt(q, happened)
		}
		if again {
			if happened {
				d.again[q.AskingNode]++
			}
			return []string{"--choose", "run_again"}
		}
		require.True(t, happened, "a test says done of what was not done")
		return []string{"--choose", "done", "--value", fmt.Sprintf(`{"stdout":%q,"stderr":"","exit_code":0,"truncated":false}`, q.AskingNode)}
	case q.Kind == "before" || q.Kind == "after":
		return []string{"--approve"}
	}
	return []string{"--choose", q.Choices[0].ID}
}

// node is the node of an effect's key.
func node(key string) string {
	for i := range key {
		if key[i] == ' ' {
			return key[:i]
		}
	}
	return key
}

// look is what a look at the thread between two processes must show.
func (d *drive) look() {
	t := d.h.t
	t.Helper()
	log := d.h.history(thread)
	if len(log) == 0 {
		require.Empty(t, d.log, "the thread is gone")
		require.Empty(t, d.h.effects(), "work was done for an input that was not stored")
		return
	}
	require.GreaterOrEqual(t, len(log), len(d.log), "the log became shorter")
	require.Equal(t, d.log, log[:len(d.log)], "the log was changed where it was written already")
	d.log = log
	for i, e := range log {
		require.Equal(t, i+1, e.Seq)
	}
	require.Equal(t, 1, kinds(log)["input"], "one input was given")

	// What finished has its effects, and they never grow.
	finished := map[string]int{}
	for _, e := range log {
		if e.Kind == "step" {
			for _, task := range e.Tasks {
				finished[task]++
			}
		}
	}
	done := counts(d.h.effects())
	rounds := map[string]int{} // rounds of a node in the order of their effects
	seen := map[string]bool{}
	for _, e := range d.h.effects() {
		if seen[e.key()] {
			continue
		}
		seen[e.key()] = true
		rounds[e.node]++
		if rounds[e.node] <= finished[e.node] {
			if n, known := d.settled[e.key()]; known {
				require.Equal(t, n, done[e.key()], "node %s finished and ran again", e.node)
			}
			d.settled[e.key()] = done[e.key()]
		} else if d.s.policy[e.node] == "ask" {
			d.owed[e.node] = true
		}
	}
	// A task that finished beside others that had not is in results: it is
	// settled too, though its step is not.
	for _, name := range d.results() {
		for key, n := range done {
			if node(key) == name {
				d.settled[key] = n
			}
		}
		delete(d.owed, name)
		d.stored[name] = true
	}
	for name := range d.owed {
		// Its effect was in doubt and its step is committed all the same: that
		// is a guess, unless the process died just behind the commit.
		if rounds[name] <= finished[name] {
			delete(d.owed, name)
		}
	}
}

// results are the tasks of the current step whose results are stored. The
// program does not show them, so they are read from a copy of the file: opening
// the file itself would do what is left to the next process, its recovery.
func (d *drive) results() []string {
	t := d.h.t
	t.Helper()
	if d.s.name != "fan" {
		return nil // one task a step: its result rides in the step's commit
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	copyFile(t, d.h.db, path, 0o600)
	if _, err := os.Stat(d.h.db + "-wal"); err == nil {
		copyFile(t, d.h.db+"-wal", path+"-wal", 0o600)
	}
	db := open(t, path)
	defer db.Close()
	rows, err := db.Query(`SELECT task FROM results WHERE kind = 'task'`)
	require.NoError(t, err)
	defer rows.Close()
	var tasks []string
	for rows.Next() {
		var task string
		require.NoError(t, rows.Scan(&task))
		tasks = append(tasks, task)
	}
	require.NoError(t, rows.Err())
	return tasks
}

// check is what must hold at the end.
func (d *drive) check() {
	t := d.h.t
	t.Helper()
	b := baselineOf(t, d.s)
	end := d.end
	require.Equal(t, b.end.State, end.State, "the state is that of an undisturbed turn")
	require.Equal(t, b.steps, steps(d.log), "the steps are those of an undisturbed turn")
	require.Empty(t, end.Next)
	require.Empty(t, end.Questions)
	require.Empty(t, d.owed, "what may have happened was not asked about")

	done := counts(d.h.effects())
	again := map[string]int{}
	for key := range b.effects {
		require.GreaterOrEqual(t, done[key], 1, "the effect %q is missing", key)
		switch d.s.policy[node(key)] {
		case "ask":
			again[node(key)] += done[key] - 1
		case "retry":
			require.LessOrEqual(t, done[key], 1+d.kills, "the effect %q", key)
		}
	}
	for key := range done {
		require.Contains(t, b.effects, key, "an effect that an undisturbed turn does not have")
	}
	for name, n := range again {
		require.LessOrEqual(t, n, d.again[name], "node %s was repeated and nobody said so", name)
	}

	actors := map[string]int{}
	for _, e := range d.log {
		actors[e.Actor]++
	}
	for _, actor := range d.accepted {
		if actor != "" {
			require.Equal(t, 1, actors[actor], "what %s said was accepted, and is in the log %d times", actor, actors[actor])
		}
	}
}

// steps is the part of a log that does not depend on who died when.
func steps(log []entry) []entry {
	var out []entry
	for _, e := range log {
		if e.Kind == "step" {
			out = append(out, entry{Kind: e.Kind, Turn: e.Turn, Step: e.Step, Tasks: e.Tasks, Next: e.Next})
		}
	}
	return out
}

// baseline is an undisturbed turn of a spec.
type baseline struct {
	end     *shown
	steps   []entry
	effects map[string]int
	took    []time.Duration
}

var baselines struct {
	sync.Mutex
	of map[string]*baseline // by graph
}

// baselineOf runs a turn that nobody disturbs, once.
func baselineOf(t *testing.T, s *spec) *baseline {
	t.Helper()
	baselines.Lock()
	defer baselines.Unlock()
	if b := baselines.of[s.graph]; b != nil {
		return b
	}
	d := newDrive(t, s)
	for {
		c, _ := d.next()
		if c == nil {
			break
		}
		r := c.run()
		require.Contains(t, []int{0, 3}, r.code, "%v", r)
		d.status = map[int]string{0: "done", 3: "paused"}[r.code]
		d.took = append(d.took, r.took)
	}
	d.h.verify()
	d.look()
	require.Empty(t, d.h.inbox())
	b := &baseline{end: d.end, steps: steps(d.log), effects: counts(d.h.effects()), took: d.took}
	require.Equal(t, "done", b.end.Status)
	for key, n := range b.effects {
		require.Equal(t, 1, n, "the effect %q of an undisturbed turn", key)
	}
	for name := range s.policy {
		found := false
		for key := range b.effects {
			found = found || node(key) == name
		}
		require.True(t, found, "node %s leaves no effect", name)
	}
	if baselines.of == nil {
		baselines.of = map[string]*baseline{}
	}
	baselines.of[s.graph] = b
	return b
}
