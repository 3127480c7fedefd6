package engine

import (
	"context"
	"errors"
)

// What a Host gives that does not have a thing: the node does it itself.
var (
	ErrNoTerminal = errors.New("no terminal here")
	ErrNoFiles    = errors.New("no file system of its own here")
)

// Host is what the surroundings of a turn offer to its nodes: the editor that
// the session belongs to, if there is one. Embed NoHost to offer only a part.
type Host interface {
	// Terminal runs a command where the person watches it. The context's end
	// kills it. ErrNoTerminal, before anything ran, if there is none.
	Terminal(ctx context.Context, t *Task, c Command) (CommandResult, error)
	// ReadFile gives a text file as the editor has it, unsaved changes
	// included. The path is absolute and within the task's roots. ErrNoFiles if
	// the file on the disk is all there is.
	ReadFile(ctx context.Context, t *Task, path string) (string, error)
	// WriteFile puts a whole text file through the editor. ErrNoFiles, before
	// anything was written, if the node has to write it to the disk itself.
	WriteFile(ctx context.Context, t *Task, path, text string) error
	// Tools are the tools of the session's servers, by name; none if there are
	// none.
	Tools(ctx context.Context, t *Task) ([]HostTool, error)
	// CallTool calls one of them and gives its result as JSON. A *ToolError is
	// what the tool itself said; ErrInDoubt is wrapped if it broke off.
	CallTool(ctx context.Context, t *Task, name string, args any) (any, error)
}

// HostTool is a tool that a Host offers.
type HostTool struct {
	Name        string // unique among the host's
	Title       string
	Description string
	Schema      map[string]any // JSON Schema of its arguments
	ReadOnly    bool           // it says that it changes nothing
}

// ToolError is a failure that a tool reports of itself: an answer for whoever
// called it.
type ToolError struct{ Message string }

func (e *ToolError) Error() string { return e.Message }

// NoHost offers nothing.
type NoHost struct{}

var _ Host = NoHost{}

// Terminal gives ErrNoTerminal.
func (NoHost) Terminal(context.Context, *Task, Command) (CommandResult, error) {
	return CommandResult{}, ErrNoTerminal
}

// ReadFile gives ErrNoFiles.
func (NoHost) ReadFile(context.Context, *Task, string) (string, error) { return "", ErrNoFiles }

// WriteFile gives ErrNoFiles.
func (NoHost) WriteFile(context.Context, *Task, string, string) error { return ErrNoFiles }

// Tools gives none.
func (NoHost) Tools(context.Context, *Task) ([]HostTool, error) { return nil, nil }

// CallTool knows no tool.
func (NoHost) CallTool(_ context.Context, _ *Task, name string, _ any) (any, error) {
	return nil, &ToolError{Message: "there is no tool " + name}
}

// Command is a command line to run.
type Command struct {
	Args  []string          // the program and its arguments
	Dir   string            // absolute
	Env   map[string]string // added to the surroundings' own
	Limit int               // bytes of output to keep; the oldest go first
}

// CommandResult is how a command ended.
type CommandResult struct {
	Output    string // what it printed, both streams in the order of the terminal
	Truncated bool
	ExitCode  int    // 128 plus the number of the signal that killed it
	Signal    string // its name; empty if it exited by itself
}
