//go:build unix

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/store/storetest"
)

// The tests of several processes run this test binary again, as a child that
// does what childEnv says to the file that its first argument names.
const childEnv = "HOLDFAST_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := children[role](os.Args[1:]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(args []string) error{
	"work":   childWork,
	"hold":   childHold,
	"open":   childOpen,
	"parent": childParent,
	"full":   childFull,
	"care":   childCare,
	"look":   childLook,
}

func childOf(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// child is a running one, with its lines.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: childOf(t, role, args...)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *child) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the child said nothing more: %v", c.lines.Err())
	}
	return c.lines.Text()
}

func (c *child) expect(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("the child said %q, want %q", got, want)
	}
}

func (c *child) tell(line string) { _, _ = io.WriteString(c.in, line+"\n") }

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// childTB lets a child set fail points, which are for tests.
type childTB struct{}

func (childTB) Helper()                      {}
func (childTB) Cleanup(func())               {}
func (childTB) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// childWork runs a turn, and says "ok" after each thing that it was told is
// stored. Arguments: path, fail point, action.
func childWork(args []string) error {
	failpoint.SetIn(childTB{}, args[1], args[0], args[2])
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{Program: "child"})
	if err != nil {
		return err
	}
	l, err := s.New(ctx, engine.Thread{ID: "work"})
	if err != nil {
		return err
	}
	for _, c := range workCommits() {
		var err error
		if r, ok := c.(engine.Result); ok {
			err = l.Put(ctx, r)
		} else {
			err = l.Commit(ctx, c.(*engine.Commit))
		}
		if err != nil {
			return err
		}
		fmt.Println("ok")
	}
	return errors.Join(l.Close(), s.Close())
}

func workCommits() []any {
	return []any{
		&engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1, set("x", int64(1)))}, Graph: graph("g")},
		&engine.Commit{Entries: []*engine.Entry{step(1, 1, push("log", "a"))}},
		engine.Result{Task: "b", Kind: engine.ResultTask, Value: []byte(`{}`)},
		&engine.Commit{Leave: engine.LeaseWaiting, Entries: []*engine.Entry{pause(1, 1, "a")}},
		&engine.Commit{Entries: []*engine.Entry{answer("work@3", 1, 1, engine.Running, "approve")}},
		engine.Result{Task: "c", Kind: engine.ResultTask, Value: []byte(`{}`)},
		&engine.Commit{Entries: []*engine.Entry{step(1, 2, push("log", "b"))}},
		&engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 3), engine.Done)}},
	}
}

// after what was acknowledged: head and number of results.
var workHeads = [][2]int{{0, 0}, {1, 0}, {2, 0}, {2, 1}, {3, 1}, {4, 1}, {4, 2}, {5, 0}, {6, 0}}

func TestRule2WhatWasAcknowledgedSurvivesAKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.open.migrate", "store.commit.begin", "store.commit.before", "store.commit.after", "store.put.before", "store.put.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for hit := 1; ; hit++ {
				path := filepath.Join(t.TempDir(), "agent.db")
				out, err := childOf(t, "work", path, point, fmt.Sprintf("%d*kill", hit)).Output()
				if err == nil {
					if hit == 1 {
						t.Fatal("the point was never hit")
					}
					return
				}
				if strings.Contains(string(out), "error") {
					t.Fatalf("hit %d: %s", hit, out)
				}
				acknowledged := strings.Count(string(out), "ok")
				b := setupAt(t, path)
				if b.verify().Threads == 0 {
					if acknowledged > 0 {
						t.Fatalf("hit %d: %d acknowledged, and there is nothing", hit, acknowledged)
					}
					continue
				}
				v := b.load(b.s, "work").View()
				got := [2]int{int(v.Thread.Head), len(v.Results)}
				if got != workHeads[acknowledged] && (acknowledged+1 >= len(workHeads) || got != workHeads[acknowledged+1]) {
					t.Errorf("hit %d: %d acknowledged, and there are %v", hit, acknowledged, got)
				}
				died := v.Thread.Status == engine.Running
				if died && (v.Thread.Owner == nil || v.Thread.Owner.Alive || v.Thread.Crashes != 1) || !died && v.Thread.Crashes != 0 {
					t.Errorf("hit %d: thread %+v", hit, v.Thread)
				}
				if !died {
					continue
				}
				// Somebody else goes on at once.
				l := b.load(b.s, "work")
				b.commit(l, &engine.Commit{Take: engine.TakeFree})
				b.commit(l, &engine.Commit{Entries: []*engine.Entry{last(step(1, 3), engine.Done)}, Leave: engine.LeaseFree})
				b.verify()
			}
		})
	}
}

// childHold takes a thread and does what its input says. Arguments: path,
// thread, moving or waiting.
func childHold(args []string) error {
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{Program: "child"})
	if err != nil {
		return err
	}
	l, err := s.Open(ctx, args[1])
	if err != nil {
		return err
	}
	c := &engine.Commit{Take: engine.TakeFree}
	if args[2] == "waiting" {
		c.Leave = engine.LeaseWaiting
	}
	if err := l.Commit(ctx, c); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var err error
		switch in.Text() {
		case "step":
			err = l.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, 1, push("log", "child"))}})
		case "put":
			err = l.Put(ctx, engine.Result{Task: "late", Value: []byte("1")})
		case "close":
			return s.Close()
		}
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, engine.ErrConflict):
			fmt.Println("conflict")
		default:
			fmt.Println(err)
		}
	}
	return nil
}

func TestALivingOwnerIsNamedAndADeadOneReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.begin("x").Close(); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "hold", b.path, "x", "moving")
	c.expect("ready")
	l := b.load(b.s, "x")
	if o := l.View().Thread.Owner; o == nil || !o.Alive || o.Self || o.PID != c.cmd.Process.Pid || o.Program != "child" {
		t.Errorf("owner: %+v", o)
	}
	err := l.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree})
	want(t, err, engine.ErrBusy)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(c.cmd.Process.Pid)) {
		t.Errorf("the error does not name the process: %v", err)
	}
	want(t, l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrBusy)
	c.kill()
	if err := l.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := l.View(); v.Thread.Crashes != 1 || v.Thread.Owner == nil || v.Thread.Owner.Alive {
		t.Errorf("thread: %+v", v.Thread)
	}
	// Dead in the middle of a turn is not at rest.
	want(t, l.Commit(t.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrBusy)
	b.commit(l, &engine.Commit{Take: engine.TakeFree})
	if v := l.View(); v.Thread.Crashes != 1 || v.Thread.Fence != 3 {
		t.Errorf("thread: %+v", v.Thread)
	}
	if ids, err := ownerFiles(b.s.Path()); err != nil || len(ids) != 1 || ids[0] != b.s.owner.id {
		t.Errorf("lock files: %v, %v", ids, err)
	}
}

func TestCrashesCountOnOneBaseAndOnlyWhileMoving(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.begin("x").Close(); err != nil {
		t.Fatal(err)
	}
	crash := func(lease string) int {
		c := startChild(t, "hold", b.path, "x", lease)
		c.expect("ready")
		c.kill()
		return b.load(b.s, "x").View().Thread.Crashes
	}
	for i, step := range []struct {
		lease string
		want  int
	}{{"moving", 1}, {"moving", 2}, {"waiting", 2}, {"waiting", 2}, {"moving", 3}, {"moving", 4}} {
		if got := crash(step.lease); got != step.want {
			t.Errorf("crash %d (%s): %d are counted, want %d", i, step.lease, got, step.want)
		}
	}
	c := startChild(t, "hold", b.path, "x", "moving")
	c.expect("ready")
	c.tell("step") // a new base
	c.expect("done")
	c.kill()
	if got := b.load(b.s, "x").View().Thread.Crashes; got != 1 {
		t.Errorf("on the new base %d are counted", got)
	}
	// Who ends in order has not crashed.
	c = startChild(t, "hold", b.path, "x", "moving")
	c.expect("ready")
	c.tell("close")
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if v := b.load(b.s, "x").View().Thread; v.Crashes != 1 || v.Owner != nil {
		t.Errorf("thread: %+v", v)
	}
	b.verify()
}

func TestTheFenceRefusesAnOwnerThatWasTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.begin("x").Close(); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "hold", b.path, "x", "moving")
	c.expect("ready")
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := b.load(b.s, "x")
	want(t, l.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrBusy)
	b.commit(l, &engine.Commit{Take: engine.TakeOver})
	if n := l.View().Thread.Crashes; n != 0 {
		t.Errorf("a living owner was counted as %d crashes", n)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"step", "put"} {
		c.tell(what)
		c.expect("conflict")
	}
	c.tell("close") // which does not give away what is not its own
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
	b.verify()
}

func TestAWaitingOwnerIsAtRestAndKeepsItsLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	b.commit(l, &engine.Commit{Leave: engine.LeaseWaiting, Entries: []*engine.Entry{pause(1, 0, "a")}})
	other := b.load(b.open(), "x")
	if v := other.View().Thread; v.Lease != engine.LeaseWaiting || v.Owner == nil || v.Owner.Self {
		t.Errorf("thread: %+v", v)
	}
	want(t, other.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrBusy)
	b.commit(other, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{answer("x@2", 1, 0, engine.Running, "approve")}})
	if other.View().Thread.Owner == nil {
		t.Error("an answer from elsewhere took the lease away")
	}
	// The holder has to read the answer before it goes on.
	want(t, l.Commit(t.Context(), &engine.Commit{}), engine.ErrConflict)
	if err := l.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.commit(l, &engine.Commit{})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
	b.verify()
}

func TestTwoHandlesOfOneProcessExcludeEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	same := b.load(b.s, "x")
	err := same.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree})
	var busy *engine.BusyError
	if !errors.As(err, &busy) || !busy.Owner.Self {
		t.Errorf("same store: %v", err)
	}
	other := b.load(b.open(), "x")
	err = other.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree})
	if !errors.As(err, &busy) || busy.Owner.Self || !busy.Owner.Alive {
		t.Errorf("other store: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b.commit(other, &engine.Commit{Take: engine.TakeFree})
}

// childParent takes a thread, starts a process that outlives it, and says its
// number.
func childParent(args []string) error {
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{})
	if err != nil {
		return err
	}
	l, err := s.Open(ctx, "x")
	if err != nil {
		return err
	}
	if err := l.Commit(ctx, &engine.Commit{Take: engine.TakeFree}); err != nil {
		return err
	}
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	select {}
}

func TestACommandThatOutlivesItsAgentDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("no sleep program: ", err)
	}
	b := setup(t)
	if err := b.begin("x").Close(); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "parent", b.path)
	pid, err := strconv.Atoi(c.line())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	_ = c.cmd.Process.Kill()
	_, _ = c.cmd.Process.Wait()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the command is gone too: %v", err)
	}
	if o := b.load(b.s, "x").View().Thread.Owner; o == nil || o.Alive {
		t.Errorf("owner: %+v", o)
	}
}

func init() {
	children["conformance"] = func(args []string) error {
		return storetest.Child(func(place string) (storetest.Store, error) { return Open(context.Background(), place, Options{}) }, args)
	}
	conformanceChild = func(t testing.TB, args ...string) *exec.Cmd {
		cmd := childOf(t, "conformance", args...)
		cmd.Stdin = nil
		return cmd
	}
}
