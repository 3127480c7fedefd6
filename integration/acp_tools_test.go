//go:build unix

package integration

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/toolserver"
)

// Whatever ends the agent ends the tool servers of its sessions: also kill -9, where
// the system can do that.
func TestToolServersEndWithTheProgram(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*served){
		"the end of the input": func(e *served) { require.Zero(e.h.t, e.leave()) },
		"SIGTERM": func(e *served) {
			require.NoError(e.h.t, e.cmd.Process.Signal(syscall.SIGTERM))
			require.Zero(e.h.t, e.wait())
		},
	}
	if runtime.GOOS == "linux" {
		ends["kill -9"] = (*served).kill
	}
	for name, end := range ends {
		h := newHarness(t)
		e := h.serve().hello(nil)
		mark := h.fifo("pid-" + strconv.Itoa(len(name)))
		server := func(mode string) object {
			return object{"name": mode, "command": toolserver.Command(), "args": []any{}, "env": []any{
				object{"name": toolserver.Variable, "value": mode}, object{"name": "PIDFILE", "value": mark.path},
			}}
		}
		// One that hangs does not even notice the end of its input.
		s, _ := e.Call("session/new", object{"cwd": h.dir, "mcpServers": []any{server(toolserver.Hang)}})["sessionId"].(string)
		pid, err := strconv.Atoi(strings.TrimSpace(mark.read()))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, 0), "it lives")
		require.Equal(t, "end_turn", e.Says(s, "echo the default agent needs no tools"))
		end(e)
		requireEnded(t, name, pid)
		h.verify()
	}
}

// requireEnded waits for the end of a process that is being killed.
func requireEnded(t *testing.T, why string, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		// Nobody may be there to bury it.
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	require.FailNow(t, "a tool server lives on", why)
}
