package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func (g *graphSpec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "entries %v", g.entries)
	for _, n := range g.nodes {
		fmt.Fprintf(&b, "\n%s -> %v", n.name, n.leads())
		if n.waitFor != nil {
			fmt.Fprintf(&b, ", join %v min %d", n.waitFor, n.min)
		}
		if n.before || n.after {
			fmt.Fprintf(&b, ", gates %v %v on_reject %v", n.before, n.after, n.rejects)
		}
		if n.sub != nil {
			fmt.Fprintf(&b, ", subgraph {%s}", n.sub)
			continue
		}
		fmt.Fprintf(&b, ", asks %d, fails %d, effect %q, guard %q, sends %d %s", n.asks, n.fails, n.effect, n.guard, n.sends, n.sendTo)
	}
	return b.String()
}

// genSpec makes a graph whose plain edges lead forward, and whose loops end.
func genSpec(t *rapid.T, prefix string, depth int) *graphSpec {
	g := &graphSpec{by: map[string]*nodeSpec{}}
	k := rapid.IntRange(2, 6).Draw(t, "nodes")
	// chance is true once in 2, 4, 8 ... times; false is what a failure shrinks to.
	chance := func(halves int, what string) bool {
		for range halves {
			if !rapid.Bool().Draw(t, what) {
				return false
			}
		}
		return true
	}
	name := func(i int) string {
		if i >= k {
			return engine.End
		}
		return fmt.Sprint(prefix, "n", i)
	}
	later := func(i int) string { return name(rapid.IntRange(i+1, k).Draw(t, "later")) }
	for i := range k {
		n := &nodeSpec{name: name(i), rejects: map[interrupt.Kind]string{}}
		g.nodes, g.by[n.name] = append(g.nodes, n), n
		if depth > 0 && chance(2, "subgraph") {
			n.sub = genSpec(t, n.name+".", depth-1)
		} else {
			if chance(2, "asks") {
				n.asks = rapid.IntRange(1, 2).Draw(t, "asks")
			}
			if chance(3, "fails") {
				n.fails = rapid.IntRange(1, 2).Draw(t, "fails")
			}
			if chance(1, "effect") {
				n.effect = rapid.SampledFrom([]engine.OnCrash{engine.CrashRetry, engine.CrashAsk, engine.CrashFail}).Draw(t, "effect")
			}
			if chance(2, "guard") {
				n.guard = rapid.SampledFrom([]engine.OnCrash{engine.CrashAsk, engine.CrashFail}).Draw(t, "guard")
			}
		}
		n.before, n.after = chance(2, "before"), chance(2, "after")
		switch {
		case chance(2, "conditional"):
			n.loop, n.exit = name(rapid.IntRange(0, i).Draw(t, "loop")), later(i)
			n.loops = int64(rapid.IntRange(1, 2).Draw(t, "loops"))
			if n.sub != nil {
				n.loops = 0 // it counts nothing
			}
		default:
			for range rapid.IntRange(1, 3).Draw(t, "edges") {
				if to := later(i); !slices.Contains(n.plain, to) {
					n.plain = append(n.plain, to)
				}
			}
			slices.Sort(n.plain)
		}
	}
	g.entries = []string{name(0)}
	if k > 1 && chance(2, "second entry") {
		g.entries = append(g.entries, name(1))
	}
	for i, n := range g.nodes {
		var members []string
		for _, from := range g.nodes {
			if slices.Contains(from.leads(), n.name) {
				members = append(members, from.name)
			}
		}
		if len(members) > 1 && !slices.Contains(g.entries, n.name) && !slices.Contains(members, n.name) && chance(1, "join") {
			n.waitFor, n.min = members, rapid.SampledFrom([]int{0, 0, 1, len(members)}).Draw(t, "min")
		}
		if n.sub == nil && n.waitFor == nil && i > 0 && n.fails == 0 && chance(2, "is sent") {
			from := g.nodes[rapid.IntRange(0, i-1).Draw(t, "sender")]
			if from.sub == nil && from.sends == 0 {
				from.sends, from.sendTo = rapid.IntRange(1, 3).Draw(t, "sends"), n.name
			}
		}
	}
	for i, n := range g.nodes {
		for _, kind := range []interrupt.Kind{interrupt.Before, interrupt.After} {
			if chance(1, "on_reject") {
				if to := later(i); to != engine.End && g.by[to].waitFor == nil {
					n.rejects[kind] = to
				}
			}
		}
	}
	return g
}
