//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCtrlCLeavesATurnAsleep(t *testing.T) {
	r := newRoom(t, nil)
	term := r.terminal("run", "go:wait", "--thread", "w")
	term.sees("work: waits for signal go")
	term.types("\x03")
	term.sees("the turn sleeps:")
	term.sees("agent resume w")
	require.NotContains(t, term.ends(exitPaused), "stopping")

	// resume says what it waits for, and goes on with what comes.
	term = r.terminal("resume", "w")
	term.sees("work: waits for signal go")
	_, stderr, code := r.agent("signal", "w", "go", `"now"`)
	require.Equal(t, exitDone, code, stderr)
	term.sees("the signal of w@2 has come")
	term.sees("now")
	term.ends(exitDone)
}

func TestADialogEndsAtTheDeadlineOfItsQuestion(t *testing.T) {
	r := newRoom(t, nil)
	term := r.terminal("run", "go:at-once")
	term.sees("answer is 7")
	term.sees("answer (integer):")
	term.sees("this question is withdrawn")
	term.sees("is up: 7")
	term.sees("7")
	term.ends(exitDone)
}

func TestAPromptOfOneThatSleepsAsksForTheRest(t *testing.T) {
	r := newRoom(t, nil)
	term := r.terminal("run", "go:nap-and-ask", "--thread", "n")
	term.sees("sleep: sleeps until")
	term.sees("answer (1 or 2):")
	term.types("2\n")
	term.sees("answered n@3: blue")
	term.types("\x03")
	term.sees("agent resume n")
	term.ends(exitPaused)
	out, _, _ := r.agent("threads", "--status", "sleeping", "--json")
	require.Contains(t, out, `"thread_id":"n"`)
}

func TestDeleteAsksOnATerminal(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	for _, c := range []struct {
		keys string
		code int
	}{{"n\n", exitFailed}, {"\n", exitFailed}, {"\x04", exitFailed}, {"\x03", exitStopped}, {"Y\n", exitDone}} {
		if _, _, code := r.agent("show", "g"); code != exitDone {
			r.agent("run", "gate.yaml", "--thread", "g", "--input", "prod")
		}
		term := r.terminal("delete", "g")
		term.sees("thread g: paused, 1 turn, 2 entries")
		term.sees("delete it for good? (y or n):")
		term.types(c.keys)
		out := term.ends(c.code)
		require.Equal(t, c.code != exitDone, strings.Contains(out, "nothing was deleted"), "%q: %s", c.keys, out)
		require.Equal(t, c.code == exitDone, strings.Contains(out, "thread g is deleted"), "%q: %s", c.keys, out)
	}
	r.agent("run", "gate.yaml", "--thread", "h", "--input", "prod")
	term := r.terminal("delete", "h", "--yes")
	term.ends(exitDone)
}

func TestADeleteOfAThreadThatWaitsElsewhereIsRefused(t *testing.T) {
	r := newRoom(t, map[string]string{"gate.yaml": gateGraph})
	term := r.terminal("run", "gate.yaml", "--thread", "g", "--input", "one")
	term.sees("answer (a or r):")
	_, stderr, code := r.agent("delete", "g", "--yes")
	require.Equal(t, exitConflict, code)
	require.Contains(t, stderr, "agent cancel g")

	// An edit withdraws the dialog, which asks again on the new state.
	_, stderr, code = r.agent("update", "g", "--set", `prompt="two"`)
	require.Equal(t, exitPaused, code)
	require.Contains(t, stderr, "another process waits for the answer")
	term.sees("this question is withdrawn")
	term.sees("echo deployed two")
	term.sees("answer (a or r):")

	// And so does a way back.
	_, stderr, code = r.agent("fork", "g@1", "--in-place")
	require.Equal(t, exitPaused, code)
	require.Contains(t, stderr, "thread g went back to g@1")
	term.sees("echo deployed one")
	term.sees("answer (a or r):")
	term.types("a\n")
	term.sees("deployed one")
	term.ends(exitDone)
}
