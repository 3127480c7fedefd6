package nodes

import (
	"maps"

	"github.com/holdfast-agent/holdfast/engine"
)

// Schema is the JSON Schema (2020-12) of a graph file with schema_version 1
// that names types of this registry. An editor completes and checks with it; what only a reader can tell, such as
// whether a name is declared, is left to [Load].
func (r *Registry) Schema() map[string]any {
	defs := map[string]any{
		"channel": channelSchema(), "edge": edgeSchema(), "conditional_edge": conditionalSchema(),
		"gate": gateSchema(), "retry_policy": retrySchema(), "command": commandSchema(), "limits": limitsSchema(), "node": r.nodeSchema(),
	}
	for _, t := range r.Types() {
		defs["node_"+t.Name] = t.nodeSchema()
	}
	list := func(description string, refs ...any) map[string]any {
		items := refs[0]
		if len(refs) > 1 {
			items = map[string]any{"anyOf": refs}
		}
		return map[string]any{"type": []any{"array", "null"}, "description": description, "items": items}
	}
	gates := func(when string) map[string]any {
		return list("nodes "+when+" which a person approves or rejects", wordSchema("the name of a node"), ref("gate"))
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Holdfast graph file", "type": "object", "required": []any{"nodes"},
		"additionalProperties": false, "patternProperties": annotationSchema(), "$defs": defs,
		"properties": map[string]any{
			"schema_version":    map[string]any{"type": "integer", "minimum": 0, "maximum": SchemaVersion, "description": "the version of the format: 1, also where it is absent; 0 is for old files, where what keeps no graph from running is a warning"},
			"name":              textSchema("the graph's name; absent: the file's, without folder and extension"),
			"channels":          map[string]any{"type": []any{"object", "null"}, "description": "the state: channels by name", "additionalProperties": ref("channel")},
			"nodes":             map[string]any{"type": "object", "minProperties": 1, "description": "the nodes by name", "additionalProperties": ref("node"), "propertyNames": map[string]any{"pattern": `^[^\[\]@\x00-\x1f]+$`, "not": map[string]any{"enum": []any{engine.Start, engine.End}}}},
			"edges":             list("where nodes lead; at least one leads from "+engine.Start, ref("edge"), ref("conditional_edge")),
			"conditional_edges": list("where nodes lead by a condition", ref("conditional_edge")),
			"interrupt_before":  gates("before"),
			"interrupt_after":   gates("after"),
			"commands":          list("what a person can say instead of a text, as /name", ref("command")),
			"limits":            map[string]any{"anyOf": []any{ref("limits"), map[string]any{"type": "null"}}, "description": "what the graph may do to its file and its memory"},
			"retry_policy":      map[string]any{"anyOf": []any{ref("retry_policy"), map[string]any{"type": "null"}}, "description": "how nodes without a policy of their own are tried again"},
		},
	}
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

// annotationSchema allows what is for people and other programs.
func annotationSchema() map[string]any { return map[string]any{"^(_|x-)": true} }

func textSchema(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// wordSchema is of a name: YAML reads some as numbers or booleans.
func wordSchema(description string) map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"}, "description": description}
}

func enumSchema(description string, options ...any) map[string]any {
	return map[string]any{"enum": options, "description": description}
}

// durationSchema is of a duration that may be absent.
func durationSchema(description string) map[string]any {
	return lengthSchema(description + ", such as 30s, 5m or 1h30m; absent: no bound")
}

// lengthSchema is of a duration.
func lengthSchema(description string) map[string]any {
	return map[string]any{
		"type": "string", "pattern": `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`,
		"description": description,
	}
}

func numberSchema(description string, least, most any) map[string]any {
	out := map[string]any{"type": "number", "minimum": least, "description": description}
	if most != nil {
		out["maximum"] = most
	}
	return out
}

// objectSchema is of an object of the format.
func objectSchema(description string, required []any, properties map[string]any) map[string]any {
	out := schema(required, properties)
	out["description"] = description
	return out
}

func channelSchema() map[string]any {
	out := objectSchema("a named piece of the state", []any{}, map[string]any{
		"reducer":         enumSchema("how writes combine; absent: overwrite", anys(engine.Reducers())...),
		"initial":         map[string]any{"description": "the value before the first write"},
		"retention":       enumSchema("how much of a list stays after a write: all, its last item, or its last retention_limit items", "unbounded", "latest", "bounded"),
		"retention_limit": map[string]any{"type": "integer", "minimum": 1, "maximum": maxRetention, "description": "with retention bounded: how many items stay"},
		"persistence":     enumSchema("ephemeral: it is never stored, and is initial again whenever the thread comes to rest", "checkpoint", "ephemeral"),
	})
	out["type"] = []any{"object", "null"}
	bounded := map[string]any{"properties": map[string]any{"retention": map[string]any{"const": "bounded"}}, "required": []any{"retention"}}
	out["if"], out["then"] = bounded, map[string]any{"required": []any{"retention_limit"}}
	out["else"] = map[string]any{"properties": map[string]any{"retention_limit": false}}
	return out
}

func edgeSchema() map[string]any {
	return objectSchema("where a node leads", []any{"from", "to"}, map[string]any{
		"from": wordSchema("a node, or " + engine.Start),
		"to":   wordSchema("a node, or " + engine.End),
	})
}

func conditionalSchema() map[string]any {
	return objectSchema("where a node leads by a condition", []any{"from", "condition", "routes"}, map[string]any{
		"from":      wordSchema("a node"),
		"type":      enumSchema("says that the edge is conditional; not needed", "conditional"),
		"condition": textSchema("an expression whose value is a key of routes, or several; or has_tool_calls or route_channel"),
		"routes": map[string]any{
			"type": "object", "minProperties": 1, "description": "key to node; the key default takes what no other key does",
			"additionalProperties": wordSchema("a node, or " + engine.End),
		},
	})
}

func gateSchema() map[string]any {
	out := objectSchema("a person approves or rejects", []any{"node"}, map[string]any{
		"node":      wordSchema("the node"),
		"message":   textSchema("what is asked"),
		"on_reject": wordSchema("where a rejected branch goes; absent: it ends"),
		"deadline":  durationSchema("how long the question may stay open before default decides"),
		"default":   enumSchema("what is decided at the deadline; absent: reject", "approve", "reject"),
	})
	out["dependentRequired"] = map[string]any{"default": []any{"deadline"}}
	return out
}

func retrySchema() map[string]any {
	out := objectSchema("how often a failed attempt is followed by another, and when; only where on_crash is retry", []any{}, map[string]any{
		"max_retries":        map[string]any{"type": "integer", "minimum": 0, "maximum": maxRetries, "description": "attempts after the first; absent: 0"},
		"initial_delay_ms":   numberSchema("milliseconds before the first retry; absent: 100", 0, maxDelay),
		"backoff_multiplier": numberSchema("of each further delay; absent: 2", 1, 1000),
		"max_delay_ms":       numberSchema("the longest delay in milliseconds; absent: 5000", 0, maxDelay),
		"jitter":             numberSchema("the share of a delay that is left to chance, 0 to 1", 0, 1),
		"jitter_pct":         numberSchema("jitter in percent", 0, 100),
	})
	out["not"] = map[string]any{"required": []any{"jitter", "jitter_pct"}}
	return out
}

// nodeSchema leads by type to the schema of the type, so that an editor only
// offers its keys.
func (r *Registry) nodeSchema() map[string]any {
	var branches []any
	for _, t := range r.Types() {
		branches = append(branches, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": t.Name}}, "required": []any{"type"}},
			"then": ref("node_" + t.Name),
		})
	}
	return map[string]any{
		"type": "object", "required": []any{"type"}, "allOf": branches,
		"properties": map[string]any{"type": enumSchema("what the node does", anys(r.names())...)},
	}
}

// nodeSchema is of a node of the type, with the keys that every node has.
func (t *Type) nodeSchema() map[string]any {
	out := maps.Clone(t.Schema)
	properties := maps.Clone(CommonSchema()["properties"].(map[string]any))
	maps.Copy(properties, t.properties())
	properties["type"] = map[string]any{"const": t.Name, "description": t.Doc}
	properties["retry_policy"] = map[string]any{"$ref": "#/$defs/retry_policy", "description": "how a failed attempt of this node is tried again, instead of the graph's policy"}
	if t.Name == "subgraph" {
		properties["on_crash"] = enumSchema("a subgraph goes on where it was", "retry")
	}
	for key, property := range properties {
		properties[key] = withGraphs(property)
	}
	if !t.careful {
		for key, property := range t.properties() {
			properties[key] = orTemplate(withGraphs(property))
		}
	}
	// A key with nothing behind it is absent.
	for key, property := range properties {
		if key != "type" && !isRequired(t, key) {
			properties[key] = map[string]any{"anyOf": []any{property, map[string]any{"type": "null"}}, "description": describe(property)}
		}
	}
	out["properties"] = properties
	out["required"] = append([]any{"type"}, t.Schema["required"].([]any)...)
	out["description"] = t.Doc
	return out
}

// withGraphs says of a definition that it is like the whole file, which the
// schema of a type, which stands alone, cannot.
func withGraphs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if describe(v) == describe(definitionSchema()) {
			return map[string]any{"description": describe(v), "anyOf": []any{map[string]any{"type": "string"}, map[string]any{"$ref": "#"}}}
		}
		out := map[string]any{}
		for key, inner := range v {
			out[key] = withGraphs(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = withGraphs(inner)
		}
		return out
	}
	return v
}

// orTemplate lets a text with ${{ }} stand wherever it will give a value that
// fits; that it does is checked when it is known.
func orTemplate(property any) any {
	p, ok := property.(map[string]any)
	if !ok {
		return property
	}
	p = maps.Clone(p)
	if inner := propertiesOf(p); inner != nil {
		loose := map[string]any{}
		for key, v := range inner {
			loose[key] = orTemplate(v)
		}
		p["properties"] = loose
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if v, ok := p[key].(map[string]any); ok {
			p[key] = orTemplate(v)
		}
	}
	if plain := maps.Clone(p); plain["type"] == "string" {
		delete(plain, "type")
		delete(plain, "description")
		if len(plain) == 0 {
			return p // any text fits as it is
		}
	}
	out := map[string]any{"anyOf": []any{p, map[string]any{"type": "string", "pattern": `\$\{\{`}}}
	if text := describe(p); text != "" {
		out["description"] = text
	}
	return out
}

func isRequired(t *Type, key string) bool {
	for _, required := range t.required() {
		if required == key {
			return true
		}
	}
	return false
}

func describe(property any) string {
	text, _ := property.(map[string]any)["description"].(string)
	return text
}
