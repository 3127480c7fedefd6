package nodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/internal/roots"
)

// Bounds of a walk through folders.
const (
	maxWalked  = 100_000
	maxEntries = 2000
	maxMatches = 500
	maxLine    = 300 // bytes of a line that is shown
)

// skipped are folders that hold nothing that somebody wrote.
var skipped = []string{".git", ".hg", ".svn", "node_modules"}

var errEnough = errors.New("enough")

func listTool() *tool {
	return &tool{
		name: "list_files", kind: "search",
		doc: "Lists the files below a folder, those in its folders too.",
		schema: argSchema(map[string]any{
			"path?": textSchema("the folder; absent: the working folder"),
			"name?": textSchema("only files whose name fits, such as *.go"),
		}),
		plan: func(c *toolCall, _ *batch) (*toolPlan, error) { return c.walks("List ") },
		run: func(ctx context.Context, c *toolCall) (string, error) {
			var found []string
			err := c.walk(ctx, func(name string, _ fs.FS, _ string) error {
				if len(found) == maxEntries {
					return errEnough
				}
				found = append(found, name)
				return nil
			})
			return listed(found, "no files", err)
		},
	}
}

func searchTool() *tool {
	return &tool{
		name: "search", kind: "search",
		doc: "Finds the lines that match a regular expression (RE2) in the text files below a folder, and gives them as path:line: text.",
		schema: argSchema(map[string]any{
			"pattern": map[string]any{"type": "string", "minLength": 1, "maxLength": 1000, "description": "the regular expression; (?i) in front ignores case"},
			"path?":   textSchema("the folder, or one file; absent: the working folder"),
			"name?":   textSchema("only files whose name fits, such as *.go"),
		}),
		plan: func(c *toolCall, _ *batch) (*toolPlan, error) {
			pattern, _ := c.args["pattern"].(string)
			if _, err := regexp.Compile(pattern); err != nil {
				return nil, fmt.Errorf("pattern: %w", err)
			}
			return c.walks(fmt.Sprintf("Search %q in ", shorten(pattern, 60)))
		},
		run: func(ctx context.Context, c *toolCall) (string, error) {
			text, _ := c.args["pattern"].(string)
			pattern, err := regexp.Compile(text)
			if err != nil {
				return "", err
			}
			var found []string
			err = c.walk(ctx, func(name string, in fs.FS, inner string) error {
				found, err = grep(in, inner, name, pattern, found)
				return err
			})
			return listed(found, "nothing matches", err)
		},
	}
}

func (c *toolCall) walks(title string) (*toolPlan, error) {
	place, err := c.place()
	if err != nil {
		return nil, err
	}
	if name, _ := c.args["name"].(string); name != "" {
		if _, err := path.Match(name, ""); err != nil {
			return nil, fmt.Errorf("name: %q is no pattern of file names", name)
		}
	}
	return &toolPlan{Title: title + c.short(place), Paths: []string{place.Path()}}, nil
}

func listed(found []string, none string, err error) (string, error) {
	enough := errors.Is(err, errEnough)
	if err != nil && !enough {
		return "", err
	}
	if len(found) == 0 && !enough {
		return none, nil
	}
	text := strings.Join(found, "\n")
	if enough {
		text += "\n(there is more: ask for less)"
	}
	return text, nil
}

// walk visits the regular files below the path of a call, by name. No symbolic
// link is followed, and nothing outside of the root is reached.
func (c *toolCall) walk(ctx context.Context, visit func(name string, in fs.FS, inner string) error) error {
	place, err := c.place()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(place.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	pattern, _ := c.args["name"].(string)
	in, walked := root.FS(), 0
	return fs.WalkDir(in, filepath.ToSlash(place.Name), func(inner string, entry fs.DirEntry, err error) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if walked++; walked > maxWalked {
			return errEnough
		}
		switch {
		case err != nil && inner == filepath.ToSlash(place.Name): // what was asked for
			if inner := new(fs.PathError); errors.As(err, &inner) {
				err = inner.Err // its path is relative to the root
			}
			return fmt.Errorf("%s: %w", c.short(place), err)
		case err != nil:
			return fs.SkipDir
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if ok, _ := path.Match(pattern, entry.Name()); pattern != "" && !ok {
			return nil
		}
		return visit(c.short(roots.Place{Root: place.Root, Name: filepath.FromSlash(inner)}), in, inner)
	})
}

// grep adds the matches in one file. What is no text, or long, has none.
func grep(in fs.FS, inner, name string, pattern *regexp.Regexp, found []string) ([]string, error) {
	f, err := in.Open(inner)
	if err != nil {
		return found, nil // gone since
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err != nil || info.Size() > 4<<20 || !info.Mode().IsRegular() {
		return found, nil
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 && strings.ContainsRune(line, 0) {
			return found, nil
		}
		if !pattern.MatchString(line) {
			continue
		}
		if len(found) == maxMatches {
			return found, errEnough
		}
		if !utf8.ValidString(line) {
			line = strings.ToValidUTF8(line, "\uFFFD")
		}
		found = append(found, fmt.Sprintf("%s:%d: %s", name, n, shorten(strings.TrimSpace(line), maxLine)))
	}
	return found, nil // a line of megabytes ends it: that is no text
}
