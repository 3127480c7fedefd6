package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// calledSchema is of a graph, or a node, that is a tool.
func calledSchema() map[string]any {
	channels := func(description string) map[string]any {
		return map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"type": "string", "minLength": 1}, "description": description}
	}
	return schema([]any{"description", "input", "output"}, map[string]any{
		"name":        map[string]any{"type": "string", "pattern": toolName.String(), "description": "letters, digits, _ and -, at most 64: what the model calls the graph"},
		"definition":  definitionSchema(),
		"node":        textSchema("instead of name and definition: a node of this file, which is called by its name and runs alone, with a state of its own"),
		"description": map[string]any{"type": "string", "minLength": 1, "description": "what the model is told that the tool does"},
		"input":       channels("the channels that the arguments go to; one without an initial value is required"),
		"output":      channels("the channels whose values are the result"),
	})
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// calledTool is a graph that is a tool. What its arguments may be is known when
// the graph around it is compiled.
type calledTool struct {
	*tool
	at            *tree
	input, output []string
}

// call reads a graph or a node that is a tool, and gives how it is stored.
func (s *toolset) call(c *Config, at *tree, calls map[string]*engine.Graph) any {
	config := map[string]any{}
	for _, k := range at.keys {
		if !isAnnotation(k.name) && k.value.kind != nullKind && k.name != "definition" {
			config[k.name] = c.d.data(k.value)
		}
	}
	called := &calledTool{at: at, tool: &tool{
		// The graph may do anything; it goes on where it was after a crash, and
		// calls of it do not see each other.
		kind: "other", changes: true, beside: true, onCrash: engine.CrashRetry,
	}}
	called.doc, _ = config["description"].(string)
	called.input, called.output = texts(config["input"]), texts(config["output"])
	called.run = called.runs
	node, isNode := config["node"].(string)
	name, isNamed := config["name"].(string)
	definition := at.get("definition")
	switch {
	case isNode && (isNamed || definition != nil):
		c.d.wrong(at, "", "a tool of node %s is a node of this file, or a graph with name and definition, not both", c.Node())
		return config
	case !isNode && (!isNamed || definition == nil):
		c.d.wrong(at, "", "a tool of node %s needs node, or name and definition", c.Node())
		return config
	case isNode:
		name = node
		if c.d.nodeNames.get(name) == nil {
			c.d.wrong(at.get("node"), engine.Nearest(name, c.d.names()), "there is no node %q", name)
			return config
		}
		if !toolName.MatchString(name) {
			c.d.wrong(at.get("node"), "put it into a graph with another name", "node %q cannot be a tool: a tool's name has letters, digits, _ and -, at most 64", name)
		}
		for _, key := range []string{"input", "output"} {
			for _, item := range at.get(key).items {
				c.d.channel(item, key)
			}
		}
		// They are read and written from outside.
		c.d.def.Outside = append(append(c.d.def.Outside[:len(c.d.def.Outside):len(c.d.def.Outside)], called.input...), called.output...)
		calls[name] = nil
	default:
		outside := append(append([]string{}, called.input...), called.output...)
		g := c.definition(definition, name, "definition of tool "+name, outside)
		if g == nil {
			return config // what is wrong with it is said
		}
		written, err := value.Decode(g.Canonical())
		if err != nil {
			c.d.wrong(definition, "", "definition of tool %s: %v", name, err)
			return config
		}
		config["definition"], calls[name] = written, g
	}
	called.name = name
	if s.own[name] != nil || builtinTools()[name] != nil {
		c.d.wrong(at, "call it something else", "two tools of node %s are called %s", c.Node(), name)
	}
	s.own[name] = called.tool
	s.called = append(s.called, called)
	return config
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// describe says what the arguments of called graphs may be.
func (s *toolset) describe(d *decoder, g *engine.Graph) {
	for _, t := range s.called {
		graph := g.Called(s.node, t.name)
		known := graph.Channels()
		for key, channels := range map[string][]string{"input": t.input, "output": t.output} {
			for i, channel := range channels {
				if !graph.HasChannel(channel) {
					suggestion := engine.Nearest(channel, known)
					if suggestion == "" {
						suggestion = "there are " + joinNames(known)
					}
					d.wrong(t.at.get(key).items[i], suggestion, "tool %s has no channel %q", t.name, channel)
				}
			}
		}
		if len(d.problems) > 0 {
			continue
		}
		t.schema = map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
		var err error
		if len(t.input) > 0 { // InputSchema takes none for all
			t.schema, err = graph.InputSchema(t.input...)
		}
		if err == nil {
			t.checks, err = compileSchema(t.schema)
		}
		if err != nil {
			d.wrong(t.at, "", "arguments of tool %s: %v", t.name, err)
		}
	}
}

// runs runs the graph of a call, or goes on with it.
func (t *calledTool) runs(ctx context.Context, c *toolCall) (string, error) {
	id := c.id
	if len(id) > 64 { // it stands in every entry of the call
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	state, err := c.task.Call(ctx, t.name+" "+id, t.name, c.args)
	if err != nil {
		return "", err
	}
	result := make(map[string]any, len(t.output))
	for _, channel := range t.output {
		result[channel] = state[channel]
	}
	return string(value.Append(nil, result)), nil
}
