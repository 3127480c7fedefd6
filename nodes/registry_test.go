package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func object(properties map[string]any, more ...any) map[string]any {
	out := map[string]any{"type": "object", "properties": properties}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// parcel is a node type as somebody else would write it.
func parcel(version int) Type {
	text := map[string]any{"type": "string", "description": "a text"}
	return Type{
		Name: "parcel", Version: version, Doc: "Writes what it was given to output.",
		Schema: object(map[string]any{
			"to": map[string]any{"type": "string", "minLength": 1, "description": "who gets it"},
			"size": map[string]any{"description": "how large", "anyOf": []any{
				map[string]any{"type": "integer", "minimum": 1, "maximum": 9},
				map[string]any{"enum": []string{"small", "large"}},
			}},
			"items": map[string]any{"type": "array", "description": "what is in it", "minItems": 1, "uniqueItems": true,
				"items": object(map[string]any{"name": text, "count": map[string]any{"type": "integer"}}, "required", []string{"name"}, "additionalProperties", false)},
			"wrap":   map[string]any{"type": "boolean", "description": "with paper"},
			"code":   map[string]any{"type": "string", "pattern": "^[A-Z]+$", "description": "large letters"},
			"output": text,
		}, "required", []string{"to"}, "dependentRequired", map[string]any{"wrap": []string{"size"}}),
		New: func(c *Config) engine.Node {
			output := c.Output("output", nil)
			return engine.Node{
				OnCrash: engine.CrashAsk, Timeout: &engine.Timeout{Run: time.Hour},
				Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
					if output == "" {
						return engine.Output{}, nil
					}
					return engine.Set(output, t.Resolved()), nil
				},
			}
		},
	}
}

func with(t *testing.T, types ...Type) *Registry {
	t.Helper()
	r, err := NewRegistry(append(ownTypes(), types...)...)
	require.NoError(t, err)
	return r
}

func parcelGraph(config string) []byte {
	return []byte("channels: {out: , who: , n: }\nedges: [{from: __start__, to: p}]\nnodes: {p: {type: parcel,\n" + config + "}}\n")
}

func TestAConfigurationIsCheckedAgainstTheSchemaOfItsType(t *testing.T) {
	t.Parallel()
	r := with(t, parcel(1))
	for config, want := range map[string][]string{
		"to: 5":               {"4:5: /nodes/p/to: to of node p is a text, not a number; write it in quotes"},
		"to: ''":              {"4:5: /nodes/p/to: to of node p is empty"},
		"size: 5":             {"3:9: /nodes/p/to: node p of type parcel needs to"},
		"to: a, wrap: yes":    {"4:14: /nodes/p/wrap: wrap of node p is true or false, not a text"},
		"to: a, wrap: true":   {"4:14: /nodes/p/wrap: wrap needs size beside it"},
		"to: a, size: 10":     {"4:14: /nodes/p/size: size of node p is at most 9, not 10"},
		"to: a, size: smal":   {"4:14: /nodes/p/size: size of node p is one of small, large, not smal; did you mean small?"},
		"to: a, items: []":    {"4:8: /nodes/p/items: items of node p has at least 1 items, not 0"},
		"to: a, code: abc":    {`4:14: /nodes/p/code: code of node p cannot be "abc": it is large letters`},
		"to: a, itmes: [1]":   {"4:8: /nodes/p/itmes: unknown key itmes in node p of type parcel; did you mean items?"},
		"to: a, output: outt": {`4:16: /nodes/p/output: there is no channel "outt"; did you mean out?`},
		"to: '${{ whoo }}'":   {"4:10: /nodes/p/to: unknown name whoo in an expression: it is no declared channel; did you mean who?"},
		"to: a, items: [{name: x, nmae: y}, {count: 1.5, name: z}, {}]": {
			"4:26: /nodes/p/items/0/nmae: unknown key nmae in items/0 of node p; did you mean name?",
			"4:44: /nodes/p/items/1/count: items/1/count of node p is an integer, not a number",
			"4:59: /nodes/p/items/2/name: items/2 of node p needs name",
		},
	} {
		_, err := r.Load("test", parcelGraph(config))
		require.Error(t, err, config)
		for _, w := range want {
			require.ErrorContains(t, err, w, config)
		}
	}
	for _, config := range []string{
		"to: a, size: small, x-note: 1", "to: a, size: 3, wrap: true, items: [{name: x}]", "to: '${{ who }}', size: '${{ n }}', code: 'A${{ n }}'", "to: a, wrap: ",
	} {
		_, err := r.Load("test", parcelGraph(config))
		require.NoError(t, err, config)
	}
}

// schemaOf is the schema of graph files as a program outside of this one reads
// it.
func schemaOf(t *testing.T, r *Registry) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(r.Schema())
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("graph.json", doc))
	s, err := compiler.Compile("graph.json")
	require.NoError(t, err)
	return s
}

func TestTheSchemaForEditorsHasTheTypesOfItsRegistry(t *testing.T) {
	t.Parallel()
	r := with(t, parcel(1))
	for config, ok := range map[string]bool{
		"to: a, size: 3": true, "to: a, size: '${{ n }}', wrap: '${{ n }}', items: [{name: a, count: '${{ n }}'}]": true,
		"to: a, x-note: 1, on_crash: ask, items:": true, "to: a, code: 'A${{ who }}'": true,
		"size: 3": false, "to: a, size: 10": false, "to: a, wrap: soon": false, "to: a, nothing: 1": false,
		"to: a, items: [{name: a, count: b}]": false, "to: a, code: b": false,
	} {
		data, problems := readData(t, string(parcelGraph(config)))
		require.Empty(t, problems)
		err := schemaOf(t, r).Validate(data)
		require.Equal(t, ok, err == nil, "%s: %v", config, err)
		_, err = r.Load("test", parcelGraph(config))
		require.Equal(t, ok, err == nil, "%s: %v", config, err)
	}
}

func TestAnOldFileMayHaveKeysThatATypeDoesNotKnow(t *testing.T) {
	t.Parallel()
	file := "schema_version: 0\n" + string(parcelGraph("to: a, output: out, tO: b "))
	g, err := with(t, parcel(1)).Load("test", []byte(file))
	require.NoError(t, err)
	require.Len(t, g.Warnings(), 3, "%v", g.Warnings())
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, "a", turn.State["out"].(map[string]any)["to"])
}

func TestWhatANodeResolvesFitsTheSchemaOfItsType(t *testing.T) {
	t.Parallel()
	g, err := with(t, parcel(1)).Load("test", parcelGraph("to: 'to ${{ who }}', size: '${{ n }}', output: out"))
	require.NoError(t, err)
	require.Empty(t, g.Warnings())
	start := func(n any) (*engine.Turn, error) {
		return engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"who": "me", "n": n}})
	}
	turn, err := start(7)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"to": "to me", "size": int64(7), "output": "out"}, turn.State["out"])
	_, err = start(10)
	require.ErrorContains(t, err, "failed at node p: the configuration does not fit: size is at most 9, not 10")
}

func TestAKeyThatATypeReadsItselfIsNotCheckedBeforeItHasItsValue(t *testing.T) {
	t.Parallel()
	typ := parcel(1)
	typ.New = func(c *Config) engine.Node {
		code := c.Template("code")
		return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			text, err := code.Text(t)
			return engine.Set("out", text), err
		}}
	}
	g, err := with(t, typ).Load("test", parcelGraph("to: '${{ who }}', code: 'A${{ n }}'"))
	require.NoError(t, err)
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"who": "me", "n": 5}})
	require.NoError(t, err)
	require.Equal(t, "A5", turn.State["out"])
}

func TestWhatATypeSetsIsADefault(t *testing.T) {
	t.Parallel()
	r := with(t, parcel(1))
	canonical := func(config string) string {
		g, err := r.Load("test", parcelGraph(config))
		require.NoError(t, err)
		return string(g.Canonical())
	}
	require.Contains(t, canonical("to: a"), `"on_crash":"ask","on_timeout":"fail","run_timeout":"1h0m0s"`)
	require.Contains(t, canonical("to: a, on_crash: retry, idle_timeout: 1m"), `"idle_timeout":"1m0s","on_crash":"retry","on_timeout":"fail","to"`)
}

func TestTheVersionOfATypeIsPartOfTheFingerprint(t *testing.T) {
	t.Parallel()
	file := parcelGraph("to: a")
	one, err := with(t, parcel(1)).Load("test", file)
	require.NoError(t, err)
	two, err := with(t, parcel(2)).Load("test", file)
	require.NoError(t, err)
	require.NotEqual(t, one.Fingerprint(), two.Fingerprint())
	same, err := with(t, parcel(1)).Load("test", one.Canonical())
	require.NoError(t, err)
	require.Equal(t, one.Fingerprint(), same.Fingerprint())
}

func TestAFileNamesOnlyWhatItsRegistryAllows(t *testing.T) {
	t.Parallel()
	r, err := with(t, parcel(1)).Only("set", "subgraph")
	require.NoError(t, err)
	file := `
channels: {c: {}}
nodes:
  a: {type: sett, values: {c: 1}}
  b: {type: subgraph, definition: {channels: {c: {}}, nodes: {x: {type: exec, command: a}}, edges: [{from: __start__, to: x}]}}
edges: [{from: __start__, to: a}, {from: a, to: b}]
`
	_, err = r.Load("test", []byte(file))
	require.ErrorContains(t, err, `4:13: /nodes/a/type: unknown node type "sett"; did you mean set?`)
	require.ErrorContains(t, err, `/nodes/b/definition/nodes/x/type: unknown node type "exec"; there are set, subgraph`)
	_, err = r.Only("exec")
	require.ErrorContains(t, err, `there is no node type "exec"; there are set, subgraph`)
	require.NotContains(t, r.Schema()["$defs"], "node_exec")
	require.Len(t, r.Types(), 2)
}

func TestATypeThatCannotWorkIsNotRegistered(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Type){
		"a name begins with a small letter":            func(t *Type) { t.Name = "My Type" },
		"this is how nodes in Go are called":           func(t *Type) { t.Name = "go" },
		"is registered already":                        func(t *Type) { t.Name = "set" },
		"its version counts from 1":                    func(t *Type) { t.Version = 0 },
		"it has no New":                                func(t *Type) { t.New = nil },
		"the key on_crash, which is one of every node": func(t *Type) { t.Schema = object(map[string]any{"on_crash": true}) },
		"uses $ref or $id":                             func(t *Type) { t.Schema = object(map[string]any{"a": map[string]any{"$ref": "#/x"}}) },
		"its schema":                                   func(t *Type) { t.Schema = object(map[string]any{"a": map[string]any{"type": "strnig"}}) },
		"properties of its schema is an object":        func(t *Type) { t.Schema = map[string]any{"properties": 1} },
		"its schema is no JSON":                        func(t *Type) { t.Schema = object(map[string]any{"a": func() {}}) },
	} {
		typ := parcel(1)
		change(&typ)
		err := with(t).Register(typ)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `node type "`)
	}
}

func TestAFactoryThatFailsIsAMistakeOfTheFile(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func(*Config) engine.Node{
		"node type parcel could not make node p: panic: oh": func(*Config) engine.Node { panic("oh") },
		"node type parcel made a node p that does nothing":  func(*Config) engine.Node { return engine.Node{} },
		"4:5: /nodes/p/to: nobody is called a; ask around":  func(c *Config) engine.Node { c.Wrong("to", "ask around", "nobody is called a"); return engine.Node{} },
		"4:5: /nodes/p/to: to of node p is a duration":      func(c *Config) engine.Node { c.Duration("to"); return engine.Node{} },
		"4:5: /nodes/p/to: to of node p cannot be read":     func(c *Config) engine.Node { var n int; c.Literal("to", &n); return engine.Node{} },
		`4:5: /nodes/p/to: there is no channel "a"`:         func(c *Config) engine.Node { c.Input("to"); return engine.Node{} },
		"4:5: /nodes/p/to: unknown name a in an expression": func(c *Config) engine.Node { c.Expression("to"); return engine.Node{} },
		`node p writes channel "nowhere", which is not declared`: func(*Config) engine.Node {
			return engine.Node{Run: runsNothing, Effects: &engine.Effects{Writes: []string{"nowhere"}}}
		},
	} {
		typ := parcel(1)
		typ.New = make
		_, err := with(t, typ).Load("test", parcelGraph("to: a"))
		require.ErrorContains(t, err, want)
	}
}

func TestATypeReadsItsConfigurationAsItLikes(t *testing.T) {
	t.Parallel()
	typ := parcel(1)
	typ.New = func(c *Config) engine.Node {
		require.Equal(t, "p", c.Node())
		require.True(t, c.Has("to"))
		require.False(t, c.Has("size") || c.Has("wrap"))
		var items []struct {
			Name  string
			Count int
		}
		require.True(t, c.Literal("items", &items))
		require.False(t, c.Literal("size", &items))
		to, code := c.Template("to"), c.Expression("code")
		return engine.Node{Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			text, err := to.Text(t)
			if err != nil {
				return engine.Output{}, err
			}
			v, err := code.Value(t)
			return engine.Set("out", []any{text, v, items[0].Name, items[0].Count}), err
		}}
	}
	_, err := with(t, typ).Load("test", parcelGraph("to: 'to ${{ who }}', code: N, wrap: , items: [{name: '${{ n }}', count: 2}]"))
	require.ErrorContains(t, err, "unknown name N")
	g, err := with(t, typ).Load("test", []byte(strings.ReplaceAll(string(parcelGraph("to: 'to ${{ who }}', code: N, wrap: , items: [{name: '${{ n }}', count: 2}]")), "who: ,", "who: , N: {initial: 4},")))
	require.NoError(t, err)
	turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"who": "me"}})
	require.NoError(t, err)
	require.Equal(t, []any{"to me", int64(4), "${{ n }}", int64(2)}, turn.State["out"])
}
