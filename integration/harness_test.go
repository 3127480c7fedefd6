//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/toolserver"
)

// patience is how long a process may take before a test says that it hangs. It
// bounds failures only: no test that passes waits for it.
const patience = 60 * time.Second

var (
	program    string // the built agent
	moduleRoot string
)

func TestMain(m *testing.M) {
	toolserver.Main()
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "holdfast-integration-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// Another user runs the program in one of the tests.
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	if moduleRoot, err = filepath.Abs(".."); err != nil {
		return 0, err
	}
	program = filepath.Join(dir, "agent")
	cmd := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./cmd/agent")
	cmd.Dir = moduleRoot
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// harness is one test's folder with a database in it.
type harness struct {
	t   *testing.T
	dir string // where commands run, and where they leave their effects
	db  string
	bin string
	env []string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	return &harness{t: t, dir: dir, db: filepath.Join(dir, "agent.db"), bin: program}
}

// write makes a file in the folder.
func (h *harness) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// command is a call of the program that was not made yet.
type command struct {
	h    *harness
	argv []string
	args []string // without the program and its wrapper, for messages
	env  []string
	dir  string
	attr *syscall.SysProcAttr
	// terminal is stdin and stderr, if somebody sits there.
	terminal *os.File
}

func (h *harness) command(args ...string) *command {
	return &command{h: h, argv: append([]string{h.bin}, args...), args: args, dir: h.dir}
}

// at makes a process do something at a fail point, such as 2*kill.
func (c *command) at(point, action string) *command {
	c.env = append(c.env, "HOLDFAST_FAILPOINT="+point+"="+action)
	return c
}

// under runs the program by a shell line, in which "$@" is the program with its
// arguments.
func (c *command) under(line string) *command {
	c.argv = append([]string{"sh", "-c", line, "sh"}, c.argv...)
	return c
}

// result is how a process ended.
type result struct {
	t      *testing.T
	args   []string
	code   int // -1: a signal ended it
	signal syscall.Signal
	pid    int
	stdout string
	stderr string
	took   time.Duration
}

func (r *result) String() string {
	end := fmt.Sprintf("exit %d", r.code)
	if r.code < 0 {
		end = r.signal.String()
	}
	return fmt.Sprintf("agent %s: %s\n--- stdout\n%s--- stderr\n%s---", strings.Join(r.args, " "), end, r.stdout, r.stderr)
}

// all is everything that it said.
func (r *result) all() string { return r.stdout + r.stderr }

// lastLine is the last line of stderr.
func (r *result) lastLine() string {
	text := strings.TrimRight(r.stderr, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (r *result) killed() bool { return r.code < 0 && r.signal == syscall.SIGKILL }

// exits checks the exit code, and that nobody was shown a stack trace.
func (r *result) exits(code int) *result {
	r.t.Helper()
	require.Equal(r.t, code, r.code, "%v", r)
	require.NotContains(r.t, r.all(), "goroutine ", "a stack trace: %v", r)
	return r
}

// says checks that all of it is in what the process wrote.
func (r *result) says(words ...string) *result {
	r.t.Helper()
	for _, w := range words {
		require.Contains(r.t, r.all(), w, "%v", r)
	}
	return r
}

// process is a call that is under way.
type process struct {
	c              *command
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	began          time.Time
	ended          chan struct{}
	result         *result
}

func (c *command) start() *process {
	c.h.t.Helper()
	p := &process{c: c, ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.cmd = exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append(cleanEnv(), "HOLDFAST_DB="+c.h.db)
	p.cmd.Env = append(append(p.cmd.Env, c.h.env...), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if c.terminal != nil {
		p.cmd.Stdin, p.cmd.Stderr = c.terminal, c.terminal
	}
	p.cmd.SysProcAttr = c.attr
	// SIGQUIT makes a Go program say where it hangs.
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGQUIT) }
	p.cmd.WaitDelay = 5 * time.Second
	p.began = time.Now()
	require.NoError(c.h.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		defer cancel()
		err := p.cmd.Wait()
		r := &result{t: c.h.t, args: c.args, pid: p.cmd.Process.Pid, took: time.Since(p.began), stdout: p.stdout.String(), stderr: p.stderr.String()}
		r.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			r.signal = status.Signal()
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.stderr += fmt.Sprintf("\n(it did not end within %v: %v)\n", patience, err)
		}
		p.result = r
	}()
	c.h.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.c.h.t.Helper()
	require.NoError(p.c.h.t, p.cmd.Process.Signal(s))
}

// kill is kill -9, at once. A process that has ended is no error.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) wait() *result {
	<-p.ended
	return p.result
}

func (c *command) run() *result {
	c.h.t.Helper()
	return c.start().wait()
}

func (h *harness) run(args ...string) *result {
	h.t.Helper()
	return h.command(args...).run()
}

// cleanEnv is the environment without what would change the program.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "XDG_DATA_HOME=") {
			env = append(env, kv)
		}
	}
	return env
}

// appears waits until another process has created a file, which is how the
// fail point action pause says that it is there. It is the one place that looks
// again and again: the program offers nothing to wait for, as it must not wait
// for its tests, and watching a folder is different on every system.
func (h *harness) appears(path string, p *process) {
	h.t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-p.ended:
			require.FailNow(h.t, "the process ended before it came to its fail point", "%v", p.result)
		case <-look.C:
		}
	}
}

// fifo is a named pipe by which a command of a turn says that it is there, or
// waits to be let go on.
type fifo struct {
	h    *harness
	path string
	file *os.File
	in   *bufio.Reader
}

func (h *harness) fifo(name string) *fifo {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, syscall.Mkfifo(path, 0o600))
	// For reading and writing: then neither end waits for the other to open it.
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = file.Close() })
	return &fifo{h: h, path: path, file: file, in: bufio.NewReader(file)}
}

// read gives the next line that somebody wrote.
func (f *fifo) read() string {
	f.h.t.Helper()
	require.NoError(f.h.t, f.file.SetReadDeadline(time.Now().Add(patience)))
	line, err := f.in.ReadString('\n')
	require.NoError(f.h.t, err, "nobody wrote to %s", filepath.Base(f.path))
	return strings.TrimSuffix(line, "\n")
}

func (f *fifo) write(line string) {
	f.h.t.Helper()
	_, err := f.file.WriteString(line + "\n")
	require.NoError(f.h.t, err)
}

// question is an open question as inbox --json and show --json give it.
type question struct {
	Kind         string          `json:"kind"`
	Node         string          `json:"node"`
	Message      string          `json:"message"`
	ThreadID     string          `json:"thread_id"`
	CheckpointID string          `json:"checkpoint_id"`
	AskingNode   string          `json:"asking_node"`
	Choices      []choice        `json:"choices"`
	Data         json.RawMessage `json:"data"`
}

type choice struct {
	ID string `json:"id"`
}

// doubt reports whether it asks if an effect happened.
func (q question) doubt() bool {
	for _, c := range q.Choices {
		if c.ID == "run_again" {
			return true
		}
	}
	return false
}

// shown is a thread as show --json gives it.
type shown struct {
	ThreadID  string         `json:"thread_id"`
	Status    string         `json:"status"`
	Graph     string         `json:"graph"`
	Turn      int            `json:"turn"`
	Head      int            `json:"head"`
	State     map[string]any `json:"state"`
	Next      []string       `json:"next"`
	Questions []question     `json:"questions"`
}

// entry is a line of history --json.
type entry struct {
	Seq    int      `json:"seq"`
	Kind   string   `json:"kind"`
	Turn   int      `json:"turn"`
	Step   int      `json:"step"`
	Status string   `json:"status"`
	Tasks  []string `json:"tasks"`
	Next   []string `json:"next"`
	Actor  string   `json:"actor"`
	At     string   `json:"at"`
}

// lines decodes one JSON value a line.
func lines[T any](r *result) []T {
	r.t.Helper()
	var out []T
	for _, line := range strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n") {
		if line == "" {
			continue
		}
		var v T
		require.NoError(r.t, json.Unmarshal([]byte(line), &v), "%v", r)
		out = append(out, v)
	}
	return out
}

// show gives a thread.
func (h *harness) show(thread string) *shown {
	h.t.Helper()
	return lines[*shown](h.run("show", thread, "--json").exits(0))[0]
}

// history gives a thread's log, nothing if there is no such thread.
func (h *harness) history(thread string) []entry {
	h.t.Helper()
	r := h.run("history", thread, "--json")
	if r.code == 1 && (strings.Contains(r.stderr, "not found") || strings.Contains(r.stderr, "no database")) {
		return nil
	}
	return lines[entry](r.exits(0))
}

func (h *harness) inbox() []question {
	h.t.Helper()
	return lines[question](h.run("inbox", "--json").exits(0))
}

func (h *harness) threads() []shown {
	h.t.Helper()
	return lines[shown](h.run("threads", "--json").exits(0))
}

// status is the thread's in the list of threads.
func (h *harness) status(thread string) string {
	h.t.Helper()
	for _, t := range h.threads() {
		if t.ThreadID == thread {
			return t.Status
		}
	}
	return "there is no such thread"
}

// verify checks that the audit holds, of whatever there is.
func (h *harness) verify() {
	h.t.Helper()
	if _, err := os.Stat(h.db); errors.Is(err, fs.ErrNotExist) {
		return // its process died before it made the file
	}
	r := h.run("audit", "verify")
	if r.code == 1 && strings.Contains(r.stderr, "no database at") {
		return // or before it put anything into it
	}
	r.exits(0)
}

// kinds counts the entries of each kind.
func kinds(log []entry) map[string]int {
	n := map[string]int{}
	for _, e := range log {
		n[e.Kind]++
	}
	return n
}

// effect is one line of the file that the commands of a turn append to: which
// node, in which round of its loop, and the process that wrote it.
type effect struct{ node, round, pid string }

func (e effect) key() string { return e.node + " " + e.round }

// effects reads what the commands of this folder did to the world.
func (h *harness) effects() []effect {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "effects"))
	if len(text) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return nil // nobody came as far, or was killed before the line
	}
	require.NoError(h.t, err)
	var out []effect
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		f := strings.Fields(line)
		require.Len(h.t, f, 3, "a line of effects: %q", line)
		out = append(out, effect{f[0], f[1], f[2]})
	}
	return out
}

// counts counts the effects of each node and round.
func counts(effects []effect) map[string]int {
	n := map[string]int{}
	for _, e := range effects {
		n[e.key()]++
	}
	return n
}

// does is a shell line that leaves one effect, by one append of one line, and
// prints the name of its node. More of the line follows before the print.
func does(node, round, more string) string {
	if more != "" {
		more += "; "
	}
	return fmt.Sprintf(`printf '%s %%s %%s\n' %s $$ >> effects; %sprintf %s`, node, round, more, node)
}

// seedOf gives the seed of a test, and prints it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("HOLDFAST_TEST_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "HOLDFAST_TEST_SEED")
		seed = given
	}
	t.Logf("again with HOLDFAST_TEST_SEED=%d", seed)
	return seed
}
