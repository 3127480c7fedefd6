package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/value"
)

func intentType() Type {
	properties := modelProperties()
	delete(properties, "system")
	properties["prompt"] = textSchema("what the model is asked to decide, such as: What does the user want?; ${{ }} is replaced in it. Absent: which label fits")
	properties["messages"] = textSchema("the channel with the conversation that is looked at, never changed; absent: messages, where it is declared, else only prompt counts")
	properties["routes"] = map[string]any{
		"description": "the labels that the answer is one of: a list, or an object of label to what it means",
		"anyOf": []any{
			map[string]any{"type": "array", "minItems": 1, "uniqueItems": true, "items": map[string]any{"type": "string", "minLength": 1}},
			map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "string"}},
		},
	}
	properties["default"] = wordSchema("the label where the answer is none of them; absent: such an answer is a failed attempt")
	properties["output"] = textSchema("the channel that the label is written to; absent: __route__, which the condition route_channel reads")
	return Type{
		Name: "intent_classifier", Version: 1,
		Doc:    "Asks a language model which of several labels fits the conversation, and writes the label to a channel. A conditional edge with the condition route_channel leads on by it. The model's answer is not shown and does not become a part of the conversation.",
		Schema: schema([]any{"model", "routes"}, properties),
		New:    newIntent,
	}
}

// intent is a node that classifies.
type intent struct {
	*modelCall
	prompt    *Template
	messages  string
	labels    []string
	meanings  map[string]string
	otherwise string
	output    string
}

func newIntent(c *Config) engine.Node {
	n := &intent{modelCall: newModelCall(c), prompt: c.Template("prompt"), meanings: map[string]string{}}
	var routes any
	c.Literal("routes", &routes)
	switch routes := routes.(type) {
	case []any:
		for _, label := range routes {
			text, _ := label.(string)
			n.labels = append(n.labels, text)
		}
	case map[string]any:
		for label, meaning := range routes {
			n.meanings[label], _ = meaning.(string)
			n.labels = append(n.labels, label)
		}
		slices.Sort(n.labels)
	}
	for i, label := range n.labels {
		for _, other := range n.labels[i+1:] {
			if folded(label) == folded(other) {
				c.Wrong("routes", "", "the labels %q and %q of node %s are the same in an answer", label, other, c.Node())
			}
		}
	}
	if t := c.take("default"); t != nil {
		n.otherwise, _ = c.d.word(t, c.what("default"))
		if !slices.Contains(n.labels, n.otherwise) {
			c.Wrong("default", engine.Nearest(n.otherwise, n.labels), "default of node %s is none of its routes", c.Node())
		}
	}
	_, declared := c.d.def.Channels[messagesName]
	if c.Has("messages") || declared {
		if n.messages = c.Input("messages"); n.messages == "" && declared {
			n.messages = messagesName
			c.d.effects.Reads = append(c.d.effects.Reads, messagesName)
		}
	} else if n.prompt == nil {
		c.Wrong("prompt", "add prompt, or declare a channel messages", "node %s has nothing to look at", c.Node())
	}
	takesText := func(reducer string) bool {
		return reducer == engine.Overwrite || reducer == "" || reducer == engine.Append
	}
	if n.output = c.Output("output", takesText); n.output == "" && !c.Has("output") {
		n.output = routeName
		if c.d.declared(c.d.at(c.t), c.t.pointer, routeName) {
			c.d.effects.Writes = append(c.d.effects.Writes, routeName)
		}
	}
	return engine.Node{Run: n.run, Retry: c.policy()}
}

func (n *intent) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	asked := "Which of the labels fits the conversation?"
	if n.prompt != nil {
		text, err := n.prompt.Text(t)
		if err != nil {
			return engine.Output{}, err
		}
		asked = text
	}
	var b strings.Builder
	b.WriteString(asked + "\n\nAnswer with one of these labels and nothing else:\n")
	for _, label := range n.labels {
		b.WriteString("- " + label)
		if meaning := n.meanings[label]; meaning != "" {
			b.WriteString(": " + meaning)
		}
		b.WriteString("\n")
	}
	var req model.Request
	if n.messages != "" {
		messages, err := model.Messages(value.Append(nil, t.Get(n.messages)))
		if err != nil {
			return engine.Output{}, fmt.Errorf("channel %s: %w", n.messages, err)
		}
		req.Messages = messages
	}
	req.Messages = append(req.Messages, model.Message{Role: "user", Content: b.String()})
	answer, err := n.call(ctx, t, req, false, func(r *model.Response) error {
		_, err := n.label(r.Message.Content)
		return err
	})
	if err != nil {
		return engine.Output{}, err
	}
	label, err := n.label(answer.Message.Content)
	if err != nil {
		return engine.Output{}, err
	}
	return engine.Set(n.output, label), nil
}

// label finds the label in an answer: it is the answer, or the only one of the
// labels that stands in it as a word.
func (n *intent) label(answer string) (string, error) {
	text := folded(answer)
	var found []string
	for _, label := range n.labels {
		if folded(label) == text {
			return label, nil
		}
		if strings.Contains(" "+text+" ", " "+folded(label)+" ") {
			found = append(found, label)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if n.otherwise != "" {
		return n.otherwise, nil
	}
	return "", fmt.Errorf("the answer %s is none of the labels %s; give a default to go on all the same", preview(answer, 200), joinNames(n.labels))
}

// folded is a text as words: without case and punctuation.
func folded(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	}), " ")
}
