package acp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// afterwards is how long a client may take to put a terminal away.
const afterwards = 5 * time.Second

// Terminal implements engine.Host: it runs a command in the client's terminal,
// where the person sees it. Every terminal is released, also where the
// command is killed or the client answers late.
func (h host) Terminal(ctx context.Context, t *engine.Task, c engine.Command) (engine.CommandResult, error) {
	if able, _ := h.p.c.able(); !able.Terminal {
		return engine.CommandResult{}, engine.ErrNoTerminal
	}
	id, err := h.create(ctx, c)
	if err != nil {
		return engine.CommandResult{}, err
	}
	defer h.release(id)
	h.p.s.story.inTerminal(t.Base(), t.ID(), id)
	raw, err := h.p.c.conn.Call(ctx, MethodTerminalWaitForExit, h.request(id))
	if err != nil {
		if ctx.Err() != nil {
			h.kill(id)
			return engine.CommandResult{}, context.Cause(ctx)
		}
		return engine.CommandResult{}, err
	}
	exit, err := ParseTerminalExit(raw)
	if err != nil {
		return engine.CommandResult{}, err
	}
	// The command has ended, so its output is asked for whatever ctx says.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	if raw, err = h.p.c.conn.Call(after, MethodTerminalOutput, h.request(id)); err != nil {
		return engine.CommandResult{}, err
	}
	output, err := ParseTerminalOutput(raw)
	if err != nil {
		return engine.CommandResult{}, err
	}
	return commandResult(exit, output), nil
}

func (h host) request(id string) TerminalRequest {
	return TerminalRequest{SessionID: h.p.s.id, TerminalID: id}
}

// create starts the command. That the client refuses means that nothing ran. One
// that answers when nobody waits any more is told to put the terminal away.
func (h host) create(ctx context.Context, c engine.Command) (string, error) {
	params := CreateTerminalRequest{SessionID: h.p.s.id, Command: c.Args[0], Args: c.Args[1:], CWD: c.Dir}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		params.Env = append(params.Env, Variable{Name: name, Value: c.Env[name]})
	}
	if c.Limit > 0 {
		limit := uint64(c.Limit)
		params.OutputByteLimit = &limit
	}
	type created struct {
		raw json.RawMessage
		err error
	}
	answer := make(chan created, 1)
	h.p.c.background.Go(func() {
		raw, err := h.p.c.conn.Call(context.WithoutCancel(ctx), MethodTerminalCreate, params)
		answer <- created{raw, err}
	})
	var got created
	select {
	case got = <-answer:
	case <-ctx.Done():
		h.p.c.background.Go(func() {
			late := <-answer
			if late.err != nil {
				return
			}
			if terminal, err := ParseCreateTerminal(late.raw); err == nil {
				h.kill(terminal.TerminalID)
				h.release(terminal.TerminalID)
			}
		})
		return "", context.Cause(ctx)
	}
	switch {
	case errors.Is(got.err, ErrDisconnected):
		return "", got.err
	case got.err != nil:
		h.p.c.log.Warn("the ACP client has no terminal after all; the command runs here", "error", got.err)
		return "", engine.ErrNoTerminal
	}
	terminal, err := ParseCreateTerminal(got.raw)
	return terminal.TerminalID, err
}

func (h host) kill(id string) { h.after(MethodTerminalKill, id) }

func (h host) release(id string) { h.after(MethodTerminalRelease, id) }

// after tells the client what to do with a terminal, whatever became of the work.
func (h host) after(method, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), afterwards)
	defer cancel()
	if _, err := h.p.c.conn.Call(ctx, method, h.request(id)); err != nil && !errors.Is(err, ErrDisconnected) {
		h.p.c.log.Warn("the ACP client did not put a terminal away", "method", method, "terminal", id, "error", err)
	}
}

// signals are those that end commands, with their numbers.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "XCPU": 24, "XFSZ": 25, "SYS": 31,
}

func commandResult(exit TerminalExitStatus, output TerminalOutputResponse) engine.CommandResult {
	out := engine.CommandResult{Output: output.Output, Truncated: output.Truncated, Signal: exit.Signal}
	switch {
	case exit.Signal != "":
		out.ExitCode = 128 + signals[strings.TrimPrefix(strings.ToUpper(exit.Signal), "SIG")]
	case exit.ExitCode != nil:
		out.ExitCode = int(*exit.ExitCode)
	}
	return out
}
