//go:build unix

package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

// What nobody calls removes nothing: so it is the running program that is looked
// at, and not the function.
func TestARunningServerPrunes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve().hello(nil)
	approve := func(editor.Message) (any, bool) { return editor.Chosen("approve"), true }
	e.Ask = approve
	s := e.NewSession()
	for range 4 {
		require.Equal(t, "end_turn", e.Says(s, "echo "+strings.Repeat("x", 3000)))
	}
	require.Zero(t, e.leave())
	removed := func() (n int64) {
		var report struct{ Removed int64 }
		require.NoError(t, json.Unmarshal([]byte(h.run("audit", "verify", "--json").exits(0).stdout), &report))
		return report.Removed
	}
	require.Zero(t, removed())
	e = h.serve("--keep-turns", "1").hello(nil)
	for start := time.Now(); removed() == 0; {
		require.Less(t, time.Since(start), patience, "nothing was removed")
	}
	// It serves meanwhile, and what is left is whole.
	e.Ask = approve
	e.Load(s)
	require.Equal(t, "end_turn", e.Says(s, "echo after"))
	require.Contains(t, editor.Text(e.Log, "agent_message_chunk"), "after")
	require.Zero(t, e.leave())
	h.verify()
}
