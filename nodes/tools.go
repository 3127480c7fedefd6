package nodes

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/model"
)

func toolsType() Type {
	return Type{
		Name: "tools", Version: 1,
		Doc: "Runs the tool calls of the last message of the assistant and appends their results to the conversation, in the order of the calls. Which calls may run is decided for the whole batch before any of them runs. Each result is stored as it comes, so that no call is run twice; each call is shown, with its diff or its command. What goes wrong with a call (there is no such tool, its arguments do not fit, it is denied, it fails) is its answer, and the model goes on from there.",
		Schema: schema([]any{"tools"}, map[string]any{
			"tools": map[string]any{
				"type": "array", "minItems": 1, "uniqueItems": true,
				"items":       map[string]any{"anyOf": []any{map[string]any{"type": "string", "minLength": 1}, calledSchema()}},
				"description": "what there is: " + joinNames(builtinNames()) + "; mcp for every tool of the session's MCP servers, or the name of one, SERVER__TOOL, in which * stands for anything; or an object that makes a tool of a graph, or of a node of this file",
			},
			"messages": textSchema("the channel with the conversation, whose reducer is messages or append; absent: messages"),
			"approve": map[string]any{
				"description": "which calls a person is asked about: always, never, deny, an expression, or an object of these by the name of a tool, * for all others. An expression sees tool and args beside the channels; it gives true to ask, false to run, a text to deny with that reason, or {args: ...} to run with others. Absent: always for what changes something, never for what reads",
				"anyOf": []any{
					map[string]any{"type": "string", "minLength": 1},
					map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "string", "minLength": 1}},
				},
			},
			"timeout":    durationSchema("how long a command of exec may take; then it is killed, and the model is told; absent: 10m"),
			"max_output": map[string]any{"type": "integer", "minimum": 256, "maximum": maxMaxOutput, "description": "bytes of a result that the model gets; absent: 32768"},
		}),
		New: newTools,
	}
}

// tool is one that the node has of its own.
type tool struct {
	name, doc, kind string // kind as in engine.Call
	schema          map[string]any
	changes         bool // it changes something
	beside          bool // it may run beside others all the same
	checks          *jsonschema.Schema
	onCrash         engine.OnCrash
	// plan looks at what a call would do, before anybody is asked; nil: nothing
	// to look at.
	plan func(c *toolCall, b *batch) (*toolPlan, error)
	run  func(ctx context.Context, c *toolCall) (string, error)
}

// toolset is the tools of a node.
type toolset struct {
	node      string
	messages  string
	own       map[string]*tool
	called    []*calledTool // of own: graphs and nodes
	patterns  []string      // of names of MCP tools
	rules     map[string]rule
	maxOutput int
	timeout   time.Duration
	clock     clock.Clock
}

const (
	allMCP           = "mcp"
	defaultToolBytes = 32 << 10
	defaultToolTime  = 10 * time.Minute
)

func newTools(c *Config) engine.Node {
	s := &toolset{
		node: c.Node(), messages: c.messages(), own: map[string]*tool{}, rules: map[string]rule{},
		maxOutput: defaultToolBytes, timeout: defaultToolTime, clock: clock.Real,
	}
	builtin := builtinTools()
	calls := map[string]*engine.Graph{}
	var config []any
	for _, item := range c.take("tools").items {
		if item.kind == objectKind {
			config = append(config, s.call(c, item, calls))
			continue
		}
		name := item.raw
		config = append(config, name)
		switch t := builtin[name]; {
		case t != nil:
			s.own[name] = t
		case name == allMCP:
			s.patterns = append(s.patterns, "*")
		case strings.Contains(name, "__") || strings.Contains(name, "*"):
			if _, err := path.Match(name, ""); err != nil {
				c.d.wrong(item, "", "tools of node %s: %q is no pattern", c.Node(), name)
			}
			s.patterns = append(s.patterns, name)
		default:
			known := append(builtinNames(), allMCP)
			suggestion := engine.Nearest(name, known)
			if suggestion == "" {
				suggestion = "there are " + joinNames(known) + "; a tool of an MCP server is called SERVER__TOOL"
			}
			c.d.wrong(item, suggestion, "tools of node %s: there is no tool %q", c.Node(), name)
		}
	}
	c.config["tools"] = config
	s.approve(c)
	c.Literal("max_output", &s.maxOutput)
	if c.Has("timeout") {
		s.timeout = c.Duration("timeout")
	}
	if c.d.toolsets == nil {
		c.d.toolsets = map[string]*toolset{}
	}
	c.d.toolsets[c.Node()] = s
	return engine.Node{Run: s.run, Resolve: s.gated(c.d), Calls: calls}
}

// gated gives the Resolve of the node: the calls, for whoever stands at a gate
// in front of it. Without a gate each call speaks for itself.
func (s *toolset) gated(d *decoder) func(*engine.Task) (any, error) {
	return func(t *engine.Task) (any, error) {
		atGate := func(g engine.Gate) bool { return g.Node == s.node }
		if !slices.ContainsFunc(d.def.InterruptBefore, atGate) {
			return nil, nil
		}
		calls, err := s.calls(t)
		if err != nil {
			return nil, err
		}
		list := make([]any, len(calls))
		for i, call := range calls {
			list[i] = map[string]any{"tool": call.Function.Name, "arguments": call.Function.Arguments}
		}
		return map[string]any{"calls": list}, nil
	}
}

// specs are the tools as a model is told of them, by name.
func (s *toolset) specs(ctx context.Context, t *engine.Task) ([]model.Tool, error) {
	var out []model.Tool
	for _, name := range slices.Sorted(maps.Keys(s.own)) {
		own := s.own[name]
		out = append(out, model.Tool{Name: name, Description: own.doc, Schema: own.schema})
	}
	hosted, err := s.hosted(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(hosted)) {
		h := hosted[name]
		parameters := h.Schema
		if parameters == nil {
			parameters = map[string]any{"type": "object", "properties": map[string]any{}}
		}
		out = append(out, model.Tool{Name: name, Description: h.Description, Schema: parameters})
	}
	return out, nil
}

// hosted are the tools of the session that the node may use.
func (s *toolset) hosted(ctx context.Context, t *engine.Task) (map[string]engine.HostTool, error) {
	if len(s.patterns) == 0 {
		return nil, nil
	}
	list, err := t.Host().Tools(ctx, t)
	if err != nil {
		return nil, err
	}
	out := map[string]engine.HostTool{}
	for _, h := range list {
		matches := func(pattern string) bool {
			ok, _ := path.Match(pattern, h.Name) // it was checked when the file was read
			return ok
		}
		if s.own[h.Name] == nil && slices.ContainsFunc(s.patterns, matches) {
			out[h.Name] = h
		}
	}
	return out, nil
}

func builtinNames() []string { return slices.Sorted(maps.Keys(builtinTools())) }

// builtinTools are the tools that every node may have.
func builtinTools() map[string]*tool {
	out := map[string]*tool{}
	for _, t := range []*tool{readTool(), writeTool(), editTool(), listTool(), searchTool(), execTool()} {
		checks, err := compileSchema(t.schema)
		if err != nil {
			panic(err) // a mistake in this program, which every load would find
		}
		t.checks = checks
		if t.onCrash = engine.CrashRetry; t.changes {
			t.onCrash = engine.CrashAsk
		}
		out[t.name] = t
	}
	return out
}

// argSchema makes the schema of arguments; names that end with ? may be absent.
func argSchema(properties map[string]any) map[string]any {
	required, plain := []any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		bare := strings.TrimSuffix(name, "?")
		plain[bare] = properties[name]
		if bare == name {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": plain, "required": required, "additionalProperties": false}
}
