//go:build linux

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal, at which a person sits who is this test.
type terminal struct {
	t     *testing.T
	ours  *os.File
	slave *os.File
	seen  strings.Builder
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	raw, err := ours.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	return &terminal{t: t, ours: ours, slave: slave}
}

// shows reads the screen until text is on it.
func (tt *terminal) shows(text string) {
	tt.t.Helper()
	require.NoError(tt.t, tt.ours.SetReadDeadline(time.Now().Add(patience)))
	buffer := make([]byte, 4096)
	for !strings.Contains(tt.seen.String(), text) {
		n, err := tt.ours.Read(buffer)
		require.NoError(tt.t, err, "the screen never showed %q:\n%s", text, tt.seen.String())
		tt.seen.Write(buffer[:n])
	}
}

func (tt *terminal) types(line string) {
	tt.t.Helper()
	_, err := tt.ours.WriteString(line + "\n")
	require.NoError(tt.t, err)
}

// startAt starts a command at a terminal.
func (c *command) startAt(tt *terminal) *process {
	c.terminal = tt.slave
	c.env = append(c.env, "TERM=dumb")
	return c.start()
}

const prompt = "answer (a or r):"

// TestAnOpenDialogLosesNothing: a question that waits in a terminal is in the
// file. Its process may be answered, overtaken by another answer, left or
// killed.
func TestAnOpenDialogLosesNothing(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*harness, *terminal, *process, string) {
		t.Helper()
		h, tt := newHarness(t), newTerminal(t)
		graph := h.write("gated.yaml", gated("", ""))
		p := h.command("run", graph, "--thread", thread).startAt(tt)
		tt.shows(prompt)
		q := h.inbox()
		require.Len(t, q, 1)
		require.Equal(t, "paused", h.status(thread))
		return h, tt, p, q[0].CheckpointID
	}
	end := func(t *testing.T, h *harness) {
		t.Helper()
		require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
		require.Equal(t, "done", h.status(thread))
		require.Equal(t, map[string]int{"input": 1, "pause": 1, "answer": 1, "step": 2}, kinds(h.history(thread)))
		h.verify()
	}
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		h, tt, p, _ := begin(t)
		tt.types("a")
		p.wait().exits(0)
		end(t, h)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		h, _, p, id := begin(t)
		p.kill()
		require.True(t, p.wait().killed())
		h.verify()
		require.Equal(t, id, h.inbox()[0].CheckpointID)
		h.run("answer", id, "--approve").exits(0)
		end(t, h)
	})
	t.Run("answered-elsewhere", func(t *testing.T) {
		t.Parallel()
		h, tt, p, id := begin(t)
		h.run("answer", id, "--approve", "--as", "alice").exits(0).says("another process goes on")
		tt.shows("withdrawn")
		p.wait().exits(0) // and it is the waiting process that goes on
		end(t, h)
	})
	t.Run("answered-elsewhere-and-killed", func(t *testing.T) {
		t.Parallel()
		h, _, p, id := begin(t)
		// Stopped, so that it cannot take the answer in before it is killed.
		p.signal(syscall.SIGSTOP)
		h.run("answer", id, "--approve", "--as", "alice").exits(0)
		require.Empty(t, h.effects())
		p.kill()
		require.True(t, p.wait().killed())
		h.run("answer", id, "--reject", "--as", "bob").exits(4).says("alice")
		h.run("resume", thread).exits(0)
		end(t, h)
	})
	t.Run("left", func(t *testing.T) {
		t.Parallel()
		h, _, p, id := begin(t)
		p.signal(syscall.SIGINT)
		p.wait().exits(3)
		require.Equal(t, map[string]int{"input": 1, "pause": 1}, kinds(h.history(thread)), "to leave is not logged")
		h.run("answer", id, "--approve").exits(0)
		end(t, h)
	})
}

// TestThePlugOfTheReadme plays the part of README.md that needs a terminal: a
// turn that waits is killed, answered from elsewhere, and goes on.
func TestThePlugOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	require.NoError(t, err)
	said := func(line string) []string {
		require.Contains(t, string(text), "\n$ agent "+line+"\n", "README.md says something else than this test plays")
		return strings.Fields(line)
	}
	h, tt := newHarness(t), newTerminal(t)
	require.NoError(t, os.CopyFS(filepath.Join(h.dir, "examples"), os.DirFS(filepath.Join(moduleRoot, "examples"))))

	p := h.command(said("run examples/release/release.yaml --thread deploy-42 --input v1.2.0")...).startAt(tt)
	tt.shows(prompt)
	p.kill()
	require.True(t, p.wait().killed())
	h.run(said("inbox")...).exits(0).says("deploy-42")
	h.run(said("answer deploy-42 --approve")...).exits(0).says("deployed v1.2.0")

	deployed, err := os.ReadFile(filepath.Join(h.dir, "deployed.txt"))
	require.NoError(t, err)
	require.Equal(t, "v1.2.0\n", string(deployed))
	// Nothing of what was done is done again.
	require.Equal(t, map[string]int{"input": 1, "pause": 1, "answer": 1, "step": 4}, kinds(h.history("deploy-42")))
	h.run(said("audit verify")...).exits(0)
}
