package nodes_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/nodes"
)

// A node type of one's own: its schema says what a file may write, and what is
// wrong there is told with line and column. ${{ }} is replaced before the node
// runs, and is what an approver of the node would see.
func ExampleRegister() {
	shout := nodes.Type{
		Name: "shout", Version: 1,
		Doc: "Writes a text to output, louder.",
		Schema: map[string]any{
			"required": []string{"text", "output"},
			"properties": map[string]any{
				"text":   map[string]any{"type": "string", "description": "what to shout"},
				"times":  map[string]any{"type": "integer", "minimum": 1, "maximum": 9, "description": "how often; absent: once"},
				"output": map[string]any{"type": "string", "description": "the channel that gets it"},
			},
		},
		New: func(c *nodes.Config) engine.Node {
			output := c.Output("output", nil)
			return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				in, err := engine.Resolved[struct {
					Text  string
					Times int
				}](t)
				if err != nil {
					return engine.Output{}, err
				}
				text := strings.Repeat(strings.ToUpper(in.Text)+"!", max(in.Times, 1))
				return engine.Set(output, text), nil
			}}
		},
	}
	if err := nodes.Register(shout); err != nil {
		fmt.Println(err)
		return
	}
	graph, err := nodes.Load("greeting", []byte(`
channels: {who: {}, loud: {}}
nodes: {shout: {type: shout, text: "hello ${{ who }}", times: 2, output: loud}}
edges: [{from: __start__, to: shout}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := engine.New(graph, nil, engine.Options{Load: nodes.Load}).
		Start(context.Background(), "t", engine.Input{Values: engine.Values{"who": "world"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.State["loud"])

	_, err = nodes.Load("greeting", []byte(`
channels: {loud: {}}
nodes: {shout: {type: shout, text: hello, times: ten, output: lout}}
edges: [{from: __start__, to: shout}]
`))
	fmt.Println(err)
	// Output:
	// HELLO WORLD!HELLO WORLD!
	// graph greeting has 1 mistake:
	//   3:50: /nodes/shout/times: times of node shout is an integer, not a text
}

// Files that are not trusted name only the node types that they are allowed.
func ExampleOnly() {
	safe, err := nodes.Only("set", "ask")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = safe.Load("stranger", []byte(`
nodes: {a: {type: exec, command: [rm, -rf, /]}}
edges: [{from: __start__, to: a}]
`))
	fmt.Println(err)
	// Output:
	// graph stranger has 1 mistake:
	//   2:19: /nodes/a/type: unknown node type "exec"; there are ask, set
}
