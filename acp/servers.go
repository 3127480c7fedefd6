package acp

import (
	"context"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/mcphost"
)

// connectTools begins to connect to the tool servers that a client wants for a
// session, in place of those that it had. Nobody waits for them before they are
// used. What the schema says is dropped is told of.
func (s *session) connectTools(p NewSessionRequest) {
	for _, problem := range p.DroppedMCPServers {
		s.trouble("An MCP server was left out: " + problem)
	}
	var set *mcphost.Set
	if len(p.MCPServers) > 0 {
		var servers []mcphost.Server
		for _, server := range p.MCPServers {
			servers = append(servers, toolServer(server))
		}
		set = mcphost.Connect(servers, mcphost.Options{
			Dir: p.CWD, Roots: append([]string{p.CWD}, p.AdditionalDirectories...),
			Name: s.c.config.Name, Version: s.c.config.Version, Log: s.c.log, Report: s.trouble,
		})
	}
	s.mu.Lock()
	before := s.tools
	s.tools = set
	s.mu.Unlock()
	if before != nil {
		before.Close()
	}
}

func toolServer(m MCPServer) mcphost.Server {
	out := mcphost.Server{Name: m.Name, Command: m.Command, Args: m.Args, URL: m.URL, SSE: m.Type == MCPSSE}
	for _, v := range m.Env {
		out.Env = append(out.Env, v.Name+"="+v.Value)
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, mcphost.Header{Name: h.Name, Value: h.Value})
	}
	return out
}

func (s *session) toolServers() *mcphost.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// closeTools ends the tool servers and waits for it.
func (s *session) closeTools() {
	s.mu.Lock()
	set := s.tools
	s.tools = nil
	s.mu.Unlock()
	if set != nil {
		set.Close()
	}
}

// closeTools ends the tool servers of all sessions.
func (c *client) closeTools() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range c.sessions {
		all.Go(s.closeTools)
	}
	all.Wait()
}

// maxTroubles is how much waits to be told to the person at most.
const maxTroubles = 20

// trouble is told to the log, and to the person: at once, where the client has a
// place for that, else in the next prompt, because no message may come outside of
// one.
func (s *session) trouble(problem string) {
	problem = oneLine(problem, 1000)
	s.c.log.Warn("trouble with the tools of a session", "session", s.id, "problem", problem)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.troubles) < maxTroubles {
		s.troubles = append(s.troubles, problem)
	}
}

// tellTroubles tells the person what is wrong.
func (p *prompt) tellTroubles() {
	p.s.mu.Lock()
	troubles := p.s.troubles
	p.s.troubles = nil
	p.s.mu.Unlock()
	if len(troubles) == 0 {
		return
	}
	if able, _ := p.c.able(); able.Session.Notices != nil {
		for _, problem := range troubles {
			p.c.notify(p.s.id, Notice{Severity: "warning", Title: problem})
		}
		return
	}
	p.say(strings.Join(troubles, "\n"))
}

// listTools gives the tools as a graph finds them in its channel, where it wants
// them: then the prompt waits for the servers.
func (p *prompt) listTools(ctx context.Context) ([]any, error) {
	set := p.s.toolServers()
	if set == nil || !p.s.served.wantsTools {
		return nil, nil
	}
	tools, err := set.Tools(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(tools))
	for i, t := range tools {
		list[i] = toolValue(t)
	}
	return list, nil
}

func toolValue(t engine.HostTool) map[string]any {
	schema := t.Schema
	if schema == nil {
		schema = map[string]any{"type": "object"}
	}
	v := map[string]any{"name": t.Name, "description": t.Description, "input_schema": schema, "read_only": t.ReadOnly}
	if t.Title != "" {
		v["title"] = t.Title
	}
	return v
}
