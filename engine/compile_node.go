package engine

import (
	"slices"
	"strings"
)

func (c *compiler) compileChannels() {
	for _, name := range sortedKeys(c.d.Channels) {
		at := "/channels/" + EscapePointer(name)
		if name == "" {
			c.problem(at, "", "a channel needs a name")
		}
		ch := &channel{Channel: c.d.Channels[name], name: name}
		if ch.Reducer == "" {
			ch.Reducer = Overwrite
		}
		if ch.Reduce == nil && !slices.Contains(Reducers(), ch.Reducer) {
			c.problem(at+"/reducer", Nearest(ch.Reducer, Reducers()), "unknown reducer %q; there are %s", ch.Reducer, strings.Join(Reducers(), ", "))
		}
		initial, err := ch.startValue()
		if err != nil {
			c.problem(at+"/initial", "", "%v", err)
		}
		ch.initial = initial
		if ch.Keep < 0 {
			c.problem(at+"/retention_limit", "", "channel %s cannot keep %d items", name, ch.Keep)
		}
		if ch.Keep > 0 && ch.Reduce == nil && ch.Reducer != Append && ch.Reducer != Messages && ch.Reducer != Overwrite {
			c.problem(at+"/retention", "", "channel %s with reducer %s is no list: it has no items to keep", name, ch.Reducer)
		}
		c.g.ephemeral = c.g.ephemeral || ch.Ephemeral
		c.g.channels[name] = ch
	}
}

func (c *compiler) compileNodes() {
	if len(c.d.Nodes) == 0 {
		c.problem("/nodes", "", "a graph needs at least one node")
	}
	if c.d.Retry != nil {
		c.g.retry = c.checkRetry("/retry_policy", c.d.Retry)
	}
	for _, name := range sortedKeys(c.d.Nodes) {
		at := "/nodes/" + EscapePointer(name)
		n := &node{Node: c.d.Nodes[name], name: name}
		switch {
		case name == Start || name == End:
			c.problem(at, "", "%s is a pseudo node and cannot be defined", name)
		case name == "" || strings.ContainsAny(name, "[]@") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
			c.problem(at, "", "%q is no name for a node: it is not empty and has no control character, '[', ']' or '@'", name)
		}
		switch {
		case n.Subgraph != nil:
			c.compileSubgraph(at, n)
		case n.Run == nil:
			c.problem(at, "", "node %s does nothing: Run is not set", name)
		}
		switch n.OnCrash {
		case "":
			n.OnCrash = CrashRetry
		case CrashRetry, CrashAsk, CrashFail:
		default:
			c.problem(at+"/on_crash", Nearest(string(n.OnCrash), []string{"ask", "retry", "fail"}), "unknown on_crash %q; there are ask, retry, fail", n.OnCrash)
		}
		if n.Type == "" {
			n.Type = "go"
		}
		if n.MaxConcurrency < 0 {
			c.problem(at+"/max_concurrency", "", "max_concurrency of node %s is at least 1, not %d", name, n.MaxConcurrency)
		}
		c.compileRetry(at, n)
		c.compileTimeout(at, n)
		n.Effects = c.effectsOf(n)
		c.g.roams = c.g.roams || n.roams()
		c.g.nodes[name] = n
	}
}
