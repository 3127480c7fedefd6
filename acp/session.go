package acp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/mcphost"
)

// The options of a session, among the facts of its thread.
const (
	graphOption = "acp.graph"     // the name of the graph that it chose
	waitsOption = "acp.waits_for" // the question whose answer is the text of the next prompt
)

// session is a thread as one client has it open.
type session struct {
	c  *client
	id string

	mu      sync.Mutex
	active  *prompt       // the prompt that runs
	opening chan struct{} // closed when the load or resume that runs has ended; nil: none
	setting chan struct{} // closed when the newest change of a setting is done; nil: none
	opened  bool

	telling sync.Mutex // held while told changes
	told    settings

	tools    *mcphost.Set // of the client's tool servers; nil: none
	troubles []string     // that the person was not told of

	// Of who holds active or opening, or nobody.
	session Session
	thread  engine.Thread // as it was last read; its facts
	served  *served
	story   *story
	waits   string // the question whose answer is the text of the next prompt
	stored  string // what is stored of waits
}

// lookup gives the session of an id, and makes it if it is not there.
func (c *client) lookup(id string) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	if s == nil {
		s = &session{c: c, id: id}
		c.sessions[id] = s
	}
	return s
}

// forget takes a session out of the table, unless something of it runs.
func (s *session) forget() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil && s.opening == nil && s.setting == nil && s.c.sessions[s.id] == s {
		delete(s.c.sessions, s.id)
	}
}

// cancel does what session/cancel does. Without a prompt that is nothing.
func (s *session) cancel() {
	s.mu.Lock()
	p := s.active
	s.mu.Unlock()
	if p != nil {
		p.cancelled(engine.ErrCancelled)
	}
}

// newSessionID has 128 random bits.
func newSessionID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return "sess_" + hex.EncodeToString(random[:])
}

func (c *client) newSession(ctx context.Context, r *Request) {
	p, err := ParseNewSession(r.Params)
	if err != nil {
		_ = r.Fail(err)
		return
	}
	ctx = context.WithoutCancel(ctx)
	r.Go(func() {
		s, err := c.create(ctx, p)
		if err != nil {
			c.respond(r, nil, err)
			return
		}
		// First the response: a client drops updates of a session that it does not
		// know yet.
		c.respond(r, NewSessionResponse{SessionID: s.id, OpenSessionResponse: s.response(s.thread)}, nil)
		s.announce(ctx)
	})
}

func (c *client) create(ctx context.Context, p NewSessionRequest) (*session, error) {
	id := newSessionID()
	t := engine.Thread{ID: id, Cwd: p.CWD, Roots: p.AdditionalDirectories}
	if err := c.config.Store.Create(ctx, t); err != nil {
		return nil, Internal(fmt.Errorf("the session could not be stored: %w", err))
	}
	// If the process dies here the session exists and nobody knows its id: an empty
	// row of the list, which can be deleted.
	s := c.lookup(id)
	s.use(t)
	s.connectTools(p)
	return s, nil
}

// use makes the session one of this thread.
func (s *session) use(t engine.Thread) {
	s.session = Session{ID: s.id, CWD: t.Cwd, AdditionalDirectories: t.Roots}
	s.waits, _ = t.Options[waitsOption].(string)
	s.thread, s.stored, s.story = t, s.waits, nil
	s.serve(s.c.server.choice(t))
	s.mu.Lock()
	s.opened = true
	s.mu.Unlock()
}

// serve makes the next turn one of this graph.
func (s *session) serve(g *served) {
	s.served = g
	if s.story != nil {
		s.story.serve(g) // what the client was told stays told
		return
	}
	s.story = newStory(s.id, g.adapter, newPlan(g.graph), func(u SessionUpdate) { s.c.notify(s.id, u) })
}

// choice gives the graph of a thread's next turn: the chosen one, else the one of
// its last turn, where it is served, else the default.
func (s *Server) choice(t engine.Thread) *served {
	name, _ := t.Options[graphOption].(string)
	for _, name := range []string{name, t.GraphName} {
		if g := s.named(name); g != nil {
			return g
		}
	}
	return s.served[0]
}

// open handles session/load and session/resume.
func (c *client) open(ctx context.Context, r *Request, replay bool) {
	parse := ParseResumeSession
	if replay {
		parse = ParseLoadSession
	}
	p, err := parse(r.Params)
	if err != nil {
		_ = r.Fail(err)
		return
	}
	// Registered here, so that a prompt in the next line waits for it.
	s, done := c.lookup(p.SessionID), make(chan struct{})
	s.mu.Lock()
	if s.active != nil || s.opening != nil {
		s.mu.Unlock()
		_ = r.Fail(SessionBusy(p.SessionID))
		return
	}
	s.opening = done
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	r.Go(func() {
		s.settled()
		err := s.load(ctx, p, replay)
		s.mu.Lock()
		s.opening = nil
		known := s.opened
		s.mu.Unlock()
		close(done)
		if !known {
			s.forget()
		}
		if err != nil {
			c.respond(r, nil, err)
			return
		}
		c.respond(r, s.response(s.thread), nil)
		s.announce(ctx)
	})
}

// load reads the thread, and tells its story where that is asked for.
func (s *session) load(ctx context.Context, p OpenSessionRequest, replay bool) error {
	view, err := s.c.config.Store.At(ctx, s.id, 0)
	if err != nil {
		return storeError(s.id, err)
	}
	t := view.Thread
	if t.Cwd != "" && filepath.Clean(t.Cwd) != filepath.Clean(p.CWD) {
		return InvalidParams("params.cwd", fmt.Sprintf("is %q, but the session works in %q", shorten(p.CWD), t.Cwd))
	}
	if t.Cwd == "" || !slices.Equal(t.Roots, p.AdditionalDirectories) {
		// Roots that are not named again do not count any more, in no process.
		t, err = s.c.change(ctx, s.id, func(t *engine.Thread) error {
			if t.Cwd == "" {
				t.Cwd = filepath.Clean(p.CWD)
			}
			t.Roots = p.AdditionalDirectories
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.use(t)
	s.session.CWD = p.CWD
	s.connectTools(p.NewSessionRequest)
	if !replay {
		return nil
	}
	if err := s.story.replay(ctx, s.c.config.Store); err != nil {
		return storeError(s.id, fmt.Errorf("replay session %s: %w", s.id, err))
	}
	return nil
}

// replay tells the whole log. Memory holds a batch of entries, the state and the
// newest turn.
func (s *story) replay(ctx context.Context, store engine.Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaying, s.state = true, map[string]any{}
	defer func() { s.replaying, s.state = false, nil }()
	gap := false // payloads were removed, so that the state is not known
	err := store.Entries(ctx, s.thread, 0, 0, func(e engine.Entry) error {
		if e.Namespace == "" && e.Kind.ChangesState() {
			if gap && !e.Removed {
				// Where it cannot be read either, the story is told without it.
				if v, err := store.At(ctx, s.thread, e.Seq-1); err == nil {
					s.state = maps.Clone(v.State)
				}
			}
			gap = e.Removed
		}
		return s.add(&e)
	})
	if err != nil {
		return err
	}
	if s.turn > 0 {
		s.showPlan()
	}
	return nil
}

// end handles session/close and session/delete: what runs is cancelled and its
// prompt answered first.
func (c *client) end(ctx context.Context, r *Request, forever bool) {
	p, err := ParseSession(r.Params)
	if err != nil {
		_ = r.Fail(err)
		return
	}
	ctx = context.WithoutCancel(ctx)
	c.mu.Lock()
	s := c.sessions[p.SessionID]
	delete(c.sessions, p.SessionID)
	c.mu.Unlock()
	var running *prompt
	var opening chan struct{}
	if s != nil {
		s.mu.Lock()
		running, opening = s.active, s.opening
		s.mu.Unlock()
		if running != nil {
			running.cancelled(engine.ErrCancelled)
		}
	}
	r.Go(func() {
		if running != nil {
			<-running.answered
		}
		if opening != nil {
			<-opening
		}
		if s != nil {
			s.closeTools()
		}
		var err error
		if forever {
			err = c.config.Store.Delete(ctx, p.SessionID)
		}
		if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrDeleted) {
			err = nil
		}
		if err != nil {
			err = storeError(p.SessionID, err)
		}
		c.respond(r, nil, err)
	})
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
