package acp

import "encoding/json"

// InitializeRequest is the first message of a client.
type InitializeRequest struct {
	ProtocolVersion    uint16             `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities"`
	ClientInfo         *Implementation    `json:"clientInfo,omitempty"`
	Meta               Meta               `json:"_meta,omitempty"`
}

// Implementation names a client or an agent.
type Implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Title   string `json:"title,omitempty"`
	Meta    Meta   `json:"_meta,omitempty"`
}

// ClientCapabilities says which of its methods a client has. What is absent must
// not be called.
type ClientCapabilities struct {
	FS          FileSystemCapabilities    `json:"fs"`
	Terminal    bool                      `json:"terminal"`
	Auth        AuthCapabilities          `json:"auth"`
	Elicitation ElicitationCapabilities   `json:"elicitation,omitzero"`
	Session     ClientSessionCapabilities `json:"session,omitzero"`
	Meta        Meta                      `json:"_meta,omitempty"`
}

// FileSystemCapabilities are for fs/read_text_file and fs/write_text_file.
type FileSystemCapabilities struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
}

// AuthCapabilities say whether a login in a terminal may be offered.
type AuthCapabilities struct {
	Terminal bool `json:"terminal"`
}

// ElicitationCapabilities are for elicitation/create, each mode for itself: an
// object without members offers none.
type ElicitationCapabilities struct {
	Form *Supported `json:"form,omitempty"`
	URL  *Supported `json:"url,omitempty"`
}

// ClientSessionCapabilities say which extras a client can show.
type ClientSessionCapabilities struct {
	// ConfigOptions.Boolean: without it a boolean option must not be sent.
	ConfigOptions ConfigOptionCapabilities `json:"configOptions,omitzero"`
	Notices       *Supported               `json:"notices,omitempty"`
	Compaction    *Supported               `json:"compaction,omitempty"`
}

// ConfigOptionCapabilities are kinds of options beyond the select.
type ConfigOptionCapabilities struct {
	Boolean *Supported `json:"boolean,omitempty"`
}

// InitializeResponse says what this agent can do.
type InitializeResponse struct {
	ProtocolVersion   uint16            `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AgentInfo         *Implementation   `json:"agentInfo,omitempty"`
	AuthMethods       List[AuthMethod]  `json:"authMethods"`
	Meta              Meta              `json:"_meta,omitempty"`
}

// AgentCapabilities must tell exactly what is handled: every method that is
// advertised answers, and no other.
type AgentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  PromptCapabilities  `json:"promptCapabilities"`
	MCPCapabilities     MCPCapabilities     `json:"mcpCapabilities"`
	SessionCapabilities SessionCapabilities `json:"sessionCapabilities"`
	Auth                AgentAuth           `json:"auth"`
	Meta                Meta                `json:"_meta,omitempty"`
}

// PromptCapabilities are content blocks beyond text and resource_link.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

// MCPCapabilities are transports of MCP servers beyond stdio.
type MCPCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

// SessionCapabilities are methods for sessions beyond new, prompt and cancel.
type SessionCapabilities struct {
	List                  *Supported `json:"list,omitempty"`
	Delete                *Supported `json:"delete,omitempty"`
	Resume                *Supported `json:"resume,omitempty"`
	Close                 *Supported `json:"close,omitempty"`
	AdditionalDirectories *Supported `json:"additionalDirectories,omitempty"`
}

// AgentAuth says whether logout is there.
type AgentAuth struct {
	Logout *Supported `json:"logout,omitempty"`
}

// AuthMethod is a way to log in, handled by the agent itself.
type AuthMethod struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Meta        Meta   `json:"_meta,omitempty"`
}

// AuthenticateRequest are the params of authenticate.
type AuthenticateRequest struct {
	MethodID string `json:"methodId"`
	Meta     Meta   `json:"_meta,omitempty"`
}

// ParseInitialize reads the params of initialize.
func ParseInitialize(params json.RawMessage) (InitializeRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v InitializeRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.ProtocolVersion = required(o, "protocolVersion", asUint16)
		v.ClientCapabilities = optional(o, "clientCapabilities", parseClientCapabilities)
		v.ClientInfo = optional(o, "clientInfo", pointer(parseImplementation))
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// ParseAuthenticate reads the params of authenticate.
func ParseAuthenticate(params json.RawMessage) (AuthenticateRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v AuthenticateRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.MethodID = required(o, "methodId", asString)
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

func parseImplementation(text json.RawMessage, path string) (v Implementation, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.Name = required(o, "name", asString)
	v.Version = required(o, "version", asString)
	v.Title = optional(o, "title", asString)
	v.Meta = optional(o, "_meta", asMeta)
	return v, o.err
}

func parseClientCapabilities(text json.RawMessage, path string) (v ClientCapabilities, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.FS = optional(o, "fs", func(text json.RawMessage, path string) (v FileSystemCapabilities, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.ReadTextFile = optional(o, "readTextFile", asBool)
		v.WriteTextFile = optional(o, "writeTextFile", asBool)
		return v, nil
	})
	v.Terminal = optional(o, "terminal", asBool)
	v.Auth = optional(o, "auth", func(text json.RawMessage, path string) (v AuthCapabilities, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Terminal = optional(o, "terminal", asBool)
		return v, nil
	})
	v.Elicitation = optional(o, "elicitation", func(text json.RawMessage, path string) (v ElicitationCapabilities, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Form = optional(o, "form", asSupported)
		v.URL = optional(o, "url", asSupported)
		return v, nil
	})
	v.Session = optional(o, "session", parseClientSessionCapabilities)
	v.Meta = optional(o, "_meta", asMeta)
	return v, nil
}

func parseClientSessionCapabilities(text json.RawMessage, path string) (v ClientSessionCapabilities, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.ConfigOptions = optional(o, "configOptions", func(text json.RawMessage, path string) (v ConfigOptionCapabilities, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Boolean = optional(o, "boolean", asSupported)
		return v, nil
	})
	v.Notices = optional(o, "notices", asSupported)
	v.Compaction = optional(o, "compaction", asSupported)
	return v, nil
}
