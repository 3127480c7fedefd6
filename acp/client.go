package acp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
)

// client is one connection with its sessions.
type client struct {
	server     *Server
	config     *Config
	log        *slog.Logger
	conn       *Conn
	background sync.WaitGroup // what is put in order behind work that has ended

	mu           sync.Mutex
	initialized  bool
	capabilities ClientCapabilities
	name         string // and version
	sessions     map[string]*session
}

var _ Handler = (*client)(nil)

// HandleRequest implements Handler. It runs on the read loop: what must keep the
// order of the messages happens here, the rest on a goroutine.
func (c *client) HandleRequest(ctx context.Context, r *Request) {
	if r.Method == MethodInitialize {
		c.reply(r, c.initialize)
		return
	}
	if !c.isInitialized() {
		_ = r.Fail(InvalidRequest("initialize comes first, before " + shorten(r.Method)))
		return
	}
	switch r.Method {
	case MethodAuthenticate:
		c.reply(r, authenticate)
	case MethodSessionNew:
		c.newSession(ctx, r)
	case MethodSessionList:
		c.answer(ctx, r, c.listSessions)
	case MethodSessionLoad:
		c.open(ctx, r, true)
	case MethodSessionResume:
		c.open(ctx, r, false)
	case MethodSessionPrompt:
		c.prompt(ctx, r)
	case MethodSessionClose:
		c.end(ctx, r, false)
	case MethodSessionDelete:
		c.end(ctx, r, true)
	case MethodSessionSetMode:
		c.set(ctx, r, c.handleSetMode)
	case MethodSessionSetConfigOption:
		c.set(ctx, r, c.handleSetConfigOption)
	default:
		_ = r.Fail(MethodNotFound(r.Method))
	}
}

// HandleNotification implements Handler.
func (c *client) HandleNotification(_ context.Context, method string, params json.RawMessage) {
	if method != MethodSessionCancel {
		return
	}
	p, err := ParseSession(params)
	if err != nil {
		c.log.Warn("bad session/cancel from the ACP client", "error", err)
		return
	}
	c.mu.Lock()
	s := c.sessions[p.SessionID]
	c.mu.Unlock()
	if s != nil {
		s.cancel()
	}
}

// reply answers at once, on the read loop.
func (c *client) reply(r *Request, answer func(json.RawMessage) (any, error)) {
	result, err := answer(r.Params)
	c.respond(r, result, err)
}

// answer answers from a goroutine. It is not stopped when the client leaves: what
// was asked for is done, and who closed only their own end still hears of it.
func (c *client) answer(ctx context.Context, r *Request, answer func(context.Context, json.RawMessage) (any, error)) {
	ctx = context.WithoutCancel(ctx)
	r.Go(func() {
		result, err := answer(ctx, r.Params)
		c.respond(r, result, err)
	})
}

func (c *client) respond(r *Request, result any, err error) {
	var sent error
	if err != nil {
		sent = r.Fail(err)
	} else {
		sent = r.Reply(result)
	}
	if sent != nil && !errors.Is(sent, ErrDisconnected) {
		c.log.Error("an answer could not be sent", "method", r.Method, "error", sent)
	}
}

func (c *client) isInitialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.initialized
}

func (c *client) initialize(params json.RawMessage) (any, error) {
	p, err := ParseInitialize(params)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialized = true
	c.capabilities = p.ClientCapabilities
	c.name = ""
	if p.ClientInfo != nil {
		c.name = oneLine(p.ClientInfo.Name+" "+p.ClientInfo.Version, 200)
	}
	media := c.server.media()
	return InitializeResponse{
		ProtocolVersion: ProtocolVersion,
		AgentCapabilities: AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: PromptCapabilities{EmbeddedContext: true, Image: media.image, Audio: media.audio},
			MCPCapabilities:    MCPCapabilities{HTTP: true, SSE: true},
			SessionCapabilities: SessionCapabilities{
				List: &Supported{}, Resume: &Supported{}, Close: &Supported{}, Delete: &Supported{}, AdditionalDirectories: &Supported{},
			},
		},
		AgentInfo: &Implementation{Name: c.config.Name, Version: c.config.Version},
	}, nil
}

func authenticate(params json.RawMessage) (any, error) {
	if _, err := ParseAuthenticate(params); err != nil {
		return nil, err
	}
	return nil, InvalidParams("params.methodId", "is not known: this agent needs no login")
}

// able gives what the client can do, and its name.
func (c *client) able() (ClientCapabilities, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities, c.name
}

// notify sends an update of a session. That the client has left is found by the
// work itself.
func (c *client) notify(sessionID string, update SessionUpdate) {
	trace := c.traced(sessionID)
	for _, u := range shortened(update) {
		err := c.conn.Notify(MethodSessionUpdate, SessionNotification{SessionID: sessionID, Update: u, Meta: trace})
		if long := new(LineTooLong); errors.As(err, &long) {
			continue
		}
		if err != nil && !errors.Is(err, ErrDisconnected) {
			c.log.Error("an update could not be sent", "session", sessionID, "error", err)
		}
		return
	}
	c.log.Error("an update was too long to be sent", "session", sessionID)
}

// storeError is what a client is told of an error of the store or the engine.
func storeError(sessionID string, err error) error {
	var busy *engine.BusyError
	switch {
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrDeleted):
		return SessionNotFound(sessionID)
	case errors.As(err, &busy):
		return NewError(CodeBusy, busy.Error(), map[string]any{"reason": "thread_busy", "sessionId": sessionID, "pid": busy.Owner.PID})
	case errors.Is(err, engine.ErrConflict):
		return NewError(CodeBusy, err.Error(), map[string]any{"reason": "conflict", "sessionId": sessionID})
	}
	return AsError(err)
}
