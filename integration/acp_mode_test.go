//go:build unix

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

// What an editor allowed is told by the terminal as it is: by whom, and where.
func TestTheTerminalTellsWhatAModeAndADecisionForAlwaysApproved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	e.Ask = func(message) (any, bool) { return editor.Chosen("approve_always"), true }
	require.Equal(t, "end_turn", e.Says(s, "echo one"))
	require.Equal(t, "end_turn", e.Says(s, "echo two"))
	e.Ask = func(message) (any, bool) { return editor.Dismissed(), true }
	require.Equal(t, "end_turn", e.Says(s, "/permissions forget all"))
	require.Equal(t, "end_turn", e.Says(s, "echo three"))
	e.Call("session/set_mode", object{"sessionId": s, "modeId": "auto-approve"})
	require.Zero(t, e.leave())

	shows := func(pattern string, args ...string) {
		t.Helper()
		r := h.run(args...)
		require.Zero(t, r.code, r.stderr)
		require.Regexp(t, pattern, r.stdout)
	}
	require.Equal(t, "paused", h.status(s))
	shows(`(?m)^  mode auto-approve: the next prompt in an editor approves it$`, "inbox")
	shows(`"mode":"auto-approve"`, "inbox", "--json")
	shows(`(?m)^mode +auto-approve, set by \S+ \(editor 7\) 20`, "show", s)
	shows(`"mode":"auto-approve"`, "threads", "--json")

	// Another process obeys the mode that was stored.
	e = h.serve().hello(nil)
	e.Ask = func(m message) (any, bool) { t.Errorf("asked: %s", m.Line); return editor.Dismissed(), true }
	require.Equal(t, "end_turn", e.Says(s, "echo four"))
	require.Equal(t, "three\n\nfour\n\n", editor.Text(e.Log, "agent_message_chunk"))
	require.Zero(t, e.leave())

	shows(`(?m)^3 +answer .* via acp .*\n(.*\n)*8 +answer .* via always \(`+s+`@2\)(.*\n)*13 +answer .* via mode `, "history", s)
	shows(`"kind":"answer".*"via":"always","reason":".*","os_user":".*","client":"editor 7","origin":"`+s+`@2"`, "history", s, "--json")
	shows(`(?m)^answer +approve to `+s+`@7, by \S+ via always \(`+s+`@2\)$`, "show", s+"@8")
	shows(`(?m)^reason +mode auto-approve, set 20`, "show", s+"@13")
	h.verify()
}
