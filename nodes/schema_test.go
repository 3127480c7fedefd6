package nodes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// compiledSchema is Schema as a program outside of this one reads it.
var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	raw, err := json.Marshal(Schema())
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("graph.json", doc); err != nil {
		return nil, err
	}
	return compiler.Compile("graph.json")
})

// fits tells what is wrong with a graph file by its JSON Schema.
func fits(t require.TestingT, text string) error {
	schema, err := compiledSchema()
	require.NoError(t, err)
	data, problems := readData(t, text)
	require.Empty(t, problems)
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	require.NoError(t, err)
	return schema.Validate(doc)
}

func requireFits(t require.TestingT, text string) {
	require.NoError(t, fits(t, text), text)
}

func TestEveryExampleFileFitsTheSchema(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "examples", "*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "default.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.Contains(string(text), "nodes:") || strings.Contains(file, "go-embed") {
			continue // no graph file, or one with a node type of its program
		}
		requireFits(t, string(text))
		g, err := LoadFile(file)
		require.NoError(t, err, file)
		if file != "default.yaml" { // a warning about it is right where it is not the program's own
			require.Empty(t, g.Warnings(), file)
		}
	}
}

// Where the schema refuses a file the reader does too, and the other way round
// for all that a schema can tell.
func TestAWrongFileDoesNotFitTheSchema(t *testing.T) {
	t.Parallel()
	const graph = "channels: {c: {}, d: CHANNEL}\nnodes: {n: {type: set, values: {c: 1}NODE}}\nedges: [{from: __start__, to: n}]\nTOP\n"
	build := func(channel, node, top string) string {
		if channel == "" {
			channel = "{}"
		}
		if node != "" {
			node = ", " + node
		}
		return strings.NewReplacer("CHANNEL", channel, "NODE", node, "TOP", top).Replace(graph)
	}
	requireFits(t, build("", "", ""))
	for _, c := range []struct{ channel, node, top string }{
		{channel: "{reducer: apend}"}, {channel: "{initail: 1}"}, {channel: "[a]"},
		{channel: "{retention: bounded}"}, {channel: "{retention_limit: 3}"}, {channel: "{retention: latest, retention_limit: 3}"},
		{channel: "{reducer: append, retention: bounded, retention_limit: 0}"}, {channel: "{reducer: append, retention: some}"}, {channel: "{persistence: disk}"},
		{node: "on_crash: maybe"}, {node: "on_error: [a]"}, {node: "on_timeout: stop, run_timeout: 1m"},
		{node: "run_timeout: 5"}, {node: "idle_timeout: 5 minutes"},
		{node: "barrier: {wait_for: []}"}, {node: "barrier: {}"}, {node: "barrier: {wait_for: [n], min: 0}"}, {node: "barrier: {wait_fro: [n]}"},
		{node: "retry_policy: {max_retries: -1}"}, {node: "retry_policy: {max_retries: 1.5}"}, {node: "retry_policy: {backoff_multiplier: 0.5}"},
		{node: "retry_policy: {jitter: 2}"}, {node: "retry_policy: {jitter: 0.1, jitter_pct: 10}"}, {node: "retry_policy: {retries: 1}"},
		{top: "schema_version: 2"}, {top: "name: [a]"}, {top: "interupt_before: [n]"},
		{top: "interrupt_before: n"}, {top: "interrupt_before: [{node: n, defualt: approve}]"}, {top: "interrupt_before: [{message: m}]"},
		{top: "interrupt_before: [{node: n, default: approve}]"}, {top: "interrupt_before: [{node: n, default: yes, deadline: 1h}]"},
		{top: "conditional_edges: [{from: n, condition: c}]"}, {top: "conditional_edges: [{from: n, condition: c, routes: {}}]"},
		{top: "commands: {}"}, {top: "commands: [go]"}, {top: "commands: [{name: go, description: d}]"}, {top: "commands: [{name: go, description: '', input: {c: 1}}]"},
		{top: "commands: [{name: go, description: d, input: {}}]"}, {top: "commands: [{name: go, description: d, input: {c: 1}, hnit: x}]"},
		{top: "retry_policy: 3"}, {top: "retry_policy: {initial_delay_ms: soon}"},
	} {
		text := build(c.channel, c.node, c.top)
		require.Error(t, fits(t, text), text)
		_, err := Load("x", []byte(text))
		require.Error(t, err, text)
	}
}

func TestTheSchemaDescribesEveryKey(t *testing.T) {
	t.Parallel()
	var look func(path string, v any)
	look = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			for key, p := range properties {
				property, ok := p.(map[string]any)
				if !ok || path == "" || strings.Contains(path, "/if") || strings.Contains(path, "/else") {
					continue
				}
				if _, reference := property["$ref"]; !reference {
					require.NotEmpty(t, property["description"], "%s/%s", path, key)
				}
			}
			for key, inner := range v {
				look(path+"/"+key, inner)
			}
		case []any:
			for _, inner := range v {
				look(path+"/#", inner)
			}
		}
	}
	look("", Schema())
}
