package nodes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestTheLimitsOfAFileAreThoseOfItsGraph(t *testing.T) {
	t.Parallel()
	const file = `schema_version: 1
limits: {value: 4000000, channel: 100000000, sends: 3, depth: 2, x-why: images}
channels: {prompt: {}, copy: {}, list: {reducer: append}}
nodes:
  double: {type: set, values: {copy: 'prompt + prompt'}}
  each:   {type: map, over: '1..4', to: one, as: item}
  one:    {type: set, values: {list: 'item'}}
edges: [{from: __start__, to: double}, {from: double, to: each}]
`
	text := strings.Replace(file, "copy: {},", "copy: {}, item: {},", 1)
	requireFits(t, text)
	g := mustLoad(t, text)
	require.Equal(t, engine.Limits{Value: 4_000_000, Channel: 100_000_000, Sends: 3, Depth: 2}, g.Limits())
	again := mustLoad(t, string(g.Canonical()))
	require.Equal(t, g.Fingerprint(), again.Fingerprint())

	// An expression may give what a channel may take, and no more.
	start := func(n int, text string) error {
		_, err := engine.New(mustLoad(t, text), nil, engine.Options{}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"prompt": strings.Repeat("x", n)}})
		return err
	}
	few := strings.Replace(text, "1..4", "1..3", 1)
	require.NoError(t, start(1_900_000, few))
	require.ErrorContains(t, start(2_000_000, few), "more than 4000000 bytes of JSON")
	require.ErrorContains(t, start(1, text), "over has 4 items; at most 3 are possible: map lists of them, or raise limits.sends of the graph")
	require.ErrorContains(t, start(600_000, strings.Replace(few, "value: 4000000, channel: 100000000, ", "", 1)), "more than 1048576 bytes of JSON")
}

func TestBadLimitsAreReportedAtTheirPlace(t *testing.T) {
	t.Parallel()
	const file = `schema_version: 1
limits: {value: 10, channel: many, sned: 3, depth: 99999999999}
nodes: {a: {type: wait, for: 1s}}
edges: [{from: __start__, to: a}]
`
	require.Equal(t, []string{
		`2:17: /limits/value: limits.value is between 1048576 and 268435456, not 10`,
		`2:30: /limits/channel: limits.channel is an integer, not a text`,
		`2:36: /limits/sned: unknown key sned in limits; did you mean sends?`,
		`2:52: /limits/depth: limits.depth is between 1 and 100, not 99999999999`,
	}, reports(mistakes(t, file)))
	require.Error(t, fits(t, file))
}

func TestTheFileAroundAllSaysHowDeepSubgraphsAre(t *testing.T) {
	t.Parallel()
	nested := func(levels int, limits string) string {
		inner := "{nodes: {a: {type: set, values: {v: 1}}}, edges: [{from: __start__, to: a}], channels: {v: {}}}"
		for range levels {
			inner = "{nodes: {s: {type: subgraph, definition: " + inner + "}}, edges: [{from: __start__, to: s}], channels: {v: {}}}"
		}
		return strings.Replace(inner, "{", "{schema_version: 1, "+limits, 1)
	}
	for _, test := range []struct {
		levels int
		limits string
		fails  string
	}{{16, "", ""}, {17, "", "nested deeper than 16"}, {17, "limits: {depth: 17}, ", ""}, {2, "limits: {depth: 1}, ", "nest less, or raise limits.depth"}, {1, "limits: {depth: 1}, ", ""}} {
		text := nested(test.levels, test.limits)
		if test.fails != "" {
			require.Contains(t, strings.Join(reports(mistakes(t, text)), "\n"), test.fails)
			continue
		}
		_, err := engine.New(mustLoad(t, text), nil, engine.Options{}).Start(t.Context(), "t", engine.Input{})
		require.NoError(t, err)
	}
}
