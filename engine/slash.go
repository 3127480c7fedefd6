package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SlashCommand is what a person can say instead of a text: "/name", and more behind it.
// It begins a turn like any other input, with values of its own.
type SlashCommand struct {
	Name        string // letters, digits, - and _
	Description string
	Hint        string // what may be written behind the name; empty: nothing is asked for
	// Input makes the values of the turn's input of what was written behind the
	// name, which may be nothing.
	Input func(text string) (Values, error)
	// Config is the rest of the command as in its file, for the canonical form.
	Config map[string]any
}

// maxCommandName is in characters.
const maxCommandName = 64

// Commands are the commands of the graph, in the order of its definition.
func (g *Graph) Commands() []SlashCommand { return slices.Clone(g.commands) }

// Command finds the command that a text gives, and what is written behind it. Not
// ok: the text is one like any other.
func (g *Graph) Command(text string) (c SlashCommand, behind string, ok bool) {
	name, behind, ok := CutCommand(text)
	if !ok {
		return c, "", false
	}
	at := slices.IndexFunc(g.commands, func(c SlashCommand) bool { return c.Name == name })
	if at < 0 {
		return c, "", false
	}
	return g.commands[at], behind, true
}

// CutCommand takes a text of the form "/name more" apart, without white space
// around the parts.
func CutCommand(text string) (name, behind string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), "/")
	if !ok {
		return "", "", false
	}
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	return text[:end], strings.TrimSpace(text[end:]), end > 0
}

func (c *compiler) compileCommands() {
	seen := map[string]bool{}
	for i, command := range c.d.Commands {
		at := fmt.Sprintf("/commands/%d", i)
		switch name := command.Name; {
		case name == "":
			c.problem(at+"/name", "", "a command needs a name")
		case strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
		}), utf8.RuneCountInString(name) > maxCommandName:
			c.problem(at+"/name", "", "the name of a command has letters, digits, - and _, and at most %d of them; %q does not", maxCommandName, name)
		case seen[name]:
			c.problem(at+"/name", "", "command %s is there twice", name)
		}
		if command.Description == "" {
			c.problem(at+"/description", "", "command %s needs a description: a person chooses by it", command.Name)
		}
		if command.Input == nil {
			c.problem(at+"/input", "", "command %s has no input", command.Name)
		}
		seen[command.Name] = true
	}
	c.g.commands = slices.Clone(c.d.Commands)
}

func (c SlashCommand) canonical() map[string]any {
	out := map[string]any{}
	for k, v := range c.Config {
		out[k] = v
	}
	out["name"], out["description"] = c.Name, c.Description
	if c.Hint != "" {
		out["hint"] = c.Hint
	}
	if c.Config == nil {
		out["x-go"] = true
	}
	return out
}
