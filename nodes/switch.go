package nodes

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

func switchType() Type {
	return Type{
		Name: "switch", Version: 1,
		Doc: "Leads where the first case leads whose expression is true, or to default; with match all to every such case. It is a shorter way to write a conditional edge of many branches, and does nothing itself. Without cases its edges lead on.",
		Schema: dependent(schema([]any{}, map[string]any{
			"cases": map[string]any{"type": "array", "minItems": 1, "description": "looked at in their order", "items": objectSchema("a case", []any{"when", "to"}, map[string]any{
				"when": map[string]any{"type": []any{"string", "boolean"}, "description": "an expression that is true or false"},
				"to":   wordSchema("a node, or " + engine.End),
			})},
			"default": wordSchema("where no case leads: a node, or " + engine.End),
			"match":   enumSchema("first: the first case that is true; all: every case that is; absent: first", "first", "all"),
		}), map[string]any{"cases": []any{"default"}, "default": []any{"cases"}, "match": []any{"cases"}}),
		New: newSwitch,
	}
}

func dependent(schema map[string]any, keys map[string]any) map[string]any {
	schema["dependentRequired"] = keys
	return schema
}

// newSwitch moves the cases into a conditional edge of the node, which is how
// the canonical form has them.
func newSwitch(c *Config) engine.Node {
	node := engine.Node{Run: runsNothing, Resolve: nothing}
	cases := c.take("cases")
	if cases == nil {
		return node
	}
	e := engine.ConditionalEdge{From: c.name, Routes: map[string]string{}, Route: func(engine.State) ([]string, error) { return nil, nil }}
	edge := func(key string, t *tree) string {
		to, ok := c.d.word(t, key)
		if ok && to != engine.End && c.d.nodeNames.get(to) == nil {
			c.d.wrong(t, engine.Nearest(to, append(c.d.names(), engine.End)), "there is no node %q", to)
			ok = false
		}
		if !ok {
			to = engine.End // something that exists: the mistake is said
		}
		e.Routes[to] = to
		quoted, _ := json.Marshal(to) // of a text it cannot fail
		return string(quoted)
	}
	match := "first"
	c.Literal("match", &match)
	var parts []string
	var whens []*program
	for _, item := range cases.items {
		when := item.get("when")
		text, ok := c.expressionText(when)
		if ok {
			asWritten := *when
			asWritten.raw = text
			p := c.d.expression(&asWritten, span{text: text}, inCondition)
			whens = append(whens, p)
			ok = p != nil
		}
		to := edge("to", item.get("to"))
		if ok {
			// A line of its own, so that a comment ends with it.
			parts = append(parts, "("+text+"\n) ? "+to)
		}
	}
	otherwise := edge("default", c.take("default"))
	if match == "all" {
		e.Condition = "let found = filter([" + strings.Join(parts, " : nil, ") + " : nil], # != nil); len(found) > 0 ? found : [" + otherwise + "]"
	} else {
		e.Condition = strings.Join(append(parts, ""), " : ") + otherwise
	}
	if len(parts) == len(cases.items) {
		at := *cases
		at.raw = e.Condition
		c.d.condition(&at, &e)
		e.Route = naming(e.Route, c.name, whens)
		for key := range e.Routes {
			e.Labels = append(e.Labels, key)
		}
		sortStrings(e.Labels)
	}
	c.d.def.ConditionalEdges = append(c.d.def.ConditionalEdges, e)
	c.d.conditionalAt = append(c.d.conditionalAt, cases.pointer)
	c.moved = []string{"cases", "default", "match"}
	return node
}

// nothing is what a node resolves that does nothing.
func nothing(*engine.Task) (any, error) { return nil, nil }

// naming makes a failure of all cases together one of the case where it lies, as
// it stands in the file.
func naming(route func(engine.State) ([]string, error), node string, whens []*program) func(engine.State) ([]string, error) {
	return func(s engine.State) ([]string, error) {
		keys, err := route(s)
		if err == nil {
			return keys, nil
		}
		for i, when := range whens {
			switch v, failed := when.run(s, nil); v.(type) {
			case bool:
			default:
				if failed == nil {
					failed = fmt.Errorf("%s gives %s, which is neither true nor false", when.source, preview(v, 120))
				}
				return nil, fmt.Errorf("case %d of node %s: %w", i+1, node, failed)
			}
		}
		return nil, err
	}
}
