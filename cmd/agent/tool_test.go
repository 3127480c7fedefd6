package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADiffShowsEveryLineThatGoesOrComes(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"+ a", "+ b"}, diffLines("", "a\nb\n", false))
	require.Equal(t, []string{"  2", "  3", "  4", "- 5", "+ five", "  6", "  7", "  8"}, diffLines("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", true))
	require.Equal(t, []string{"  a", "  b", "- b"}, diffLines("a\nb\nb\n", "a\nb\n", true)[:3])
	require.Equal(t, []string{"- a", "+ "}, diffLines("a\n", "", true)[:2])
	require.Contains(t, diffLines("a\n", "a", true), "(the line end at the end of the file changes)")
}
