package roots

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreAppendedToListedAndRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) Place { return Place{Root: root, Name: name} }
	missing, err := at("a/b/c").Missing()
	require.NoError(t, err)
	require.True(t, missing)
	require.ErrorIs(t, at("a/b/c").Append([]byte("x"), 0o600), fs.ErrNotExist)
	require.NoError(t, at("a/b/c").MakeFolders())
	require.NoError(t, at("a/b/c").Append([]byte("x"), 0o600))
	require.NoError(t, at("a/b/c").Append([]byte("y"), 0o600))
	data, err := at("a/b/c").ReadFile(10)
	require.NoError(t, err)
	require.Equal(t, "xy", string(data))
	missing, err = at("a/b/c").Missing()
	require.NoError(t, err)
	require.False(t, missing)

	for i := range 5 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprint(4-i)), nil, 0o600))
	}
	entries, more, err := at(".").List(6)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, "0", entries[0].Name())
	require.Equal(t, "a", entries[5].Name())
	entries, more, err = at(".").List(5)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, entries, 5)
	_, _, err = at("0").List(5)
	require.ErrorContains(t, err, "it is no folder")

	require.ErrorContains(t, at("a").Remove(), "only files are deleted")
	require.NoError(t, at("0").Remove())
	require.ErrorIs(t, at("0").Remove(), fs.ErrNotExist)
}

func TestNothingIsAddedOrMadeOrRemovedBehindALinkThatLeadsOut(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root, "out")); err != nil {
		t.Skipf("skipped: no links here: %v", err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x"), []byte("x"), 0o600))
	p := Place{Root: root, Name: "out/x"}
	require.Error(t, p.Append([]byte("y"), 0o600))
	require.Error(t, p.Remove())
	require.Error(t, Place{Root: root, Name: "out/new/y"}.MakeFolders())
	_, err := p.Missing()
	require.Error(t, err)
	_, _, err = Place{Root: root, Name: "out"}.List(10)
	require.Error(t, err)
	data, err := os.ReadFile(filepath.Join(outside, "x"))
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
}
