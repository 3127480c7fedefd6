package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/holdfast-agent/holdfast/engine"
)

// graphConfig is the id of the option that chooses a graph.
const graphConfig = "graph"

// options are the config options of a session: the choice of a graph, where there
// is one.
func (s *Server) options(chosen *served) []ConfigOption {
	if len(s.served) < 2 {
		return nil
	}
	option := ConfigOption{
		Type: ConfigSelect, ID: graphConfig, Name: "Graph", Description: "What the next turn runs",
		Category: "_graph", Value: chosen.graph.Name(),
	}
	for _, g := range s.served {
		option.Options = append(option.Options, ConfigChoice{Value: g.graph.Name(), Name: g.graph.Name()})
	}
	return []ConfigOption{option}
}

// setConfigOption chooses the graph of the next turn. A turn that is under way goes
// on with the graph that it began with.
func (c *client) setConfigOption(ctx context.Context, params json.RawMessage) (any, error) {
	p, err := ParseSetConfigOption(params)
	if err != nil {
		return nil, err
	}
	chosen := c.server.named(p.Value)
	_, err = c.config.Store.At(ctx, p.SessionID, 0)
	switch {
	case err != nil:
		return nil, storeError(p.SessionID, err)
	case p.ConfigID != graphConfig:
		return nil, InvalidParams("params.configId", fmt.Sprintf("must be %q, not %q", graphConfig, shorten(p.ConfigID)))
	case chosen == nil || p.On != nil:
		return nil, InvalidParams("params.value", fmt.Sprintf("%q is no graph that is served", shorten(p.Value)))
	}
	s := c.lookup(p.SessionID)
	s.mu.Lock()
	s.wanted, s.unsaved = chosen, s.active != nil
	later := s.unsaved
	s.mu.Unlock()
	if !later {
		if err := c.setFact(ctx, p.SessionID, graphOption, p.Value); err != nil {
			return nil, storeError(p.SessionID, err)
		}
	}
	list := c.server.options(chosen)
	c.notify(p.SessionID, ConfigOptionUpdate{ConfigOptions: list})
	return SetConfigOptionResponse{ConfigOptions: list}, nil
}

// setFact stores an option of a session; nil removes it.
func (c *client) setFact(ctx context.Context, sessionID, name string, v any) error {
	for attempt := 0; ; attempt++ {
		err := c.trySetFact(ctx, sessionID, name, v)
		if errors.Is(err, engine.ErrConflict) && attempt < 100 {
			continue // somebody appended meanwhile
		}
		return err
	}
}

func (c *client) trySetFact(ctx context.Context, sessionID, name string, v any) (err error) {
	log, err := c.config.Store.Open(ctx, sessionID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	facts := log.View().Thread
	facts.Options = maps.Clone(facts.Options)
	if facts.Options == nil {
		facts.Options = map[string]any{}
	}
	if v == nil {
		delete(facts.Options, name)
	} else {
		facts.Options[name] = v
	}
	return log.Commit(ctx, &engine.Commit{Facts: &facts})
}
