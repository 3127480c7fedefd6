package acp

import "encoding/json"

// NewSessionRequest are the params of session/new.
type NewSessionRequest struct {
	CWD                   string          `json:"cwd"`
	AdditionalDirectories []string        `json:"additionalDirectories,omitempty"`
	MCPServers            List[MCPServer] `json:"mcpServers"`
	Meta                  Meta            `json:"_meta,omitempty"`

	// DroppedMCPServers says why items of mcpServers were left out. The schema
	// wants them dropped; that nobody is told would be a mistake.
	DroppedMCPServers []string `json:"-"`
}

// OpenSessionRequest are the params of session/load and session/resume.
type OpenSessionRequest struct {
	SessionID string `json:"sessionId"`
	NewSessionRequest
}

// SessionRequest are the params of the methods that want nothing but a session:
// session/close, session/delete and session/cancel.
type SessionRequest struct {
	SessionID string `json:"sessionId"`
	Meta      Meta   `json:"_meta,omitempty"`
}

// NewSessionResponse is the result of session/new.
type NewSessionResponse struct {
	SessionID string `json:"sessionId"`
	OpenSessionResponse
}

// OpenSessionResponse is the result of session/load and session/resume.
type OpenSessionResponse struct {
	Modes         *ModeState     `json:"modes,omitempty"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
	Meta          Meta           `json:"_meta,omitempty"`
}

// ListSessionsRequest are the params of session/list. Empty means not given.
type ListSessionsRequest struct {
	CWD    string `json:"cwd,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	Meta   Meta   `json:"_meta,omitempty"`
}

// ListSessionsResponse is one page of sessions.
type ListSessionsResponse struct {
	Sessions   List[SessionInfo] `json:"sessions"`
	NextCursor string            `json:"nextCursor,omitempty"`
	Meta       Meta              `json:"_meta,omitempty"`
}

// SessionInfo is a session in a list. UpdatedAt is ISO 8601.
type SessionInfo struct {
	SessionID             string   `json:"sessionId"`
	CWD                   string   `json:"cwd"`
	AdditionalDirectories []string `json:"additionalDirectories,omitempty"`
	Title                 string   `json:"title,omitempty"`
	UpdatedAt             string   `json:"updatedAt,omitempty"`
	Meta                  Meta     `json:"_meta,omitempty"`
}

// PromptRequest are the params of session/prompt.
type PromptRequest struct {
	SessionID string             `json:"sessionId"`
	Prompt    List[ContentBlock] `json:"prompt"`
	Meta      Meta               `json:"_meta,omitempty"`
}

// StopReason says how a prompt ended. The set is closed: clients drop a response
// with any other value.
type StopReason string

// The reasons. A turn that failed has none, it is an error.
const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTokens       StopReason = "max_tokens"
	StopMaxTurnRequests StopReason = "max_turn_requests"
	StopRefusal         StopReason = "refusal"
	StopCancelled       StopReason = "cancelled"
)

// PromptResponse is the result of session/prompt.
type PromptResponse struct {
	StopReason StopReason `json:"stopReason"`
	Meta       Meta       `json:"_meta,omitempty"`
}

// MCP transports. On the wire stdio has no type.
const (
	MCPStdio = "stdio"
	MCPHTTP  = "http"
	MCPSSE   = "sse"
)

// MCPServer is a tool server that a client wants connected. Type says which
// fields count.
type MCPServer struct {
	Type    string
	Name    string
	Command string         // stdio: an absolute path
	Args    List[string]   // stdio
	Env     List[Variable] // stdio
	URL     string         // http, sse
	Headers List[Variable] // http, sse
	Meta    Meta
}

// Variable is an environment variable or an HTTP header.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Meta  Meta   `json:"_meta,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s MCPServer) MarshalJSON() ([]byte, error) {
	if s.Type == MCPHTTP || s.Type == MCPSSE {
		return tagged("type", s.Type, struct {
			Name    string         `json:"name"`
			URL     string         `json:"url"`
			Headers List[Variable] `json:"headers"`
			Meta    Meta           `json:"_meta,omitempty"`
		}{s.Name, s.URL, s.Headers, s.Meta})
	}
	return json.Marshal(struct {
		Name    string         `json:"name"`
		Command string         `json:"command"`
		Args    List[string]   `json:"args"`
		Env     List[Variable] `json:"env"`
		Meta    Meta           `json:"_meta,omitempty"`
	}{s.Name, s.Command, s.Args, s.Env, s.Meta})
}

// ParseNewSession reads the params of session/new.
func ParseNewSession(params json.RawMessage) (NewSessionRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v NewSessionRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.read(o, true)
		return v, o.err
	})
}

// ParseLoadSession reads the params of session/load.
func ParseLoadSession(params json.RawMessage) (OpenSessionRequest, error) {
	return parseOpenSession(params, true)
}

// ParseResumeSession reads the params of session/resume, which may be without
// mcpServers.
func ParseResumeSession(params json.RawMessage) (OpenSessionRequest, error) {
	return parseOpenSession(params, false)
}

func parseOpenSession(params json.RawMessage, needServers bool) (OpenSessionRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v OpenSessionRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.SessionID = required(o, "sessionId", asString)
		v.read(o, needServers)
		return v, o.err
	})
}

// maxDropped bounds what is said about dropped items.
const maxDropped = 20

func (v *NewSessionRequest) read(o *object, needServers bool) {
	v.CWD = required(o, "cwd", asAbsolutePath)
	// A root is what the agent may touch, so none is dropped silently.
	v.AdditionalDirectories = strict(o, "additionalDirectories", listOf(asAbsolutePath, false))
	v.Meta = optional(o, "_meta", asMeta)

	servers, there := o.members["mcpServers"]
	if !there {
		if needServers {
			required(o, "mcpServers", asRaw) // says that it is missing
		}
		return
	}
	v.MCPServers = optional(o, "mcpServers", listOf(func(text json.RawMessage, path string) (MCPServer, error) {
		server, err := parseMCPServer(text, path)
		if err != nil && len(v.DroppedMCPServers) < maxDropped {
			v.DroppedMCPServers = append(v.DroppedMCPServers, AsError(err).Message)
		}
		return server, err
	}, true))
	if v.MCPServers == nil && !isNull(servers) {
		v.DroppedMCPServers = append(v.DroppedMCPServers, o.path+".mcpServers must be an array, not "+typeOf(servers))
	}
}

func parseMCPServer(text json.RawMessage, path string) (v MCPServer, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.Type = MCPStdio
	if t, there := o.members["type"]; there && !isNull(t) {
		v.Type = required(o, "type", oneOf(MCPStdio, MCPHTTP, MCPSSE))
	}
	v.Name = required(o, "name", asString)
	if v.Type == MCPStdio {
		v.Command = required(o, "command", asString)
		v.Args = required(o, "args", orNull(listOf(asString, false)))
		v.Env = required(o, "env", orNull(listOf(parseVariable, false)))
	} else {
		v.URL = required(o, "url", asString)
		v.Headers = required(o, "headers", orNull(listOf(parseVariable, false)))
	}
	v.Meta = optional(o, "_meta", asMeta)
	return v, o.err
}

func parseVariable(text json.RawMessage, path string) (v Variable, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.Name = required(o, "name", asString)
	v.Value = required(o, "value", asString)
	v.Meta = optional(o, "_meta", asMeta)
	return v, o.err
}

// ParseListSessions reads the params of session/list, which may be absent. A
// malformed filter is an error: without it the list would be another one.
func ParseListSessions(params json.RawMessage) (ListSessionsRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v ListSessionsRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.CWD = strict(o, "cwd", asAbsolutePath)
		v.Cursor = strict(o, "cursor", asString)
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// ParseSession reads the params of session/close, session/delete, session/cancel.
func ParseSession(params json.RawMessage) (SessionRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v SessionRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.SessionID = required(o, "sessionId", asString)
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// ParsePrompt reads the params of session/prompt. A malformed block is an error,
// because the prompt without it would be another one.
func ParsePrompt(params json.RawMessage) (PromptRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v PromptRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.SessionID = required(o, "sessionId", asString)
		v.Prompt = required(o, "prompt", listOf(parseContentBlock, false))
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}
