package nodes

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// Registry is a set of node types: what files that are loaded with it can name.
// Its Load is what engine.Options.Load takes, so that a turn goes on with the
// types that its graph was made of. All its methods may be called at once.
type Registry struct {
	mu    sync.RWMutex
	types map[string]*Type
}

// ownTypes are the types of this package.
func ownTypes() []Type {
	return []Type{
		askType(), execType(), fileType(), httpType(), intentType(), llmType(), mapType(), setType(), signalType(),
		subgraphType(), switchType(), toolsType(), transformType(), waitType(),
	}
}

// registry is what the functions of the package work on.
var registry = sync.OnceValue(func() *Registry {
	r, err := NewRegistry(ownTypes()...)
	if err != nil {
		panic(err) // a mistake in this program, which a test finds
	}
	return r
})

// NewRegistry makes a registry of these types and no others.
func NewRegistry(types ...Type) (*Registry, error) {
	r := &Registry{types: map[string]*Type{}}
	for _, t := range types {
		if err := r.Register(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Register makes a node type known to Load and LoadFile, from now on and in the
// whole program. See Registry for a set of one's own.
func Register(t Type) error { return registry().Register(t) }

// Only gives a registry of these node types and no others, for files that are
// not trusted: nodes.Only("set", "ask", "switch").
func Only(names ...string) (*Registry, error) { return registry().Only(names...) }

// Types lists the node types, by name.
func Types() []Type { return registry().Types() }

// Schema is Registry.Schema of all node types.
func Schema() map[string]any { return registry().Schema() }

// Load makes a graph of a graph file. name is the name of the graph if the
// file gives none, and how errors call it. The error is an
// *engine.CompileError with every mistake of the file, in the order of their
// places.
func Load(name string, data []byte) (*engine.Graph, error) { return registry().Load(name, data) }

// LoadFile is Load for a file. A graph without name is called like the file,
// without folder and extension, and its definitions may name other files,
// relative to its folder.
func LoadFile(path string) (*engine.Graph, error) { return registry().LoadFile(path) }

var typeName = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)

// Register adds a type.
func (r *Registry) Register(t Type) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("node type %q: %w", t.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types[t.Name] != nil {
		return fmt.Errorf("node type %q is registered already", t.Name)
	}
	r.types[t.Name] = &t
	return nil
}

// check finds what is wrong with a type, and makes its schema ready.
func (t *Type) check() error {
	switch {
	case !typeName.MatchString(t.Name):
		return errors.New("a name begins with a small letter and has small letters, digits, '_', '-' and '.'")
	case t.Name == "go":
		return errors.New("this is how nodes in Go are called")
	case t.Version < 1:
		return errors.New("its version counts from 1")
	case t.New == nil:
		return errors.New("it has no New")
	}
	if t.Schema == nil {
		t.Schema = map[string]any{}
	}
	// Through JSON, so that what Go writes as []string is what a schema has.
	raw, _, err := value.Normalize(t.Schema)
	if err != nil {
		return fmt.Errorf("its schema is no JSON: %w", err)
	}
	t.Schema = raw.(map[string]any)
	if _, ok := t.Schema["properties"].(map[string]any); !ok && t.Schema["properties"] != nil {
		return errors.New("properties of its schema is an object")
	}
	common := commonKeys()
	for _, key := range t.keys() {
		if slices.Contains(common, key) || isAnnotation(key) {
			return fmt.Errorf("its schema has the key %s, which is one of every node or an annotation", key)
		}
	}
	if refers(t.Schema) {
		return errors.New("its schema uses $ref or $id: write out what it refers to, for the schema becomes a part of that of graph files")
	}
	t.Schema["type"] = "object"
	if t.Schema["properties"] == nil {
		t.Schema["properties"] = map[string]any{}
	}
	if t.Schema["required"] == nil {
		t.Schema["required"] = []any{}
	}
	if _, said := t.Schema["additionalProperties"]; !said {
		t.Schema["additionalProperties"] = false
	}
	t.Schema["patternProperties"] = mergedObject(t.Schema["patternProperties"], annotationSchema())
	t.checks, err = compileSchema(t.Schema)
	if err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	return nil
}

// compileSchema makes a JSON Schema ready. It reads no other place than itself.
func compileSchema(schema any) (*jsonschema.Schema, error) {
	const url = "schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource(url, schema); err != nil {
		return nil, schemaError(err)
	}
	s, err := compiler.Compile(url)
	if err != nil {
		return nil, schemaError(err)
	}
	return s, nil
}

// schemaError is what is wrong with a schema, without the library's headline,
// which has a path of this machine in it.
func schemaError(err error) error {
	var bad *jsonschema.SchemaValidationError
	var inner *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &inner) {
		if list := (explainer{&Type{}, "it", ""}).explain(inner); len(list) > 0 {
			return fmt.Errorf("%s", list[0].message)
		}
	}
	return err
}

func mergedObject(a any, b map[string]any) map[string]any {
	m, _ := a.(map[string]any)
	out := maps.Clone(b)
	maps.Copy(out, m)
	return out
}

// refers reports whether a schema refers to another place.
func refers(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.HasPrefix(key, "$") && key != "$comment" && key != "$schema" || refers(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refers)
	}
	return false
}

// Only gives a registry with these types of it and no others.
func (r *Registry) Only(names ...string) (*Registry, error) {
	out := &Registry{types: map[string]*Type{}}
	for _, name := range names {
		t := r.named(name)
		if t == nil {
			return nil, fmt.Errorf("there is no node type %q; there are %s", name, joinNames(r.names()))
		}
		out.types[name] = t
	}
	return out, nil
}

// Types lists the types, by name.
func (r *Registry) Types() []Type {
	var out []Type
	for _, name := range r.names() {
		out = append(out, *r.named(name))
	}
	return out
}

func (r *Registry) named(name string) *Type {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.types[name]
}

func (r *Registry) names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.types))
}
