package nodes

import (
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func (d *decoder) gates(t *tree, list string) (gates []engine.Gate) {
	if t == nil || t.kind == nullKind {
		return nil
	}
	items, ok := d.list(t, list)
	if !ok {
		return nil
	}
	for _, item := range items {
		// The place in the list stays the same for Compile, whatever is wrong.
		gates = append(gates, d.gate(item, list))
	}
	return gates
}

func (d *decoder) gate(t *tree, list string) (g engine.Gate) {
	if t.kind != objectKind {
		g.Node, _ = d.word(t, "an entry of "+list)
		return g
	}
	d.only(t, "an entry of "+list, gateKeys)
	if v := d.need(t, "node", "an entry of "+list); v == nil {
		d.bad[t.pointer] = true
	} else if g.Node, _ = d.word(v, "node"); g.Node == "" {
		d.bad[t.pointer] = true
	}
	if v := t.get("message"); v != nil {
		g.Message, _ = d.text(v, "message")
		if strings.Contains(g.Message, "${{") {
			d.warn(d.at(v), v.pointer, "what the node is about to do is shown beside it", "the message of a gate is shown as it is written: no ${{ }} is replaced in it")
		}
	}
	if v := t.get("on_reject"); v != nil {
		g.OnReject, _ = d.word(v, "on_reject")
	}
	if v := t.get("deadline"); v != nil {
		g.Deadline, _, _ = d.duration(v, "deadline")
	}
	if v := t.get("default"); v != nil {
		g.Default, _ = d.oneOf(v, "default of a gate", []string{interrupt.Approve, interrupt.Reject})
		if t.get("deadline") == nil {
			d.wrong(v, "add a deadline", "a default decides at a deadline, and this gate has none")
		}
	}
	return g
}
