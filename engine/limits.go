package engine

import (
	"cmp"
	"fmt"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// Limits bound what a graph does to its file and its memory. They are part of its
// definition, so that whichever process goes on with a turn keeps them. A field
// that is 0 has its default.
type Limits struct {
	Value   int // bytes of JSON of one written value; MaxValue, which is the least too
	Channel int // bytes of JSON of all of a channel; MaxChannel
	Sends   int // sends of one step; MaxSends
	Depth   int // how deep subgraphs are nested below this graph; MaxDepth
}

// The defaults of [Limits]. Node types count on MaxValue: what was done must not be
// refused for the size of its result.
const (
	MaxValue   = 1 << 20
	MaxChannel = 64 << 20
	MaxSends   = 10_000
	MaxDepth   = 16
)

// Each gives every limit with its name in a graph file and its range: a larger
// payload does not fit SQLite, and a deeper definition no JSON.
func (l *Limits) Each(f func(name string, n *int, lowest, highest int)) {
	f("value", &l.Value, MaxValue, 256<<20)
	f("channel", &l.Channel, MaxValue, 512<<20)
	f("sends", &l.Sends, 1, 1_000_000)
	f("depth", &l.Depth, 1, 100)
}

// filled gives the limits with their defaults.
func (l Limits) filled() Limits {
	return Limits{
		Value: cmp.Or(l.Value, MaxValue), Channel: cmp.Or(l.Channel, MaxChannel),
		Sends: cmp.Or(l.Sends, MaxSends), Depth: cmp.Or(l.Depth, MaxDepth),
	}
}

func (c *compiler) compileLimits() {
	c.g.limits = c.d.Limits.filled()
	c.g.limits.Each(func(name string, n *int, lowest, highest int) {
		if *n < lowest || *n > highest {
			c.problem("/limits/"+name, "", "limits.%s is between %d and %d, not %d", name, lowest, highest, *n)
		}
	})
	if c.g.limits.Value > c.g.limits.Channel {
		c.problem("/limits", "raise limits.channel too", "one value may have %d bytes, and all of its channel only %d", c.g.limits.Value, c.g.limits.Channel)
	}
}

// canonical has what is not the default, so that who states the default has the
// same graph.
func (l Limits) canonical() map[string]any {
	out := map[string]any{}
	if l.Value != MaxValue {
		out["value"] = l.Value
	}
	if l.Channel != MaxChannel {
		out["channel"] = l.Channel
	}
	if l.Sends != MaxSends {
		out["sends"] = l.Sends
	}
	if l.Depth != MaxDepth {
		out["depth"] = l.Depth
	}
	return out
}

// Limits are those of the graph, with their defaults.
func (g *Graph) Limits() Limits { return g.limits }

// Limits are those of the graph that the task belongs to.
func (t *Task) Limits() Limits { return t.run.graph.limits }

func (g *Graph) tooLarge(channel string, size int) error {
	return fmt.Errorf("channel %s: the written value has %d bytes of JSON; at most %d are possible: write less at a time, or a file and its path, or raise limits.value of graph %s", channel, size, g.limits.Value, g.name)
}

func (g *Graph) tooManySends(who string, n int) error {
	return fmt.Errorf("%s %d tasks; at most %d are possible in a step: send lists of them, or raise limits.sends of graph %s", who, n, g.limits.Sends, g.name)
}

// grow checks that a channel is not larger than it may be after an operation that
// adds to it. Its size is counted once and then only added to, which is more than
// it is where something was replaced: where that reaches the limit it is counted
// again.
func (r *run) grow(c *change, op *Op) error {
	limit := r.graph.limits.Channel
	switch op.Op {
	case OpAppend, OpMerge, OpUpsert:
	case OpSet:
		// A value that was written at once is not that large, but the result of a
		// reducer in Go may be.
		delete(r.sizes, c.channel)
		if r.graph.channels[c.channel] == nil || r.graph.channels[c.channel].Reduce == nil {
			return nil
		}
	default:
		return nil
	}
	size, known := r.sizes[c.channel]
	if known {
		size += value.Size(op.Value) + 1
	}
	if !known || size > limit {
		size = value.Size(c.now)
	}
	if size > limit {
		return fmt.Errorf("channel %s would have %d bytes of JSON; at most %d are possible: keep less of it (retention), write files and their paths, or raise limits.channel of graph %s", c.channel, size, limit, r.graph.name)
	}
	if r.sizes == nil {
		r.sizes = map[string]int{}
	}
	r.sizes[c.channel] = size
	return nil
}
