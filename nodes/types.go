package nodes

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
)

// Type is a node type that graph files can name.
type Type struct {
	Name    string
	Version int    // part of a graph's fingerprint: raise it when a node would do something else
	Doc     string // one paragraph
	// Schema is the JSON Schema of the keys of its own, an object with
	// properties; those that every node has are in CommonSchema, and both
	// together in Schema. What a node's configuration breaks of it is reported
	// with line and column before New is called. A text with ${{ }} is checked
	// when its value is known, before the node runs.
	Schema map[string]any
	// New makes the engine's node of one node of a file. OnCrash, Retry and
	// Timeout that it sets are defaults, which the file may change. The channels
	// that the configuration reads and writes are known; Effects adds others.
	// Without a Resolve, what the node resolves is its configuration, with ${{ }}
	// replaced in every key that New did not read; Run finds it by
	// engine.Resolved.
	New func(*Config) engine.Node

	// careful types of this package check their configuration themselves, in
	// better words than a schema has.
	careful bool
	// speaks: its tasks show what they do, so that a client need not be shown a
	// call with the configuration and the result again.
	speaks bool
	checks *jsonschema.Schema
}

// keys are the keys of the configuration.
func (t *Type) keys() []string {
	var keys []string
	for k := range t.properties() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (t *Type) properties() map[string]any {
	properties, _ := t.Schema["properties"].(map[string]any)
	return properties
}

// closed reports whether a node may have no keys but those of the schema.
func (t *Type) closed() bool { return t.Schema["additionalProperties"] == false }

func (t *Type) required() []string {
	var keys []string
	list, _ := t.Schema["required"].([]any)
	for _, k := range list {
		if name, ok := k.(string); ok {
			keys = append(keys, name)
		}
	}
	return keys
}

func joinNames(names []string) string { return strings.Join(names, ", ") }

// schema makes the schema of a configuration.
func schema(required []any, properties map[string]any) map[string]any {
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		"patternProperties": annotationSchema(),
	}
}
