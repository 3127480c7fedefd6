//go:build unix

package integration

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/editor"
)

// object is a JSON object of the wire.
type object = editor.Object

// message is a line of the agent.
type message = editor.Message

// served is an agent serve with its scripted client.
type served struct {
	*editor.Editor
	h      *harness
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	ended  chan struct{}
}

// serve starts agent serve. It is killed with the test.
func (h *harness) serve(args ...string) *served {
	h.t.Helper()
	return h.serveWith(nil, args...)
}

func (h *harness) serveWith(env []string, args ...string) *served {
	h.t.Helper()
	e := &served{h: h, ended: make(chan struct{})}
	e.cmd = exec.Command(h.bin, append([]string{"serve"}, args...)...)
	e.cmd.Dir = h.dir
	e.cmd.Env = append(append(append(cleanEnv(), "HOLDFAST_DB="+h.db), h.env...), env...)
	e.cmd.Stderr = &e.stderr
	var err error
	e.in, err = e.cmd.StdinPipe()
	require.NoError(h.t, err)
	out, w := io.Pipe()
	e.cmd.Stdout = w
	require.NoError(h.t, e.cmd.Start())
	e.Editor = editor.New(h.t, e.in, out, h.dir)
	e.Hang = e.quit
	go func() {
		defer close(e.ended)
		_ = e.cmd.Wait()
		_ = w.Close()
	}()
	h.t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		_ = out.Close()
		<-e.ended
		if h.t.Failed() {
			h.t.Logf("stderr of agent serve:\n%s", e.stderr.String())
		}
	})
	return e
}

// hello initializes.
func (e *served) hello(capabilities object) *served {
	e.h.t.Helper()
	e.Hello(capabilities)
	return e
}

// quit makes a Go program say where it hangs.
func (e *served) quit() { _ = e.cmd.Process.Signal(syscall.SIGQUIT) }

// leave closes the agent's input, and gives its exit code.
func (e *served) leave() int {
	e.h.t.Helper()
	_ = e.in.Close()
	return e.wait()
}

// wait reads what still comes and gives the exit code.
func (e *served) wait() int {
	e.h.t.Helper()
	timer := time.AfterFunc(patience, e.quit)
	defer timer.Stop()
	e.Rest()
	<-e.ended
	return e.cmd.ProcessState.ExitCode()
}

// kill is kill -9.
func (e *served) kill() {
	_ = e.cmd.Process.Kill()
	e.wait()
}

// doubtful answers a doubt by the truth, and anything else by the given client.
func doubtful(h *harness, doubts *int, other func(message) (any, bool)) func(message) (any, bool) {
	return func(m message) (any, bool) {
		if !strings.Contains(m.Line, `"run_again"`) {
			return other(m)
		}
		*doubts++
		done := counts(h.effects())
		for _, name := range []string{"A", "B", "C"} {
			if strings.Contains(m.Line, name+" %s %s") && done[name+" 1"] > 0 {
				return editor.Chosen("done"), true
			}
		}
		return editor.Chosen("run_again"), true
	}
}
