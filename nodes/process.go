package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/internal/clock"
	proc "github.com/holdfast-agent/holdfast/internal/process"
)

const (
	// killAfter is how long a command has to end after it was asked to.
	killAfter = 5 * time.Second
	// drainFor is how long output is waited for after the command has ended:
	// something that it left behind may hold the pipe for ever.
	drainFor = time.Second
)

// process is one command to run.
type process struct {
	argv      []string
	line      string // of a shell line
	cwd       string
	env       []string // beside the agent's own
	stdin     *string  // nil: nothing
	timeout   time.Duration
	killAfter time.Duration
	maxOutput int
	clock     clock.Clock

	print   func(text string)
	started func(pid int) error
}

// name is how messages call the command.
func (p *process) name() string {
	if p.line != "" {
		return "command " + shorten(strings.TrimSpace(p.line), 80)
	}
	return "command " + shorten(strings.Join(p.argv, " "), 80)
}

// run runs the command to its end. An error means that it was not started, or
// that ctx ended it; with a command that ended there is a result.
func (p *process) run(ctx context.Context) (*result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	cmd, err := p.command()
	if err != nil {
		return nil, err
	}
	pipes, err := p.pipes(cmd)
	if err != nil {
		return nil, err
	}
	defer pipes.close()
	done, err := proc.Start(cmd)
	pipes.started()
	if err != nil {
		return nil, p.startError(err)
	}
	pid := cmd.Process.Pid
	r := &result{stdout: newCapture(p.maxOutput), stderr: newCapture(p.maxOutput)}
	copied := p.copy(pipes, r)
	var noteErr error
	if p.started != nil {
		// If the process dies before the note is stored, a doubt names no pid;
		// that is all that is lost.
		noteErr = p.started(pid)
	}
	var cause error
	if noteErr != nil {
		// The intent cannot be kept, perhaps because another process has the
		// thread: this command must not go on beside that one.
		cause = fmt.Errorf("it was stopped: %w", noteErr)
		p.kill(pid, done, copied)
	} else {
		cause = p.wait(ctx, r, pid, done, copied)
	}
	p.drain(pipes, copied)
	if cause != nil {
		return nil, cause
	}
	r.exitCode, r.signal = exitOf(cmd.ProcessState)
	return r, nil
}

// wait waits for the command's end, and brings it about if time is over or
// nobody wants it any more.
func (p *process) wait(ctx context.Context, r *result, pid int, done, copied <-chan struct{}) error {
	var late <-chan time.Time
	if p.timeout > 0 {
		fired, stop := p.clock.After(p.timeout)
		defer stop()
		late = fired
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		p.kill(pid, done, copied)
		return context.Cause(ctx)
	case <-late:
		r.timedOut = true
		p.kill(pid, done, copied)
		return nil
	}
}

// kill asks the command's process group to end, and after a while makes it.
// The group has ended when nobody holds its output any more: a shell dies at
// once, and what it started may need the time to put things in order.
func (p *process) kill(pid int, done, copied <-chan struct{}) {
	fired, stop := p.clock.After(p.killAfter)
	defer stop()
	proc.SignalGroup(pid, false)
	for done, copied := done, copied; done != nil || copied != nil; {
		select {
		case <-done:
			done = nil
		case <-copied:
			copied = nil
		case <-fired:
			done, copied = nil, nil
		}
	}
	proc.SignalGroup(pid, true)
	<-done
}

func (p *process) command() (*exec.Cmd, error) {
	if p.cwd != "" {
		info, err := os.Stat(p.cwd)
		if err != nil {
			return nil, fmt.Errorf("it was not started: the folder %s does not exist", p.cwd)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("it was not started: %s is no folder", p.cwd)
		}
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = fmt.Errorf("%s is found in the current folder only: write .%c%s", p.argv[0], filepath.Separator, p.argv[0])
	}
	cmd.Dir = p.cwd
	cmd.Env = append(os.Environ(), p.env...)
	proc.Prepare(cmd)
	return cmd, nil
}

// startError says that a command was not started: it certainly did nothing.
func (p *process) startError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		hint = ": there is no such program"
		if strings.ContainsAny(p.argv[0], " \t") {
			hint += "; a list is a program and its arguments, one a piece"
		}
	case errors.Is(err, os.ErrPermission):
		hint = ": it may not be executed"
	case tooLong(err):
		hint = ": its arguments and environment are too long; give large values by stdin"
	}
	return fmt.Errorf("it was not started%s (%w)", hint, err)
}

// pipes are the ends of a command's streams.
type pipes struct {
	ours, theirs []*os.File
	out, err, in *os.File
	fed          chan struct{} // closed when the input is written, or nobody wants it
}

func (p *process) pipes(cmd *exec.Cmd) (*pipes, error) {
	ps := &pipes{}
	open := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err != nil {
			ps.started()
			ps.close()
		}
		return r, w, err
	}
	for _, stream := range []struct {
		ours   **os.File
		theirs *io.Writer
	}{{&ps.out, &cmd.Stdout}, {&ps.err, &cmd.Stderr}} {
		r, w, err := open()
		if err != nil {
			return nil, err
		}
		*stream.ours, *stream.theirs = r, w
		ps.ours, ps.theirs = append(ps.ours, r), append(ps.theirs, w)
	}
	// Without stdin the command reads from the null device: never what the
	// agent itself reads, which is a protocol.
	if p.stdin != nil {
		r, w, err := open()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, ps.in = r, w
		ps.ours, ps.theirs = append(ps.ours, w), append(ps.theirs, r)
	}
	return ps, nil
}

// started closes the command's ends, which it has of its own now.
func (ps *pipes) started() {
	for _, f := range ps.theirs {
		_ = f.Close()
	}
	ps.theirs = nil
}

// close closes ours, which ends whoever reads or writes there.
func (ps *pipes) close() {
	for _, f := range ps.ours {
		_ = f.Close()
	}
	if ps.fed != nil {
		<-ps.fed
	}
}

// copy moves the streams; the channel is closed when both outputs ended.
func (p *process) copy(ps *pipes, r *result) <-chan struct{} {
	if ps.in != nil {
		input := *p.stdin
		ps.fed = make(chan struct{})
		go func() {
			defer close(ps.fed)
			// A command that does not read all of it is within its rights.
			_, _ = io.WriteString(ps.in, input)
			_ = ps.in.Close()
		}()
	}
	all := make(chan struct{})
	outDone, errDone := make(chan struct{}), make(chan struct{})
	go p.read(ps.out, r.stdout, outDone)
	go p.read(ps.err, r.stderr, errDone)
	go func() {
		<-outDone
		<-errDone
		close(all)
	}()
	return all
}

// read keeps a part of a stream, shows all of it, and reads to its end, so
// that the command never waits for us.
func (p *process) read(f *os.File, into *capture, done chan<- struct{}) {
	defer close(done)
	buffer := make([]byte, 32<<10)
	rest := 0 // bytes of a rune that is not complete yet
	for {
		n, err := f.Read(buffer[rest:])
		if n > 0 {
			into.add(buffer[rest : rest+n])
		}
		n += rest
		rest = 0
		if err == nil {
			whole := cutEnd(buffer[:n])
			rest = n - len(whole)
			if rest >= utf8.UTFMax {
				rest = 0
			}
		}
		if n > rest && p.print != nil {
			p.print(string(buffer[:n-rest]))
		}
		if err != nil {
			return
		}
		copy(buffer, buffer[n-rest:n])
	}
}

// drain waits until the output is read, but not for ever: a process that the
// command left in the background may hold the pipe.
func (p *process) drain(ps *pipes, copied <-chan struct{}) {
	fired, stop := p.clock.After(drainFor)
	defer stop()
	select {
	case <-copied:
		return
	case <-fired:
	}
	ps.close()
	<-copied
}
