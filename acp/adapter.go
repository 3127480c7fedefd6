package acp

import (
	"fmt"
	"maps"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Adapter says how a prompt becomes the input of a graph, and how what the graph
// writes and asks becomes the session. A nil or empty field is the default. The
// defaults call each other through the struct, so that an override is seen by all
// who use it.
//
// An adapter that fails, by an error or a panic, fails the prompt; the turn stays
// where it was.
type Adapter struct {
	// InputChannel is where the user's text is written: "prompt". Where the graph
	// does not declare it, a user message is appended to "messages".
	InputChannel string

	// OutputChannel is where the agent's reply is read: "response".
	OutputChannel string

	// UserText gives the text of a prompt: that of every block, joined with one
	// space. A link is [name](uri); an embedded resource is its text, or a link
	// where it carries a blob. Images and audio add nothing.
	UserText func(blocks []ContentBlock) (string, error)

	// InitialState gives what the prompt writes: the user's text in the input
	// channel, and the id of the session in "_acp_session_id".
	InitialState func(blocks []ContentBlock, sessionID string) (engine.Values, error)

	// SessionState is what the server calls: InitialState, and then "_acp_cwd",
	// "_acp_additional_directories", "_acp_mcp_tools" and "_acp_prompt", which has
	// the blocks themselves, where they are not set already. Of channels that begin with "_acp_", those that the
	// graph does not declare are left out afterwards.
	SessionState func(blocks []ContentBlock, session Session) (engine.Values, error)

	// Image and Audio say that prompts may have such blocks. It is so, too, where
	// the graph declares "_acp_prompt". Else they are refused.
	Image, Audio bool

	// AgentText gives the agent's reply: what the turn wrote to the output channel
	// (a value that is no string as compact JSON; empty and null count as
	// nothing), else the content of the last assistant message that it appended
	// to "messages". Empty text is not sent.
	AgentText func(output TurnOutput) (string, error)

	// InterruptPermission gives the tool call and the options by which a gate, a
	// choice question or a doubt is asked. nil means that it cannot be answered
	// by a choice: the prompt fails with NG.Interrupted and the turn stays paused.
	// The id and the status of the tool call are the server's.
	InterruptPermission func(question interrupt.Question) (*Permission, error)

	// InterruptAnswer gives the value that an option stands for: its id.
	InterruptAnswer func(question interrupt.Question, optionID string) (any, error)
}

// Session is what an adapter may know of a session.
type Session struct {
	ID                    string
	CWD                   string
	AdditionalDirectories []string
	MCPTools              []any // of the client's tool servers: name, title, description, input_schema, read_only
}

// TurnOutput is what the steps of a turn wrote.
type TurnOutput struct {
	Thread string
	Turn   int64
	Status engine.Status

	// Values are the channels that the turn wrote, each as it was when the turn
	// ended.
	Values engine.Values

	// Messages are those that the turn appended to "messages".
	Messages []any
}

// Permission is how a question is asked.
type Permission struct {
	ToolCall ToolCall
	Options  []PermissionOption
}

// Channels that a prompt writes beside the input channel, and where text goes
// that has no channel of its own.
const (
	messagesChannel  = "messages"
	ownChannels      = "_acp_" // the prefix of these:
	sessionIDChannel = "_acp_session_id"
	cwdChannel       = "_acp_cwd"
	rootsChannel     = "_acp_additional_directories"
	toolsChannel     = "_acp_mcp_tools"
	promptChannel    = "_acp_prompt"
)

// For gives the adapter with every field filled in, for a graph (nil is enough for
// those that are about no input). Its functions
// call each other through the struct that is returned, so that a field that is
// set there later counts as well.
func (a Adapter) For(graph *engine.Graph) *Adapter {
	full := &a
	if full.InputChannel == "" {
		full.InputChannel = "prompt"
	}
	if full.OutputChannel == "" {
		full.OutputChannel = "response"
	}
	if full.UserText == nil {
		full.UserText = defaultUserText
	}
	if full.InitialState == nil {
		full.InitialState = func(blocks []ContentBlock, sessionID string) (engine.Values, error) {
			return full.initialState(graph, blocks, sessionID)
		}
	}
	if full.SessionState == nil {
		full.SessionState = func(blocks []ContentBlock, session Session) (engine.Values, error) {
			return full.sessionState(graph, blocks, session)
		}
	}
	if full.AgentText == nil {
		full.AgentText = full.agentText
	}
	if full.InterruptPermission == nil {
		full.InterruptPermission = defaultPermission
	}
	if full.InterruptAnswer == nil {
		full.InterruptAnswer = func(_ interrupt.Question, optionID string) (any, error) { return optionID, nil }
	}
	return full
}

// Fits says whether a graph can take text at all: it declares the input channel
// or "messages".
func (a Adapter) Fits(graph *engine.Graph) error {
	full := a.For(graph)
	if a.InitialState != nil || a.SessionState != nil || graph.HasChannel(full.InputChannel) || graph.HasChannel(messagesChannel) {
		return nil
	}
	return fmt.Errorf("graph %s takes no text: it declares neither channel %s nor %s; declare one", graph.Name(), full.InputChannel, messagesChannel)
}

func (a *Adapter) initialState(graph *engine.Graph, blocks []ContentBlock, sessionID string) (engine.Values, error) {
	text, err := a.UserText(blocks)
	if err != nil {
		return nil, err
	}
	values := engine.Values{sessionIDChannel: sessionID}
	switch {
	case graph.HasChannel(a.InputChannel):
		values[a.InputChannel] = text
	case graph.HasChannel(messagesChannel):
		values[messagesChannel] = []any{map[string]any{"role": "user", "content": text}}
	default:
		return nil, a.Fits(graph)
	}
	return values, nil
}

func (a *Adapter) sessionState(graph *engine.Graph, blocks []ContentBlock, session Session) (engine.Values, error) {
	values, err := a.InitialState(blocks, session.ID)
	if err != nil || values == nil {
		return values, err
	}
	roots := make([]any, len(session.AdditionalDirectories))
	for i, root := range session.AdditionalDirectories {
		roots[i] = root
	}
	tools := session.MCPTools
	if tools == nil {
		tools = []any{}
	}
	for channel, v := range map[string]any{cwdChannel: session.CWD, rootsChannel: roots, toolsChannel: tools} {
		if _, there := values[channel]; !there {
			values[channel] = v
		}
	}
	if _, there := values[promptChannel]; !there && graph.HasChannel(promptChannel) {
		if values[promptChannel], err = blockValues(blocks); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// input gives what a prompt writes, and the text of it.
func (a *Adapter) input(graph *engine.Graph, blocks []ContentBlock, session Session) (text string, values engine.Values, err error) {
	if text, err = guarded("UserText", func() (string, error) { return a.UserText(blocks) }); err != nil {
		return "", nil, err
	}
	values, err = guarded("SessionState", func() (engine.Values, error) { return a.SessionState(blocks, session) })
	if err != nil {
		return "", nil, err
	}
	if c, behind, ok := graph.Command(text); ok {
		// What the command writes stands in the place of the text.
		given, err := guarded("command /"+c.Name, func() (engine.Values, error) { return c.Input(behind) })
		if err != nil {
			return "", nil, err
		}
		rest := values
		values = engine.Values{}
		maps.Copy(values, rest)
		delete(values, a.InputChannel)
		delete(values, messagesChannel)
		maps.Copy(values, given)
	}
	kept := engine.Values{}
	for channel, v := range values {
		if !strings.HasPrefix(channel, ownChannels) || graph.HasChannel(channel) {
			kept[channel] = v
		}
	}
	return text, kept, nil
}

// guarded calls a function of an adapter. A panic in it is an error.
func guarded[T any](what string, call func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("adapter: %s: panic: %v", what, p)
		}
	}()
	if out, err = call(); err != nil {
		err = fmt.Errorf("adapter: %s: %w", what, err)
	}
	return out, err
}
