package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/roots"
)

// maxToolFile bounds the text files that tools read, change and write.
const maxToolFile = 512 << 10

func readTool() *tool {
	return &tool{
		name: "read_file", kind: "read",
		doc: "Reads a text file and gives its lines. A long file is given in parts: say where to begin with offset.",
		schema: argSchema(map[string]any{
			"path":    textSchema("the file, relative to the working folder or absolute"),
			"offset?": map[string]any{"type": "integer", "minimum": 1, "description": "the first line, from 1"},
			"limit?":  map[string]any{"type": "integer", "minimum": 1, "description": "how many lines"},
		}),
		plan: func(c *toolCall, _ *batch) (*toolPlan, error) {
			place, err := c.place()
			if err != nil {
				return nil, err
			}
			return &toolPlan{Title: "Read " + c.short(place), Paths: []string{place.Path()}}, nil
		},
		run: func(ctx context.Context, c *toolCall) (string, error) {
			place, err := c.place()
			if err != nil {
				return "", err
			}
			text, err := c.read(ctx, place)
			if err != nil {
				return "", err
			}
			return c.lines(text), nil
		},
	}
}

func writeTool() *tool {
	return &tool{
		name: "write_file", kind: "edit", changes: true,
		doc: "Writes a whole text file: a new one, or in the place of an old one. To change a part of a file use edit_file where there is one.",
		schema: argSchema(map[string]any{
			"path":    textSchema("the file, relative to the working folder or absolute; missing folders are made"),
			"content": textSchema("the whole text of the file"),
		}),
		plan: func(c *toolCall, b *batch) (*toolPlan, error) {
			content, _ := c.args["content"].(string)
			return c.change(b, func(*string) (string, error) { return content, nil })
		},
		run: writePlanned,
	}
}

func editTool() *tool {
	return &tool{
		name: "edit_file", kind: "edit", changes: true,
		doc: "Replaces a piece of a text file. old_text must stand in the file exactly once, character by character; give enough of what is around it.",
		schema: argSchema(map[string]any{
			"path":     textSchema("the file, relative to the working folder or absolute"),
			"old_text": map[string]any{"type": "string", "minLength": 1, "description": "what is there now"},
			"new_text": textSchema("what takes its place"),
			"all?":     map[string]any{"type": "boolean", "description": "replace it wherever it stands"},
		}),
		plan: func(c *toolCall, b *batch) (*toolPlan, error) {
			from, _ := c.args["old_text"].(string)
			to, _ := c.args["new_text"].(string)
			all, _ := c.args["all"].(bool)
			return c.change(b, func(old *string) (string, error) {
				if old == nil {
					return "", errors.New("there is no such file: write_file makes one")
				}
				switch n := strings.Count(*old, from); {
				case n == 0:
					return "", errors.New("old_text does not stand in the file: read it and give the text as it is")
				case n > 1 && !all:
					return "", fmt.Errorf("old_text stands in the file %d times: give more of what is around it, or set all", n)
				}
				return strings.ReplaceAll(*old, from, to), nil
			})
		},
		run: writePlanned,
	}
}

// place is where the path of a call leads.
func (c *toolCall) place() (roots.Place, error) {
	arg, _ := c.args["path"].(string)
	if arg == "" {
		arg = "."
	}
	path, err := c.path(arg)
	if err != nil {
		return roots.Place{}, err
	}
	place, err := roots.Locate(c.task.Roots(), path)
	if err == nil {
		err = place.Check()
	}
	return place, err
}

// short is a path as the model knows it.
func (c *toolCall) short(p roots.Place) string {
	if rel, err := filepath.Rel(c.task.Cwd(), p.Path()); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return p.Path()
}

// read gives a text file as the editor has it, else from the disk.
func (c *toolCall) read(ctx context.Context, p roots.Place) (string, error) {
	text, err := c.task.Host().ReadFile(ctx, c.task, p.Path())
	if errors.Is(err, engine.ErrNoFiles) {
		var data []byte
		data, err = p.ReadFile(maxToolFile)
		text = string(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no file %s (%w)", c.short(p), fs.ErrNotExist)
	case err != nil:
		return "", err
	case len(text) > maxToolFile:
		return "", fmt.Errorf("%s has more than %d bytes", c.short(p), maxToolFile)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", fmt.Errorf("%s is no text", c.short(p))
	}
	return text, nil
}

// lines are the lines that a call of read_file wants, and where to go on.
func (c *toolCall) lines(text string) string {
	offset, limit := 1, 0
	if n, ok := c.args["offset"].(int64); ok {
		offset = int(min(n, 1<<30))
	}
	if n, ok := c.args["limit"].(int64); ok {
		limit = int(min(n, 1<<30))
	}
	all := strings.SplitAfter(text, "\n")
	if last := len(all) - 1; all[last] == "" {
		all = all[:last]
	}
	if len(all) == 0 {
		return "(the file is empty)"
	}
	if offset > len(all) {
		return fmt.Sprintf("(the file has %d lines)", len(all))
	}
	var b strings.Builder
	end := offset - 1
	for end < len(all) && (limit == 0 || end < offset-1+limit) {
		line := all[end]
		if b.Len()+len(line) > c.set.maxOutput-200 {
			if end >= offset {
				break
			}
			// One line that is too long for all: its beginning.
			line = shorten(line, max(c.set.maxOutput-200, 16)) + "\n"
		}
		b.WriteString(line)
		end++
	}
	if offset == 1 && end == len(all) {
		return b.String()
	}
	next := ""
	if end < len(all) {
		next = fmt.Sprintf("; go on with offset %d", end+1)
	}
	return fmt.Sprintf("%s(lines %d to %d of %d%s)", b.String(), offset, end, len(all), next)
}

// change plans what a file will hold. What earlier calls of the batch will have
// made of it counts.
func (c *toolCall) change(b *batch, make func(old *string) (string, error)) (*toolPlan, error) {
	place, err := c.place()
	if err != nil {
		return nil, err
	}
	var old *string
	if planned, there := b.files[place.Path()]; there {
		old = &planned
	} else {
		// No context of its own: an editor answers at once, or is gone.
		text, err := c.read(context.Background(), place)
		if err == nil {
			old = &text
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	text, err := make(old)
	if err != nil {
		return nil, err
	}
	switch {
	case !utf8.ValidString(text):
		return nil, errors.New("the text is not UTF-8")
	case len(text) > maxToolFile:
		return nil, fmt.Errorf("the file would have more than %d bytes", maxToolFile)
	case model.Hide(text) != text, old != nil && model.Hide(*old) != *old:
		return nil, errors.New("the file holds the key of a model, which must not be stored: change it by hand")
	case old != nil && *old == text:
		return nil, errors.New("the file holds that already: nothing would change")
	}
	verb := "Edit "
	if old == nil {
		verb = "Create "
	}
	return &toolPlan{
		Title: verb + c.short(place), Paths: []string{place.Path()},
		Diff: &engine.FileDiff{Path: place.Path(), Old: old, New: text},
	}, nil
}

// write does what was planned and approved, if the file is still what it was.
func writePlanned(ctx context.Context, c *toolCall) (string, error) {
	d := c.plan.Diff
	place, err := roots.Locate(c.task.Roots(), d.Path)
	if err != nil {
		return "", err
	}
	now, err := c.read(ctx, place)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case err != nil && !missing:
		return "", err
	case missing != (d.Old == nil), !missing && now != *d.Old:
		return "", fmt.Errorf("%s has changed since the call was looked at, and was left as it is: read it again", c.short(place))
	}
	if err := c.writeFile(ctx, place, d.New); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d bytes", c.short(place), len(d.New)), nil
}

// writeFile puts a file in place, through the editor if it has files.
func (c *toolCall) writeFile(ctx context.Context, p roots.Place, text string) error {
	err := c.task.Host().WriteFile(ctx, c.task, p.Path(), text)
	if !errors.Is(err, engine.ErrNoFiles) {
		return err
	}
	if err := makeFolders(p); err != nil {
		return err
	}
	return p.WriteFile([]byte(text), 0o644)
}

// makeFolders makes the folders in front of a file.
func makeFolders(p roots.Place) error {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing of it is pending
	return root.MkdirAll(filepath.Dir(p.Name), 0o755)
}
