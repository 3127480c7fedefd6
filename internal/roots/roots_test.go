package roots

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPathIsAbsoluteAndInsideOfARoot(t *testing.T) {
	t.Parallel()
	a, b := t.TempDir(), t.TempDir()
	inner := filepath.Join(a, "inner")
	for path, want := range map[string]Place{
		a:                           {a, "."},
		filepath.Join(a, "x"):       {a, "x"},
		a + "/./y//z":               {a, filepath.Join("y", "z")},
		filepath.Join(b, "x"):       {b, "x"},
		filepath.Join(inner, "x"):   {inner, "x"}, // the innermost
		filepath.Join(a, "..x"):     {a, "..x"},
		filepath.Join(a, "in ner"):  {a, "in ner"},
		filepath.Join(inner + "er"): {a, "innerer"},
	} {
		got, err := Locate([]string{"relative", a, inner + "/", b}, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
		require.Equal(t, filepath.Clean(path), got.Path())
	}
	for path, why := range map[string]string{
		"x": "not absolute", "": "not absolute", a + "/../" + filepath.Base(a) + "/x": `has ".."`, a + "/x/..": `has ".."`,
		a + "x": "outside", "/": "outside", filepath.Dir(a): "outside", a + "/\x00": "zero byte",
	} {
		_, err := Locate([]string{a, b}, path)
		require.ErrorContains(t, err, why, path)
	}
	_, err := Locate(nil, a)
	require.ErrorIs(t, err, ErrOutside)
}

func TestNoSymbolicLinkLeadsOut(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: links need a privilege here")
	}
	root, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o600))
	up, err := filepath.Rel(root, outside)
	require.NoError(t, err)
	for name, target := range map[string]string{
		"absolute": secret, "relative": filepath.Join(up, "secret"), "folder": outside, "up": up, "new": filepath.Join(up, "new"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, name)))
	}
	for _, name := range []string{"absolute", "relative", "folder/secret", "up/secret", "new", "folder/new", "up/new"} {
		p, err := Locate([]string{root}, filepath.Join(root, name))
		require.NoError(t, err)
		require.Error(t, p.Check(), name)
		_, err = p.ReadFile(100)
		require.Error(t, err, name)
		require.Error(t, p.WriteFile([]byte("x"), 0o644), name)
	}
	require.NoFileExists(t, filepath.Join(outside, "new"))
	data, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))

	require.NoError(t, os.Symlink("file", filepath.Join(root, "inside")))
	p, err := Locate([]string{root}, filepath.Join(root, "inside"))
	require.NoError(t, err)
	require.NoError(t, p.Check())
	require.NoError(t, p.WriteFile([]byte("changed"), 0o644))
	data, err = os.ReadFile(filepath.Join(root, "file"))
	require.NoError(t, err)
	require.Equal(t, "changed", string(data), "the link stays one")
}

func TestFilesAreReadAndReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) Place {
		p, err := Locate([]string{root}, filepath.Join(root, name))
		require.NoError(t, err)
		return p
	}
	_, err := at("x").ReadFile(10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(root, "x"))
	require.NoError(t, at("x").Check(), "it may be made")
	require.NoError(t, at("no/x").Check())
	require.ErrorIs(t, at("no/x").WriteFile(nil, 0o644), fs.ErrNotExist)

	require.NoError(t, at("x").WriteFile([]byte("0123456789"), 0o600))
	data, err := at("x").ReadFile(10)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(data))
	_, err = at("x").ReadFile(9)
	require.ErrorIs(t, err, ErrTooLarge)
	require.NoError(t, at("x").WriteFile([]byte("new"), 0o644))
	info, err := os.Stat(filepath.Join(root, "x"))
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode(), "it keeps its mode")
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left over")

	require.NoError(t, os.Mkdir(filepath.Join(root, "folder"), 0o755))
	for _, name := range []string{".", "folder"} {
		_, err = at(name).ReadFile(10)
		require.ErrorContains(t, err, "is a folder")
		require.ErrorContains(t, at(name).WriteFile(nil, 0o644), "is a folder")
	}
	missing := Place{Root: filepath.Join(root, "gone"), Name: "x"}
	_, err = missing.ReadFile(10)
	require.True(t, errors.Is(err, fs.ErrNotExist))
}
