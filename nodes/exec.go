package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

// Bounds of what is kept of a stream.
const (
	defaultMaxOutput = 64 << 10
	maxMaxOutput     = 512 << 10
)

func execType() Type {
	return Type{
		Name: "exec", Version: 1,
		Doc: "Runs a command in the thread's folder and writes {stdout, stderr, exit_code, truncated} to output. command as a list is the program and its arguments, without a shell; as a text it is a shell line, in which the values of ${{ }} are environment variables and never text. A non-zero exit code is a result, unless fail_on says otherwise. What was resolved before the run (command, folder, environment, input) is what an approver is shown and what runs.",
		Schema: schema([]any{"command"}, map[string]any{
			"command": map[string]any{"description": "a list is a program and its arguments; a text is a shell line", "anyOf": []any{
				map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": []any{"string", "number", "boolean"}}},
				map[string]any{"type": "string", "minLength": 1},
			}},
			"cwd":        textSchema("the folder to run in, relative to the thread's; absent: the thread's"),
			"env":        map[string]any{"type": "object", "description": "further environment variables", "additionalProperties": map[string]any{"type": []any{"string", "number", "boolean"}}},
			"stdin":      textSchema("what the command reads; absent: nothing"),
			"timeout":    textSchema("how long the command may take, such as 30s or 5m; absent: for ever"),
			"output":     textSchema("the channel that the result is written to; absent: none"),
			"max_output": map[string]any{"type": "integer", "minimum": 256, "maximum": maxMaxOutput, "description": "bytes that are kept of stdout, and of stderr: a quarter from the beginning and the rest from the end"},
			"fail_on":    map[string]any{"enum": []any{"nonzero"}, "description": "nonzero: an exit code other than 0 fails the task"},
		}),
		careful: true, New: buildExec,
	}
}

// command is what an exec node does, before its expressions have values.
type command struct {
	node   string
	argv   []*template
	shell  *shellLine
	cwd    *template
	env    map[string]*template
	stdin  *template
	output string

	timeout     time.Duration
	maxOutput   int
	failOn      bool
	inDoubtToo  bool // a timeout leaves a doubt: on_crash is ask
	guarded     bool // an intent is stored: on_crash is ask or fail
	clock       clock.Clock
	killTimeout time.Duration
}

func buildExec(b *Config) engine.Node {
	c := &command{node: b.name, maxOutput: defaultMaxOutput, clock: clock.Real, killTimeout: killAfter}
	b.command(c)
	c.cwd = b.template("cwd")
	c.stdin = b.template("stdin")
	b.environment(c)
	if t := b.get("timeout"); t != nil {
		if v, text, ok := b.d.duration(t, b.what("timeout")); ok {
			c.timeout, b.config["timeout"] = v, text
		}
	}
	if t := b.get("max_output"); t != nil {
		if n, ok := b.d.integer(t, b.what("max_output")); ok {
			if n < 256 || n > maxMaxOutput {
				b.d.wrong(t, "", "%s is between 256 and %d bytes, not %d", b.what("max_output"), maxMaxOutput, n)
			}
			c.maxOutput, b.config["max_output"] = int(n), n
		}
	}
	if t := b.get("fail_on"); t != nil {
		if v, ok := b.d.oneOf(t, "fail_on", []string{"nonzero"}); ok {
			c.failOn, b.config["fail_on"] = true, v
		}
	}
	c.output = b.output(func(reducer string) bool {
		return reducer != engine.Sum && reducer != engine.Min && reducer != engine.Max
	})
	policy := engine.CrashAsk
	if t := b.get("on_crash"); t != nil {
		policy = engine.OnCrash(t.raw)
	}
	c.inDoubtToo = policy == engine.CrashAsk
	c.guarded = policy != engine.CrashRetry
	return engine.Node{
		OnCrash: engine.CrashAsk,
		Run:     c.run, Resolve: c.resolve, Settle: c.settle, Lives: lives,
	}
}

func (b *Config) command(c *command) {
	t := b.get("command")
	if t == nil {
		return
	}
	if t.kind == textKind {
		b.config["command"] = t.raw
		if strings.TrimSpace(t.raw) == "" {
			b.d.wrong(t, "", "%s is empty", b.what("command"))
			return
		}
		c.shell = b.d.shellLine(t)
		return
	}
	if t.kind != listKind || len(t.items) == 0 {
		b.d.wrong(t, "write [program, argument] or a shell line", "%s is a list or a text, not %s", b.what("command"), emptyOr(t))
		return
	}
	var config []any
	for i, item := range t.items {
		text, ok := b.d.word(item, "an argument")
		if !ok {
			continue
		}
		if i == 0 && strings.TrimSpace(text) == "" {
			b.d.wrong(item, "", "the program's name is empty")
		}
		config = append(config, text)
		if arg := b.d.template(item, inCommand); arg != nil {
			c.argv = append(c.argv, arg)
			b.warnShell(t, i, item, arg)
		}
	}
	b.config["command"] = config
}

// warnShell finds a list that puts values into the text of a shell line after
// all: [sh, -c, "... ${{ }} ..."].
func (b *Config) warnShell(list *tree, i int, item *tree, arg *template) {
	if arg.literal() || i < 2 || b.d.own {
		return
	}
	program := strings.TrimSuffix(filepath.Base(list.items[0].raw), ".exe")
	flag := list.items[i-1].raw
	script := slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash"}, program) && strings.HasPrefix(flag, "-") && strings.HasSuffix(flag, "c") ||
		program == "cmd" && strings.EqualFold(flag, "/c") ||
		(program == "powershell" || program == "pwsh") && strings.HasPrefix(strings.ToLower(flag), "-c")
	if script {
		b.d.warn(b.d.at(item), item.pointer, "write command as one text: then it is a shell line, in which values are environment variables",
			"the value of ${{ }} becomes a part of the program that %s runs: whoever writes the value writes the program", program)
	}
}

func (b *Config) template(key string) *template {
	t := b.get(key)
	if t == nil {
		return nil
	}
	text, ok := b.d.text(t, b.what(key))
	if !ok {
		return nil
	}
	b.config[key] = text
	return b.d.template(t, inCommand)
}

func (b *Config) environment(c *command) {
	t := b.get("env")
	if t == nil {
		return
	}
	if t.kind != objectKind {
		b.d.wrong(t, "write {NAME: value}", "%s is an object of values by name, not %s", b.what("env"), t.what())
		return
	}
	config := map[string]any{}
	c.env = map[string]*template{}
	for _, k := range t.keys {
		if k.name == "" || strings.ContainsAny(k.name, "=\x00") {
			b.d.mistake(k.at, k.value.pointer, "", "%q is no name for an environment variable", k.name)
			continue
		}
		if strings.HasPrefix(k.name, variablePrefix) {
			b.d.mistake(k.at, k.value.pointer, "", "names with %s are for the values of ${{ }}", variablePrefix)
			continue
		}
		text, ok := b.d.word(k.value, "an environment variable")
		if !ok {
			continue
		}
		config[k.name] = text
		c.env[k.name] = b.d.template(k.value, inCommand)
	}
	b.config["env"] = config
}

// resolve gives what will run: what an approver is shown.
func (c *command) resolve(t *engine.Task) (any, error) {
	extra := envOf(t)
	delete(extra, "answer")
	state := t.State()
	out := map[string]any{}
	env := map[string]any{}
	fill := func(name string, tm *template) error {
		v, err := tm.text(state, extra)
		if err != nil {
			return fmt.Errorf("environment variable %s: %w", name, err)
		}
		env[name] = v
		return nil
	}
	for name, tm := range c.env {
		if err := fill(name, tm); err != nil {
			return nil, err
		}
	}
	if c.shell != nil {
		out["line"] = c.shell.line
		for i, p := range c.shell.values {
			if err := fill(variable(i), &template{parts: []part{{code: p}}}); err != nil {
				return nil, err
			}
		}
	} else {
		argv := make([]any, len(c.argv))
		for i, arg := range c.argv {
			v, err := arg.text(state, extra)
			if err != nil {
				return nil, fmt.Errorf("argument %d of the command: %w", i, err)
			}
			argv[i] = v
		}
		out["command"] = argv
	}
	cwd := t.Cwd()
	if c.cwd != nil {
		v, err := c.cwd.text(state, extra)
		if err != nil {
			return nil, fmt.Errorf("cwd: %w", err)
		}
		if filepath.IsAbs(v) {
			cwd = v
		} else {
			cwd = filepath.Join(cwd, v)
		}
	}
	if cwd != "" {
		out["cwd"] = cwd
	}
	if len(env) > 0 {
		out["env"] = env
	}
	if c.stdin != nil {
		v, err := c.stdin.text(state, extra)
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		out["stdin"] = v
	}
	return out, nil
}

// run does what was resolved, and nothing else.
func (c *command) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	p, err := c.process(t.Resolved())
	if err != nil {
		return engine.Output{}, err
	}
	p.print = t.Print
	if c.guarded {
		p.started = func(pid int) error { return t.Note(ctx, noteOf(pid)) }
	}
	result, err := c.inTerminal(ctx, t, p)
	if errors.Is(err, engine.ErrNoTerminal) {
		result, err = p.run(ctx)
	}
	if err != nil {
		return engine.Output{}, fmt.Errorf("%s: %w", p.name(), err)
	}
	if result.timedOut {
		return engine.Output{}, c.timeoutError(p, result)
	}
	if c.failOn && result.exitCode != 0 {
		return engine.Output{}, fmt.Errorf("%s: exit code %d (fail_on: nonzero)%s", p.name(), result.exitCode, lastLine(result))
	}
	if c.output == "" {
		return engine.Output{}, nil
	}
	return engine.Set(c.output, result.value(c.maxOutput)), nil
}

func (c *command) timeoutError(p *process, r *result) error {
	err := fmt.Errorf("%s: timeout: it was killed after %s%s", p.name(), c.timeout, lastLine(r))
	if c.inDoubtToo {
		// What it did until then is not known: that is a question for a person.
		return fmt.Errorf("%w; %w", err, engine.ErrInDoubt)
	}
	return err
}

// lastLine is the last thing that a command said, for a message.
func lastLine(r *result) string {
	for _, s := range []*capture{r.stderr, r.stdout} {
		text := strings.TrimSpace(s.text(4096))
		if text == "" {
			continue
		}
		line := text[strings.LastIndexByte(text, '\n')+1:]
		return "; its last line: " + shorten(line, 200)
	}
	return ""
}

// process makes a process of what was resolved.
func (c *command) process(resolved any) (*process, error) {
	what, ok := resolved.(map[string]any)
	if !ok {
		return nil, errors.New("there is no resolved command to run")
	}
	p := &process{clock: c.clock, timeout: c.timeout, maxOutput: c.maxOutput, killAfter: c.killTimeout}
	if line, ok := what["line"].(string); ok {
		p.line, p.argv = line, shellArgv(line)
	} else {
		list, _ := what["command"].([]any)
		for _, arg := range list {
			text, _ := arg.(string)
			p.argv = append(p.argv, text)
		}
	}
	if len(p.argv) == 0 || p.argv[0] == "" {
		return nil, errors.New("the command is empty: its program has no name")
	}
	p.cwd, _ = what["cwd"].(string)
	env, _ := what["env"].(map[string]any)
	for name, v := range env {
		text, _ := v.(string)
		p.env = append(p.env, name+"="+text)
	}
	slices.Sort(p.env)
	if stdin, ok := what["stdin"].(string); ok {
		p.stdin = &stdin
	}
	return p, nil
}

// settle makes the output of a command that a person says is done.
func (c *command) settle(v any) (engine.Output, error) {
	if c.output == "" {
		return engine.Output{}, nil
	}
	if v == nil {
		v = map[string]any{"stdout": "", "stderr": "", "exit_code": int64(0), "truncated": false}
	}
	return engine.Set(c.output, v), nil
}

// shellArgv is how a line becomes a process.
func shellArgv(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	return []string{"sh", "-c", line}
}
