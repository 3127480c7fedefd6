package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/roots"
)

func execTool() *tool {
	return &tool{
		name: "exec", kind: "execute", changes: true,
		doc: "Runs a command line in a shell and gives what it printed and its exit code. It reads no input. It is killed if it takes too long.",
		schema: argSchema(map[string]any{
			"command": map[string]any{"type": "string", "minLength": 1, "maxLength": 64 << 10, "description": "the command line"},
			"cwd?":    textSchema("the folder to run in; absent: the working folder"),
		}),
		plan: func(c *toolCall, _ *batch) (*toolPlan, error) {
			line, _ := c.args["command"].(string)
			if strings.TrimSpace(line) == "" {
				return nil, errors.New("the command is empty")
			}
			if strings.ContainsRune(line, 0) {
				return nil, errors.New("the command has a zero byte")
			}
			cwd := c.task.Cwd()
			if arg, _ := c.args["cwd"].(string); arg != "" {
				path, err := c.path(arg)
				if err != nil {
					return nil, err
				}
				place, err := roots.Locate(c.task.Roots(), path)
				if err == nil {
					err = place.Check()
				}
				if err != nil {
					return nil, err
				}
				cwd = place.Path()
			}
			first, _, more := strings.Cut(strings.TrimSpace(line), "\n")
			if more {
				first += " ..."
			}
			return &toolPlan{Title: "Run " + shorten(first, 120), Command: line, Cwd: cwd}, nil
		},
		run: runLine,
	}
}

// runLine runs what was planned and approved.
func runLine(ctx context.Context, c *toolCall) (string, error) {
	line := c.plan.Command
	p := &process{
		argv: shellArgv(line), line: line, cwd: c.plan.Cwd, timeout: c.set.timeout, killAfter: killAfter,
		maxOutput: c.set.maxOutput, clock: c.set.clock,
		print: func(string) { c.task.Alive() },
	}
	// A command that a model chose gets no key of a model.
	for _, env := range model.Secrets() {
		p.env = append(p.env, env+"=")
	}
	result, err := (&command{inDoubtToo: true}).inTerminal(ctx, c.task, p)
	if errors.Is(err, engine.ErrNoTerminal) {
		result, err = p.run(ctx)
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, stream := range []*capture{result.stdout, result.stderr} {
		text := strings.ToValidUTF8(stream.text(c.set.maxOutput/2), "\uFFFD")
		if b.Len() > 0 && text != "" && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString(text)
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
	switch {
	case result.timedOut:
		fmt.Fprintf(&b, "(killed after %s)", c.set.timeout)
	case result.signal != "":
		fmt.Fprintf(&b, "(ended by signal %s)", result.signal)
	default:
		fmt.Fprintf(&b, "(exit code %d)", result.exitCode)
	}
	return b.String(), nil
}
