package nodes

import (
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// The keys of the format.
var (
	graphKeys = []string{"schema_version", "name", "channels", "nodes", "edges", "conditional_edges",
		"interrupt_before", "interrupt_after", "retry_policy"}
	channelKeys     = []string{"reducer", "initial", "retention", "retention_limit", "persistence"}
	edgeKeys        = []string{"from", "to"}
	conditionalKeys = []string{"from", "type", "condition", "routes"}
	gateKeys        = []string{"node", "message", "on_reject"}
	retryKeys       = []string{"max_retries", "initial_delay_ms", "backoff_multiplier", "max_delay_ms"}
)

// SchemaVersion is the newest version of the format that is known.
const SchemaVersion = 1

// graph reads the whole file.
func (d *decoder) graph(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "a graph file is an object with nodes and edges, not %s", t.what())
		return
	}
	if v := t.get("schema_version"); v == nil {
		d.lenient = true
	} else if n, ok := d.integer(v, "schema_version"); ok {
		switch {
		case n > SchemaVersion:
			d.wrong(v, "update this program", "schema_version %d is newer than this program, which knows up to %d", n, SchemaVersion)
		case n < 0:
			d.wrong(v, "", "schema_version is 0 or 1, not %d", n)
		}
		d.lenient = n == 0
	}
	d.only(t, "the graph file", graphKeys)
	if v := t.get("name"); v != nil {
		if name, ok := d.text(v, "name"); ok {
			d.def.Name = name
		}
	}
	if v := t.get("channels"); v != nil && v.kind != nullKind {
		d.readChannels(v)
	}
	if v := d.need(t, "nodes", "a graph file"); v != nil {
		d.readNodes(v)
	}
	if v := t.get("edges"); v != nil && v.kind != nullKind {
		d.readEdges(v)
	}
	if v := t.get("conditional_edges"); v != nil && v.kind != nullKind {
		if items, ok := d.list(v, "conditional_edges"); ok {
			for _, item := range items {
				d.conditionalEdge(item)
			}
		}
	}
	d.def.InterruptBefore = d.gates(t.get("interrupt_before"), "interrupt_before")
	d.def.InterruptAfter = d.gates(t.get("interrupt_after"), "interrupt_after")
	if v := t.get("retry_policy"); v != nil && v.kind != nullKind {
		d.retryPolicy(v)
	}
}

func (d *decoder) readChannels(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "channels is an object of channels by name, not %s", t.what())
		return
	}
	d.def.Channels = map[string]engine.Channel{}
	for _, k := range t.keys {
		d.def.Channels[k.name] = d.readChannel(k.value, k.name)
	}
}

func (d *decoder) readChannel(t *tree, name string) (ch engine.Channel) {
	if t.kind == nullKind {
		return ch // "log:" and nothing else is a channel with everything by default
	}
	if !d.object(t, "channel "+name, channelKeys) {
		return ch
	}
	if v := t.get("reducer"); v != nil {
		ch.Reducer, _ = d.oneOf(v, "reducer", engine.Reducers())
	}
	if v := t.get("initial"); v != nil {
		ch.Initial = d.data(v)
	}
	// What is kept, and where, changes what a graph means: it is refused
	// rather than skipped. The values that say what happens anyway are fine.
	for key, usual := range map[string]string{"retention": "unbounded", "persistence": "checkpoint", "retention_limit": ""} {
		if v := t.get(key); v != nil && (usual == "" || v.raw != usual) {
			d.wrong(v, "leave it out", "%s of channel %s is not supported yet", key, name)
		}
	}
	return ch
}

func (d *decoder) retryPolicy(t *tree) {
	if !d.object(t, "retry_policy", retryKeys) {
		return
	}
	kept := map[string]any{}
	for _, key := range retryKeys {
		v := t.get(key)
		if v == nil {
			continue
		}
		if key == "backoff_multiplier" {
			number := d.data(v)
			f, isFloat := number.(float64)
			n, isInteger := number.(int64)
			if v.kind != numberKind || isFloat && f < 1 || isInteger && n < 1 {
				d.wrong(v, "", "backoff_multiplier is a number of at least 1, not %s", orWhat(v))
				continue
			}
			kept[key] = number
			continue
		}
		n, ok := d.integer(v, key)
		if ok && n < 0 {
			d.wrong(v, "", "%s is not negative", key)
		}
		kept[key] = n
	}
	d.def.Extra = map[string]any{"retry_policy": kept}
	d.warn(d.at(t), t.pointer, "", "retry_policy is kept, but not applied yet: a task that fails is not tried again by itself")
}

// orWhat is a scalar as written, else its kind.
func orWhat(t *tree) string {
	if t.raw != "" {
		return t.raw
	}
	return t.what()
}

func (d *decoder) readNodes(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "nodes is an object of nodes by name, not %s", t.what())
		return
	}
	d.def.Nodes = map[string]engine.Node{}
	for _, k := range t.keys {
		d.def.Nodes[k.name] = d.readNode(k.value, k.name)
	}
}

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
	return g
}

// readNode reads a node by its type. It always gives a node that Compile
// takes, so that the rest of the graph is checked too.
func (d *decoder) readNode(t *tree, name string) engine.Node {
	stub := engine.Node{Type: "?", Run: runsNothing, Config: map[string]any{}}
	if t.kind != objectKind {
		d.wrong(t, "", "node %s is an object with a type, not %s", name, t.what())
		return stub
	}
	v := d.need(t, "type", "node "+name)
	if v == nil {
		return stub
	}
	typeName, ok := d.word(v, "type")
	if !ok {
		return stub
	}
	typ := typeNamed(typeName)
	if typ == nil {
		d.wrong(v, engine.Nearest(typeName, typeNames()), "unknown node type %q; there are %s", typeName, joinNames(typeNames()))
		return stub
	}
	if v := t.get("barrier"); v != nil {
		d.wrong(v, "leave it out", "barrier of node %s is not supported yet", name)
	}
	known := append([]string{"type", "barrier"}, typ.keys()...)
	d.only(t, "node "+name+" of type "+typ.Name, known)
	for _, key := range typ.required() {
		d.need(t, key, "node "+name+" of type "+typ.Name)
	}
	b := &builder{d: d, t: t, name: name, config: map[string]any{}}
	node := typ.build(b)
	node.Type, node.Version, node.Config = typ.Name, typ.Version, b.config
	if v := t.get("on_crash"); v != nil {
		if policy, ok := d.oneOf(v, "on_crash", []string{"ask", "retry", "fail"}); ok {
			node.OnCrash = engine.OnCrash(policy)
		}
	}
	if node.Run == nil {
		node.Run = runsNothing
	}
	return node
}

// builder makes the engine's node of one node of a file.
type builder struct {
	d      *decoder
	t      *tree
	name   string
	config map[string]any // what goes into the canonical form
}

func (b *builder) get(key string) *tree {
	t := b.t.get(key)
	if t != nil && t.kind == nullKind {
		return nil
	}
	return t
}

func (b *builder) what(key string) string { return fmt.Sprintf("%s of node %s", key, b.name) }
