package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// NodeGraph is a graph that runs one node of g and ends, so that a node can be
// a tool too: see InputSchema and CallTool. It has the channels that the node
// reads and writes, or all where that is not known, and the node's gates. Where
// the node would lead does not count.
func (g *Graph) NodeGraph(node string) (*Graph, error) {
	n := g.nodes[node]
	if n == nil {
		return nil, fmt.Errorf("there is no node %q; there are %s (%w)", node, strings.Join(g.Nodes(), ", "), ErrInvalid)
	}
	alone := n.Node
	alone.Barrier, alone.OnError = nil, ""
	if run := alone.Run; run != nil {
		alone.Run = func(ctx context.Context, t *Task) (Output, error) {
			out, err := run(ctx, t)
			out.Goto, out.GotoParent, out.Sends = nil, nil, nil
			return out, err
		}
	}
	if len(n.calledNodes()) > 0 {
		return nil, fmt.Errorf("node %s calls nodes of its graph, which are not there when it is alone (%w)", node, ErrInvalid)
	}
	if sub := alone.Subgraph; sub != nil && sub.Input == nil && sub.Output == nil {
		alone.Effects = nil // it shares channels by name
	}
	d := Definition{
		Name: g.name + "/" + node, Lenient: g.lenient, Retry: g.retry, Limits: g.limits, Channels: map[string]Channel{},
		Nodes: map[string]Node{node: alone}, Edges: []Edge{{From: Start, To: node}}, Outside: g.Channels(),
	}
	for name, ch := range g.channels {
		if e := alone.Effects; e == nil || slices.Contains(e.Reads, name) || slices.Contains(e.Writes, name) {
			d.Channels[name] = ch.Channel
		}
	}
	if gate, ok := g.before[node]; ok {
		gate.OnReject = ""
		d.InterruptBefore = []Gate{gate}
	}
	if gate, ok := g.after[node]; ok {
		gate.OnReject = ""
		d.InterruptAfter = []Gate{gate}
	}
	return Compile(d)
}

// InputSchema is a JSON Schema of an input for these channels (none: all), so
// that a model can call the graph as a tool. What a channel may hold follows
// from its reducer, or from its initial value; one that is asked for by name and
// begins as null is required.
func (g *Graph) InputSchema(channels ...string) (map[string]any, error) {
	asked := len(channels) > 0
	if !asked {
		channels = g.Channels()
	}
	properties, required := map[string]any{}, []any{}
	for _, name := range channels {
		ch := g.channels[name]
		if ch == nil {
			return nil, g.unknownChannel(name)
		}
		properties[name] = ch.schema()
		if asked && ch.initial == nil {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema, nil
}

func (c *channel) schema() map[string]any {
	if c.Reduce == nil {
		switch c.Reducer {
		case Append:
			return map[string]any{"description": "a list joins what is there, anything else is added to it"}
		case Messages:
			return map[string]any{"anyOf": []any{
				map[string]any{"type": "object"},
				map[string]any{"type": "array", "items": map[string]any{"type": "object"}},
			}}
		case Merge:
			return map[string]any{"type": "object"}
		case Sum, Min, Max:
			return map[string]any{"type": "number"}
		}
	}
	switch kind := value.Kind(c.initial); kind {
	case "string", "boolean", "object":
		return map[string]any{"type": kind}
	case "integer", "number":
		return map[string]any{"type": "number"}
	case "list":
		return map[string]any{"type": "array"}
	}
	return map[string]any{}
}

// CallTool runs one turn of the engine's graph as a tool and gives what a model
// is told: {"status": "done", "output": {...}} with the asked channels (none:
// all); {"status": "interrupted", "interrupt": GraphInterruptPayload} for a
// turn that paused, which Resume goes on with; or the status with an "error".
// An error is only what is no answer for a model: the store, the context.
func (e *Engine) CallTool(ctx context.Context, thread string, args Values, output ...string) (map[string]any, error) {
	turn, err := e.Start(ctx, thread, Input{Values: args, Via: "tool"})
	var failed *TurnError
	switch {
	case errors.As(err, &failed), errors.Is(err, ErrInvalid):
		return map[string]any{"status": string(Failed), "error": err.Error()}, nil
	case err != nil:
		return nil, err
	}
	return ToolResult(turn, output...), nil
}

// ToolResult is what a model is told of a turn; see CallTool.
func ToolResult(turn *Turn, output ...string) map[string]any {
	out := map[string]any{"status": string(turn.Status), "thread_id": turn.Thread}
	switch {
	case len(turn.Questions) > 0:
		out["status"], out["interrupt"] = "interrupted", turn.Questions[0].Payload
	case turn.Status == Done:
		state := map[string]any(turn.State)
		if len(output) > 0 {
			state = map[string]any{}
			for _, name := range output {
				state[name] = turn.State[name]
			}
		}
		out["output"] = state
	}
	return out
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	ID   string // of the call, unique in its batch
	Name string
	Args any // JSON
	// OnCrash says what to do if it is not known whether the call was run;
	// empty: what DispatchTools is told, else the node's own.
	OnCrash OnCrash
	// Alone says that the call runs after the earlier ones of its batch and
	// before the later, because it changes what they see.
	Alone bool
}

// Verdict is what a gate says of a call. The zero value denies it.
type Verdict struct {
	Allow bool
	// Invalid, if set, says why the call makes no sense: it is not run, nobody
	// is asked, and the model is told.
	Invalid string
	Args    any    // if set, the call runs with these instead
	Reason  string // of a denial: the model is told
	Ask     *Ask   // a person decides: see AskAboutTool
}

// ToolGate decides about a call before any call of its batch runs. It must say
// the same when the node runs again.
type ToolGate func(ctx context.Context, t *Task, call ToolCall) (Verdict, error)

// AskAboutTool is the question whether a call may run.
func AskAboutTool(call ToolCall) *Ask {
	return &Ask{
		Message: fmt.Sprintf("Run tool %s?", call.Name),
		Data:    map[string]any{"tool": call.Name, "arguments": call.Args, "call_id": call.ID},
		Choices: []interrupt.Choice{
			{ID: interrupt.Approve, Name: "Approve", Kind: "allow_once"},
			{ID: interrupt.Reject, Name: "Reject", Kind: "reject_once"},
		},
	}
}

// ToolOutcome is the answer to a call, in the order of the batch.
type ToolOutcome struct {
	Call   ToolCall // as it ran, rewritten arguments included
	Result any      // JSON; of a call that was denied or failed: {"error": ...}
	Denied bool
	Failed bool
}

// DispatchTools decides about a whole batch of calls and then runs those that
// may, side by side but for those that run alone. The gates are asked in order;
// the first that does not allow a call decides. Each call is an effect of the task: what has run is not
// run again when the node is. A call that fails is an answer for the model, not
// a failure of the node; an error that DispatchTools returns must be returned.
func DispatchTools(ctx context.Context, t *Task, calls []ToolCall, gates []ToolGate, run func(ctx context.Context, call ToolCall) (any, error), onCrash ...OnCrash) ([]ToolOutcome, error) {
	outcomes := make([]ToolOutcome, len(calls))
	seen := map[string]bool{}
	for i, call := range calls {
		if seen[call.ID] {
			return nil, fmt.Errorf("two tool calls of one batch have the id %q", call.ID)
		}
		seen[call.ID] = true
		outcome, err := decideTool(ctx, t, call, gates)
		if err != nil {
			return nil, err
		}
		outcomes[i] = outcome
	}
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i := range outcomes {
		o := &outcomes[i]
		if o.Denied || o.Failed {
			continue
		}
		work := func() { errs[i] = o.run(ctx, t, run, onCrash) }
		if !o.Call.Alone {
			wg.Go(work)
			continue
		}
		wg.Wait()
		if errors.Join(errs...) != nil {
			break // the node will run again; what comes later is not run before this
		}
		work()
	}
	wg.Wait()
	return outcomes, errors.Join(errs...)
}

// toolAnswer is what is stored of a call.
type toolAnswer struct {
	Result any    `json:"result"`
	Error  string `json:"error,omitempty"`
}

// run runs one call, once.
func (o *ToolOutcome) run(ctx context.Context, t *Task, run func(context.Context, ToolCall) (any, error), onCrash []OnCrash) error {
	policy := o.Call.OnCrash
	if policy == "" {
		policy = t.node.OnCrash
		if len(onCrash) > 0 {
			policy = onCrash[0]
		}
	}
	what := map[string]any{"tool": o.Call.Name, "arguments": o.Call.Args}
	raw, err := t.effect(ctx, "tool "+o.Call.ID, policy, what, func(ctx context.Context) (out any, err error) {
		defer func() {
			if p := recover(); p != nil {
				out, err = toolAnswer{Error: fmt.Sprintf("panic: %v", p)}, nil
			}
		}()
		result, err := run(ctx, o.Call)
		if err != nil && (ctx.Err() != nil || noAnswer(err)) {
			return nil, err
		}
		if err != nil {
			return toolAnswer{Error: err.Error()}, nil
		}
		return toolAnswer{Result: result}, nil
	})
	if err != nil {
		return fmt.Errorf("tool %s: %w", o.Call.Name, err)
	}
	v, err := value.Decode(raw)
	if err != nil {
		return fmt.Errorf("tool %s: its stored result: %w", o.Call.Name, err)
	}
	// A person who said that the call was done may have given any value.
	o.Result = v
	if doc, ok := v.(map[string]any); ok {
		if text, failed := doc["error"].(string); failed && text != "" {
			o.Failed, o.Result = true, map[string]any{"error": text}
		} else if result, there := doc["result"]; there {
			o.Result = result
		}
	}
	return nil
}

// noAnswer reports whether an error of a call is no answer for a model: the call
// is not over, or the turn is.
func noAnswer(err error) bool {
	for _, kind := range []error{ErrInDoubt, errAsked, ErrStepLimit, ErrBudget} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return errors.As(err, new(storeError))
}

func decideTool(ctx context.Context, t *Task, call ToolCall, gates []ToolGate) (ToolOutcome, error) {
	for _, gate := range gates {
		verdict, err := gate(ctx, t, call)
		if err != nil {
			return ToolOutcome{}, fmt.Errorf("gate of tool %s: %w", call.Name, err)
		}
		if verdict.Invalid != "" {
			return ToolOutcome{Call: call, Failed: true, Result: map[string]any{"error": verdict.Invalid}}, nil
		}
		if verdict.Args != nil {
			call.Args = verdict.Args
		}
		if verdict.Ask != nil {
			answer, err := t.Ask(*verdict.Ask)
			if err != nil {
				return ToolOutcome{}, err
			}
			verdict.Allow = answer.Choice == interrupt.Approve
			verdict.Reason = or(answer.Reason, "a person rejected it")
		}
		if !verdict.Allow {
			return ToolOutcome{Call: call, Denied: true, Result: map[string]any{"error": "denied: " + or(verdict.Reason, "no reason was given")}}, nil
		}
	}
	return ToolOutcome{Call: call}, nil
}
