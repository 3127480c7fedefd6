package nodes

import (
	"context"

	"github.com/holdfast-agent/holdfast/engine"
)

func runsNothing(context.Context, *engine.Task) (engine.Output, error) {
	return engine.Output{}, nil
}

func (d *decoder) readEdges(t *tree) {
	items, ok := d.list(t, "edges")
	if !ok {
		return
	}
	for _, item := range items {
		typ := item.get("type")
		if item.kind == objectKind && (item.get("condition") != nil || item.get("routes") != nil || typ != nil && typ.raw == "conditional") {
			d.conditionalEdge(item)
			continue
		}
		// Also an edge with mistakes is handed on, so that Compile knows that
		// the picture is not complete.
		d.def.Edges = append(d.def.Edges, d.plainEdge(item))
		d.edgeAt = append(d.edgeAt, item.pointer)
	}
}

func (d *decoder) plainEdge(t *tree) (e engine.Edge) {
	if t.kind != objectKind {
		d.wrong(t, "write {from: a, to: b}", "an edge is an object, not %s", t.what())
		return e
	}
	known := edgeKeys
	if v := t.get("type"); v != nil {
		known = append([]string{"type"}, edgeKeys...)
		d.oneOf(v, "type of an edge", []string{"conditional"})
	}
	d.only(t, "an edge", known)
	if v := d.need(t, "from", "an edge"); v != nil {
		e.From, _ = d.word(v, "from")
	}
	if v := d.need(t, "to", "an edge"); v != nil {
		if v.kind == listKind {
			d.wrong(v, "write an edge for each", "to is the name of one node, not a list")
			return e
		}
		e.To, _ = d.word(v, "to")
	}
	return e
}

func (d *decoder) conditionalEdge(t *tree) {
	e := engine.ConditionalEdge{Route: func(engine.State) ([]string, error) { return nil, nil }}
	defer func() {
		d.def.ConditionalEdges = append(d.def.ConditionalEdges, e)
		d.conditionalAt = append(d.conditionalAt, t.pointer)
	}()
	const what = "a conditional edge"
	if !d.object(t, what, conditionalKeys) {
		return
	}
	if v := t.get("type"); v != nil {
		d.oneOf(v, "type of an edge", []string{"conditional"})
	}
	if v := d.need(t, "from", what); v != nil {
		e.From, _ = d.word(v, "from")
	}
	if v := d.need(t, "condition", what); v != nil {
		if text, ok := d.text(v, "condition"); ok {
			e.Condition = text
			d.condition(v, &e)
		}
	}
	routes := d.need(t, "routes", what)
	if routes == nil {
		return
	}
	if routes.kind != objectKind {
		d.wrong(routes, "write {true: a, false: b}", "routes is an object of nodes by key, not %s", routes.what())
		return
	}
	e.Routes = map[string]string{}
	for _, k := range routes.keys {
		to, ok := d.word(k.value, "the route "+k.name)
		if !ok {
			to = engine.End // something that exists: the mistake is said already
		}
		e.Routes[k.name] = to
	}
}
