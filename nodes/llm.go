package nodes

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
)

func llmType() Type {
	properties := modelProperties()
	properties["messages"] = textSchema("the channel with the conversation, whose reducer is messages or append; absent: messages, or none if there is a prompt")
	properties["prompt"] = textSchema("a message of the user behind the conversation, for this call alone; ${{ }} is replaced in it")
	properties["tools"] = wordSchema("a node of type tools: the model is offered its tools. An edge with the condition has_tool_calls leads there")
	properties["answer_schema"] = map[string]any{"type": "object", "description": "a JSON Schema that the answer must fit; output is then its value"}
	properties["output"] = textSchema("a channel that the answer is written to: its text, or its value if there is an answer_schema")
	return Type{
		Name: "llm", Version: 1,
		Doc:    "Calls a language model and appends its answer to the conversation, a channel of messages in the shape of OpenAI's chat completions. The answer is shown as it comes. A call is made once: its answer is stored before anything else happens, so that neither a crash nor a failure behind it pays twice. A refusal ends the turn; so does a budget that is spent.",
		Schema: schema([]any{"model"}, properties),
		New:    newLLM,
		speaks: true,
	}
}

// modelProperties are the keys of every node that calls a model.
func modelProperties() map[string]any {
	return map[string]any{
		"provider":       enumSchema("what the server speaks: openai is chat completions, which most servers do; absent: openai", model.OpenAI, model.Anthropic),
		"model":          map[string]any{"type": "string", "minLength": 1, "description": "the model's name, as the server knows it"},
		"base_url":       textSchema("where the server is, such as http://localhost:11434/v1; absent: the provider's own"),
		"api_key_env":    map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "the environment variable with the key; absent: OPENAI_API_KEY or ANTHROPIC_API_KEY for the provider's own server, none for another"},
		"system":         textSchema("what the model is told before the conversation; ${{ }} is replaced in it"),
		"temperature":    map[string]any{"type": "number", "minimum": 0, "maximum": 2, "description": "how much is left to chance; absent: the server's own"},
		"max_tokens":     map[string]any{"type": "integer", "minimum": 1, "description": "the longest answer; absent: the server's own, with anthropic 16384"},
		"context_window": map[string]any{"type": "integer", "minimum": 1, "description": "how many tokens the model's window holds: a client shows how full it is"},
		"budget":         map[string]any{"type": "integer", "minimum": 1, "description": "tokens that a turn may use, in and out, with all its models: a call that finds them used ends the turn; absent: no bound"},
		"parameters":     map[string]any{"type": "object", "description": "further members of the request, as the server knows them, such as {reasoning_effort: low}"},
	}
}

// modelCall is what every node that calls a model has.
type modelCall struct {
	node   string
	client model.Client // without its key
	keyEnv string
	model  *Template
	system *Template

	temperature *float64
	maxTokens   int64
	window      int64
	budget      int64
	parameters  map[string]any
}

// reserved are members of a request that have keys of their own, or none.
var reserved = []string{"model", "messages", "system", "tools", "functions", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "temperature", "response_format", "output_config"}

func newModelCall(c *Config) *modelCall {
	m := &modelCall{node: c.Node(), client: model.Client{Provider: model.OpenAI, HTTP: http.DefaultTransport}}
	c.Literal("provider", &m.client.Provider)
	m.model, m.system = c.Template("model"), c.Template("system")
	if c.Literal("base_url", &m.client.BaseURL) {
		if err := model.CheckURL(m.client.BaseURL); err != nil {
			c.Wrong("base_url", "", "base_url of node %s: %v", c.Node(), err)
		}
	}
	if !c.Literal("api_key_env", &m.keyEnv) && m.client.BaseURL == "" {
		m.keyEnv = model.DefaultKeyEnv(m.client.Provider)
	}
	model.KeepSecret(m.keyEnv)
	c.Literal("temperature", &m.temperature)
	c.Literal("max_tokens", &m.maxTokens)
	c.Literal("context_window", &m.window)
	c.Literal("budget", &m.budget)
	c.Literal("parameters", &m.parameters)
	for name := range m.parameters {
		if slices.Contains(reserved, name) {
			c.Wrong("parameters", "", "parameters of node %s cannot set %s", c.Node(), name)
		}
	}
	return m
}

// policy is how a call is tried again where the file says nothing: servers are
// busy every day.
func (c *Config) policy() *engine.Retry {
	if c.d.def.Retry != nil {
		return nil
	}
	return &engine.Retry{MaxRetries: 4, InitialDelay: time.Second, Multiplier: 2, MaxDelay: 30 * time.Second, Jitter: 0.2}
}

// llm is a node that calls a model.
type llm struct {
	*modelCall
	messages string
	prompt   *Template
	tools    *toolset // nil: none
	schema   map[string]any
	checks   *jsonschema.Schema
	output   string
}

func newLLM(c *Config) engine.Node {
	n := &llm{modelCall: newModelCall(c), prompt: c.Template("prompt")}
	if c.Has("messages") || n.prompt == nil {
		n.messages = c.messages()
	}
	n.output = c.Output("output", nil)
	if n.messages == "" && n.output == "" {
		c.Wrong("output", "add output", "what the model answers to node %s goes nowhere: it has neither messages nor output", c.Node())
	}
	if c.Literal("answer_schema", &n.schema) {
		var err error
		if n.checks, err = compileSchema(n.schema); err != nil {
			c.Wrong("answer_schema", "", "answer_schema of node %s: %v", c.Node(), err)
		}
	}
	var tools string
	if t := c.take("tools"); t != nil {
		tools, _ = c.d.word(t, c.what("tools"))
		if n.messages == "" {
			c.Wrong("tools", "leave prompt out, or name a channel with messages", "node %s has no conversation that the answers of tools could go to", c.Node())
		}
	}
	if tools != "" {
		c.d.later = append(c.d.later, func() {
			if n.tools = c.d.toolsets[tools]; n.tools != nil {
				return
			}
			var names []string
			for name := range c.d.toolsets {
				names = append(names, name)
			}
			suggestion := engine.Nearest(tools, names)
			if suggestion == "" {
				suggestion = "it is the name of a node with type: tools"
			}
			c.Wrong("tools", suggestion, "tools of node %s: there is no node %q of type tools", c.Node(), tools)
		})
	}
	return engine.Node{Run: n.run, Retry: c.policy()}
}

// messages reads the channel with the conversation.
func (c *Config) messages() string {
	if !c.Has("messages") {
		c.take("messages")
		if !c.d.declared(c.d.at(c.t), c.t.pointer, messagesName) {
			return messagesName
		}
		c.d.effects.Reads = append(c.d.effects.Reads, messagesName)
		c.d.effects.Writes = append(c.d.effects.Writes, messagesName)
		c.checkMessages(messagesName)
		return messagesName
	}
	name := c.Input("messages")
	if name != "" {
		c.d.effects.Writes = append(c.d.effects.Writes, name)
		c.checkMessages(name)
	}
	return name
}

func (c *Config) checkMessages(name string) {
	if r := c.d.def.Channels[name].Reducer; r != engine.Messages && r != engine.Append {
		if r == "" {
			r = engine.Overwrite
		}
		c.Wrong("messages", "declare it with {reducer: messages}", "channel %s has the reducer %s: a conversation needs messages, or append", name, r)
	}
}

// plainNumbers gives the numbers of Go's own decoder, which is what the schema
// library compares with.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainNumbers(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainNumbers(e)
		}
		return out
	case int64:
		return float64(v)
	}
	return v
}

// schemaMistake says in short what does not fit.
func schemaMistake(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if _, rest, found := strings.Cut(text, "; "); found {
		text = rest
	}
	return shorten(strings.TrimSpace(text), 500)
}
