package nodes

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// onFiles runs a file node in a folder and gives what it wrote.
func onFiles(t *testing.T, dir, config string, v any, host engine.Host) (any, error) {
	t.Helper()
	g := mustLoad(t, "channels: {v: , out: }\nedges: [{from: __start__, to: f}]\nnodes: {f: {type: file, output: out, on_crash: retry, "+config+"}}\n")
	turn, err := engine.New(g, nil, engine.Options{Host: host}).
		Start(t.Context(), "t", engine.Input{Values: engine.Values{"v": v}, Cwd: dir})
	if err != nil {
		return nil, err
	}
	return turn.State["out"], nil
}

func TestAFileIsWrittenReadListedAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		config string
		want   any
	}{
		{"action: read, path: a.txt, missing: 'null'", nil},
		{"action: write, path: 'a.txt', text: 'v=${{ v }}'", map[string]any{"path": at("a.txt"), "bytes": int64(3), "created": true}},
		{"action: write, path: '" + at("a.txt") + "', text: 'v:${{ v }}'", map[string]any{"path": at("a.txt"), "bytes": int64(3), "created": false}},
		{"action: append, path: a.txt, text: '!'", map[string]any{"path": at("a.txt"), "bytes": int64(1), "created": false}},
		{"action: append, path: new.txt, text: '!'", map[string]any{"path": at("new.txt"), "bytes": int64(1), "created": true}},
		{"action: read, path: a.txt", map[string]any{"path": at("a.txt"), "text": "v:1!"}},
		{"action: write, path: sub/deep/b.bin, folders: true, base64: 'iVD/'", map[string]any{"path": at("sub/deep/b.bin"), "bytes": int64(3), "created": true}},
		{"action: read, path: 'sub/${{ \"deep\" }}/b.bin'", map[string]any{"path": at("sub/deep/b.bin"), "base64": "iVD/"}},
		{"action: list, path: .", map[string]any{"path": dir, "truncated": false, "entries": []any{
			map[string]any{"name": "a.txt", "type": "file", "size": int64(4)}, map[string]any{"name": "new.txt", "type": "file", "size": int64(1)}, map[string]any{"name": "sub", "type": "folder"},
		}}},
		{"action: delete, path: new.txt", map[string]any{"path": at("new.txt"), "deleted": true}},
		{"action: delete, path: new.txt", map[string]any{"path": at("new.txt"), "deleted": false}},
	} {
		got, err := onFiles(t, dir, c.config, 1, nil)
		require.NoError(t, err, c.config)
		require.Equal(t, c.want, got, c.config)
	}
	for config, want := range map[string]string{
		"action: read, path: no.txt":                   "read: " + at("no.txt") + ": no such file",
		"action: read, path: sub":                      "is a folder",
		"action: read, path: a.txt, max_size: 3":       "too large: more than 3 bytes",
		"action: write, path: no/x, text: y":           "no such file",
		"action: write, path: sub, text: y":            "is a folder",
		"action: write, path: x, base64: 'not base64'": "base64: illegal",
		"action: delete, path: sub":                    "only files are deleted",
		"action: list, path: a.txt":                    "it is no folder",
	} {
		_, err := onFiles(t, dir, config, 1, nil)
		require.ErrorContains(t, err, want, config)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left over")
}

func TestNoPathLeadsOutOfTheFoldersOfTheThread(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	paths := []string{"../x", "a/../../x", secret, "/etc/passwd", "a/./../..//x", "x\x00y"}
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, "folder")))
		paths = append(paths, "link", "folder/secret", "folder/new")
	}
	for _, path := range paths {
		for _, config := range []string{"action: read", "action: write, text: y", "action: append, text: y", "action: write, base64: YQ==, folders: true", "action: list", "action: delete"} {
			if path == "link" && config == "action: delete" {
				continue // the link itself is in the folder
			}
			_, err := onFiles(t, dir, config+", path: '${{ v }}'", path, editor{files: map[string]string{}})
			require.Error(t, err, "%s %s", config, path)
		}
	}
	data, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// editor is a host with files of its own.
type editor struct {
	engine.NoHost
	files map[string]string
}

func (e editor) ReadFile(_ context.Context, _ *engine.Task, path string) (string, error) {
	text, ok := e.files[path]
	if !ok {
		return "", os.ErrNotExist
	}
	return text, nil
}

func (e editor) WriteFile(_ context.Context, _ *engine.Task, path, text string) error {
	e.files[path] = text
	return nil
}

func TestAnEditorReadsAndWritesItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	require.NoError(t, os.WriteFile(path, []byte("on the disk"), 0o600))
	e := editor{files: map[string]string{path: "not saved yet"}}
	got, err := onFiles(t, dir, "action: read, path: a.txt", nil, e)
	require.NoError(t, err)
	require.Equal(t, "not saved yet", got.(map[string]any)["text"])
	_, err = onFiles(t, dir, "action: append, path: a.txt, text: '!'", nil, e)
	require.NoError(t, err)
	_, err = onFiles(t, dir, "action: write, path: b.txt, text: b", nil, e)
	require.NoError(t, err)
	require.Equal(t, map[string]string{path: "not saved yet!", filepath.Join(dir, "b.txt"): "b"}, e.files)
	_, err = onFiles(t, dir, "action: read, path: a.txt, max_size: 5", nil, e)
	require.ErrorContains(t, err, "more than 5 bytes")
}

func TestMistakesOfAFileNodeAreFoundWhenItIsLoaded(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"action: raed, path: x":                             "action of node f is one of read, write, append, list, delete, not raed; did you mean read?",
		"action: '${{ v }}', path: x, text: y, output: out": "action of node f is one of read, write, append, list, delete, not ${{ v }}; no ${{ }} is replaced here",
		"action: write, path: x, output: out":               "node f needs text or base64, one of them",
		"action: write, path: x, text: a, base64: b":        "node f needs text or base64, one of them",
		"action: read, path: x, text: a, output: out":       "text of node f belongs to write and append, not to read",
		"action: delete, path: x, missing: 'null'":          "missing of node f belongs to read, not to delete",
		"action: read, path: x":                             "what node f reads goes nowhere; add output",
		"action: read, path: '', output: out":               "path of node f is empty",
		"action: read, path: x, output: out, max_size: 1e9": "max_size of node f is at most 524288",
		"action: read, path: '${{ vv }}', output: out":      "did you mean v?",
	} {
		got := mistakes(t, "channels: {v: , out: }\nedges: [{from: __start__, to: f}]\nnodes: {f: {type: file, "+config+"}}\n")
		require.Len(t, got, 1, "%s: %v", config, got)
		require.Contains(t, got[0].String(), want, config)
	}
}

func TestAnAppendIsAskedAboutAfterACrashAndAWriteIsNot(t *testing.T) {
	t.Parallel()
	canonical := func(action string) string {
		g := mustLoad(t, "channels: {out: }\nedges: [{from: __start__, to: f}]\nnodes: {f: {type: file, action: "+action+", path: x, text: y, output: out}}\n")
		return string(g.Canonical())
	}
	require.Contains(t, canonical("append"), `"on_crash":"ask"`)
	require.Contains(t, canonical("write"), `"on_crash":"retry"`)
	require.True(t, strings.Contains(canonical("write"), `"action":"write"`))
}
