package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// Not parallel: it counts the allocations of the whole process, and tests that
// are parallel wait until it is over.
func TestAStepAllocatesLittleAndTheSameAtTheEndOfALongTurn(t *testing.T) {
	const steps, window = 100_000, 1_000
	var begin, end sample
	runCounter(t, nil, steps, func(n int64) engine.Output {
		switch {
		case n >= 1_000 && n <= 1_000+window:
			begin.take(n == 1_000, n == 1_000+window)
		case n >= steps-window:
			end.take(n == steps-window, n == steps)
		}
		return count(n)
	})
	// Three of them are the node's and its route's own: the write, its value, the key.
	require.LessOrEqual(t, float64(begin.allocs)/window, 5.0)
	require.InEpsilon(t, begin.allocs, end.allocs, 0.1)
	require.InEpsilon(t, begin.bytes, end.bytes, 0.1)
	require.Less(t, float64(end.heap), 1.1*float64(begin.heap))
}
