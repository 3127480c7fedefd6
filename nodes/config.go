package nodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// Config is the configuration of one node of a file, for the New of its type.
// What is wrong is reported with its place, and New goes on: the node is not
// used then.
type Config struct {
	d      *decoder
	t      *tree
	name   string
	config map[string]any  // what goes into the canonical form
	read   map[string]bool // keys that New read
	later  []misfit        // of texts with ${{ }}, whose value nobody knows yet
	moved  []string        // keys that the canonical form has elsewhere
}

// Node is the name of the node.
func (c *Config) Node() string { return c.name }

// Has reports whether a key is there. One with nothing behind it is not.
func (c *Config) Has(key string) bool { return c.get(key) != nil }

// Wrong reports a mistake at the value of a key, or at the node if the key is
// not there. A suggestion says what to write instead; it may be empty.
func (c *Config) Wrong(key, suggestion, format string, args ...any) {
	t := c.get(key)
	if t == nil {
		t = c.t
	}
	c.d.wrong(t, suggestion, format, args...)
}

// Literal decodes the value of a key as it stands in the file, in which ${{ is
// text, into out, a pointer. It reports whether the key was there.
func (c *Config) Literal(key string, out any) bool {
	t := c.take(key)
	if t == nil {
		return false
	}
	if !c.literally(key) {
		return true
	}
	if err := json.Unmarshal(value.Append(nil, c.d.data(t)), out); err != nil {
		c.Wrong(key, "", "%s cannot be read: %v", c.what(key), err)
	}
	return true
}

// Duration reads a duration such as 30s, 5m or 1h30m; 0 if it is absent.
func (c *Config) Duration(key string) time.Duration {
	t := c.take(key)
	if t == nil {
		return 0
	}
	if !c.literally(key) {
		return 0
	}
	d, _, _ := c.d.duration(t, c.what(key))
	return d
}

// Output reads the name of a channel that the node writes; empty if it is
// absent. fits, if it is not nil, says by the channel's reducer whether it can
// take what the node writes: work must not be done only for its result to be
// refused.
func (c *Config) Output(key string, fits func(reducer string) bool) string {
	t := c.take(key)
	if t == nil {
		return ""
	}
	name, ok := c.d.channel(t, c.what(key))
	if !ok {
		return ""
	}
	c.d.effects.Writes = append(c.d.effects.Writes, name)
	if reducer := c.d.def.Channels[name].Reducer; fits != nil && !fits(reducer) {
		c.d.wrong(t, "", "channel %s has reducer %s and cannot take what node %s writes", name, reducer, c.name)
	}
	return name
}

// Input reads the name of a channel that the node reads; empty if it is absent.
func (c *Config) Input(key string) string {
	t := c.take(key)
	if t == nil {
		return ""
	}
	name, ok := c.d.channel(t, c.what(key))
	if !ok {
		return ""
	}
	c.d.effects.Reads = append(c.d.effects.Reads, name)
	return name
}

// Template is a JSON value with ${{ expression }} in its texts.
type Template struct {
	what string
	made *jsonTemplate
}

// Template reads a value in whose texts ${{ expression }} is replaced; nil if
// it is absent.
func (c *Config) Template(key string) *Template {
	t := c.take(key)
	if t == nil {
		return nil
	}
	return &Template{what: c.what(key), made: c.d.jsonTemplate(t, inCommand)}
}

// Value is the value for a task; of a nil Template it is nil.
func (m *Template) Value(t *engine.Task) (any, error) {
	if m == nil {
		return nil, nil
	}
	v, err := m.made.make(t.State(), commandNames(t))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.what, err)
	}
	return v, nil
}

// Text is Value as a text: anything else as JSON. Of a nil Template it is empty.
func (m *Template) Text(t *engine.Task) (string, error) {
	v, err := m.Value(t)
	if err != nil || m == nil {
		return "", err
	}
	return asText(v), nil
}

// Expression is a checked expression over the channels.
type Expression struct {
	what string
	code *program
}

// Expression reads a text that is an expression; nil if it is absent.
func (c *Config) Expression(key string) *Expression {
	t := c.take(key)
	if t == nil {
		return nil
	}
	text, ok := c.expressionText(t)
	if !ok {
		return &Expression{}
	}
	e := *t
	e.raw = text
	return &Expression{what: c.what(key), code: c.d.expression(&e, span{text: text}, inCommand)}
}

// Value computes the expression for a task; of a nil Expression it is nil.
func (e *Expression) Value(t *engine.Task) (any, error) {
	if e == nil {
		return nil, nil
	}
	v, err := e.code.run(t.State(), commandNames(t))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.what, err)
	}
	return v, nil
}

// commandNames are the names beside the channels that what is approved can
// depend on.
func commandNames(t *engine.Task) map[string]any {
	return map[string]any{"thread": t.Thread(), "turn": t.Turn(), "step": t.Step()}
}

func (c *Config) get(key string) *tree {
	t := c.t.get(key)
	if t != nil && t.kind == nullKind {
		return nil
	}
	return t
}

// take is get for a key that New reads.
func (c *Config) take(key string) *tree {
	if c.read == nil {
		c.read = map[string]bool{}
	}
	c.read[key] = true
	return c.get(key)
}

func (c *Config) what(key string) string { return fmt.Sprintf("%s of node %s", key, c.name) }

// make makes the node by its type.
func (c *Config) make(typ *Type) (node engine.Node) {
	if typ.careful {
		return typ.New(c)
	}
	own := c.own(typ)
	if !c.fits(typ, own) {
		return engine.Node{}
	}
	before := len(c.d.problems)
	defer func() {
		if p := recover(); p != nil {
			c.d.wrong(c.t, "", "node type %s could not make node %s: panic: %v", typ.Name, c.name, p)
			node = engine.Node{}
		}
	}()
	node = typ.New(c)
	for key, v := range own {
		if _, made := c.config[key]; !made {
			c.config[key] = v
		}
	}
	for _, key := range c.moved {
		delete(c.config, key)
	}
	if node.Effects != nil {
		c.d.effects.Reads = append(c.d.effects.Reads, node.Effects.Reads...)
		c.d.effects.Writes = append(c.d.effects.Writes, node.Effects.Writes...)
	}
	if node.Run == nil && node.Subgraph == nil && len(c.d.problems) == before {
		c.d.wrong(c.t, "", "node type %s made a node %s that does nothing", typ.Name, c.name)
	}
	if node.Resolve == nil && node.Run != nil {
		node.Resolve = c.resolve(typ, own)
		if typ.speaks {
			node.Resolve = c.atGate(node.Resolve)
		}
	}
	return node
}

// atGate gives what a node resolves to whoever stands at a gate in front of it, and
// to nobody else.
func (c *Config) atGate(resolve func(*engine.Task) (any, error)) func(*engine.Task) (any, error) {
	d, name := c.d, c.name
	return func(t *engine.Task) (any, error) {
		if !slices.ContainsFunc(d.def.InterruptBefore, func(g engine.Gate) bool { return g.Node == name }) {
			return nil, nil
		}
		return resolve(t)
	}
}

// own is the configuration as it stands in the file: the keys of the type. Keys
// that it does not know are mistakes, or ignored in an old file.
func (c *Config) own(typ *Type) map[string]any {
	common, known := commonKeys(), typ.properties()
	own := map[string]any{}
	for _, k := range c.t.keys {
		if isAnnotation(k.name) || k.value.kind == nullKind || slices.Contains(common, k.name) {
			continue
		}
		if _, ok := known[k.name]; !ok && typ.closed() {
			continue
		}
		own[k.name] = c.d.data(k.value)
	}
	return own
}

// resolve makes the Resolve of a node: its configuration, with ${{ }} replaced in
// the keys that New left to it.
func (c *Config) resolve(typ *Type, own map[string]any) func(*engine.Task) (any, error) {
	templates := map[string]*Template{}
	for key := range own {
		if !c.read[key] {
			templates[key] = c.Template(key)
		}
	}
	if len(own) == 0 {
		return nil
	}
	read := maps.Clone(c.read)
	for key := range templates {
		delete(read, key)
	}
	return func(t *engine.Task) (any, error) {
		resolved := maps.Clone(own)
		for key, template := range templates {
			v, err := template.Value(t)
			if err != nil {
				return nil, err
			}
			resolved[key] = v
		}
		// What came from the channels must fit as what was written does.
		if err := typ.fits(resolved, read); err != nil {
			return nil, err
		}
		return resolved, nil
	}
}
