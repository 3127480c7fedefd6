//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFullDiskFailsClearlyAndNothingIsHalfDone lets the disk run full in the
// middle of a turn, in the two ways in which a process meets that, makes room,
// and goes on. (max_page_count, the third way, is a setting of a connection:
// the store's own tests set it.)
func TestAFullDiskFailsClearlyAndNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	const steps = 12

	// check is the same for both: full is the call on the full disk, and room
	// makes room for the next ones.
	check := func(t *testing.T, h *harness, full *result, room func()) {
		t.Helper()
		require.Equal(t, 1, full.code, "%v", full)
		full.exits(1).says(h.db)
		require.Regexp(t, `no space left|full|too large|input/output`, full.stderr, "%v", full)
		room()
		h.verify()
		before := h.history(thread)
		require.NotEmpty(t, before, "the turn began before the disk was full")
		require.Equal(t, "running", before[len(before)-1].Status)
		finished := 0
		for _, e := range before {
			if e.Kind == "step" && e.Tasks[0] == "work" {
				finished++
			}
		}
		require.Less(t, finished, steps)

		// At once, and nothing again that is done.
		r := h.run("resume", thread)
		for n := 0; r.code == 3 && n < 2; n++ {
			q := h.inbox()
			require.Len(t, q, 1)
			require.True(t, q[0].doubt())
			happened := counts(h.effects())["work "+string(rune('0'+finished))] > 0
			choose := "run_again"
			if happened {
				choose = "done"
			}
			r = h.run("answer", q[0].CheckpointID, "--choose", choose)
		}
		r.exits(0)
		done := counts(h.effects())
		require.Len(t, done, steps)
		for key, n := range done {
			require.Equal(t, 1, n, "the effect %q", key)
		}
		log := h.history(thread)
		require.Equal(t, before, log[:len(before)])
		require.Equal(t, "done", h.status(thread))
		h.verify()
	}

	t.Run("RLIMIT_FSIZE", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		graph := h.write("fill.yaml", fill(steps))
		// 400 blocks of 512 bytes: no file of this process may be larger.
		full := h.command("run", graph, "--thread", thread).under(`ulimit -f 400 && exec "$@"`).run()
		check(t, h, full, func() {})
	})

	t.Run("tmpfs", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		disk := filepath.Join(h.dir, "disk")
		require.NoError(t, os.Mkdir(disk, 0o755))
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=400k"); err != nil {
			t.Skipf("a file system of its own cannot be mounted here: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, 0)) })
		h.db = filepath.Join(disk, "agent.db")
		graph := h.write("fill.yaml", fill(steps))
		full := h.run("run", graph, "--thread", thread)
		check(t, h, full, func() {
			require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
		})
	})
}

// TestAFullDiskTakesNoAnswer: an answer that cannot be stored is not accepted,
// and nothing is done on its word.
func TestAFullDiskTakesNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("gated.yaml", gated("", ""))
	h.run("run", graph, "--thread", thread).exits(3)
	before := h.history(thread)
	info, err := os.Stat(h.db)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(16<<10))
	for _, blocks := range []string{"0", "1", "8", "16"} {
		r := h.command("answer", thread, "--approve").under(`ulimit -f ` + blocks + ` && exec "$@"`).run()
		require.NotContains(t, []int{0, 3}, r.code, "it was accepted: %v", r)
		require.NotContains(t, r.stderr, "goroutine ", "%v", r)
		require.Empty(t, h.effects(), "a command ran on an answer that was not stored")
		require.Equal(t, before, h.history(thread))
		require.Equal(t, "paused", h.status(thread))
		h.verify()
	}
	h.run("answer", thread, "--approve").exits(0)
	require.Equal(t, map[string]int{"deploy 0": 1}, counts(h.effects()))
	h.verify()
}
