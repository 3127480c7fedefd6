package nodes

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/roots"
)

// Bounds of a file node.
const (
	maxReadFile  = 512 << 10
	maxWriteFile = 1 << 20 // a larger one is no value of a channel
	maxListed    = 5000
)

func fileType() Type {
	return Type{
		Name: "file", Version: 1,
		Doc: "Reads, writes, appends to, lists or deletes files, inside the folders of the thread and nowhere else. A write puts the whole file in place at once or not at all. An editor that has files of its own reads and writes them, unsaved changes included. The result goes to output: {path, text} of read ({path, base64} of what is no text), {path, bytes, created} of write and append, {path, entries, truncated} of list, {path, deleted} of delete.",
		Schema: schema([]any{"action", "path"}, map[string]any{
			"action":   enumSchema("what is done", "read", "write", "append", "list", "delete"),
			"path":     map[string]any{"type": "string", "minLength": 1, "description": "the file, or the folder to list; relative to the thread's folder. It has no .. and leads out of the thread's folders by no symbolic link"},
			"text":     textSchema("with write and append: what goes into the file"),
			"base64":   textSchema("with write and append: the same for bytes that are no text"),
			"folders":  map[string]any{"type": "boolean", "description": "with write and append: missing folders are made too; absent: false"},
			"missing":  enumSchema("with read, what becomes of a file that is not there: the task fails, or the result is null; absent: fail", "fail", "null"),
			"max_size": map[string]any{"type": "integer", "minimum": 1, "maximum": maxReadFile, "description": "with read: a file with more bytes fails the task; absent: 524288"},
			"output":   textSchema("the channel that the result is written to; absent: none"),
		}),
		New: newFile,
	}
}

// fileNode is what a file node does.
type fileNode struct {
	action, output string
	folders        bool
	missing        string
	maxSize        int64
}

// fileKeys are the keys that belong to some actions only.
var fileKeys = map[string][]string{
	"text": {"write", "append"}, "base64": {"write", "append"}, "folders": {"write", "append"},
	"missing": {"read"}, "max_size": {"read"},
}

func newFile(c *Config) engine.Node {
	f := &fileNode{missing: "fail", maxSize: maxReadFile}
	if c.Literal("action", &f.action); f.action == "" {
		return engine.Node{} // what is wrong with it is said
	}
	c.Literal("folders", &f.folders)
	c.Literal("missing", &f.missing)
	c.Literal("max_size", &f.maxSize)
	for _, key := range []string{"text", "base64", "folders", "missing", "max_size"} {
		if c.Has(key) && !slices.Contains(fileKeys[key], f.action) {
			c.Wrong(key, "leave it out", "%s of node %s belongs to %s, not to %s", key, c.name, strings.Join(fileKeys[key], " and "), f.action)
		}
	}
	if slices.Contains(fileKeys["text"], f.action) && c.Has("text") == c.Has("base64") {
		c.Wrong("base64", "", "node %s needs text or base64, one of them", c.name)
	}
	f.output = c.Output("output", takesObjects)
	if f.output == "" && (f.action == "read" || f.action == "list") {
		c.Wrong("action", "add output", "what node %s reads goes nowhere", c.name)
	}
	crash := engine.CrashRetry
	if f.action == "append" {
		crash = engine.CrashAsk // once more would be twice
	}
	return engine.Node{OnCrash: crash, Run: f.run}
}

// fileWork is what was resolved.
type fileWork struct {
	Path   string
	Text   *string
	Base64 *string
}

func (f *fileNode) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	w, err := engine.Resolved[fileWork](t)
	if err != nil {
		return engine.Output{}, err
	}
	path := w.Path
	if !filepath.IsAbs(path) {
		if t.Cwd() == "" {
			return engine.Output{}, fmt.Errorf("%s: the thread has no folder that the path could be relative to", path)
		}
		// Not cleaned: a .. in it is refused, not followed.
		path = strings.TrimRight(t.Cwd(), `/\`) + string(filepath.Separator) + path
	}
	place, err := roots.Locate(t.Roots(), path)
	if err != nil {
		return engine.Output{}, err
	}
	var result any
	switch f.action {
	case "read":
		result, err = f.read(ctx, t, place)
	case "list":
		result, err = f.list(place)
	case "delete":
		result, err = f.remove(place)
	default:
		result, err = f.write(ctx, t, place, w)
	}
	if errors.Is(err, fs.ErrNotExist) && f.missing == "null" {
		result, err = nil, nil
	}
	if err != nil {
		return engine.Output{}, fmt.Errorf("%s: %w", f.action, err)
	}
	if f.output == "" {
		return engine.Output{}, nil
	}
	return engine.Set(f.output, result), nil
}

func (f *fileNode) read(ctx context.Context, t *engine.Task, p roots.Place) (any, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	text, err := t.Host().ReadFile(ctx, t, p.Path())
	data := []byte(text)
	if errors.Is(err, engine.ErrNoFiles) {
		data, err = p.ReadFile(f.maxSize)
	}
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > f.maxSize {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", p.Path(), roots.ErrTooLarge, f.maxSize)
	}
	out := map[string]any{"path": p.Path()}
	if utf8.Valid(data) {
		out["text"] = string(data)
	} else {
		out["base64"] = base64.StdEncoding.EncodeToString(data)
	}
	return out, nil
}

func (f *fileNode) write(ctx context.Context, t *engine.Task, p roots.Place, w fileWork) (any, error) {
	var data []byte
	var err error
	switch {
	case w.Text != nil:
		data = []byte(*w.Text)
	case w.Base64 != nil:
		if data, err = base64.StdEncoding.DecodeString(*w.Base64); err != nil {
			return nil, fmt.Errorf("base64: %w", err)
		}
	}
	if len(data) > maxWriteFile {
		return nil, fmt.Errorf("more than %d bytes", maxWriteFile)
	}
	if f.folders {
		if err := p.MakeFolders(); err != nil {
			return nil, err
		}
	}
	created, err := p.Missing()
	if err != nil {
		return nil, err
	}
	switch {
	case f.action == "append":
		err = f.add(ctx, t, p, data)
	case w.Text != nil:
		err = t.Host().WriteFile(ctx, t, p.Path(), *w.Text)
		if errors.Is(err, engine.ErrNoFiles) {
			err = p.WriteFile(data, 0o644)
		}
	default:
		err = p.WriteFile(data, 0o644)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"path": p.Path(), "bytes": int64(len(data)), "created": created}, nil
}

// add appends. Through an editor that is a write of the whole text, in which its
// unsaved changes are.
func (f *fileNode) add(ctx context.Context, t *engine.Task, p roots.Place, data []byte) error {
	if utf8.Valid(data) {
		old, err := t.Host().ReadFile(ctx, t, p.Path())
		if err == nil {
			if err = t.Host().WriteFile(ctx, t, p.Path(), old+string(data)); err == nil {
				return nil
			}
		}
		if !errors.Is(err, engine.ErrNoFiles) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return p.Append(data, 0o644)
}

// remove deletes a file. One that is not there is no failure: after a crash it may
// be that this node deleted it.
func (f *fileNode) remove(p roots.Place) (any, error) {
	err := p.Remove()
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return nil, err
	}
	return map[string]any{"path": p.Path(), "deleted": !gone}, nil
}

func (f *fileNode) list(p roots.Place) (any, error) {
	infos, more, err := p.List(maxListed)
	if err != nil {
		return nil, err
	}
	entries := []any{}
	for _, info := range infos {
		entry := map[string]any{"name": strings.ToValidUTF8(info.Name(), "\uFFFD"), "type": kindOfFile(info.Mode())}
		if info.Mode().IsRegular() {
			entry["size"] = info.Size()
		}
		entries = append(entries, entry)
	}
	return map[string]any{"path": p.Path(), "entries": entries, "truncated": more}, nil
}

func kindOfFile(mode os.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}
