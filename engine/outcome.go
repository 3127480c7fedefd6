package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// outcome is how one task of a step went. Exactly one of ops (with routes to
// come), question, err and aborted tells.
type outcome struct {
	task      Task
	opRoom    [1]Op  // of a task with one write
	output    Output // normalized
	ops       []Op
	questions []pending
	err       error
	aborted   bool     // killed by a cancel or a stop, or not started: nothing is known
	stored    bool     // its result is in the results table
	failure   *Failure // it failed, and an error handler takes over
	refused   string   // a gate inside of it was rejected, and nothing was left to run there
}

// finished reports whether the task ended well.
func (o *outcome) finished() bool { return o.err == nil && !o.aborted && len(o.questions) == 0 }

// result is a finished task's output as the results table holds it.
func (o *outcome) result(g *Graph) Result {
	doc := map[string]any{}
	if list := o.output.Writes; len(list) > 0 {
		writes := make([]any, 0, len(list))
		for _, w := range list {
			if g.channels[w.Channel].Ephemeral {
				continue
			}
			write := map[string]any{"channel": w.Channel, "value": w.Value}
			if w.Overwrite {
				write["overwrite"] = true
			}
			writes = append(writes, write)
		}
		doc["writes"] = writes
	}
	if o.output.Goto != nil {
		doc["goto"] = anyList(o.output.Goto)
	}
	if o.output.GotoParent != nil {
		doc["goto_parent"] = anyList(o.output.GotoParent)
	}
	if list := o.output.Sends; len(list) > 0 {
		sends := make([]any, len(list))
		for i, s := range list {
			sends[i] = map[string]any{"node": s.Node, "input": map[string]any(s.Input)}
		}
		doc["sends"] = sends
	}
	if kept := o.task.kept(o.output.Writes); len(kept) > 0 {
		doc["shown"] = asJSON(kept)
	}
	if o.task.used != (Usage{}) {
		doc["used"] = asJSON(o.task.used)
	}
	if o.refused != "" {
		doc["refused"] = o.refused
	}
	if f := o.failure; f != nil {
		doc["failure"] = f.Cause
	}
	return Result{Task: o.task.id, N: 0, Kind: ResultTask, Value: value.Append(nil, doc)}
}

// restore takes the stored result of a task that finished before.
func (r *run) restore(o *outcome, stored []Result) bool {
	for _, res := range stored {
		if res.Kind != ResultTask {
			continue
		}
		output, doc, err := decodeOutput(res.Value)
		o.refused, _ = doc["refused"].(string)
		if cause, failed := doc["failure"].(string); failed {
			o.failure = &Failure{Node: o.task.node.name, Task: o.task.id, Cause: cause}
		}
		if err == nil {
			err = errors.Join(into(doc["shown"], &o.task.shown), into(doc["used"], &o.task.used))
		}
		if err == nil {
			err = o.check(r.graph, output)
		}
		if err != nil {
			o.err = fmt.Errorf("its stored result cannot be used: %w", err)
		}
		o.stored = true
		return true
	}
	return false
}

func decodeOutput(raw []byte) (output Output, doc map[string]any, err error) {
	v, err := value.Decode(raw)
	if err != nil {
		return Output{}, nil, err
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return Output{}, nil, fmt.Errorf("it is %s and not an object", kindOf(v))
	}
	for _, item := range items(doc["writes"]) {
		name, _ := item["channel"].(string)
		overwrite, _ := item["overwrite"].(bool)
		output.Writes = append(output.Writes, Write{Channel: name, Value: item["value"], Overwrite: overwrite})
	}
	output.Goto, output.GotoParent = nameList(doc["goto"]), nameList(doc["goto_parent"])
	for _, item := range items(doc["sends"]) {
		name, _ := item["node"].(string)
		input, _ := item["input"].(map[string]any)
		output.Sends = append(output.Sends, Send{Node: name, Input: input})
	}
	return output, doc, nil
}

// asJSON is a value of this package as JSON, which is all that it can be.
func asJSON(v any) any {
	normal, _, err := value.Normalize(v)
	if err != nil {
		panic(err)
	}
	return normal
}

func anyList(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = name
	}
	return out
}

func nameList(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	out := make([]string, len(list))
	for i, name := range list {
		out[i], _ = name.(string)
	}
	return out
}

func items(v any) []map[string]any {
	list, _ := v.([]any)
	out := make([]map[string]any, len(list))
	for i, item := range list {
		out[i], _ = item.(map[string]any)
	}
	return out
}

// check validates an output and makes its operations.
func (o *outcome) check(g *Graph, output Output) error {
	ops := o.opRoom[:0]
	if len(output.Writes) > 1 {
		ops = make([]Op, 0, len(output.Writes))
	}
	for i, w := range output.Writes {
		op, replaced, err := g.opOf(o.task.id, w)
		if err != nil {
			return err
		}
		if replaced {
			o.task.notes = append(o.task.notes, fmt.Sprintf("task %s wrote text that is not UTF-8 to channel %s: such bytes were replaced", o.task.id, w.Channel))
		}
		output.Writes[i].Value = op.Value
		ops = append(ops, op)
	}
	for _, to := range output.Goto {
		if to != End && g.nodes[to] == nil {
			return fmt.Errorf("goto %q: there is no such node; there are %s", to, strings.Join(g.Nodes(), ", "))
		}
		if g.nodes[to].excludes(o.task.node.name) {
			return fmt.Errorf("goto %q: it is a join, which does not wait for %s", to, o.task.node.name)
		}
	}
	if output.GotoParent != nil && o.task.run.depth == 0 {
		return errors.New("goto parent: this graph is no subgraph, it has no parent")
	}
	if n := len(output.Sends); n > g.limits.Sends {
		return g.tooManySends("it sends", n)
	}
	for i, send := range output.Sends {
		input, err := g.sendInput(send)
		if err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
		output.Sends[i].Input = input
	}
	o.output, o.ops = output, ops
	return nil
}

// sendInput checks a send: the whole batch is, before any of it runs.
func (g *Graph) sendInput(send Send) (Values, error) {
	if g.nodes[send.Node] == nil {
		return nil, fmt.Errorf("there is no node %q; there are %s", send.Node, strings.Join(g.Nodes(), ", "))
	}
	input := make(Values, len(send.Input))
	for _, name := range sortedKeys(send.Input) {
		if g.channels[name] == nil {
			return nil, fmt.Errorf("input for node %s: %w", send.Node, g.unknownChannel(name))
		}
		if g.channels[name].Ephemeral {
			return nil, fmt.Errorf("input for node %s: channel %s is ephemeral, and what is sent is stored", send.Node, name)
		}
		v, _, err := value.Normalize(send.Input[name])
		if err != nil {
			return nil, fmt.Errorf("input for node %s: channel %s: %w", send.Node, name, err)
		}
		if size := value.Size(v); size > g.limits.Value {
			return nil, g.tooLarge(name, size)
		}
		input[name] = v
	}
	return input, nil
}
