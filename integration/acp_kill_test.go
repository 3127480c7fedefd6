//go:build linux

package integration

// Linux only: elsewhere a command does not die with its agent.

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

// shell is a prompt of the default agent that leaves an effect.
func shell(name string) string { return does(name, "1", "") }

// comeBack opens the session in a new process, in one of the three ways.
func comeBack(h *harness, session, mode string) *served {
	e := h.serve().hello(nil)
	switch mode {
	case "load":
		e.Load(session)
	case "resume":
		before := len(e.Log)
		e.Call("session/resume", object{"sessionId": session, "cwd": h.dir})
		require.Len(h.t, e.Log, before+1, "resume replays nothing")
	}
	return e
}

// behaviours are the clients that a question meets after the restart. Each ends
// with its process gone or its prompt answered.
var behaviours = map[string]func(e *served, session string){
	"approve": func(e *served, session string) {
		require.Equal(e.h.t, "end_turn", e.Says(session, shell("B")))
	},
	"reject": func(e *served, session string) {
		other := e.Ask
		e.Ask = func(m message) (any, bool) {
			if strings.Contains(m.Line, `"run_again"`) {
				return other(m)
			}
			return editor.Reject(m)
		}
		require.Equal(e.h.t, "end_turn", e.Says(session, shell("B")))
	},
	"cancel": func(e *served, session string) {
		e.Ask = func(m message) (any, bool) {
			e.Notify("session/cancel", object{"sessionId": session})
			return editor.Dismissed(), true
		}
		require.Equal(e.h.t, "cancelled", e.Says(session, shell("B")))
	},
	"wrong": func(e *served, session string) {
		n := 0
		wrong := []any{editor.Chosen("allow"), editor.Dismissed(), editor.Error{Code: -32601, Message: "no"}, object{"outcome": "approve"}}
		e.Ask = func(message) (any, bool) { n++; return wrong[n%len(wrong)], true }
		for range wrong {
			require.Equal(e.h.t, "end_turn", e.Says(session, shell("B")))
		}
		require.NotContains(e.h.t, editor.Text(e.Log, "agent_message_chunk"), "Rejected")
	},
	"never": func(e *served, session string) {
		e.Request("session/prompt", editor.Prompt(session, shell("B")))
		e.Until("session/request_permission")
		e.kill()
	},
	"vanish": func(e *served, session string) {
		e.Request("session/prompt", editor.Prompt(session, shell("B")))
		e.Until("session/request_permission")
		require.Zero(e.h.t, e.leave())
	},
}

// TestKilledAtEachArrowACommandRunsOnceOrIsAskedAbout kills the agent at each line
// that it sends in the transcript of a turn with an approval, opens the session
// again, and meets it with each kind of client: each with a load, a resume or
// neither by turns, and with all three where HOLDFAST_TEST_FULL is set.
func TestKilledAtEachArrowACommandRunsOnceOrIsAskedAbout(t *testing.T) {
	t.Parallel()
	for arrow := range 12 {
		for i, behaviour := range slices.Sorted(maps.Keys(behaviours)) {
			modes := []string{"load", "resume", "neither"}
			if os.Getenv("HOLDFAST_TEST_FULL") == "" {
				modes = modes[(arrow+i)%3:][:1]
			}
			for _, mode := range modes {
				t.Run(fmt.Sprintf("arrow-%d/%s/%s", arrow, mode, behaviour), func(t *testing.T) {
					t.Parallel()
					killedAt(t, func(h *harness) (string, bool) { return diesAtArrow(h, arrow) }, mode, behaviour)
				})
			}
		}
	}
}

// diesAtArrow runs the transcript and kills the agent behind so many lines of the
// prompt.
func diesAtArrow(h *harness, arrow int) (session string, killed bool) {
	e := h.serve().hello(nil)
	session = e.NewSession()
	id := e.Request("session/prompt", editor.Prompt(session, shell("A")))
	for range arrow {
		m, ok := e.Next()
		if !ok || m.Method == "" && string(m.ID) == fmt.Sprint(id) {
			break
		}
		if m.ID != nil {
			e.Respond(m, editor.Chosen("approve"))
		}
	}
	e.kill()
	return session, true
}

// TestKilledAtEachFailPointACommandRunsOnceOrIsAskedAbout does the same at the
// crash windows of store and engine.
func TestKilledAtEachFailPointACommandRunsOnceOrIsAskedAbout(t *testing.T) {
	t.Parallel()
	points := slices.Sorted(maps.Keys(failPoints))
	names := slices.Sorted(maps.Keys(behaviours))
	for i, point := range points {
		if failPoints[point] != "" || point == "store.open.migrate" {
			continue
		}
		for hit := 1; hit <= 12; hit++ {
			if hit > 4 && hit%3 != 0 && os.Getenv("HOLDFAST_TEST_FULL") == "" {
				continue
			}
			behaviour, mode := names[(i+hit)%len(names)], []string{"load", "resume", "neither"}[hit%3]
			t.Run(fmt.Sprintf("%s-%d/%s/%s", point, hit, mode, behaviour), func(t *testing.T) {
				t.Parallel()
				killedAt(t, func(h *harness) (string, bool) { return diesAtPoint(h, point, hit) }, mode, behaviour)
			})
		}
	}
}

func diesAtPoint(h *harness, point string, hit int) (session string, killed bool) {
	e := h.serveWith([]string{fmt.Sprintf("HOLDFAST_FAILPOINT=%s=%d*kill", point, hit)}).hello(nil)
	m, ok := e.Response(e.Request("session/new", object{"cwd": h.dir, "mcpServers": []any{}}))
	if !ok {
		return "", true // the session was not promised to anybody
	}
	session, _ = m.Result["sessionId"].(string)
	_, ok = e.Response(e.Request("session/prompt", editor.Prompt(session, shell("A"))))
	e.kill()
	return session, !ok
}

func killedAt(t *testing.T, dies func(*harness) (string, bool), mode, behaviour string) {
	h := newHarness(t)
	session, killed := dies(h)
	if !killed || session == "" {
		h.verify()
		return
	}
	doubts := 0
	e := comeBack(h, session, mode)
	e.Ask = doubtful(h, &doubts, editor.Approve)
	if asks(h, session) || behaviour == "approve" || behaviour == "reject" {
		behaviours[behaviour](e, session)
	}
	e.kill()

	// Whatever came before, a client that approves comes to the end.
	e = comeBack(h, session, "load")
	e.Ask = doubtful(h, &doubts, editor.Approve)
	require.Equal(t, "end_turn", e.Says(session, shell("C")))
	calls, _ := editor.ToolCalls(t, e.Log)
	for id, call := range calls {
		require.Contains(t, []any{"completed", "failed"}, call["status"], id)
	}
	e.kill()

	e = comeBack(h, session, "load")
	calls, order := editor.ToolCalls(t, e.Log)
	n := counts(h.effects())
	users := editor.Text(e.Log, "user_message_chunk")
	ran := map[string]bool{}
	for _, id := range order {
		require.Contains(t, []any{"completed", "failed"}, calls[id]["status"], id)
		for _, name := range []string{"A", "B", "C"} {
			if strings.Contains(editor.JSON(t, calls[id]["content"]), name+" %s %s") && calls[id]["status"] == "completed" {
				require.False(t, ran[name], "%s ran twice", name)
				ran[name] = true
			}
		}
	}
	for _, name := range []string{"A", "B", "C"} {
		want := 0
		if ran[name] {
			want = 1
			require.Contains(t, users, name+" %s %s")
		}
		require.Equal(t, want, n[name+" 1"], "the command of %s: %v", name, n)
	}
	require.True(t, ran["C"])
	require.Equal(t, "done", h.status(session))
	h.verify()
}

// asks reports whether the next prompt will be asked something of the old turn.
func asks(h *harness, session string) bool {
	switch h.status(session) {
	case "paused", "running":
		return true
	}
	return false
}
