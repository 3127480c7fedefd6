package mcphost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-agent/holdfast/engine"
)

const (
	// again is how long a server that could not be started is left alone.
	again = 30 * time.Second

	maxPages    = 100
	maxToolsOne = 1000
	maxTool     = 64 << 10  // bytes of one tool's description, with its schema
	maxTools    = 512 << 10 // of all of them: they may be a value of a channel
)

// server is one of the set.
type server struct {
	set    *Set
	config Server
	name   string

	mu       sync.Mutex
	starting chan struct{} // closed when the attempt that runs has ended; nil: none
	conn     *connection   // nil: there is none
	tools    []tool        // as it listed them last
	err      error         // of the last attempt
	failed   time.Time     // when that was
	closed   bool
}

// tool is a tool with what the server itself calls it.
type tool struct {
	engine.HostTool
	own   string
	bytes int
}

// connection is one life of a server.
type connection struct {
	session *mcp.ClientSession
	end     func() // ends it, with its process; waits for that
	changed atomic.Bool
}

func (s *server) shown() string { return fmt.Sprintf("%q", shorten(s.config.Name, 100)) }

func (s *server) report(problem string) {
	s.set.options.Report(fmt.Sprintf("MCP server %s %s", s.shown(), problem))
}

// begin starts an attempt, unless one runs.
func (s *server) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginLocked()
}

func (s *server) beginLocked() {
	if s.starting != nil || s.closed {
		return
	}
	done := make(chan struct{})
	s.starting = done
	s.set.work.Go(func() {
		conn, tools, err := s.connect()
		s.mu.Lock()
		s.starting, s.err = nil, err
		if err != nil {
			s.failed = s.set.options.Clock.Now()
		}
		closed := s.closed
		if err == nil && !closed {
			s.conn, s.tools = conn, tools
		}
		s.mu.Unlock()
		// Reported before whoever waits goes on.
		defer close(done)
		switch {
		case err == nil && closed:
			conn.end()
		case err == nil:
			s.set.work.Go(func() { s.watch(conn) })
		case !closed:
			s.report("could not be started: " + err.Error())
		}
	})
}

// watch waits until a connection is over.
func (s *server) watch(conn *connection) {
	_, cause := within(s.set.ctx, func() (struct{}, error) { return struct{}{}, conn.session.Wait() })
	s.mu.Lock()
	if s.conn == conn {
		s.conn = nil
	}
	closed := s.closed
	s.mu.Unlock()
	conn.end()
	if closed {
		return
	}
	problem := "has ended; it is started again when it is used next"
	if cause != nil {
		problem += " (" + shorten(cause.Error(), 300) + ")"
	}
	s.report(problem)
}

func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		s.set.work.Go(conn.end)
	}
}

// ready gives the connection, and makes one where there is none.
func (s *server) ready(ctx context.Context) (*connection, error) {
	for waited := false; ; waited = true {
		s.mu.Lock()
		if s.conn != nil {
			defer s.mu.Unlock()
			return s.conn, nil
		}
		recent := s.err != nil && s.set.options.Clock.Now().Sub(s.failed) < again
		if s.closed || s.starting == nil && (waited || recent) {
			defer s.mu.Unlock()
			err := s.err
			if s.closed || err == nil {
				err = errors.New("it has ended")
			}
			return nil, fmt.Errorf("MCP server %s is not there: %w", s.shown(), err)
		}
		s.beginLocked()
		starting := s.starting
		s.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// connect is one attempt. initialize is what every server knows; one that refuses
// it may know only what came after it.
func (s *server) connect() (*connection, []tool, error) {
	ctx, cancel := context.WithTimeoutCause(s.set.ctx, s.set.options.Patience,
		fmt.Errorf("it did not answer within %s", s.set.options.Patience))
	defer cancel()
	conn, err := s.dial(ctx, "2025-11-25")
	if refused := new(jsonrpc.Error); errors.As(err, &refused) {
		conn, err = s.dial(ctx, "")
	}
	if err != nil {
		return nil, nil, err
	}
	tools, err := s.fetch(ctx, conn)
	if err != nil {
		conn.end()
		return nil, nil, err
	}
	return conn, tools, nil
}

func (s *server) dial(ctx context.Context, version string) (*connection, error) {
	conn := &connection{}
	queued := new(atomic.Bool)
	transport, end, err := s.transport(queued)
	if err != nil {
		return nil, err
	}
	o := s.set.options
	client := mcp.NewClient(&mcp.Implementation{Name: o.Name, Version: o.Version}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			queued.Store(false)
			conn.changed.Store(true)
		},
	})
	for _, root := range o.Roots {
		//lint:ignore SA1019 servers of the older versions still ask for them
		client.AddRoots(&mcp.Root{URI: fileURI(root)})
	}
	// A connection may last as long as the context that it is made with, and no
	// longer.
	life, over := context.WithCancel(s.set.ctx)
	session, err := within(ctx, func() (*mcp.ClientSession, error) {
		return client.Connect(life, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	})
	if err != nil {
		over()
		return nil, end(err)
	}
	conn.session = session
	conn.end = sync.OnceFunc(func() {
		// Closing waits for what runs, and says goodbye over HTTP; both may hang.
		limited, cancel := context.WithTimeout(context.Background(), o.Farewell)
		defer cancel()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = session.Close() // the peer may be gone: that is what is wanted
		}()
		_ = end(nil)
		defer over()
		select {
		case <-closed:
		case <-limited.Done():
		}
	})
	return conn, nil
}

// within does something that may not heed its context. What comes when nobody
// waits any more is dropped: the end of the connection ends it.
func within[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := do()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		if o.err != nil && ctx.Err() != nil {
			o.err = context.Cause(ctx)
		}
		return o.v, o.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// list gives the tools as they are now.
func (s *server) list(ctx context.Context) ([]tool, error) {
	conn, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	if conn.changed.Swap(false) {
		limited, cancel := context.WithTimeoutCause(ctx, s.set.options.Patience, errors.New("it did not list its tools in time"))
		defer cancel()
		tools, err := s.fetch(limited, conn)
		if err != nil {
			conn.changed.Store(true)
			if ctx.Err() == nil {
				s.report("changed its tools and did not list them: " + err.Error())
			}
			return nil, err
		}
		s.mu.Lock()
		s.tools = tools
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools, nil
}

// fetch asks for all tools.
func (s *server) fetch(ctx context.Context, conn *connection) ([]tool, error) {
	if r := conn.session.InitializeResult(); r != nil && r.Capabilities != nil && r.Capabilities.Tools == nil {
		return nil, nil // it offers other things
	}
	var found []*mcp.Tool
	cursor := ""
	for range maxPages {
		page, err := within(ctx, func() (*mcp.ListToolsResult, error) {
			return conn.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		})
		if err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		found = append(found, page.Tools...)
		if page.NextCursor == "" || page.NextCursor == cursor || len(found) > maxToolsOne {
			break
		}
		cursor = page.NextCursor
	}
	names := map[string]bool{}
	var tools []tool
	left := 0
	for _, t := range found {
		if t == nil || len(tools) == maxToolsOne {
			left++
			continue
		}
		described := s.describe(t, names)
		if described.bytes > maxTool {
			left++
			continue
		}
		names[described.Name] = true
		tools = append(tools, described)
	}
	if left > 0 {
		s.report(fmt.Sprintf("has tools that are left out: %d beyond the first %d, or with a description of more than %d KiB", left, maxToolsOne, maxTool>>10))
	}
	return tools, nil
}

func (s *server) describe(t *mcp.Tool, taken map[string]bool) tool {
	out := tool{own: t.Name, HostTool: engine.HostTool{
		Name: toolName(s.name, t.Name, taken), Title: t.Title, Description: t.Description,
	}}
	out.Schema, _ = t.InputSchema.(map[string]any)
	if a := t.Annotations; a != nil {
		out.ReadOnly = a.ReadOnlyHint
		if out.Title == "" {
			out.Title = a.Title
		}
	}
	text, err := json.Marshal(out.HostTool)
	if err != nil {
		out.Schema = nil // it came as JSON, so this cannot be
	}
	out.bytes = len(text)
	return out
}

func (s *server) call(ctx context.Context, name string, args any) (any, error) {
	object, ok := args.(map[string]any)
	if !ok && args != nil {
		return nil, &engine.ToolError{Message: fmt.Sprintf("tool %s: its arguments are an object, not %T", name, args)}
	}
	// Nothing is sent before this has succeeded, so its error is no doubt.
	tools, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	own, found := "", false
	for _, t := range tools {
		if t.Name == name {
			own, found = t.own, true
		}
	}
	if !found {
		return nil, noTool(name)
	}
	conn, err := s.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.set.ctx, func() { cancel(errors.New("its server was closed")) })
	defer stop()
	result, err := within(ctx, func() (*mcp.CallToolResult, error) {
		return conn.session.CallTool(ctx, &mcp.CallToolParams{Name: own, Arguments: object})
	})
	if err != nil {
		return nil, s.broken(ctx, name, err)
	}
	return resultOf(name, result)
}

// broken is the error of a call without a result.
func (s *server) broken(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("tool %s: %w; %w", name, context.Cause(ctx), engine.ErrInDoubt)
	}
	if refused := new(jsonrpc.Error); errors.As(err, &refused) && !errors.Is(err, mcp.ErrConnectionClosed) {
		return &engine.ToolError{Message: fmt.Sprintf("tool %s: %s", name, refused.Message)}
	}
	return fmt.Errorf("tool %s: MCP server %s: %w; %w", name, s.shown(), err, engine.ErrInDoubt)
}

// shorten keeps what a server sent from filling a log or a screen.
func shorten(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
