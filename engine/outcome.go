package engine

import (
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// outcome is how one task of a step went. Exactly one of ops (with routes to
// come), question, err and aborted tells.
type outcome struct {
	task     *Task
	output   Output // normalized
	ops      []Op
	question *interrupt.Question
	err      error
	aborted  bool // killed by a cancel or a stop, or not started: nothing is known
	stored   bool // its result is in the results table
}

// storedOutput is a finished task's output as the results table holds it.
type storedOutput struct {
	Writes []storedWrite `json:"writes,omitempty"`
	Goto   []string      `json:"goto,omitempty"`
}

type storedWrite struct {
	Channel   string `json:"channel"`
	Value     any    `json:"value"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

func (o *outcome) result() Result {
	writes := make([]any, len(o.output.Writes))
	for i, w := range o.output.Writes {
		write := map[string]any{"channel": w.Channel, "value": w.Value}
		if w.Overwrite {
			write["overwrite"] = true
		}
		writes[i] = write
	}
	targets := make([]any, len(o.output.Goto))
	for i, to := range o.output.Goto {
		targets[i] = to
	}
	doc := map[string]any{"writes": writes}
	if o.output.Goto != nil {
		doc["goto"] = targets
	}
	return Result{Task: o.task.id, N: 0, Kind: ResultTask, Value: value.Append(nil, doc)}
}

// restore takes the stored result of a task that finished before.
func (r *run) restore(o *outcome) bool {
	for _, res := range r.results {
		if res.Task != o.task.id || res.Kind != ResultTask {
			continue
		}
		output, err := decodeOutput(res.Value)
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

func decodeOutput(raw []byte) (Output, error) {
	v, err := value.Decode(raw)
	if err != nil {
		return Output{}, err
	}
	var stored storedOutput
	if err := into(v, &stored); err != nil {
		return Output{}, err
	}
	doc, _ := v.(map[string]any)
	writes, _ := doc["writes"].([]any)
	output := Output{Goto: stored.Goto}
	for i, w := range stored.Writes {
		if i < len(writes) {
			if m, ok := writes[i].(map[string]any); ok {
				w.Value = m["value"] // as decoded here, where integers stay integers
			}
		}
		output.Writes = append(output.Writes, Write(w))
	}
	return output, nil
}

// check validates an output and makes its operations.
func (o *outcome) check(g *Graph, output Output) error {
	ops := make([]Op, 0, len(output.Writes))
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
	}
	o.output, o.ops = output, ops
	return nil
}
