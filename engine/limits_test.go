package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// large makes a graph whose node w writes n bytes to the channel log.
func (b *bundle) large(n int, ch engine.Channel, limits engine.Limits) engine.Definition {
	d := b.chain("w")
	d.Channels = map[string]engine.Channel{"log": ch}
	d.Limits = limits
	d.Nodes["w"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
		return engine.Set("log", strings.Repeat("x", n)), nil
	}}
	return d
}

func TestAWrittenValueIsAsLargeAsItsGraphAllows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const size = engine.MaxValue + 1
	plain := b.compile(b.large(size, engine.Channel{}, engine.Limits{}))
	_, err := b.engine(plain).Start(t.Context(), "node", engine.Input{})
	require.ErrorContains(t, err, "channel log: the written value has 1048579 bytes of JSON; at most 1048576 are possible")
	require.ErrorContains(t, err, "raise limits.value of graph "+plain.Name())
	input := engine.Input{Values: engine.Values{"log": strings.Repeat("x", size)}}
	_, err = b.engine(plain).Start(t.Context(), "input", input)
	require.ErrorContains(t, err, "raise limits.value")

	raised := b.compile(b.large(size, engine.Channel{Reducer: engine.Append}, engine.Limits{Value: 2 << 20}))
	turn, err := b.engine(raised).Start(t.Context(), "raised", input)
	require.NoError(t, err)
	require.Len(t, turn.State["log"], 2)
	edited, err := b.engine(raised).Update(t.Context(), "raised", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: strings.Repeat("x", size)}}})
	require.NoError(t, err)
	require.NotNil(t, edited)
	_, err = b.engine(raised).Update(t.Context(), "raised", engine.Edit{Writes: []engine.Write{{Channel: "log", Value: strings.Repeat("x", 2<<20)}}})
	require.ErrorContains(t, err, "at most 2097152 are possible")

	// It is there again in another process.
	view, err := b.open().At(t.Context(), "raised", 0)
	require.NoError(t, err)
	require.Len(t, view.State["log"], 3)
	b.verify()
}

func TestAChannelIsAsLargeAsItsGraphAllows(t *testing.T) {
	t.Parallel()
	const half = engine.MaxValue / 2
	small := engine.Limits{Channel: engine.MaxValue}
	for name, test := range map[string]struct {
		channel engine.Channel
		write   func(n int) any
		fits    int // how many halves
	}{
		"append":             {engine.Channel{Reducer: engine.Append}, func(int) any { return strings.Repeat("x", half-10) }, 2},
		"append and keep":    {engine.Channel{Reducer: engine.Append, Keep: 2}, func(int) any { return strings.Repeat("x", half-10) }, 6},
		"messages":           {engine.Channel{Reducer: engine.Messages}, func(n int) any { return map[string]any{"id": fmt.Sprint(n), "content": strings.Repeat("x", half-100)} }, 2},
		"messages of one id": {engine.Channel{Reducer: engine.Messages}, func(int) any { return map[string]any{"id": "a", "content": strings.Repeat("x", half-100)} }, 6},
		"merge":              {engine.Channel{Reducer: engine.Merge}, func(n int) any { return map[string]any{fmt.Sprint(n): strings.Repeat("x", half-20)} }, 2},
		"go": {engine.Channel{Reduce: func(current, write any) (any, error) {
			list, _ := current.([]any)
			return append(list[:len(list):len(list)], write), nil
		}}, func(int) any { return strings.Repeat("x", half-10) }, 2},
		"overwrite": {engine.Channel{}, func(int) any { return strings.Repeat("x", half) }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := b.large(0, test.channel, small)
			// One run of many steps, and one run a turn.
			for _, steps := range []int{6, 1} {
				n := 0
				d.Nodes["w"] = engine.Node{Run: func(context.Context, *engine.Task) (engine.Output, error) {
					n++
					to := engine.End
					if n%steps != 0 {
						to = "w"
					}
					return engine.Set("log", test.write(n)).GoTo(to), nil
				}}
				e := b.engine(b.compile(d))
				thread := fmt.Sprint("t", steps)
				var err error
				for turns := 0; turns < 6/steps && err == nil; turns++ {
					_, err = e.Start(t.Context(), thread, engine.Input{})
				}
				if test.fits == 6 {
					require.NoError(t, err)
					require.Equal(t, 6, n)
					continue
				}
				require.ErrorContains(t, err, "channel log would have")
				require.ErrorContains(t, err, "at most 1048576 are possible")
				require.ErrorContains(t, err, "raise limits.channel")
				require.Equal(t, test.fits+1, n)
				view, err := b.store.At(t.Context(), thread, 0)
				require.NoError(t, err)
				require.Equal(t, engine.Failed, view.Head.Status)
				require.Len(t, view.State["log"], test.fits, "what was there stays")
			}
			b.verify()
		})
	}
}

func TestTheSendsOfAStepAreAsManyAsItsGraphAllows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.chain("a", "b")
	d.Edges = []engine.Edge{{From: engine.Start, To: "a"}}
	n := 3
	d.Nodes["a"] = engine.Node{Sends: []string{"b"}, Run: func(context.Context, *engine.Task) (engine.Output, error) {
		out := engine.Output{}.GoTo(engine.End)
		for range n {
			out = out.Send("b", nil)
		}
		return out, nil
	}}
	d.Limits.Sends = 2
	_, err := b.engine(b.compile(d)).Start(t.Context(), "few", engine.Input{})
	require.ErrorContains(t, err, "it sends 3 tasks; at most 2 are possible in a step")
	require.ErrorContains(t, err, "raise limits.sends")
	n, d.Limits.Sends = engine.MaxSends+1, engine.MaxSends
	_, err = b.engine(b.compile(d)).Start(t.Context(), "many", engine.Input{})
	require.ErrorContains(t, err, "at most 10000")
	n, d.Limits.Sends = 3, 3
	turn, err := b.engine(b.compile(d)).Start(t.Context(), "enough", engine.Input{})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, 3, b.count("b"))
}

func TestTheGraphAroundAllSaysHowDeepSubgraphsAre(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, test := range []struct {
		levels, allowed int
		fails           string
	}{{2, 1, "nested deeper than 1: nest less, or raise limits.depth of graph outer"}, {2, 2, ""}, {20, 0, "deeper than 16"}, {20, 20, ""}} {
		child := b.compile(b.chain("a"))
		for range test.levels - 1 {
			child = b.around(child, "sub") // these say nothing of their own
		}
		d := b.chain("sub")
		d.Name, d.Nodes["sub"] = "outer", engine.Node{Subgraph: &engine.Subgraph{Graph: child}}
		d.Limits.Depth = test.allowed
		_, err := b.engine(b.compile(d)).Start(t.Context(), fmt.Sprintf("t%d-%d", test.levels, test.allowed), engine.Input{})
		if test.fails == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.fails)
		}
	}
}

func TestLimitsAreCheckedAndPartOfTheGraph(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plain := b.chain("a")
	for _, test := range []struct {
		limits engine.Limits
		want   string
	}{
		{engine.Limits{Value: engine.MaxValue - 1}, "/limits/value: limits.value is between 1048576 and 268435456, not 1048575"},
		{engine.Limits{Value: -1}, "/limits/value"}, {engine.Limits{Channel: 1 << 40}, "/limits/channel: limits.channel is between 1048576 and 536870912"},
		{engine.Limits{Sends: -1}, "/limits/sends: limits.sends is between 1 and 1000000, not -1"},
		{engine.Limits{Depth: 101}, "/limits/depth: limits.depth is between 1 and 100, not 101"},
		{engine.Limits{Value: 100 << 20}, "raise limits.channel too"},
	} {
		d := plain
		d.Limits = test.limits
		_, err := engine.Compile(d)
		require.ErrorContains(t, err, test.want)
	}
	same, other := plain, plain
	same.Limits = engine.Limits{Value: engine.MaxValue, Channel: engine.MaxChannel, Sends: engine.MaxSends, Depth: engine.MaxDepth}
	other.Limits = engine.Limits{Value: 2 << 20, Channel: 128 << 20, Sends: 5, Depth: 3}
	g := b.compile(plain)
	require.Equal(t, same.Limits, g.Limits())
	require.Equal(t, g.Fingerprint(), b.compile(same).Fingerprint(), "the defaults, said aloud")
	require.NotEqual(t, g.Fingerprint(), b.compile(other).Fingerprint())
	require.True(t, bytes.Contains(b.compile(other).Canonical(), []byte(`"limits":{"channel":134217728,"depth":3,"sends":5,"value":2097152}`)))
}
