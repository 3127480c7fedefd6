package nodes

import (
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// Type is a node type that graph files can name.
type Type struct {
	Name    string
	Version int    // part of a graph's fingerprint
	Doc     string // one paragraph
	// Schema is the JSON Schema of the keys of its own: those that every node
	// has are in CommonSchema, and both together in Schema.
	Schema map[string]any

	build func(*builder) engine.Node
}

// Types lists the node types, by name.
func Types() []Type { return []Type{askType(), execType(), setType(), subgraphType()} }

func typeNamed(name string) *Type {
	for _, t := range Types() {
		if t.Name == name {
			return &t
		}
	}
	return nil
}

func typeNames() []string {
	var names []string
	for _, t := range Types() {
		names = append(names, t.Name)
	}
	return names
}

func joinNames(names []string) string { return strings.Join(names, ", ") }

// keys are the keys of the configuration.
func (t *Type) keys() []string {
	var keys []string
	for k := range t.Schema["properties"].(map[string]any) {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (t *Type) required() []string {
	var keys []string
	list, _ := t.Schema["required"].([]any)
	for _, k := range list {
		keys = append(keys, k.(string))
	}
	return keys
}

// schema makes the schema of a configuration.
func schema(required []any, properties map[string]any) map[string]any {
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		"patternProperties": annotationSchema(),
	}
}
