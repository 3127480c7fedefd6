package acpschema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// definition is what the schema has for one method.
type definition struct {
	side   string // who offers it: agent, client, or protocol for both
	params *jsonschema.Schema
	result *jsonschema.Schema // nil for a notification

	openParams, openResult *jsonschema.Schema // the same with unknown members allowed
}

// Schema is the published schema, compiled.
type Schema struct {
	methods map[string]*definition
	errors  *jsonschema.Schema
}

var compiled = struct {
	sync.Mutex
	schema *Schema
}{}

// Load returns the schema of protocol version 1. It is compiled once a process.
func Load(tb testing.TB) *Schema {
	tb.Helper()
	folder := Clients(tb)
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.schema != nil {
		return compiled.schema
	}
	schema, err := load(filepath.Join(folder, "node_modules", "@agentclientprotocol", "sdk", "schema", "v1", "schema.json"))
	if err != nil {
		tb.Fatal(err)
	}
	compiled.schema = schema
	return schema
}

func load(file string) (*Schema, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	definitions, ok := document["$defs"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: no $defs", file)
	}
	closeDefinitions(definitions)

	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("acp:///schema.json", document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s := &Schema{methods: map[string]*definition{}}
	compile := func(name string) (schema *jsonschema.Schema) {
		if err == nil {
			schema, err = compiler.Compile("acp:///schema.json#/$defs/" + name)
		}
		return schema
	}
	for name, value := range definitions {
		about, _ := value.(map[string]any)
		method, _ := about["x-method"].(string)
		if method == "" || strings.Contains(name, ".") {
			continue
		}
		d := s.methods[method]
		if d == nil {
			d = &definition{}
			s.methods[method] = d
		}
		d.side, _ = about["x-side"].(string)
		switch {
		case strings.HasSuffix(name, "Request"), strings.HasSuffix(name, "Notification"):
			d.params, d.openParams = compile(name+closedSuffix), compile(name)
		case strings.HasSuffix(name, "Response"):
			d.result, d.openResult = compile(name+closedSuffix), compile(name)
		default:
			return nil, fmt.Errorf("%s: %s has a method but is no request, response or notification", file, name)
		}
	}
	s.errors = compile("Error" + closedSuffix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(s.methods) == 0 {
		return nil, fmt.Errorf("%s: no definition has an x-method", file)
	}
	return s, nil
}

const (
	closedSuffix = ".closed"
	partSuffix   = ".part"
)

// closeDefinitions adds to every definition a copy that allows no unknown members.
//
// A definition that is mixed into another one (allOf beside properties) must stay
// open, since it does not know the members of its neighbours; whatever stands for
// a whole value is closed. So there is a second copy, for where a part is meant:
// open itself, with closed values inside.
func closeDefinitions(definitions map[string]any) {
	names := make([]string, 0, len(definitions))
	for name := range definitions {
		names = append(names, name)
	}
	for _, name := range names {
		original := definitions[name]
		definitions[name+closedSuffix] = closeWhole(original)
		definitions[name+partSuffix] = closePart(original)
	}
}

// closeWhole copies a schema that stands for a whole value.
func closeWhole(value any) any {
	schema, ok := value.(map[string]any)
	if !ok {
		return value
	}
	closed := closePart(schema).(map[string]any)
	_, hasProperties := schema["properties"]
	if reference, ok := schema["$ref"].(string); ok && !hasProperties {
		closed["$ref"] = reference + closedSuffix
	}
	for _, union := range []string{"allOf", "anyOf", "oneOf"} {
		// Without properties beside it, each branch is the whole value.
		if branches, ok := schema[union].([]any); ok && !hasProperties {
			list := make([]any, len(branches))
			for i, branch := range branches {
				list[i] = closeWhole(branch)
			}
			closed[union] = list
		}
	}
	_, open := schema["additionalProperties"]
	_, unevaluated := schema["unevaluatedProperties"]
	if hasProperties && !open && !unevaluated {
		closed["unevaluatedProperties"] = false
	}
	return closed
}

// closePart copies a schema that is one of several about the same value.
func closePart(value any) any {
	schema, ok := value.(map[string]any)
	if !ok {
		return value
	}
	closed := make(map[string]any, len(schema))
	for key, value := range schema {
		switch key {
		case "properties":
			members := map[string]any{}
			for name, member := range value.(map[string]any) {
				members[name] = closeWhole(member)
			}
			value = members
		case "items", "additionalProperties":
			value = closeWhole(value)
		case "allOf", "anyOf", "oneOf":
			list := make([]any, len(value.([]any)))
			for i, branch := range value.([]any) {
				list[i] = closePart(branch)
			}
			value = list
		case "$ref":
			value = value.(string) + partSuffix
		}
		closed[key] = value
	}
	return closed
}
