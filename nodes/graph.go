package nodes

import (
	"github.com/holdfast-agent/holdfast/engine"
)

// The keys of the format.
var (
	graphKeys = []string{"schema_version", "name", "channels", "nodes", "edges", "conditional_edges",
		"interrupt_before", "interrupt_after", "retry_policy", "commands", "limits"}
	limitKeys       = []string{"value", "channel", "sends", "depth"}
	channelKeys     = []string{"reducer", "initial", "retention", "retention_limit", "persistence"}
	edgeKeys        = []string{"from", "to"}
	conditionalKeys = []string{"from", "type", "condition", "routes"}
	barrierKeys     = []string{"wait_for", "min", "timeout"}
	gateKeys        = []string{"node", "message", "on_reject", "deadline", "default"}
	retryKeys       = []string{"max_retries", "initial_delay_ms", "backoff_multiplier", "max_delay_ms", "jitter", "jitter_pct"}
)

// SchemaVersion is the newest version of the format that is known.
const SchemaVersion = 1

// graph reads the whole file.
func (d *decoder) graph(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "a graph file is an object with nodes and edges, not %s", t.what())
		return
	}
	// A file without a version is as strict as one with the newest: who forgot
	// the line wants to hear about mistakes. Inside of another definition the
	// version is that one's.
	if v := t.get("schema_version"); v == nil {
	} else if n, ok := d.integer(v, "schema_version"); ok {
		switch {
		case n > SchemaVersion:
			d.wrong(v, "update this program", "schema_version %d is newer than this program, which knows up to %d", n, SchemaVersion)
		case n < 0:
			d.wrong(v, "", "schema_version is 0 or 1, not %d", n)
		}
		d.lenient = n == 0
	}
	d.def.Lenient = d.lenient
	d.only(t, "the graph file", graphKeys)
	if v := t.get("name"); v != nil {
		if name, ok := d.text(v, "name"); ok {
			d.def.Name = name
		}
	}
	if v := t.get("channels"); v != nil && v.kind != nullKind {
		d.readChannels(v)
	}
	// Before the nodes: expressions and subgraphs are held to them.
	if v := t.get("limits"); v != nil && v.kind != nullKind {
		d.readLimits(v)
	}
	// Before the nodes: some types have a policy of their own where the file has
	// none.
	if v := t.get("retry_policy"); v != nil && v.kind != nullKind {
		d.def.Retry = d.retryPolicy(v)
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
	d.commands(t.get("commands"))
}

func (d *decoder) readNodes(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "nodes is an object of nodes by name, not %s", t.what())
		return
	}
	d.nodeNames = t
	d.def.Nodes = map[string]engine.Node{}
	for _, k := range t.keys {
		d.def.Nodes[k.name] = d.readNode(k.value, k.name)
	}
	for _, check := range d.later {
		check()
	}
}

// names are the names of the nodes.
func (d *decoder) names() []string {
	var names []string
	for _, k := range d.nodeNames.keys {
		names = append(names, k.name)
	}
	return names
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
	typ := d.types.named(typeName)
	if typ == nil {
		names := d.types.names()
		suggestion := engine.Nearest(typeName, names)
		if suggestion == "" {
			suggestion = "there are " + joinNames(names)
		}
		d.wrong(v, suggestion, "unknown node type %q", typeName)
		return stub
	}
	d.onlyOf(t, name, typ)
	for _, key := range typ.required() {
		d.need(t, key, "node "+name+" of type "+typ.Name)
	}
	c := &Config{d: d, t: t, name: name, config: map[string]any{}}
	d.effects = &engine.Effects{}
	node := c.make(typ)
	node.Type, node.Version, node.Config = typ.Name, typ.Version, c.config
	if node.Subgraph == nil {
		node.Effects = d.effects
		if node.Run == nil {
			node.Run, node.Effects = runsNothing, nil
		}
	}
	c.common(&node)
	return node
}
