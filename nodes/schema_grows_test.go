package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that an editor accepted yesterday must be accepted tomorrow: what the
// schema says may only grow. With HOLDFAST_UPDATE=1 what has grown is written
// down; what has shrunk is refused all the same.
func TestTheSchemaOfGraphFilesMayOnlyGrow(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "schema.json")
	raw, err := json.MarshalIndent(Schema(), "", " ")
	require.NoError(t, err)
	var now, before any
	require.NoError(t, json.Unmarshal(raw, &now))
	stored, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(stored, &before))
	require.Empty(t, shrunk("", before, now), "files that were right would be wrong now")
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		require.NoError(t, os.WriteFile(golden, append(raw, '\n'), 0o644))
		return
	}
	require.Equal(t, before, now, "the schema has grown: HOLDFAST_UPDATE=1 go test ./nodes -run MayOnlyGrow writes it down")
}

// forms are those of a schema that says nothing else.
func forms(schema map[string]any) []any {
	for key := range schema {
		if key != "anyOf" && key != "description" {
			return nil
		}
	}
	list, _ := schema["anyOf"].([]any)
	return list
}

// shrunk lists where a schema takes less than it did. Two keywords that differ
// in a way of which nothing is known are taken to.
func shrunk(at string, before, now any) (out []string) {
	a, okA := before.(map[string]any)
	b, okB := now.(map[string]any)
	if !okA || !okB {
		if !reflect.DeepEqual(before, now) && now != true {
			out = append(out, fmt.Sprintf("%s: %v became %v", at, before, now))
		}
		return out
	}
	has := func(list any, item any) bool {
		items, ok := list.([]any)
		if !ok {
			items = []any{list}
		}
		return slices.ContainsFunc(items, func(x any) bool { return reflect.DeepEqual(x, item) })
	}
	all := func(list any) []any {
		if items, ok := list.([]any); ok {
			return items
		}
		return []any{list}
	}
	// One form that became one of several.
	if _, several := a["anyOf"]; !several && slices.ContainsFunc(forms(b), func(x any) bool { return len(shrunk("", before, x)) == 0 }) {
		return nil
	}
	for key, was := range a {
		is, stays := b[key]
		place := at + "/" + key
		switch key {
		case "description", "title", "$schema":
			continue
		case "properties", "$defs", "patternProperties":
			named, _ := is.(map[string]any)
			for name, schema := range was.(map[string]any) {
				if _, ok := named[name]; !ok {
					out = append(out, place+"/"+name+" is gone")
					continue
				}
				out = append(out, shrunk(place+"/"+name, schema, named[name])...)
			}
			continue
		}
		if !stays {
			continue // one thing less to heed
		}
		switch key {
		case "type", "enum":
			for _, item := range all(was) {
				if !has(is, item) {
					out = append(out, fmt.Sprintf("%s: %v is gone", place, item))
				}
			}
		case "required":
			for _, item := range all(is) {
				if !has(was, item) {
					out = append(out, fmt.Sprintf("%s: %v is required now", place, item))
				}
			}
		case "minimum", "minItems", "minLength", "minProperties", "exclusiveMinimum":
			if is.(float64) > was.(float64) {
				out = append(out, fmt.Sprintf("%s: %v became %v", place, was, is))
			}
		case "maximum", "maxItems", "maxLength", "maxProperties":
			if is.(float64) < was.(float64) {
				out = append(out, fmt.Sprintf("%s: %v became %v", place, was, is))
			}
		case "allOf":
			for i, item := range all(is) {
				if !has(was, item) && !aboutNewType(a, item) {
					out = append(out, fmt.Sprintf("%s/%d is a new restriction", place, i))
				}
			}
		case "anyOf", "oneOf":
			for i, item := range all(was) {
				if !slices.ContainsFunc(all(is), func(x any) bool { return len(shrunk("", item, x)) == 0 }) {
					out = append(out, fmt.Sprintf("%s/%d is gone", place, i))
				}
			}
		default:
			out = append(out, shrunk(place, was, is)...)
		}
	}
	for key := range b {
		switch key {
		case "description", "title", "$schema", "properties", "$defs":
		default:
			if _, was := a[key]; !was {
				out = append(out, at+"/"+key+" is a new restriction")
			}
		}
	}
	return out
}

// aboutNewType reports whether a branch is about a node type that the schema did
// not take at all before.
func aboutNewType(before map[string]any, branch any) bool {
	at := func(v any, keys ...string) any {
		for _, key := range keys {
			m, _ := v.(map[string]any)
			v = m[key]
		}
		return v
	}
	types, _ := at(before, "properties", "type", "enum").([]any)
	name := at(branch, "if", "properties", "type", "const")
	return name != nil && !slices.Contains(types, name)
}

func TestWhatShrinksASchemaIsSeen(t *testing.T) {
	t.Parallel()
	read := func(text string) (v any) {
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		return v
	}
	const was = `{"type":["string","number"],"enum":["a","b"],"required":["x"],"minimum":1,"properties":{"x":{"type":"string","description":"d"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`
	for text, wrong := range map[string]bool{
		was: false,
		`{"type":["string","number","null"],"enum":["a","b","c"],"minimum":0,"properties":{"x":{"type":["string","null"],"description":"e"},"y":{}},"additionalProperties":false,"anyOf":[{"type":"null"},{}]}`: false,
		`{"properties":{"x":{}}}`: false,
		`{"type":"string","enum":["a","b"],"required":["x"],"minimum":1,"properties":{"x":{"type":"string"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`:                           true,
		`{"type":["string","number"],"enum":["a"],"required":["x"],"minimum":1,"properties":{"x":{"type":"string"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`:                    true,
		`{"type":["string","number"],"enum":["a","b"],"required":["x","y"],"minimum":1,"properties":{"x":{"type":"string"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`:            true,
		`{"type":["string","number"],"enum":["a","b"],"required":["x"],"minimum":2,"properties":{"x":{"type":"string"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`:                true,
		`{"type":["string","number"],"enum":["a","b"],"required":["x"],"minimum":1,"properties":{},"additionalProperties":false,"anyOf":[{"type":"null"}]}`:                                     true,
		`{"type":["string","number"],"enum":["a","b"],"required":["x"],"minimum":1,"properties":{"x":{"type":"string","pattern":"^a"}},"additionalProperties":false,"anyOf":[{"type":"null"}]}`: true,
		`{"type":["string","number"],"enum":["a","b"],"required":["x"],"minimum":1,"properties":{"x":{"type":"string"}},"additionalProperties":false,"anyOf":[{"type":"string"}]}`:              true,
	} {
		require.Equal(t, wrong, len(shrunk("", read(was), read(text))) > 0, text)
	}
	const types = `{"properties":{"type":{"enum":["a"%s]}},"allOf":[{"if":{"properties":{"type":{"const":"a"}}},"then":{"required":["x"]}}%s]}`
	branch := `,{"if":{"properties":{"type":{"const":"%s"}}},"then":{"required":["y"]}}`
	require.Empty(t, shrunk("", read(fmt.Sprintf(types, "", "")), read(fmt.Sprintf(types, `,"b"`, fmt.Sprintf(branch, "b")))))
	require.NotEmpty(t, shrunk("", read(fmt.Sprintf(types, "", "")), read(fmt.Sprintf(types, "", fmt.Sprintf(branch, "a")))))
	require.NotEmpty(t, shrunk("", read(fmt.Sprintf(types, "", "")), read(fmt.Sprintf(types, "", `,{"required":["z"]}`))))
}
