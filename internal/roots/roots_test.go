package roots

import (
	"errors"
	"io"
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

// What is behind a link is replaced like any other file: whoever has it open
// sees the old text whole. So a process that dies leaves no half of it.
func TestAFileBehindALinkIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "a", "file"), []byte("old"), 0o600))
	for name, to := range map[string]string{
		"one": "two", "two": filepath.Join("a", "b", "..", "file"), // one link after the other
		"folder": filepath.Join("a", "b"), filepath.Join("a", "b", "up"): filepath.Join("..", "file"),
		"new": filepath.Join("a", "made"), "loop": "pool", "pool": "loop",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, name)))
	}
	write := func(name string) error {
		p, err := Locate([]string{root}, filepath.Join(root, name))
		require.NoError(t, err)
		return p.WriteFile([]byte(name), 0o600)
	}
	for _, name := range []string{"one", filepath.Join("folder", "up")} {
		open, err := os.Open(filepath.Join(root, "a", "file"))
		require.NoError(t, err)
		before, err := os.ReadFile(open.Name())
		require.NoError(t, err)
		require.NoError(t, write(name))
		still, err := io.ReadAll(open)
		require.NoError(t, err)
		require.NoError(t, open.Close())
		require.Equal(t, string(before), string(still))
		now, err := os.ReadFile(filepath.Join(root, "a", "file"))
		require.NoError(t, err)
		require.Equal(t, name, string(now))
	}
	require.NoError(t, write("new"))
	made, err := os.ReadFile(filepath.Join(root, "a", "made"))
	require.NoError(t, err)
	require.Equal(t, "new", string(made))
	require.Error(t, write("loop"))
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
