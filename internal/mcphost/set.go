// Package mcphost connects to the tool servers of a session by the Model Context
// Protocol, and calls their tools. It is for whoever is an engine.Host: it knows
// no ACP.
//
// Rules:
//
//   - A server is not trusted. One that does not start, hangs, dies, floods or
//     sends garbage is reported, its tools are not there, and that is all.
//   - A server that has ended is started again when it is used next, not by
//     itself, and not more often than every few seconds.
//   - Its process ends with the set: its input is closed, then it is asked, then
//     made to; as a group, and by the kernel if this process is killed.
//   - A call that breaks off may have done its work: ErrInDoubt. What the server
//     itself answered, an error too, is no doubt.
package mcphost

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

// Server says how a tool server is reached: by the command that starts it, or by
// its URL.
type Server struct {
	Name string

	Command string // a program; its stdin and stdout are the connection
	Args    []string
	Env     []string // NAME=value, beside our own

	URL     string // HTTP
	Headers []Header
	SSE     bool // the older HTTP transport
}

// Header is sent with every request to the server itself, and to nobody to whom it
// redirects.
type Header struct{ Name, Value string }

// Options say where servers run, and who is told of them.
type Options struct {
	Dir           string   // where their processes run
	Roots         []string // folders that they are told of
	Name, Version string   // of this client

	// Report is told what went wrong with a server, in one sentence. It is called
	// by several goroutines and must not wait.
	Report func(problem string)

	Log      *slog.Logger  // gets what servers write to their standard error
	Patience time.Duration // how long a server may take to start; 30 s
	Farewell time.Duration // how long its process may take to end, and again when it was asked to; 2 s
	Clock    clock.Clock
}

// Set is the tool servers of a session. Its methods may be used by several
// goroutines.
type Set struct {
	options Options
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	servers []*server
	byName  map[string]*server
	crowded sync.Once
}

// Connect begins to connect to all servers, side by side, and does not wait.
func Connect(servers []Server, o Options) *Set {
	if o.Report == nil {
		o.Report = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Farewell == 0 {
		o.Farewell = 2 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	s := &Set{options: o, byName: map[string]*server{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, config := range servers {
		srv := &server{set: s, config: config, name: serverName(config.Name, s.byName)}
		s.byName[srv.name] = srv
		s.servers = append(s.servers, srv)
		srv.begin()
	}
	return s
}

// Len is how many servers there are.
func (s *Set) Len() int { return len(s.servers) }

// Close ends all servers and waits until their processes have ended.
func (s *Set) Close() {
	s.stop()
	for _, srv := range s.servers {
		srv.close()
	}
	s.work.Wait()
}

// Tools gives the tools of all servers that work, in the order of the servers, by
// name. It waits for those that start. An error is that ctx ended.
func (s *Set) Tools(ctx context.Context) ([]engine.HostTool, error) {
	all := []engine.HostTool{}
	room := maxTools
	for _, srv := range s.servers {
		tools, err := srv.list(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			continue // reported
		}
		left := 0
		for _, t := range tools {
			if room -= t.bytes; room < 0 {
				left++
				continue
			}
			all = append(all, t.HostTool)
		}
		if left > 0 {
			s.crowded.Do(func() {
				s.options.Report(fmt.Sprintf("%d tools of MCP server %s are left out: the descriptions of all tools are longer than %d KiB", left, srv.shown(), maxTools>>10))
			})
		}
	}
	return all, nil
}

// Call calls a tool by the name that Tools gives it. The result is what the tool
// calls its structured result, else its text, else its content as MCP has it. A
// *engine.ToolError is the tool's own answer; engine.ErrInDoubt is wrapped where
// nobody knows whether it did its work.
func (s *Set) Call(ctx context.Context, name string, args any) (any, error) {
	srv := s.byName[nameOfServer(name)]
	if srv == nil {
		return nil, noTool(name)
	}
	return srv.call(ctx, name, args)
}

func noTool(name string) error {
	return &engine.ToolError{Message: fmt.Sprintf("there is no tool %q", name)}
}
