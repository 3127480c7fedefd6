package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// The ids of config options. That of a standing is alwaysConfig and its own.
const (
	modeConfig   = "mode"
	graphConfig  = "graph"
	alwaysConfig = "always/"
)

// The values of a boolean option for a client that has none.
const (
	configOn  = "on"
	configOff = "off"
)

// options are the config options of a session: its mode, the choice of a graph
// where there is one, and a switch for every decision that holds for always.
func (c *client) options(t engine.Thread) []ConfigOption {
	mode := ConfigOption{
		Type: ConfigSelect, ID: modeConfig, Name: "Mode", Description: "Who decides at a gate",
		Category: "mode", Value: modeOf(t),
	}
	for _, m := range sessionModes {
		mode.Options = append(mode.Options, ConfigChoice{Value: m.ID, Name: m.Name, Description: m.Description})
	}
	list := []ConfigOption{mode}
	if served := c.server.served; len(served) > 1 {
		graph := ConfigOption{
			Type: ConfigSelect, ID: graphConfig, Name: "Graph", Description: "What the next turn runs",
			Category: "_graph", Value: c.server.choice(t).graph.Name(),
		}
		for _, g := range served {
			graph.Options = append(graph.Options, ConfigChoice{Value: g.graph.Name(), Name: g.graph.Name()})
		}
		list = append(list, graph)
	}
	able, _ := c.able()
	for _, s := range Standings(t) {
		standing := ConfigOption{
			Type: ConfigBoolean, ID: alwaysConfig + s.ID(), Name: s.Label, Category: "_always", On: true,
			Description: fmt.Sprintf("Chosen at %s by %s. Off: you are asked again", s.Origin, oneLine(s.Actor, 100)),
		}
		if able.Session.ConfigOptions.Boolean == nil {
			standing.Type, standing.Value = ConfigSelect, configOn
			standing.Options = []ConfigChoice{{Value: configOn, Name: "On"}, {Value: configOff, Name: "Off"}}
		}
		list = append(list, standing)
	}
	return list
}

// handleSetConfigOption handles session/set_config_option.
func (c *client) handleSetConfigOption(ctx context.Context, s *session, params json.RawMessage) (any, error) {
	p, err := ParseSetConfigOption(params)
	if err != nil {
		return nil, err
	}
	t, err := c.config.Store.Thread(ctx, p.SessionID)
	if err != nil {
		return nil, storeError(p.SessionID, err)
	}
	change, err := c.chosen(t, p)
	if err != nil {
		return nil, err
	}
	if t, err = c.change(ctx, p.SessionID, change); err != nil {
		return nil, err
	}
	s.announce(ctx)
	return SetConfigOptionResponse{ConfigOptions: c.options(t)}, nil
}

// chosen makes the change that an option wants.
func (c *client) chosen(t engine.Thread, p SetConfigOptionRequest) (func(*engine.Thread) error, error) {
	options := c.options(t)
	at := slices.IndexFunc(options, func(o ConfigOption) bool { return o.ID == p.ConfigID })
	if at < 0 {
		ids := make([]string, len(options))
		for i, o := range options {
			ids[i] = o.ID
		}
		return nil, InvalidParams("params.configId", fmt.Sprintf("must be one of %q, not %q", ids, shorten(p.ConfigID)))
	}
	option := options[at]
	off := false
	switch {
	case option.Type == ConfigBoolean && p.On == nil:
		return nil, InvalidParams("params.value", "must be true or false")
	case option.Type == ConfigBoolean:
		off = !*p.On
	case p.On != nil || !slices.ContainsFunc(option.Options, func(o ConfigChoice) bool { return o.Value == p.Value }):
		values := make([]string, len(option.Options))
		for i, o := range option.Options {
			values[i] = o.Value
		}
		return nil, InvalidParams("params.value", fmt.Sprintf("must be one of %q, not %q", values, shorten(p.Value)))
	default:
		off = p.Value == configOff
	}
	switch p.ConfigID {
	case modeConfig:
		return c.setMode(p.Value), nil
	case graphConfig:
		// A turn that is under way goes on with the graph that it began with.
		return func(t *engine.Thread) error { setOption(t, graphOption, p.Value); return nil }, nil
	}
	id := strings.TrimPrefix(p.ConfigID, alwaysConfig)
	return forget(func(s Standing) bool { return off && s.ID() == id }), nil
}

// set handles a change of a session's settings. Changes are made one after the
// other, in the order in which they came, and what comes behind one (a prompt, a
// load) waits for it: of ask behind auto-approve, ask must be what holds.
func (c *client) set(ctx context.Context, r *Request, handle func(context.Context, *session, json.RawMessage) (any, error)) {
	p, err := ParseSession(r.Params)
	if err != nil {
		_ = r.Fail(err)
		return
	}
	s, done := c.lookup(p.SessionID), make(chan struct{})
	s.mu.Lock()
	before := s.setting
	s.setting = done
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	r.Go(func() {
		defer func() {
			s.mu.Lock()
			if s.setting == done {
				s.setting = nil
			}
			opened := s.opened
			s.mu.Unlock()
			close(done)
			if !opened {
				s.forget()
			}
		}()
		if before != nil {
			<-before
		}
		result, err := handle(ctx, s, r.Params)
		c.respond(r, result, err)
	})
}

// settled waits for the changes of settings that have come so far.
func (s *session) settled() {
	s.mu.Lock()
	setting := s.setting
	s.mu.Unlock()
	if setting != nil {
		<-setting
	}
}

// change changes the facts of a session's thread.
func (c *client) change(ctx context.Context, sessionID string, change func(*engine.Thread) error) (engine.Thread, error) {
	t, err := c.config.Store.ChangeFacts(ctx, sessionID, change)
	if err != nil {
		return t, storeError(sessionID, err)
	}
	return t, nil
}

// setOption sets an option of a thread; nil removes it.
func setOption(t *engine.Thread, name string, v any) {
	if t.Options == nil {
		t.Options = map[string]any{}
	}
	if v == nil {
		delete(t.Options, name)
		return
	}
	t.Options[name] = v
}

// settings is what a client knows of the settings of a session.
type settings struct {
	mode     string
	options  []byte
	commands []byte
}

// response tells the settings of a session that is opened.
func (s *session) response(t engine.Thread) OpenSessionResponse {
	s.telling.Lock()
	defer s.telling.Unlock()
	options := s.c.options(t)
	s.told.mode = modeOf(t)
	s.told.options, _ = json.Marshal(options)
	return OpenSessionResponse{Modes: &ModeState{CurrentModeID: s.told.mode, AvailableModes: sessionModes}, ConfigOptions: options}
}

// announce tells what has changed of the settings since they were told last,
// whoever changed them.
func (s *session) announce(ctx context.Context) {
	s.telling.Lock()
	defer s.telling.Unlock()
	// Read under the lock, so that what is told last is what holds.
	t, err := s.c.config.Store.Thread(ctx, s.id)
	if err != nil {
		return // deleted, or not to be read: whoever works on it says so
	}
	if mode := modeOf(t); mode != s.told.mode {
		s.told.mode = mode
		s.c.notify(s.id, CurrentModeUpdate{CurrentModeID: mode})
	}
	options := s.c.options(t)
	if text, err := json.Marshal(options); err == nil && !bytes.Equal(text, s.told.options) {
		s.told.options = text
		s.c.notify(s.id, ConfigOptionUpdate{ConfigOptions: options})
	}
	s.tellCommands(t)
}
