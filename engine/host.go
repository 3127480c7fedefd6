package engine

import (
	"context"
	"errors"
)

// ErrNoTerminal is given by a Host that has no terminal for a command: the
// node runs it itself.
var ErrNoTerminal = errors.New("no terminal here")

// Host is what the surroundings of a turn offer to its nodes: the editor that
// the session belongs to, if there is one.
type Host interface {
	// Terminal runs a command where the person watches it. The context's end
	// kills it. ErrNoTerminal, before anything ran, if there is none.
	Terminal(ctx context.Context, t *Task, c Command) (CommandResult, error)
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
