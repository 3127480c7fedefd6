package nodes

import (
	"context"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

func mapType() Type {
	return Type{
		Name: "map", Version: 1,
		Doc: "Runs another node once for each item of a list, side by side: each run finds its item in the channel that as names, and sees no other. What the runs write is put together in the order of the items, so let them write to an append channel. What follows that node runs once, when all are done; the edges of the map itself are followed if the list is empty. max_concurrency of that node bounds how many run at once.",
		Schema: schema([]any{"over", "to", "as"}, map[string]any{
			"over":     map[string]any{"type": "string", "minLength": 1, "description": "an expression that gives the list"},
			"to":       wordSchema("the node that runs for each item; a subgraph for work of several steps"),
			"as":       textSchema("the channel in which a run finds its item"),
			"index_as": textSchema("the channel in which a run finds the number of its item, from 0; absent: none"),
		}),
		New: newMap,
	}
}

func newMap(c *Config) engine.Node {
	over, as, index := c.Expression("over"), c.Output("as", nil), c.Output("index_as", nil)
	if index != "" && index == as {
		c.Wrong("index_as", "", "node %s needs two channels for an item and its number", c.name)
	}
	t := c.take("to")
	to, _ := c.d.word(t, c.what("to"))
	if c.d.nodeNames.get(to) == nil {
		c.d.wrong(t, engine.Nearest(to, c.d.names()), "there is no node %q", to)
	}
	return engine.Node{Sends: []string{to}, Resolve: nothing, Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
		v, err := over.Value(t)
		if err != nil {
			return engine.Output{}, err
		}
		list, ok := v.([]any)
		if !ok {
			return engine.Output{}, fmt.Errorf("over is %s, which is no list", preview(v, 120))
		}
		if most := t.Limits().Sends; len(list) > most {
			return engine.Output{}, fmt.Errorf("over has %d items; at most %d are possible: map lists of them, or raise limits.sends of the graph", len(list), most)
		}
		var out engine.Output
		for i, item := range list {
			input := engine.Values{as: item}
			if index != "" {
				input[index] = int64(i)
			}
			out.Sends = append(out.Sends, engine.Send{Node: to, Input: input})
		}
		if len(list) > 0 {
			out.Goto = []string{engine.End} // the runs go on, not the map
		}
		return out, nil
	}}
}
