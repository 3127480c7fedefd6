//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for output that must come.
const patience = 30 * time.Second

// terminal is the program on a terminal, and the person in front of it.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	keys   *os.File
	output chan []byte // closed at the end
	seen   bytes.Buffer
	unread []byte
}

// room is a folder with graph files and a database for one test.
type room struct {
	t   *testing.T
	dir string
	env []string
}

func newRoom(t *testing.T, files map[string]string) *room {
	t.Parallel()
	r := &room{t: t, dir: t.TempDir()}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
	}
	r.env = append(os.Environ(), "HOLDFAST_DB="+filepath.Join(r.dir, "agent.db"), "TERM=xterm", "NO_COLOR=", "TZ=UTC")
	return r
}

// agent runs the program without a terminal and gives its exit code.
func (r *room) agent(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	cmd := exec.Command("agent", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(r.t, err, &exit)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// terminal starts the program on a terminal of its own.
func (r *room) terminal(args ...string) *terminal {
	r.t.Helper()
	t := &terminal{t: r.t, cmd: exec.Command("agent", args...), output: make(chan []byte)}
	t.cmd.Dir, t.cmd.Env = r.dir, r.env
	var err error
	t.keys, err = pty.StartWithSize(t.cmd, &pty.Winsize{Rows: 40, Cols: 60})
	require.NoError(r.t, err)
	go func() {
		defer close(t.output)
		for {
			buf := make([]byte, 4096)
			n, err := t.keys.Read(buf)
			if n > 0 {
				t.output <- buf[:n]
			}
			if err != nil {
				return // the terminal has no program any more
			}
		}
	}()
	r.t.Cleanup(func() {
		_ = t.cmd.Process.Kill() // usually it has ended
		_ = t.keys.Close()
		for range t.output {
		}
	})
	return t
}

// sees waits until the text is on the screen, behind what was waited for before.
func (t *terminal) sees(text string) {
	t.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		if i := bytes.Index(t.unread, []byte(text)); i >= 0 {
			t.unread = t.unread[i+len(text):]
			return
		}
		select {
		case data, open := <-t.output:
			if !open {
				require.Failf(t.t, "the program ended", "%q was not on the screen:\n%s", text, t.seen.String())
			}
			t.seen.Write(data)
			t.unread = append(t.unread, data...)
		case <-deadline.C:
			require.Failf(t.t, "nothing more came", "%q was not on the screen:\n%s", text, t.seen.String())
		}
	}
}

func (t *terminal) types(text string) {
	t.t.Helper()
	_, err := t.keys.WriteString(text)
	require.NoError(t.t, err)
}

// ends waits for the end of the program and gives all that it wrote.
func (t *terminal) ends(code int) string {
	t.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for open := true; open; {
		var data []byte
		select {
		case data, open = <-t.output:
			t.seen.Write(data)
		case <-deadline.C:
			require.Failf(t.t, "the program did not end", "%s", t.seen.String())
		}
	}
	if err := t.cmd.Wait(); err != nil {
		var exit *exec.ExitError
		require.True(t.t, errors.As(err, &exit), "%v", err)
	}
	require.Equal(t.t, code, t.cmd.ProcessState.ExitCode(), t.seen.String())
	return t.seen.String()
}

const gateGraph = `
name: gate
channels: {prompt: {}, log: {}, response: {}}
nodes:
  deploy: {type: exec, command: [echo, deployed, "${{ prompt }}"], output: log}
  say: {type: set, values: {response: 'trim(log.stdout)'}}
edges: [{from: __start__, to: deploy}, {from: deploy, to: say}]
interrupt_before: [{node: deploy, message: Really deploy?}]
`

func TestApproveInTheTerminal(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	term := r.terminal("run", "gate.yaml", "--thread", "g", "--input", "prod", "--as", "alice")
	term.sees("before node deploy")
	term.sees("Really deploy?")
	term.sees("echo deployed prod")
	term.sees("answer (a or r):")
	term.types("a\n")
	term.sees("answered g@2: approve, by alice via cli")
	term.sees("deployed prod")
	term.ends(exitDone)
}

func TestRejectWithAReasonInTheTerminal(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	term := r.terminal("run", "gate.yaml", "--thread", "g", "--input", "prod")
	term.sees("answer (a or r):")
	term.types("r\n")
	term.sees("reason (Enter for none):")
	term.types("not on a Friday\n")
	term.sees("via cli (not on a Friday)")
	require.NotContains(t, term.ends(exitFailed), "deploy: ")
	out, _, _ := r.agent("show", "g")
	require.Contains(t, out, "rejected")
	require.Contains(t, out, "not on a Friday")
}

func TestWrongInputIsAskedAgain(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	term := r.terminal("run", "gate.yaml", "--input", "prod")
	for _, wrong := range []string{"", "yes", "ap", "1", "a r"} {
		term.sees("answer (a or r):")
		term.types(wrong + "\n")
		term.sees("is none of the answers: type a or r, or one of approve, reject")
	}
	term.sees("answer (a or r):")
	term.types("Approve\n")
	term.ends(exitDone)
}

func TestAnswersOfATypeAndOfAChoice(t *testing.T) {
	r := newRoom(t, map[string]string{"ask.yaml": `
channels: {color: {}, n: {}, text: {}, response: {}}
nodes:
  color: {type: ask, message: Which?, choices: [red, {id: blue, name: Deep blue}, green], output: color}
  number: {type: ask, message: How many?, answer_type: integer, output: n}
  text: {type: ask, message: And?, output: text}
  say: {type: set, values: {response: 'color + toJSON(n) + toJSON(text)'}}
edges:
  - {from: __start__, to: color}
  - {from: color, to: number}
  - {from: number, to: text}
  - {from: text, to: say}
`})
	term := r.terminal("run", "ask.yaml")
	term.sees("2  Deep blue (blue)")
	term.sees("answer (1 to 3):")
	term.types("4\n")
	term.sees("none of the answers")
	term.types("deep BLUE\n")
	term.sees("answer (integer):")
	term.types("two\n")
	term.sees("takes an integer")
	term.types("2.5\n")
	term.sees("takes an integer, not number")
	term.types("2\n")
	term.sees("answer (text):")
	term.types("\n")
	term.sees(`an empty answer is typed as ""`)
	term.types("12\n") // text is a JSON string
	term.sees(`blue2"12"`)
	term.ends(exitDone)
}

func TestCtrlCLeavesTheDialogAndTheTurnPaused(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	for i, keys := range []string{"\x03", "\x04", "r\n\x03"} {
		term := r.terminal("run", "gate.yaml", "--thread", "g"+string(rune('0'+i)), "--input", "prod")
		term.sees("answer (a or r):")
		for _, key := range keys {
			term.types(string(key))
			if key == '\n' {
				term.sees("reason (Enter for none):")
			}
		}
		term.sees("the turn is paused; answer with one of these:")
		out := term.ends(exitPaused)
		require.Equal(t, 1, strings.Count(out, "before node deploy"), "the question was shown once")
		require.NotContains(t, out, "answered")
	}
	out, _, _ := r.agent("threads", "--status", "paused", "--json")
	require.Equal(t, 3, strings.Count(out, "thread_id"))

	term := r.terminal("resume", "g0")
	term.sees("answer (a or r):")
	term.types("a\n")
	term.sees("deployed prod")
	term.ends(exitDone)
}

func TestCtrlCStopsRunningWork(t *testing.T) {
	r := newRoom(t, map[string]string{"work.yaml": `
channels: {log: {}}
nodes:
  a: {type: exec, command: "echo started; sleep 600", output: log, on_crash: retry}
edges: [{from: __start__, to: a}]
`})
	term := r.terminal("run", "work.yaml", "--thread", "w")
	term.sees("a |")
	term.sees("started")
	term.types("\x03")
	term.sees("stopping")
	term.sees("agent resume w")
	term.ends(exitStopped)
}

func TestAnsweredElsewhereWithdrawsTheDialog(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": `
channels: {prompt: {}, log: {}, response: {}}
nodes:
  deploy: {type: exec, command: [echo, deployed, "${{ prompt }}"], output: log}
  again: {type: exec, command: [echo, again], output: log}
edges: [{from: __start__, to: deploy}, {from: deploy, to: again}]
interrupt_before: [deploy, again]
`})
	term := r.terminal("run", "gate.yaml", "--thread", "g", "--input", "prod")
	term.sees("answer (a or r):")
	term.types("a") // half an answer, which must not become one of the next question
	_, stderr, code := r.agent("answer", "g@2", "--approve", "--as", "bob")
	require.Equal(t, exitDone, code, stderr)
	require.Contains(t, stderr, "another process goes on with thread g")
	term.sees("this question is withdrawn")
	term.sees("answered g@2: approve, by bob via cli")
	term.sees("before node again")
	term.sees("answer (a or r):")
	term.types("\n")
	term.sees(`"" is none of the answers`)
	term.types("r\n\n")
	term.ends(exitFailed)
}

func TestWhatWasTypedBeforeTheQuestionDoesNotAnswerIt(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": `
channels: {log: {}}
nodes:
  slow: {type: exec, command: "echo started; read x < goon; echo $x", output: log}
  deploy: {type: exec, command: [echo, deployed], output: log}
edges: [{from: __start__, to: slow}, {from: slow, to: deploy}]
interrupt_before: [deploy]
`})
	require.NoError(t, exec.Command("mkfifo", filepath.Join(r.dir, "goon")).Run())
	term := r.terminal("run", "gate.yaml")
	term.sees("started")
	term.types("a\n")
	term.sees("a\r\n") // the terminal has it
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "goon"), []byte("on\n"), 0o600))
	term.sees("answer (a or r):")
	term.types("r\n\n")
	require.NotContains(t, term.ends(exitFailed), "approve, by")
}

func TestAHostileMessageCannotRewriteTheScreen(t *testing.T) {
	r := newRoom(t, map[string]string{"evil.yaml": `
channels: {log: {}}
nodes:
  deploy: {type: exec, command: [sh, -c, "echo safe \u202e; rm -rf x\e[1A\e[2K\r"], env: {A: "x\e[8m"}, output: log}
edges: [{from: __start__, to: deploy}]
interrupt_before:
  - node: deploy
    message: "Fine?\e[2J\e[H\e]0;title\a\u200b                                                                 command     ls"
`})
	term := r.terminal("run", "evil.yaml")
	term.sees("answer (a or r):")
	term.types("\x03")
	out := term.ends(exitPaused)
	require.NotContains(t, out, "\x1b[2J")
	require.NotContains(t, out, "\x1b]0")
	require.NotContains(t, out, "\x1b[8m")
	require.NotContains(t, out, "\u202e")
	require.NotContains(t, out, "\u200b")
	require.Contains(t, out, `\u202e`)
	require.Contains(t, out, `\x1b[2K`)
	require.Contains(t, out, `\u200b`)
	// The message is wrapped here, behind its bar, and not by the terminal.
	for _, line := range strings.Split(out, "\r\n") {
		if strings.Contains(line, "command     ls") {
			require.True(t, strings.HasPrefix(line, "  \x1b[2m|\x1b[0m"), "%q", line)
		}
	}
}

func TestNoColorAndDumbTerminals(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	env := r.env
	r.env = append(env[:len(env):len(env)], "NO_COLOR=1")
	term := r.terminal("run", "gate.yaml", "--input", "prod", "--yes")
	require.NotContains(t, term.ends(exitDone), "m|")
	r.env = append(env[:len(env):len(env)], "TERM=dumb")
	term = r.terminal("run", "gate.yaml", "--input", "prod", "--yes")
	require.NotContains(t, term.ends(exitDone), "\x1b")
}

func TestADoubtIsAskedInTheTerminal(t *testing.T) {
	r := newRoom(t, map[string]string{"crash.yaml": `
channels: {log: {}, response: {}}
nodes:
  work: {type: exec, command: "kill -9 $PPID", output: log}
  say: {type: set, values: {response: log.stdout}}
edges: [{from: __start__, to: work}, {from: work, to: say}]
`})
	r.agent("run", "crash.yaml", "--thread", "c")
	term := r.terminal("resume", "c")
	term.sees("node work is in doubt")
	term.sees("kill -9 $PPID")
	term.sees("2  It is done, go on (done)")
	term.sees("answer (1 to 3):")
	term.types("2\n")
	term.sees("its result as JSON (Enter for none):")
	term.types("{x\n")
	term.sees("that is not JSON")
	term.types(`{"exit_code": 0, "stdout": "by hand", "stderr": "", "truncated": false}` + "\n")
	term.sees("by hand")
	term.ends(exitDone)
}
