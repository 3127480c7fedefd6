package nodes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	why "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// This file says in our words, and at its place in the file, what of a
// configuration does not fit the JSON Schema of its type.

// misfit is one thing that does not fit.
type misfit struct {
	path       []string
	ofKey      bool     // it is about the key at the end of path, not about its value
	missing    []string // that key is not there, nor are these, one of which would do
	message    string
	suggestion string
}

// fits checks a configuration with its final values. Keys that New read have none
// here: what it makes of them is its own affair.
func (t *Type) fits(config map[string]any, read map[string]bool) error {
	var list []string
	for _, m := range t.misfits(config, "the configuration", "") {
		if len(m.path) > 0 && read[m.path[0]] {
			continue
		}
		list = append(list, strings.TrimSuffix(m.message+"; "+m.suggestion, "; "))
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("the configuration does not fit: %s", strings.Join(list, "; "))
}

// fits reports what of a configuration as it stands in the file does not fit.
// A text with ${{ }} gives a value that nobody knows yet.
func (c *Config) fits(typ *Type, config map[string]any) bool {
	ok := true
	for _, m := range typ.misfits(config, "the configuration", " of node "+c.name) {
		if t := c.t.follow(m.path); t != nil && t.kind == textKind && strings.Contains(t.raw, "${{") {
			c.later = append(c.later, m)
			continue
		}
		c.misfit(m)
		ok = false
	}
	return ok
}

// literally reports what of a key does not fit, now that New takes it as it is
// written, and whether it fits.
func (c *Config) literally(key string) bool {
	ok := true
	for _, m := range c.later {
		if m.path[0] == key {
			m.suggestion = "no ${{ }} is replaced here"
			c.misfit(m)
			ok = false
		}
	}
	return ok
}

// misfit reports one thing that does not fit at its place.
func (c *Config) misfit(m misfit) {
	pointer := c.t.pointer
	for _, part := range m.path {
		pointer = below(pointer, part)
	}
	if c.d.bad[pointer] {
		return // it is said: missing and unknown keys of a node are found first
	}
	around := c.t
	if len(m.path) > 0 {
		around = c.t.follow(m.path[:len(m.path)-1])
	}
	if len(m.missing) > 0 && !c.d.lenient && around != nil && slices.ContainsFunc(around.keys, func(k key) bool {
		return c.d.bad[below(around.pointer, k.name)] && engine.Nearest(k.name, m.missing) != ""
	}) {
		return // it is there, misspelt, which is said already
	}
	at := c.d.at(around)
	if k, there := c.d.keys[pointer]; there && m.ofKey {
		at = k
	} else if t := c.t.follow(m.path); t != nil {
		at = c.d.at(t)
	}
	c.d.mistake(at, pointer, m.suggestion, "%s", m.message)
}

// follow is the value at the end of a path, or nil.
func (t *tree) follow(path []string) *tree {
	for _, part := range path {
		if t == nil {
			return nil
		}
		t = t.part(part)
	}
	return t
}

// part is the value of a key, or an item of a list.
func (t *tree) part(name string) *tree {
	if t.kind == listKind {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(t.items) {
			return t.items[i]
		}
		return nil
	}
	return t.get(name)
}

// misfits are what of a value does not fit. Messages call it as it is named, and
// its parts by their keys with of behind them.
func (t *Type) misfits(v any, name, of string) []misfit {
	err := t.checks.Validate(v)
	if err == nil {
		return nil
	}
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return []misfit{{message: err.Error()}}
	}
	list := explainer{t, name, of}.explain(bad)
	// A key that is there, misspelt, is not missing beside that.
	return slices.DeleteFunc(list, func(m misfit) bool {
		return len(m.missing) > 0 && slices.ContainsFunc(list, func(other misfit) bool {
			return other.ofKey && len(other.missing) == 0 && slices.Equal(m.path[:len(m.path)-1], other.path[:len(other.path)-1]) &&
				engine.Nearest(other.path[len(other.path)-1], m.missing) != ""
		})
	})
}

type explainer struct {
	t        *Type
	name, of string
}

// explain gives the innermost reasons.
func (x explainer) explain(e *jsonschema.ValidationError) []misfit {
	switch e.ErrorKind.(type) {
	case *why.AnyOf, *why.OneOf:
		if keys := x.oneMissing(e); keys != nil {
			return []misfit{{path: append(slices.Clone(e.InstanceLocation), keys[0]), ofKey: true, missing: keys, message: x.whole(strings.Join(e.InstanceLocation, "/")+x.of) + " needs " + strings.Join(keys, " or ")}}
		}
		if len(e.Causes) > 0 {
			return x.nearest(e)
		}
	}
	if len(e.Causes) > 0 {
		var out []misfit
		for _, cause := range e.Causes {
			out = append(out, x.explain(cause)...)
		}
		return out
	}
	return x.words(e)
}

// oneMissing are the keys one of which a value must have, if it has none and that
// is all that keeps it from each of several forms.
func (x explainer) oneMissing(e *jsonschema.ValidationError) []string {
	var keys []string
	for _, cause := range e.Causes {
		for len(cause.Causes) == 1 {
			cause = cause.Causes[0]
		}
		k, ok := cause.ErrorKind.(*why.Required)
		if !ok || len(k.Missing) != 1 || len(cause.InstanceLocation) != len(e.InstanceLocation) {
			return nil
		}
		if !slices.Contains(keys, k.Missing[0]) {
			keys = append(keys, k.Missing[0])
		}
	}
	return keys
}

// nearest explains a value that fits none of several forms: by the form that
// was meant, which is one that its kind fits; else by the kinds of all.
func (x explainer) nearest(e *jsonschema.ValidationError) []misfit {
	var wanted []string
	for _, cause := range e.Causes {
		inner := cause
		for len(inner.Causes) == 1 {
			inner = inner.Causes[0]
		}
		k, ofKind := inner.ErrorKind.(*why.Type)
		if !ofKind || len(inner.InstanceLocation) != len(e.InstanceLocation) {
			return x.explain(cause)
		}
		wanted = append(wanted, k.Want...)
		e = &jsonschema.ValidationError{SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: &why.Type{Got: k.Got, Want: wanted}, Causes: e.Causes}
	}
	return x.words(e)
}

var kindWords = map[string]string{"string": "a text", "integer": "an integer", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null"}

func (x explainer) words(e *jsonschema.ValidationError) []misfit {
	what := x.whole(strings.Join(e.InstanceLocation, "/") + x.of)
	one := func(suggestion, format string, args ...any) []misfit {
		return []misfit{{path: e.InstanceLocation, suggestion: suggestion, message: fmt.Sprintf(format, args...)}}
	}
	switch k := e.ErrorKind.(type) {
	case *why.Type:
		var wanted []string
		for _, w := range k.Want {
			if w != "null" && !slices.Contains(wanted, kindWords[w]) {
				wanted = append(wanted, kindWords[w])
			}
		}
		suggestion := ""
		if slices.Contains(k.Want, "string") && (k.Got == "number" || k.Got == "boolean") {
			suggestion = "write it in quotes"
		}
		return one(suggestion, "%s is %s, not %s", what, strings.Join(wanted, " or "), kindWords[k.Got])
	case *why.Enum:
		var names []string
		for _, v := range k.Want {
			names = append(names, short(v))
		}
		return one(engine.Nearest(short(k.Got), names), "%s is one of %s, not %s", what, strings.Join(names, ", "), short(k.Got))
	case *why.Const:
		return one("", "%s is %s, not %s", what, short(k.Want), short(k.Got))
	case *why.Pattern:
		if about := describe(x.t.at(e.SchemaURL)); about != "" {
			return one("", "%s cannot be %q: it is %s", what, shorten(k.Got, 60), about)
		}
		return one("", "%s is %q, which does not match %s", what, shorten(k.Got, 60), k.Want)
	case *why.Required:
		var out []misfit
		for _, key := range k.Missing {
			out = append(out, misfit{path: append(slices.Clone(e.InstanceLocation), key), ofKey: true, missing: []string{key}, message: what + " needs " + key})
		}
		return out
	case *why.AdditionalProperties:
		known := slices.Sorted(maps.Keys(propertiesOf(x.t.at(e.SchemaURL))))
		var out []misfit
		for _, key := range k.Properties {
			suggestion := engine.Nearest(key, known)
			if suggestion == "" && len(known) > 0 {
				suggestion = "there are " + joinNames(known)
			}
			out = append(out, misfit{path: append(slices.Clone(e.InstanceLocation), key), ofKey: true, suggestion: suggestion, message: fmt.Sprintf("unknown key %s in %s", key, what)})
		}
		return out
	case *why.DependentRequired:
		return []misfit{{path: append(slices.Clone(e.InstanceLocation), k.Prop), message: fmt.Sprintf("%s needs %s beside it", k.Prop, joinNames(k.Missing))}}
	case *why.OneOf:
		if keys := x.together(e, k.Subschemas); keys != nil {
			return one("leave all but one of them out", "%s has %s, which exclude each other", what, strings.Join(keys, " and "))
		}
		return one("", "%s fits more than one form of which it may have one", what)
	case *why.Minimum:
		return one("", "%s is at least %s, not %s", what, k.Want.RatString(), k.Got.RatString())
	case *why.Maximum:
		return one("", "%s is at most %s, not %s", what, k.Want.RatString(), k.Got.RatString())
	case *why.ExclusiveMinimum:
		return one("", "%s is more than %s, not %s", what, k.Want.RatString(), k.Got.RatString())
	case *why.ExclusiveMaximum:
		return one("", "%s is less than %s, not %s", what, k.Want.RatString(), k.Got.RatString())
	case *why.MinLength:
		if k.Got == 0 {
			return one("", "%s is empty", what)
		}
		return one("", "%s has at least %d characters, not %d", what, k.Want, k.Got)
	case *why.MaxLength:
		return one("", "%s has at most %d characters, not %d", what, k.Want, k.Got)
	case *why.MinItems:
		return one("", "%s has at least %d items, not %d", what, k.Want, k.Got)
	case *why.MaxItems:
		return one("", "%s has at most %d items, not %d", what, k.Want, k.Got)
	case *why.MinProperties:
		return one("", "%s has at least %d keys, not %d", what, k.Want, k.Got)
	case *why.MaxProperties:
		return one("", "%s has at most %d keys, not %d", what, k.Want, k.Got)
	case *why.UniqueItems:
		return one("", "%s has the same item twice: %d and %d", what, k.Duplicates[0], k.Duplicates[1])
	case *why.FalseSchema:
		return one("leave it out", "%s has no place here", what)
	}
	return one("", "%s does not fit %s of the schema", what, strings.Join(e.ErrorKind.KeywordPath(), "/"))
}

// together are the keys that forms ask for which a value may not have both.
func (x explainer) together(e *jsonschema.ValidationError, forms []int) []string {
	schema, _ := x.t.at(e.SchemaURL).(map[string]any)
	list, _ := schema["oneOf"].([]any)
	var keys []string
	for _, i := range forms {
		if i >= len(list) {
			return nil
		}
		form, _ := list[i].(map[string]any)
		required, _ := form["required"].([]any)
		if len(required) != 1 {
			return nil
		}
		keys = append(keys, short(required[0]))
	}
	return keys
}

// whole words a message about the value as a whole.
func (x explainer) whole(what string) string {
	if what == x.of {
		return x.name + x.of
	}
	return what
}

func short(v any) string {
	if s, ok := v.(string); ok {
		return shorten(s, 60)
	}
	n, _, err := value.Normalize(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return preview(n, 60)
}

func propertiesOf(schema any) map[string]any {
	m, _ := schema.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	return properties
}

// at is a part of the schema by its URL.
func (t *Type) at(url string) any {
	_, fragment, _ := strings.Cut(url, "#")
	parts := strings.Split(strings.Trim(fragment, "/"), "/")
	var v any = t.Schema
	for _, part := range parts {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i < len(at) {
				v = at[i]
			}
		}
	}
	return v
}
