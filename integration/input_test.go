//go:build unix

package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// contents is every file of a folder with what is in it.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	require.NoError(t, err)
	return out
}

const tenMistakes = `schema_version: 1
name: mistakes
channels:
  log: {reducer: apend}
  total: {reducer: sum, initial: many}
nodes:
  a: {type: exce}
  b: {type: exec, command: [ls], output: logg}
  c: {type: exec}
  d: {type: set, values: {total: "1 +"}}
edges:
  - {from: __start__, to: a}
  - {from: a, to: b}
  - {from: b, to: c}
  - {from: c, to: d}
  - {from: d, to: nowhere}
conditional_edges:
  - {from: a, condition: "nothing > 1", routes: {true: b}}
interrupt_before: [ghost]
extra: 1
`

// TestBadInputIsSaidClearlyAndNothingIsStored compares the whole folder, byte
// for byte, before and after.
func TestBadInputIsSaidClearlyAndNothingIsStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("pick.yaml", specs()[4].graph)
	h.write("broken.yaml", "schema_version: 1\nnodes:\n  a: {type: set, values: {x: \"1\"}\nedges: []\n")
	h.write("tabs.yaml", "schema_version: 1\nnodes:\n\ta: {}\n")
	h.write("ten.yaml", tenMistakes)
	// Two threads: one was asked and answered, one waits.
	h.run("run", graph, "--thread", "answered").exits(3)
	h.run("answer", "answered", "--choose", "red", "--as", "alice").exits(0)
	h.run("run", graph, "--thread", "open").exits(3)
	before := contents(t, h.dir)

	for _, tc := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"run", graph, "--set", "colour=1"}, 2, []string{`"colour"`, "color", "log"}},
		{[]string{"run", graph, "--thread", "new", "--set", "colour=1"}, 2, []string{`"colour"`, "color", "log"}},
		{[]string{"run", graph, "--set", "color=red"}, 2, []string{"red", "JSON", `'"red"'`}},
		{[]string{"run", graph, "--set", "color"}, 2, []string{"--set", "CHANNEL=JSON"}},
		{[]string{"run", graph, "--set", `color={"a":1`}, 2, []string{"--set color", "JSON"}},
		{[]string{"run", graph, "--input", "hello"}, 2, []string{"--input", "prompt"}},
		{[]string{"run", graph, "--thread", "a b"}, 2, []string{"--thread"}},
		{[]string{"run", "broken.yaml"}, 2, []string{"broken.yaml", "4:1"}},
		{[]string{"run", "tabs.yaml"}, 2, []string{"tabs.yaml", "3:"}},
		{[]string{"run", "nothing.yaml"}, 2, []string{"nothing.yaml"}},
		{[]string{"show", "nobody"}, 1, []string{"nobody", "not found"}},
		{[]string{"history", "nobody"}, 1, []string{"nobody", "not found"}},
		{[]string{"resume", "nobody"}, 1, []string{"nobody", "not found"}},
		{[]string{"cancel", "nobody"}, 1, []string{"nobody", "not found"}},
		{[]string{"answer", "nobody", "--approve"}, 1, []string{"nobody", "not found"}},
		{[]string{"show", "open@99"}, 1, []string{"open@99"}},
		{[]string{"answer", "open", "--choose", "green"}, 2, []string{"green", "red", "blue"}},
		{[]string{"answer", "open@2", "--choose", "green"}, 2, []string{"green", "red", "blue"}},
		{[]string{"answer", "open", "--approve"}, 2, []string{"approve", "red", "blue"}},
		{[]string{"answer", "open", "--value", "red"}, 2, []string{"red", "JSON"}},
		{[]string{"answer", "open", "--value", "7"}, 2, []string{"7", "red", "blue"}},
		{[]string{"answer", "open"}, 2, []string{"--approve", "--choose"}},
		{[]string{"answer", "open", "--approve", "--reject"}, 2, []string{"exactly one"}},
		{[]string{"answer", "open@1", "--choose", "red"}, 1, []string{"open@1"}},
		{[]string{"answer", "answered@2", "--choose", "blue"}, 4, []string{"already answered", "red", "alice"}},
		{[]string{"answer", "answered", "--choose", "blue"}, 4, []string{"red", "alice"}},
		{[]string{"run", graph, "--thread", "open"}, 3, []string{"paused", "answer open@2"}},
		{[]string{"frobnicate"}, 2, []string{"frobnicate"}},
		{[]string{"run", "--frobnicate"}, 2, []string{"frobnicate"}},
	} {
		r := h.run(tc.args...).exits(tc.code).says(tc.says...)
		require.NotEmpty(t, r.stderr, "%v", r)
		require.Equal(t, before, contents(t, h.dir), "something was stored: %v", r)
	}

	// A file that would be new is not made for an input that cannot be taken.
	h.db = filepath.Join(h.dir, "new.db")
	for _, args := range [][]string{
		{"run", "broken.yaml"}, {"run", graph, "--set", "color=red"}, {"show", "x"}, {"resume", "x"}, {"threads"}, {"inbox"}, {"audit", "verify"},
	} {
		r := h.run(args...)
		require.NoFileExists(t, h.db, "%v", r)
	}
	// A channel is looked for when the file is open already: it is new and empty.
	h.run("run", graph, "--set", "colour=1").exits(2)
	require.Empty(t, h.threads())
}

func TestEveryMistakeOfAGraphFileIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	graph := h.write("ten.yaml", tenMistakes)
	for _, args := range [][]string{{"run", graph}, {"graph", "check", graph}} {
		r := h.run(args...)
		require.Contains(t, []int{1, 2}, r.code)
		for _, place := range []string{
			"4:18", "5:34", "7:13", "8:42", "9:3", "10:37", "16:19", "18:27", "19:20", "20:1",
		} {
			require.Contains(t, r.all(), place, "no report at %s: %v", place, r)
		}
		for _, hint := range []string{"append", "exec", "log"} {
			require.Contains(t, r.all(), "did you mean "+hint+"?", "%v", r)
		}
	}
	require.NoFileExists(t, h.db)
}

// looks are commands that open a file.
var looks = [][]string{
	{"threads"}, {"inbox"}, {"show", "x"}, {"history", "x"}, {"run", "--thread", "x", "--input", "true"}, {"resume", "x"},
	{"answer", "x", "--approve"}, {"cancel", "x"}, {"audit", "verify"}, {"audit", "head"}, {"doctor"},
}

// TestAForeignFileIsRefusedAndLeftAsItIs: no database, a database of another
// program (also one that is just being written), one of a newer version.
func TestAForeignFileIsRefusedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	made := newHarness(t)
	made.run("run", "--thread", "x", "--input", "true").exits(3)

	for _, tc := range []struct {
		name string
		make func(path string)
		says string
	}{
		{"text", func(path string) { require.NoError(t, os.WriteFile(path, []byte("dear diary\n"), 0o600)) }, "not a database"},
		{"long-text", func(path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("all work and no play\n", 5000)), 0o600))
		}, "not a database"},
		{"other-program", func(path string) {
			db := open(t, path)
			_, err := db.Exec("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}, "not a Holdfast file"},
		{"other-program-wal", func(path string) {
			db := open(t, path)
			_, err := db.Exec("PRAGMA journal_mode = WAL; PRAGMA application_id = 77; CREATE TABLE threads (no INTEGER)")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}, "not a Holdfast file"},
		{"newer", func(path string) {
			copyFile(t, made.db, path, 0o600)
			db := open(t, path)
			_, err := db.Exec("PRAGMA user_version = 1000")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}, "newer"},
	} {
		h := newHarness(t)
		tc.make(h.db)
		before := contents(t, h.dir)
		require.Len(t, before, 1)
		for _, args := range looks {
			h.run(args...).exits(1).says(h.db, tc.says)
			require.Equal(t, before, contents(t, h.dir), "%s: the folder was changed by agent %v", tc.name, args)
		}
	}

	// A folder is no file either.
	h := newHarness(t)
	h.db = h.dir
	for _, args := range looks {
		h.run(args...).exits(1)
	}
	require.Empty(t, contents(t, h.dir))

	// A file of 0 bytes is new.
	h = newHarness(t)
	require.NoError(t, os.WriteFile(h.db, nil, 0o600))
	h.run("run", "--thread", "x", "--input", "true").exits(3)
	h.verify()
}

// TestANewFileIsForItsUserOnly also holds for the files beside it.
func TestANewFileIsForItsUserOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	// It dies with all its files around it.
	require.True(t, h.command("run", "--thread", "x", "--input", "true").at("store.commit.after", "kill").run().killed())
	entries, err := os.ReadDir(h.dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(entries), 3, "the database, its log and the lock file")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s has mode %v", e.Name(), info.Mode())
	}
}

// TestAFolderWithoutPermissionIsSaidClearly runs the program as another user,
// or, without the right to that, in a folder that nobody may write to.
func TestAFolderWithoutPermissionIsSaidClearly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	// Others must be able to come here at all.
	dir, err := os.MkdirTemp("", "holdfast-permission-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = os.Chmod(dir, 0o755)
		_ = os.RemoveAll(dir)
	})
	h.dir, h.db = dir, filepath.Join(dir, "agent.db")
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.NoError(t, os.Chmod(dir, 0o755))
	} else {
		require.NoError(t, os.Chmod(dir, 0o555))
	}
	other := func(args ...string) *result {
		c := h.command(args...)
		c.attr = as
		return c.run()
	}

	// No file, and none can be made.
	other("run", "--thread", "x", "--input", "true").exits(1).says(h.db, "permission denied")
	other("threads").exits(0)
	require.Empty(t, contents(t, dir))

	// A file that may be read, in a folder where nothing can be made.
	require.NoError(t, os.Chmod(dir, 0o755))
	h.run("run", "--thread", "x", "--input", "true").exits(3)
	require.NoError(t, os.Chmod(h.db, 0o644))
	if as == nil {
		require.NoError(t, os.Chmod(h.db, 0o444))
		require.NoError(t, os.Chmod(dir, 0o555))
	}
	before := contents(t, dir)
	for _, args := range [][]string{{"answer", "x", "--approve"}, {"resume", "x"}, {"run", "--thread", "y", "--input", "true"}} {
		other(args...).exits(1).says(h.db, "writ")
		require.Equal(t, before, contents(t, dir))
	}

	if as != nil {
		// A file that is not for this user.
		require.NoError(t, os.Chmod(h.db, 0o600))
		for _, args := range looks {
			other(args...).exits(1).says(h.db, "permission denied")
		}
		require.Equal(t, before, contents(t, dir))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(h.db, 0o600))
	h.run("answer", "x", "--approve").exits(0)
	h.verify()
}

// fill is a turn that writes 40 KiB a step, n times.
func fill(n int) string {
	return fmt.Sprintf(`
schema_version: 1
name: fill
channels: {log: {reducer: append}, n: {reducer: sum}}
nodes:
  work: {type: exec, command: %s, output: log, on_crash: ask, max_output: 65536}
  count: {type: set, values: {n: "1"}}
edges:
  - {from: __start__, to: work}
  - {from: work, to: count}
conditional_edges:
  - {from: count, condition: "n < %d", routes: {true: work, false: __end__}}
`, quoted(does("work", "${{ n }}", "head -c 40000 /dev/zero | tr '\\0' x")), n)
}
