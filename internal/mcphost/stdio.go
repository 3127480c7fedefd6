package mcphost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-agent/holdfast/internal/process"
)

const (
	// maxLine is the longest line of a server that is read.
	maxLine = 16 << 20
	// maxAsked is how many requests of a server may wait for their answers.
	maxAsked = 64
	// enoughSaid is how many lines of a server's standard error are logged.
	enoughSaid = 200
)

// child is the process of a server.
type child struct {
	s              *server
	cmd            *exec.Cmd
	in             *os.File // what it reads
	out, err       *os.File // what it writes
	ended          <-chan struct{}
	said           chan struct{} // closed when its standard error is read
	mu             sync.Mutex
	last, nonsense string // of its standard error, and of its output
}

// stdio starts the server's process.
func (s *server) stdio(queued *atomic.Bool) (mcp.Transport, func(error) error, error) {
	c := &child{s: s, said: make(chan struct{})}
	c.cmd = exec.Command(s.config.Command, s.config.Args...)
	c.cmd.Dir = s.set.options.Dir
	c.cmd.Env = append(os.Environ(), s.config.Env...)
	process.Prepare(c.cmd)
	theirs := []*os.File{}
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err != nil {
			closeAll(append(theirs, c.in, c.out, c.err)...)
		}
		return r, w, err
	}
	stdin, in, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	c.cmd.Stdin, c.in, theirs = stdin, in, append(theirs, stdin)
	out, stdout, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	c.cmd.Stdout, c.out, theirs = stdout, out, append(theirs, stdout)
	stderrOut, stderr, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	c.cmd.Stderr, c.err, theirs = stderr, stderrOut, append(theirs, stderr)
	c.ended, err = process.Start(c.cmd)
	closeAll(theirs...)
	if err != nil {
		closeAll(c.in, c.out, c.err)
		return nil, nil, err
	}
	s.set.work.Go(c.listen)
	s.set.work.Go(c.drain)
	return &pipes{c: c, queued: queued}, c.end, nil
}

// listen logs what the process says on its standard error, and keeps its last line.
func (c *child) listen() {
	defer close(c.said)
	r := bufio.NewReaderSize(c.err, 4<<10)
	for lines := 0; ; {
		part, err := r.ReadSlice('\n')
		if text := shorten(string(part), 500); text != "" {
			c.mu.Lock()
			c.last = text
			c.mu.Unlock()
			switch lines++; {
			case lines < enoughSaid:
				c.s.set.options.Log.Info("an MCP server says", "server", c.s.config.Name, "text", text)
			case lines == enoughSaid:
				c.s.set.options.Log.Info("an MCP server says more, which is not logged", "server", c.s.config.Name)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// drain closes the pipes some time after the process has ended: something that it
// left behind may hold them for ever. What it left behind is ended first.
func (c *child) drain() {
	<-c.ended
	process.SignalGroup(c.cmd.Process.Pid, true)
	fired, stop := c.s.set.options.Clock.After(time.Second)
	defer stop()
	select {
	case <-c.said:
	case <-fired:
	}
	for _, f := range []*os.File{c.err, c.out, c.in} {
		_ = f.Close()
	}
}

// end ends the process and waits for that. It completes the error that led here.
func (c *child) end(cause error) error {
	_ = c.in.Close()
	c.wait()
	_ = c.out.Close()
	if cause == nil || c.s.set.ctx.Err() != nil {
		return cause
	}
	<-c.said
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nonsense != "" {
		cause = fmt.Errorf("%w; it wrote %q to its output, which is for the protocol", cause, c.nonsense)
	}
	if code := c.cmd.ProcessState.ExitCode(); code > 0 {
		cause = fmt.Errorf("%w; its process ended with exit code %d", cause, code)
	}
	if c.last != "" {
		cause = fmt.Errorf("%w; it said: %s", cause, c.last)
	}
	return cause
}

func (c *child) wait() {
	for _, kill := range []bool{false, true} {
		fired, stop := c.s.set.options.Clock.After(c.s.set.options.Farewell)
		select {
		case <-c.ended:
			stop()
			return
		case <-fired:
			stop()
			process.SignalGroup(c.cmd.Process.Pid, kill)
		}
	}
	<-c.ended
}

// pipes is the connection over a child's stdin and stdout.
type pipes struct {
	c      *child
	queued *atomic.Bool
}

// Connect implements mcp.Transport.
func (p *pipes) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := (&mcp.IOTransport{
		Reader: &lines{c: p.c, r: bufio.NewReaderSize(p.c.out, 64<<10)}, Writer: p.c.in, MaxLineLength: maxLine + 1,
	}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &bounded{Connection: inner, queued: p.queued, asked: make(chan struct{}, maxAsked), closed: make(chan struct{})}, nil
}

// lines gives only those lines of a server's output that are messages: many
// servers, or what starts them, print something else too.
type lines struct {
	c    *child
	r    *bufio.Reader
	rest []byte
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !isMessage(line) {
			l.c.strange(line)
			continue
		}
		l.rest = append(line, '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fmt.Errorf("it wrote a line of more than %d MiB", maxLine>>20)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, os.ErrClosed):
			return nil, io.EOF
		default:
			return nil, err // half a line is no message
		}
	}
}

// Close implements io.Closer. The child closes its pipe itself, when nobody writes
// there any more.
func (l *lines) Close() error { return nil }

// isMessage reports whether a line is a JSON-RPC message, or several.
func isMessage(line []byte) bool {
	type envelope struct {
		Version string `json:"jsonrpc"`
	}
	if line[0] == '[' {
		var batch []envelope
		if json.Unmarshal(line, &batch) != nil || len(batch) == 0 {
			return false
		}
		for _, m := range batch {
			if m.Version != "2.0" {
				return false
			}
		}
		return true
	}
	var m envelope
	return json.Unmarshal(line, &m) == nil && m.Version == "2.0"
}

// strange reports, once, that a server writes what is no message.
func (c *child) strange(line []byte) {
	text := shorten(string(line[:min(len(line), 1000)]), 100)
	c.mu.Lock()
	first := c.nonsense == ""
	c.nonsense = text
	c.mu.Unlock()
	if first {
		c.s.set.options.Log.Warn("an MCP server writes to its output what is no message; it is skipped", "server", c.s.config.Name, "text", text)
	}
}

// bounded keeps a server that floods from filling the memory: of its notifications
// only one is of use, and of its requests only so many wait for their answers.
type bounded struct {
	mcp.Connection
	queued *atomic.Bool // such a notification waits to be handled
	asked  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Read implements mcp.Connection.
func (b *bounded) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := b.Connection.Read(ctx)
		request, is := m.(*jsonrpc.Request)
		switch {
		case err != nil || !is:
			return m, err
		case request.IsCall():
			select {
			case b.asked <- struct{}{}:
				return m, nil
			case <-b.closed:
				return nil, io.EOF
			}
		case request.Method == "notifications/tools/list_changed" && b.queued.CompareAndSwap(false, true):
			return m, nil
		}
	}
}

// Write implements mcp.Connection.
func (b *bounded) Write(ctx context.Context, m jsonrpc.Message) error {
	err := b.Connection.Write(ctx, m)
	if _, is := m.(*jsonrpc.Response); is {
		select {
		case <-b.asked:
		default:
		}
	}
	return err
}

// Close implements mcp.Connection.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Connection.Close()
}
