//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

// childOpen opens a file, and says the error.
func childOpen(args []string) error {
	s, err := Open(context.Background(), args[0], Options{})
	if err != nil {
		for name, kind := range map[string]error{"access": ErrAccess, "foreign": ErrForeign, "not database": ErrNotDatabase} {
			if errors.Is(err, kind) {
				fmt.Println(name)
			}
		}
		fmt.Println(err)
		return nil
	}
	fmt.Println("opened")
	return s.Close()
}

func TestRule6AFileThatMayNotBeReadOrWrittenIsAClearError(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	exe, dir := childProgram(t)
	for name, modes := range map[string][2]os.FileMode{
		"unreadable file": {0o777, 0o000}, "read-only file": {0o777, 0o444}, "read-only folder": {0o555, 0o666}, "closed folder": {0o700, 0o666},
	} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "agent.db")
		b := setupAt(t, path)
		b.begin("x")
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		for p, mode := range map[string]os.FileMode{path: modes[1], folder: modes[0]} {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
		before := picture(t, folder)
		cmd := exec.CommandContext(t.Context(), exe, path)
		cmd.Env = append(os.Environ(), childEnv+"=open")
		asNobody(cmd)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "access\n") || !strings.Contains(string(out), path) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if after := picture(t, folder); after != before {
			t.Errorf("%s: changed from\n%s\nto\n%s", name, before, after)
		}
	}
}

// childFull commits until the file may not grow any more, then says what
// became of it, then goes on with room again. Arguments: path.
func childFull(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{})
	if err != nil {
		return err
	}
	l, err := s.New(ctx, engine.Thread{ID: "x"})
	if err != nil {
		return err
	}
	if err := l.Commit(ctx, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}}); err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	small := limit
	small.Cur = 300 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	big := strings.Repeat("x", 20<<10)
	n := int64(0)
	for {
		err = l.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, n+1, set("x", big))}})
		if err != nil {
			break
		}
		n++
	}
	if !errors.Is(err, ErrIO) && !errors.Is(err, ErrFull) {
		return err
	}
	v, err := s.At(ctx, "x", 0)
	if err != nil {
		return fmt.Errorf("reading on a full disk: %w", err)
	}
	if v.Thread.Head != n+1 {
		return fmt.Errorf("head is %d after %d steps", v.Thread.Head, n)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := l.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, n+1, set("x", big))}}); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	fmt.Println("steps", n+1)
	return errors.Join(l.Close(), s.Close())
}

func TestAFullDiskIsAnErrorAndTheStoreGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.db")
	out, err := childOf(t, "full", path).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := setupAt(t, path)
	if r := b.verify(); fmt.Sprintf("steps %d\n", r.Entries-1) != string(out) {
		t.Errorf("the child said %q, and there are %d entries", out, r.Entries)
	}
}

func TestAFileThatMayNotGrowIsFullAndNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	if _, err := b.s.write.conn.sql.ExecContext(t.Context(), `PRAGMA max_page_count = 60`); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 20<<10)
	n := int64(0)
	var err error
	for ; err == nil; n++ {
		c := &engine.Commit{Entries: []*engine.Entry{step(1, n+1, set("x", big))}}
		if n%2 == 1 { // both ways to commit
			c.Title = fmt.Sprint(n)
		}
		err = l.Commit(t.Context(), c)
	}
	want(t, err, ErrFull)
	if v := b.load(b.s, "x").View(); v.Thread.Head != n {
		t.Errorf("head %d after %d steps", v.Thread.Head, n-1)
	}
	// The connection was dropped, and with it the limit: there is room again.
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, set("x", big))}})
	b.verify()
}

// childProgram is this test binary in a folder where another user gets at it:
// the test's own are root's.
func childProgram(t *testing.T) (exe, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	exe = filepath.Join(dir, "child")
	if err := os.WriteFile(exe, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return exe, dir
}

func asNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// childLook looks at a file, as a user who may not write.
func childLook(args []string) error {
	s, err := Look(context.Background(), args[0], Options{})
	if err != nil {
		return err
	}
	list, err := s.Threads(context.Background(), Filter{})
	if err == nil {
		_, err = s.Verify(context.Background(), "")
	}
	fmt.Println("threads", len(list))
	return errors.Join(err, s.Close())
}

func TestAFileOfSomebodyElseCanBeLookedAt(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	exe, dir := childProgram(t)
	for name, mode := range map[string]os.FileMode{"folder": 0o555, "open": 0o755} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		b := setupAt(t, filepath.Join(folder, "agent.db"))
		b.begin("x")
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		for p, mode := range map[string]os.FileMode{b.path: 0o444, folder: mode} {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
		before := picture(t, folder)
		cmd := exec.CommandContext(t.Context(), exe, b.path)
		cmd.Env = append(os.Environ(), childEnv+"=look")
		asNobody(cmd)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "threads 1\n" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if after := picture(t, folder); after != before {
			t.Errorf("%s: changed from\n%s\nto\n%s", name, before, after)
		}
	}
}
