package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// batch is the calls of one message.
type batch struct {
	set   *toolset
	task  *engine.Task
	calls map[string]*toolCall // by id
	files map[string]string    // by path: what it holds after the calls that may run so far

	mu  sync.Mutex
	ran map[string]bool // in this pass
}

// add makes a call of what the model wrote. What is wrong with it is in its
// plan, and becomes its answer.
func (b *batch) add(asked model.ToolCall, hosted map[string]engine.HostTool) engine.ToolCall {
	c := &toolCall{set: b.set, task: b.task, id: asked.ID, tool: b.set.own[asked.Function.Name]}
	out := engine.ToolCall{ID: asked.ID, Name: asked.Function.Name, OnCrash: engine.CrashRetry}
	b.calls[asked.ID] = c
	if h, ok := hosted[out.Name]; ok {
		c.tool = hostedTool(h)
	}
	if c.tool == nil {
		c.plan = &toolPlan{Title: out.Name, Problem: b.set.unknown(out.Name, hosted)}
		out.Args = asked.Function.Arguments
		return out
	}
	out.OnCrash, out.Alone = c.onCrash, c.changes && !c.beside
	text := strings.TrimSpace(asked.Function.Arguments)
	if text == "" {
		text = "{}"
	}
	v, err := value.Decode([]byte(text))
	if err != nil {
		c.plan = &toolPlan{Title: out.Name, Problem: fmt.Sprintf("the arguments are not valid JSON: %v. Call the tool again with valid JSON.", err)}
		out.Args = asked.Function.Arguments
		return out
	}
	out.Args = v
	if problem := c.take(v); problem != "" {
		c.plan = &toolPlan{Title: out.Name, Problem: problem}
	}
	return out
}

// take gives a call its arguments, if they fit.
func (c *toolCall) take(v any) (problem string) {
	args, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("the arguments must be a JSON object, not %s", kindOf(v))
	}
	if c.checks != nil {
		if err := fitsSchema(c.checks, v); err != nil {
			return fmt.Sprintf("the arguments do not fit the tool: %v", err)
		}
	}
	c.args = args
	return ""
}

func (s *toolset) unknown(name string, hosted map[string]engine.HostTool) string {
	var names []string
	for own := range s.own {
		names = append(names, own)
	}
	for other := range hosted {
		names = append(names, other)
	}
	return fmt.Sprintf("there is no tool %q; there are %s", shorten(name, 100), joinNames(sortStrings(names)))
}

// gate decides about one call, after those before it.
func (b *batch) gate(ctx context.Context, t *engine.Task, call engine.ToolCall) (engine.Verdict, error) {
	c := b.calls[call.ID]
	if c.plan != nil {
		return engine.Verdict{Invalid: c.plan.Problem}, nil
	}
	verdict, ask, why := b.set.ruleFor(call.Name, c.changes).decide(t, call.Name, c.args)
	if verdict.Args != nil {
		if problem := c.take(verdict.Args); problem != "" {
			return engine.Verdict{}, fmt.Errorf("the rule for tool %s gave other arguments: %s", call.Name, problem)
		}
		call.Args = verdict.Args
	}
	if !verdict.Allow && !ask {
		return verdict, nil
	}
	if err := b.look(ctx, c, call); err != nil {
		return engine.Verdict{}, err
	}
	if c.plan.Problem != "" {
		return engine.Verdict{Invalid: c.plan.Problem}, nil
	}
	if ask {
		q := c.question(call, why)
		answer, err := t.Ask(*q)
		if err != nil {
			return engine.Verdict{}, err
		}
		if answer.Choice != "approve" {
			reason := answer.Reason
			if reason == "" {
				reason = "a person rejected it"
			}
			return engine.Verdict{Reason: reason}, nil
		}
		verdict.Allow = true
	}
	if d := c.plan.Diff; d != nil {
		b.files[d.Path] = d.New
	}
	return verdict, nil
}

// look makes the plan of a call, once: what a person approves must be what is
// shown when the node runs again, though the call may have run meanwhile.
func (b *batch) look(ctx context.Context, c *toolCall, call engine.ToolCall) error {
	if c.tool.plan == nil {
		c.plan = &toolPlan{Title: call.Name}
		return nil
	}
	plan, err := engine.Step(ctx, "plan "+call.ID, func(context.Context) (toolPlan, error) {
		plan, err := c.tool.plan(c, b)
		if err != nil {
			return toolPlan{Title: call.Name, Problem: err.Error()}, nil
		}
		return *plan, nil
	}, engine.CrashRetry)
	c.plan = &plan
	return err
}

// question asks whether a call may run. It shows the diff or the command instead
// of the arguments that say the same.
func (c *toolCall) question(call engine.ToolCall, why string) *engine.Ask {
	q := engine.AskAboutTool(call)
	q.Message = c.plan.Title + "?"
	if why != "" {
		q.Message += " (" + why + ")"
	}
	data := map[string]any{"tool": call.Name, "call_id": call.ID}
	switch d := c.plan.Diff; {
	case d != nil:
		diff := map[string]any{"path": d.Path, "new": d.New}
		if d.Old != nil {
			diff["old"] = *d.Old
		}
		data["diff"] = diff
	case c.plan.Command != "":
		data["command"], data["cwd"] = c.plan.Command, c.plan.Cwd
	default:
		data["arguments"] = call.Args
	}
	q.Data = data
	return q
}

// run does one call.
func (b *batch) run(ctx context.Context, call engine.ToolCall) (any, error) {
	c := b.calls[call.ID]
	b.mu.Lock()
	b.ran[call.ID] = true
	b.mu.Unlock()
	if err := b.task.Show(call.ID, c.shown(call, engine.CallRuns)); err != nil {
		return nil, err
	}
	var result any
	var err error
	if c.tool.run == nil {
		result, err = b.task.Host().CallTool(ctx, b.task, call.Name, call.Args)
	} else {
		result, err = c.tool.run(ctx, c)
	}
	// Before it is stored: what a tool finds may hold a key.
	return withoutKeys(result), err
}

// withoutKeys is a value without the keys of models in its texts.
func withoutKeys(v any) any {
	switch v := v.(type) {
	case string:
		return model.Hide(v)
	case []any:
		for i := range v {
			v[i] = withoutKeys(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutKeys(v[k])
		}
	}
	return v
}

func (c *toolCall) shown(call engine.ToolCall, status engine.CallStatus) engine.Call {
	out := engine.Call{Title: c.plan.Title, Status: status, Input: call.Args, Paths: c.plan.Paths}
	if c.tool != nil {
		out.Kind = c.kind
	}
	if c.plan.Diff != nil && status != engine.CallFailed {
		out.Diffs = []engine.FileDiff{*c.plan.Diff}
	}
	return out
}

// show tells how a call ended.
func (b *batch) show(o engine.ToolOutcome, text string) error {
	c := b.calls[o.Call.ID]
	if c.plan == nil {
		c.plan = &toolPlan{Title: o.Call.Name}
	}
	status := engine.CallCompleted
	if o.Failed || o.Denied {
		status = engine.CallFailed
	}
	shown := c.shown(o.Call, status)
	shown.Text = text
	return b.task.Show(o.Call.ID, shown)
}

// hostedTool is a tool of the session. What it does is known from what it says
// of itself, which is enough for a crash and not for leaving a person out.
func hostedTool(h engine.HostTool) *tool {
	t := &tool{name: h.Name, doc: h.Description, kind: "other", schema: h.Schema, changes: true, onCrash: engine.CrashAsk}
	if h.ReadOnly {
		t.onCrash = engine.CrashRetry
	}
	if h.Schema != nil {
		// A schema that cannot be read is the server's to check.
		t.checks, _ = compileSchema(h.Schema)
	}
	title := h.Title
	if title == "" {
		title = h.Name
	}
	t.plan = func(*toolCall, *batch) (*toolPlan, error) { return &toolPlan{Title: title}, nil }
	return t
}

// path makes a path of an argument absolute, in the thread's folder.
func (c *toolCall) path(arg string) (string, error) {
	if filepath.IsAbs(arg) {
		return arg, nil
	}
	if c.task.Cwd() == "" {
		return "", errors.New("the thread has no folder: give an absolute path")
	}
	// Not cleaned: a .. in it is refused, not followed.
	return strings.TrimRight(c.task.Cwd(), `/\`) + string(filepath.Separator) + arg, nil
}
