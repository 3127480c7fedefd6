package nodes

import (
	"fmt"
	"slices"

	"github.com/holdfast-agent/holdfast/engine"
)

// The rules that are words.
const (
	ruleAlways = "always"
	ruleNever  = "never"
	ruleDeny   = "deny"
	allOthers  = "*"
)

// rule says whether a person is asked about a call.
type rule struct {
	word string // one of the above; empty: code
	code *program
}

// inRule is where the expression of a rule stands.
var inRule = where{names: []string{"tool", "args", "thread", "turn", "step"}, lacks: "a rule says the same when the node runs again"}

// approve reads the rules.
func (s *toolset) approve(c *Config) {
	t := c.take("approve")
	if t == nil {
		return
	}
	if t.kind != objectKind {
		s.rules[allOthers] = c.rule(t)
		return
	}
	for _, k := range t.keys {
		// Tools of a server are not known here; their names say what they are.
		if _, own := s.own[k.name]; !own && k.name != allOthers && slices.Contains(builtinNames(), k.name) {
			c.d.wrong(k.value, "", "approve of node %s has a rule for %s, which is not among its tools", c.Node(), k.name)
		} else if !own && k.name != allOthers && len(s.patterns) == 0 {
			var names []string
			for name := range s.own {
				names = append(names, name)
			}
			c.d.wrong(k.value, engine.Nearest(k.name, names), "approve of node %s has a rule for %q, and there is no such tool", c.Node(), k.name)
		}
		s.rules[k.name] = c.rule(k.value)
	}
}

func (c *Config) rule(t *tree) rule {
	switch t.raw {
	case ruleAlways, ruleNever, ruleDeny:
		return rule{word: t.raw}
	}
	text, ok := c.d.text(t, "a rule of approve")
	if !ok {
		return rule{word: ruleAlways}
	}
	return rule{code: c.d.expression(t, span{text: text}, inRule)}
}

// ruleFor gives the rule of a tool: its own, that of all others, or what is
// right for what it does.
func (s *toolset) ruleFor(name string, changes bool) rule {
	if r, ok := s.rules[name]; ok {
		return r
	}
	if r, ok := s.rules[allOthers]; ok {
		return r
	}
	if changes {
		return rule{word: ruleAlways}
	}
	return rule{word: ruleNever}
}

// decide applies the rule to a call. What a rule cannot decide a person does.
func (r rule) decide(t *engine.Task, name string, args map[string]any) (v engine.Verdict, ask bool, why string) {
	switch r.word {
	case ruleNever:
		return engine.Verdict{Allow: true}, false, ""
	case ruleAlways:
		return engine.Verdict{}, true, ""
	case ruleDeny:
		return engine.Verdict{Reason: "tool " + name + " may not be used here"}, false, ""
	}
	names := commandNames(t)
	names["tool"], names["args"] = name, args
	given, err := r.code.run(t.State(), names)
	if err != nil {
		return engine.Verdict{}, true, "its rule failed: " + err.Error()
	}
	switch given := given.(type) {
	case bool:
		return engine.Verdict{Allow: !given}, given, ""
	case string:
		return engine.Verdict{Reason: given}, false, ""
	case map[string]any:
		if other, ok := given["args"].(map[string]any); ok {
			wants, _ := given["ask"].(bool)
			return engine.Verdict{Allow: !wants, Args: other}, wants, ""
		}
	}
	return engine.Verdict{}, true, fmt.Sprintf("its rule gave %s, which is no decision", preview(given, 100))
}
