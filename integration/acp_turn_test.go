//go:build unix

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

func TestASessionIsApprovedRunAndReplayedUnderTheSameIds(t *testing.T) { // acp-cases 34
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	require.Equal(t, "end_turn", e.Says(s, "echo one; printf 'A 1 %s\\n' $$ >> effects"))
	live, order := editor.ToolCalls(t, e.Log)
	require.Len(t, order, 1)
	require.Equal(t, "completed", live[order[0]]["status"])
	require.Equal(t, "one\n\n", editor.Text(e.Log, "agent_message_chunk"))
	require.Zero(t, e.leave())

	e = h.serve().hello(nil)
	replay, again := editor.ToolCalls(t, e.Load(s))
	require.Equal(t, order, again, "the ids of live and replay")
	for _, field := range []string{"status", "title", "kind", "rawInput", "rawOutput", "content"} {
		require.Equal(t, live[order[0]][field], replay[order[0]][field], field)
	}
	require.Equal(t, "one\n\n", editor.Text(e.Log, "agent_message_chunk"))
	require.Contains(t, editor.Text(e.Log, "user_message_chunk"), "echo one")
	require.Zero(t, e.leave())
	require.Equal(t, 1, counts(h.effects())["A 1"])
	h.verify()
}

// acp-cases 18, 26: a rejection is announced, denied and told.
func TestARejectedCommandDoesNotRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	e.Ask = editor.Reject
	require.Equal(t, "end_turn", e.Says(s, "printf 'A 1 %s\\n' $$ >> effects"))
	calls, order := editor.ToolCalls(t, e.Log)
	require.Equal(t, "failed", calls[order[0]]["status"])
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "Rejected")
	require.Empty(t, h.effects())
	require.Equal(t, "rejected", h.status(s))
	e.Ask = editor.Approve
	require.Equal(t, "end_turn", e.Says(s, "echo two"))
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "two")
}

// acp-cases 13, 14, 3, 12: a cancel while a permission is open that is never
// answered ends the prompt; the question stays and is offered again.
func TestACancelWithAnOpenDialogLeavesTheQuestionOpen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	s := e.NewSession()
	id := e.Request("session/prompt", editor.Prompt(s, "printf 'A 1 %s\\n' $$ >> effects; echo ran"))
	permission := e.Until("session/request_permission")
	e.Notify("session/cancel", object{"sessionId": s})
	m, _ := e.Response(id)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	withdrawn := false
	for _, line := range e.Log {
		if line.Method == "$/cancel_request" {
			withdrawn = true
			require.Equal(t, string(permission.ID), strings.TrimSpace(editor.JSON(t, line.Params["requestId"])))
		}
	}
	require.True(t, withdrawn)
	calls, order := editor.ToolCalls(t, e.Log)
	require.Equal(t, "failed", calls[order[0]]["status"])
	require.Equal(t, "paused", h.status(s))
	e.Respond(permission, editor.Chosen("approve")) // late: nobody waits for it
	require.Equal(t, "end_turn", e.Says(s, "echo second"))
	calls, order = editor.ToolCalls(t, e.Log)
	require.Len(t, order, 2)
	require.Equal(t, "completed", calls[order[0]]["status"])
	require.Equal(t, "completed", calls[order[1]]["status"])
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "ran\n")
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "second")
	require.Equal(t, 1, counts(h.effects())["A 1"])
}
