package engine

import (
	"fmt"
	"slices"
	"strings"
)

// effectsOf is what a node says of itself; of a subgraph it is what comes and
// goes through its maps. Nil if it is unknown.
func (c *compiler) effectsOf(n *node) *Effects {
	if n.Effects != nil || n.Subgraph == nil || n.Subgraph.Graph == nil || n.Subgraph.Graph.effects == nil {
		return n.Effects
	}
	child := n.Subgraph.Graph.effects
	input, output := n.Subgraph.channels(c.g)
	out := &Effects{}
	for _, outer := range sortedKeys(input) {
		if c.g.channels[outer] != nil && slices.Contains(child.Reads, input[outer]) {
			out.Reads = append(out.Reads, outer)
		}
	}
	for _, inner := range sortedKeys(output) {
		if c.g.channels[output[inner]] != nil && slices.Contains(child.Writes, inner) {
			out.Writes = append(out.Writes, output[inner])
		}
	}
	return out
}

// checkEffects looks for mistakes in what nodes and conditions read and write.
func (c *compiler) checkEffects() {
	all := &Effects{}
	known := true
	for _, name := range sortedKeys(c.g.nodes) {
		n := c.g.nodes[name]
		if n.Effects == nil {
			known = false
		} else {
			c.checkDeclared(n)
			all.Reads, all.Writes = append(all.Reads, n.Effects.Reads...), append(all.Writes, n.Effects.Writes...)
		}
	}
	for i, e := range c.d.ConditionalEdges {
		known = known && e.Reads != nil
		all.Reads = append(all.Reads, e.Reads...)
		for _, channel := range e.Reads {
			if c.g.channels[channel] == nil {
				c.warnRead(fmt.Sprintf("/conditional_edges/%d/condition", i), "the condition of node "+e.From, channel)
			}
		}
	}
	c.warnSiblings()
	if known {
		c.g.effects = all
		c.warnUnused(all)
	}
}

func (c *compiler) checkDeclared(n *node) {
	at := "/nodes/" + EscapePointer(n.name)
	for _, channel := range n.Effects.Writes {
		if c.g.channels[channel] == nil {
			c.problem(at, Nearest(channel, sortedKeys(c.g.channels)), "node %s writes channel %q, which is not declared", n.name, channel)
		}
	}
	for _, channel := range n.Effects.Reads {
		if c.g.channels[channel] == nil {
			c.warnRead(at, "node "+n.name, channel)
		}
	}
}

func (c *compiler) warnRead(at, who, channel string) {
	suggestion := Nearest(channel, sortedKeys(c.g.channels))
	if suggestion == "" {
		suggestion = "declare it under channels"
	}
	c.warn(at, suggestion, "%s reads channel %q, which is not declared", who, channel)
}

// warnSiblings finds nodes that run in one step for sure and write one channel
// that takes a single writer. Such nodes follow, at the same distance, from one
// node (or Start) by plain edges.
func (c *compiler) warnSiblings() {
	origins := [][]string{c.g.entries}
	for _, name := range sortedKeys(c.g.nodes) {
		if n := c.g.nodes[name]; n.route == nil && len(n.plain) > 1 {
			origins = append(origins, n.plain)
		}
	}
	budget := 1_000_000 // nodes looked at: a hint must not take long
	said := map[string]bool{}
	for _, level := range origins {
		for depth := 0; depth < 64 && budget > 0; depth++ {
			level = c.together(level)
			budget -= len(level) + 1
			if len(level) < 2 {
				break // from here on another origin tells
			}
			c.warnWriters(level, said)
			var next []string
			for _, name := range level {
				if n := c.g.nodes[name]; n.route == nil {
					next = append(next, n.plain...)
				}
			}
			level = next
		}
	}
}

// together are the nodes of one step, without joins, which may run later.
func (c *compiler) together(level []string) []string {
	level = slices.Clone(level)
	slices.Sort(level)
	return slices.DeleteFunc(slices.Compact(level), func(name string) bool {
		n := c.g.nodes[name]
		return n == nil || n.Barrier != nil
	})
}

func (c *compiler) warnWriters(level []string, said map[string]bool) {
	writers := map[string][]string{}
	for _, name := range level {
		n := c.g.nodes[name]
		if n.Effects == nil {
			continue
		}
		for _, channel := range n.Effects.Writes {
			if ch := c.g.channels[channel]; ch != nil && ch.Reducer == Overwrite && ch.Reduce == nil && !slices.Contains(writers[channel], name) {
				writers[channel] = append(writers[channel], name)
			}
		}
	}
	for _, channel := range sortedKeys(writers) {
		who := strings.Join(writers[channel], " and ")
		if len(writers[channel]) < 2 || said[channel+"\x00"+who] {
			continue
		}
		said[channel+"\x00"+who] = true
		c.warn("/channels/"+EscapePointer(channel), "give it another reducer, such as append, or let one node follow the other",
			"%s run in one step and write channel %s, whose reducer overwrite takes one writer: the step fails", who, channel)
	}
}

// warnUnused finds channels that are not used, or only half. What is only read
// may come with the input, and what is only written may be the result; a graph
// that says where its input goes, or where its reply is, by a channel with the
// name for that, is expected to use it.
func (c *compiler) warnUnused(all *Effects) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return c.g.channels[name] != nil })
	}
	for _, name := range sortedKeys(c.g.channels) {
		if slices.Contains([]string{"prompt", "response", "messages"}, name) || strings.HasPrefix(name, "_acp_") || slices.Contains(c.d.Outside, name) {
			continue
		}
		at := "/channels/" + EscapePointer(name)
		read, written := slices.Contains(all.Reads, name), slices.Contains(all.Writes, name)
		switch {
		case !read && !written:
			c.warn(at, "leave it out", "channel %s is never used", name)
		case !read && has("response", "messages"):
			c.warn(at, "", "channel %s is written, and nothing reads it", name)
		case !written && c.g.channels[name].Initial == nil && has("prompt", "messages"):
			c.warn(at, "", "channel %s is read, but nothing writes it and it has no initial value: it is empty unless an input sets it", name)
		}
	}
}
