package acp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

var files = editor.Object{"fs": editor.Object{"readTextFile": true, "writeTextFile": true}}

// using runs a node that does something with its host and the prompt's text, and
// says what came of it.
func using(do func(ctx context.Context, t *engine.Task, text string) (string, error)) *engine.Graph {
	return single("use", func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		text, _ := t.Get("prompt").(string)
		said, err := do(ctx, t, text)
		switch {
		case errors.Is(err, engine.ErrNoFiles):
			said = "no files"
		case err != nil && ctx.Err() != nil:
			return engine.Output{}, err
		case err != nil:
			said = fmt.Sprintf("error: %v (missing: %t, doubt: %t)", err, errors.Is(err, fs.ErrNotExist), errors.Is(err, engine.ErrInDoubt))
		}
		return engine.Set("response", said), nil
	})
}

func reader() *engine.Graph {
	return using(func(ctx context.Context, t *engine.Task, path string) (string, error) {
		return t.Host().ReadFile(ctx, t, path)
	})
}

func writer() *engine.Graph {
	return using(func(ctx context.Context, t *engine.Task, path string) (string, error) {
		return "written", t.Host().WriteFile(ctx, t, path, "new text\n")
	})
}

// replies prompts and gives what the agent says.
func replies(c *visitor, s, text string) string {
	c.T.Helper()
	before := len(c.Log)
	require.Equal(c.T, "end_turn", c.Says(s, text))
	return strings.TrimSuffix(editor.Text(c.Log[before:], "agent_message_chunk"), "\n")
}

func TestFilesAreReadAndWrittenThroughTheEditor(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, reader())
	c := d.client(files)
	s := c.NewSession()
	path := filepath.Join(d.dir, "folder", "a.txt") // the editor may have it, also if the disk does not
	c.Ask = func(m editor.Message) (any, bool) {
		require.Equal(t, "fs/read_text_file", m.Method)
		require.Equal(t, editor.Object{"sessionId": s, "path": path}, m.Params)
		return editor.Object{"content": "not saved yet\n"}, true
	}
	require.Equal(t, "not saved yet\n", replies(c, s, d.dir+"/folder//./a.txt"))

	d = newDesk(t, acp.Adapter{}, writer())
	c = d.client(files)
	s = c.NewSession()
	for _, result := range []any{editor.Object{}, nil} {
		path = filepath.Join(d.dir, "b.txt")
		c.Ask = func(m editor.Message) (any, bool) {
			require.Equal(t, "fs/write_text_file", m.Method)
			require.Equal(t, editor.Object{"sessionId": s, "path": path, "content": "new text\n"}, m.Params)
			return result, true
		}
		require.Equal(t, "written", replies(c, s, path))
		require.NoFileExists(t, path, "the editor writes it, and nobody else")
	}
}

func TestTheRootsAreTheBoundaryOfFiles(t *testing.T) {
	t.Parallel()
	for name, graph := range map[string]*engine.Graph{"read": reader(), "write": writer()} {
		d := newDesk(t, acp.Adapter{}, graph)
		second, outside := t.TempDir(), t.TempDir()
		require.NoError(t, os.Symlink(outside, filepath.Join(d.dir, "link")))
		require.NoError(t, os.Symlink(filepath.Join(outside, "f"), filepath.Join(d.dir, "file")))
		c := d.client(files)
		s, _ := c.Call("session/new", editor.Object{"cwd": d.dir, "mcpServers": []any{}, "additionalDirectories": []any{second}})["sessionId"].(string)
		c.Ask = func(m editor.Message) (any, bool) {
			require.FailNow(t, "the client was asked", m.Line)
			return nil, false
		}
		for path, why := range map[string]string{
			"a.txt": "not absolute", filepath.Join(outside, "f"): "outside of the folders", d.dir + "/../x": `".."`, d.dir + "x": "outside of the folders",
			d.dir + "/link/f": "escapes", d.dir + "/file": "escapes", "/": "outside of the folders", "~/x": "not absolute",
		} {
			said := replies(c, s, path)
			require.Contains(t, said, why, "%s %s", name, path)
			require.Contains(t, said, "doubt: false")
		}
		asked := ""
		c.Ask = func(m editor.Message) (any, bool) {
			asked, _ = m.Params["path"].(string)
			return editor.Object{"content": ""}, true
		}
		c.Says(s, second+"/x")
		require.Equal(t, second+"/x", asked)
	}
}

func TestAClientThatIsWrongAboutItsFiles(t *testing.T) { // acp-cases 46
	t.Parallel()
	for name, test := range map[string]struct {
		capabilities editor.Object
		graph        *engine.Graph
		answer       any
		want         string
	}{
		"has none":               {nil, reader(), nil, "no files"},
		"only writes":            {editor.Object{"fs": editor.Object{"writeTextFile": true}}, reader(), nil, "no files"},
		"only reads":             {editor.Object{"fs": editor.Object{"readTextFile": true}}, writer(), nil, "no files"},
		"does not have it":       {files, reader(), editor.Error{Code: -32601, Message: "no"}, "no files"},
		"does not have that too": {files, writer(), editor.Error{Code: -32601, Message: "no"}, "no files"},
		"misses the file":        {files, reader(), editor.Error{Code: -32002, Message: "gone"}, "read {} in the editor: gone"},
		"fails":                  {files, writer(), editor.Error{Code: -32603, Message: "read\nonly"}, "write {} in the editor: read only"},
		"answers a number":       {files, reader(), editor.Object{"content": 5}, "content must be a string"},
		"answers nothing":        {files, reader(), editor.Object{}, "content is missing"},
		"answers null":           {files, reader(), nil, "content is missing"},
		"answers too much":       {files, reader(), editor.Object{"content": strings.Repeat("x", 200_000)}, "the answer of the client is longer than 100000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, test.graph)
			d.config.Connection.MaxLine = 100_000
			c := d.client(test.capabilities)
			s := c.NewSession()
			asked := 0
			c.Ask = func(editor.Message) (any, bool) { asked++; return test.answer, true }
			path := filepath.Join(d.dir, "a.txt")
			said := replies(c, s, path)
			require.Contains(t, said, strings.ReplaceAll(test.want, "{}", path))
			require.Equal(t, name == "misses the file", strings.Contains(said, "missing: true"))
			if strings.HasPrefix(name, "has") || strings.HasPrefix(name, "only") {
				require.Zero(t, asked, "what was not advertised is not asked for")
			} else {
				require.Equal(t, 1, asked)
			}
		})
	}
}

func TestACancelEndsTheWaitForAFile(t *testing.T) {
	t.Parallel()
	for _, graph := range []*engine.Graph{reader(), writer()} {
		d := newDesk(t, acp.Adapter{}, graph)
		c := d.client(files)
		s := c.NewSession()
		var asked editor.Message
		c.Ask = func(m editor.Message) (any, bool) {
			asked = m
			c.Notify("session/cancel", editor.Object{"sessionId": s})
			return nil, false
		}
		require.Equal(t, "cancelled", c.Says(s, filepath.Join(d.dir, "a.txt")))
		withdrawn := false
		for _, m := range c.Log {
			withdrawn = withdrawn || m.Method == "$/cancel_request" && editor.JSON(t, m.Params["requestId"]) == string(asked.ID)
		}
		require.True(t, withdrawn)
		require.Equal(t, engine.Cancelled, d.status(s))
		c.Respond(asked, editor.Object{"content": "late"}) // for nobody
		c.Call("session/list", editor.Object{})
	}
}

func TestTheFoldersOfASessionAreThoseOfItsLastOpening(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, using(func(_ context.Context, t *engine.Task, _ string) (string, error) {
		return strings.Join(t.Roots(), " "), nil
	}))
	c := d.client(nil)
	a, b := t.TempDir(), t.TempDir()
	with := func(more ...any) editor.Object {
		return editor.Object{"cwd": d.dir, "mcpServers": []any{}, "additionalDirectories": more}
	}
	s, _ := c.Call("session/new", with(a, b))["sessionId"].(string)
	require.Equal(t, d.dir+" "+a+" "+b, replies(c, s, "x"))
	stored := func() []string {
		thread, err := d.store.Thread(context.Background(), s)
		require.NoError(t, err)
		return thread.Roots
	}
	require.Equal(t, []string{a, b}, stored())
	list := c.Call("session/list", editor.Object{})["sessions"].([]any)
	require.Equal(t, []any{a, b}, list[0].(map[string]any)["additionalDirectories"])

	for _, method := range []string{"session/load", "session/resume"} {
		params := with(b)
		params["sessionId"] = s
		c.Call(method, params)
		require.Equal(t, []string{b}, stored(), "for every process")
		require.Equal(t, d.dir+" "+b, replies(c, s, "x"))
		delete(params, "additionalDirectories")
		c.Call(method, params)
		require.Empty(t, stored(), "what is not named again does not count any more")
		require.Equal(t, d.dir, replies(c, s, "x"))
	}
	for _, bad := range []any{"", "relative", 5, nil} {
		require.Equal(t, -32602, c.Refused("session/new", with(a, bad)).Code)
	}
	require.NotNil(t, c.Call("initialize", editor.Object{"protocolVersion": 1})["agentCapabilities"].(map[string]any)["sessionCapabilities"].(map[string]any)["additionalDirectories"])
}
