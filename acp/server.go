package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/holdfast-agent/holdfast/engine"
)

// Store is what sessions need of a store of threads. A *store.Store is one.
type Store interface {
	engine.Store

	// Thread is a thread with its facts, without its log. engine.ErrNotFound, or
	// engine.ErrDeleted, where there is none.
	Thread(ctx context.Context, thread string) (engine.Thread, error)

	// ChangeFacts changes the facts of a thread (Title, Mode, Options), also while
	// somebody moves it, and gives it as it is then. It reads, changes and writes in
	// one transaction; change may be called more than once.
	ChangeFacts(ctx context.Context, thread string, change func(*engine.Thread) error) (engine.Thread, error)

	// Create makes a thread that has no turn yet.
	Create(ctx context.Context, t engine.Thread) error

	// Delete removes a thread. engine.ErrNotFound, or engine.ErrDeleted, where
	// there is none.
	Delete(ctx context.Context, thread string) error

	// Sessions lists threads, those first that changed last, at most limit of them,
	// and only those of a folder, where cwd names one. cursor is empty, or next of
	// an earlier call; any other gives engine.ErrInvalid. next is empty where no
	// more follow.
	Sessions(ctx context.Context, cwd, cursor string, limit int) (threads []engine.Thread, next string, err error)
}

// Config says what a server serves.
type Config struct {
	Store Store

	// Graphs are those that a session can choose between. The first is the default.
	Graphs []*engine.Graph

	// Adapter gives the adapter of a graph; nil is the default one for all.
	Adapter func(*engine.Graph) Adapter

	// Load rebuilds stored graphs; see engine.Options.
	Load func(name string, definition []byte) (*engine.Graph, error)

	// Name and Version are how the agent calls itself.
	Name, Version string

	Log        *slog.Logger // default: text on standard error
	Connection Options      // its Log is not used
}

// Server serves sessions to one client at a time. Many servers, in many processes,
// may serve one store.
type Server struct {
	config Config
	served []*served
}

// served is a graph with what belongs to it.
type served struct {
	graph      *engine.Graph
	adapter    *Adapter
	media      media
	wantsTools bool // the list of them, before a prompt begins
}

// NewServer checks that every graph can be served.
func NewServer(config Config) (*Server, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	config.Connection.Log = config.Log
	if config.Store == nil || len(config.Graphs) == 0 {
		return nil, errors.New("a server needs a store and at least one graph")
	}
	s := &Server{config: config}
	for _, graph := range config.Graphs {
		if s.named(graph.Name()) != nil {
			return nil, fmt.Errorf("two graphs are called %s: give one another name, so that a session can choose", graph.Name())
		}
		var adapter Adapter
		if config.Adapter != nil {
			adapter = config.Adapter(graph)
		}
		if err := errors.Join(adapter.Fits(graph), fitsCommands(graph)); err != nil {
			return nil, err
		}
		s.served = append(s.served, &served{
			graph: graph, adapter: adapter.For(graph), media: mediaOf(graph, adapter),
			wantsTools: graph.HasChannel(toolsChannel) || adapter.SessionState != nil,
		})
	}
	return s, nil
}

// named gives a graph by its name, nil if there is none.
func (s *Server) named(name string) *served {
	for _, g := range s.served {
		if g.graph.Name() == name {
			return g
		}
	}
	return nil
}

// Serve talks to the client that writes to in and reads from out, until in ends,
// out cannot be written to, or ctx ends. Work that runs then is stopped: its turn
// can be gone on with. That the client leaves is no error.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	c := &client{server: s, config: &s.config, log: s.config.Log, sessions: map[string]*session{}}
	c.conn = NewConn(in, out, s.config.Connection)
	c.conn.Start(ctx, c)
	<-c.conn.Done()
	c.conn.Wait()
	c.background.Wait()
	c.closeTools()
	if err := c.conn.Close(); err != nil {
		c.log.Warn("the ACP client left before it had read everything", "error", err)
	}
	return nil
}
