package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOrderPausesAndGoesOnInAnotherRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "orders.db")
	call := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), file, args, &out)
		return out.String(), err
	}
	out, err := call("order-1", "pears", "3")
	require.NoError(t, err)
	require.Equal(t, "Pay for this order? It costs 9. Answer with: go-embed order-1 approve\n", out)
	_, err = call("order-1", "plums")
	require.ErrorContains(t, err, "is paused and takes no input")
	out, err = call("order-1", "approve")
	require.NoError(t, err)
	require.Equal(t, "paid 9\n", out)
	_, err = call("order-1", "approve")
	require.ErrorContains(t, err, "order order-1 has no open question: it is done")

	out, err = call("order-2", "plums")
	require.NoError(t, err)
	require.Contains(t, out, "It costs 2.")
	out, err = call("order-2", "reject")
	require.NoError(t, err)
	require.Equal(t, "the order is rejected\n", out)

	_, err = call("order-3", "pears", "0")
	require.ErrorContains(t, err, "failed at node price: the configuration does not fit: count is at least 1, not 0")
	_, err = call("order-4", "apples")
	require.ErrorContains(t, err, "there are no apples")
	_, err = call("order-5")
	require.ErrorContains(t, err, "usage")
}
