package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// hands is an agent with tools; HANDS are the keys of its tools node.
const hands = `schema_version: 1
channels: {messages: {reducer: messages}, safe: {initial: false}}
nodes:
  model: {type: llm, model: m, base_url: "URL", tools: hands}
  hands: {type: tools, HANDS}
edges: [{from: __start__, to: model}, {from: hands, to: model}]
conditional_edges: [{from: model, condition: has_tool_calls, routes: {true: hands, false: __end__}}]
`

func calls(list ...string) modeltest.Reply {
	var r modeltest.Reply
	for i := 0; i < len(list); i += 2 {
		r.Calls = append(r.Calls, modeltest.Call{ID: fmt.Sprintf("c%d", i/2+1), Name: list[i], Arguments: list[i+1]})
	}
	return r
}

func newHands(t *testing.T, keys string, replies ...modeltest.Reply) *agent {
	t.Helper()
	return newAgent(t, strings.ReplaceAll(hands, "HANDS", keys), append(replies, modeltest.Text("done"))...)
}

// results are what the tools answered to the newest batch.
func (a *agent) results() (out []string) {
	requests := a.model.Requests()
	messages := requests[len(requests)-1].Messages()
	for i := len(messages) - 1; i >= 0 && messages[i]["role"] == "tool"; i-- {
		out = append([]string{messages[i]["content"].(string)}, out...)
	}
	return out
}

func yes() interrupt.Answer { return interrupt.Answer{Choice: interrupt.Approve, Actor: "ada"} }

const allTools = "tools: [read_file, write_file, edit_file, list_files, search, exec]"

func TestAModelReadsChangesAndRunsWhatAPersonApproves(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools+`, approve: {exec: 'not (args.command startsWith "cat ")'}`, calls(
		"read_file", `{"path":"a.txt"}`,
		"edit_file", `{"path":"a.txt","old_text":"two","new_text":"2"}`,
		"edit_file", `{"path":"a.txt","old_text":"2","new_text":"II"}`,
		"write_file", `{"path":"new/b.txt","content":"b\n"}`,
		"exec", `{"command":"cat a.txt new/b.txt; exit 3"}`,
		"list_files", `{}`,
		"search", `{"pattern":"^I+$","name":"*.txt"}`,
	))
	a.write("a.txt", "one\ntwo\n")
	a.write(".git/config", "hidden")
	turn, err := a.say("Change it")
	require.NoError(t, err)

	path := filepath.Join(a.dir, "a.txt")
	for _, want := range []struct {
		message string
		data    map[string]any
	}{
		{"Edit a.txt?", map[string]any{"tool": "edit_file", "call_id": "c2", "diff": map[string]any{"path": path, "old": "one\ntwo\n", "new": "one\n2\n"}}},
		{"Edit a.txt?", map[string]any{"tool": "edit_file", "call_id": "c3", "diff": map[string]any{"path": path, "old": "one\n2\n", "new": "one\nII\n"}}},
		{"Create new/b.txt?", map[string]any{"tool": "write_file", "call_id": "c4", "diff": map[string]any{"path": filepath.Join(a.dir, "new", "b.txt"), "new": "b\n"}}},
	} {
		require.Len(t, turn.Questions, 1)
		require.Equal(t, filepath.FromSlash(want.message), turn.Questions[0].Payload.Message)
		require.Equal(t, want.data, turn.Questions[0].Payload.Data)
		require.Equal(t, "one\ntwo\n", a.read("a.txt"), "the whole batch is decided before any of it runs")
		turn, err = a.resume(yes())
		require.NoError(t, err)
	}
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, "one\nII\n", a.read("a.txt"))
	require.Equal(t, "b\n", a.read("new/b.txt"))
	require.Equal(t, []string{
		"one\ntwo\n", "a.txt: 6 bytes", "a.txt: 7 bytes", filepath.FromSlash("new/b.txt: 2 bytes"),
		"one\nII\nb\n(exit code 3)", filepath.FromSlash("a.txt\nnew/b.txt"), "a.txt:2: II",
	}, a.results())

	shown := a.shown(engine.ShownCall)
	require.Len(t, shown, 7)
	old := "one\n2\n"
	require.Equal(t, []engine.FileDiff{{Path: path, Old: &old, New: "one\nII\n"}}, shown["c3"].Call.Diffs)
	require.Equal(t, "edit", shown["c3"].Call.Kind)
	require.Equal(t, []string{path}, shown["c3"].Call.Paths)
	for id, s := range shown {
		require.Equal(t, engine.CallCompleted, s.Call.Status, id)
	}
	require.Equal(t, "Run cat a.txt new/b.txt; exit 3", shown["c5"].Call.Title)
	require.Equal(t, "one\nII\nb\n(exit code 3)", shown["c5"].Call.Text)

	var names []string
	for _, tool := range a.model.Requests()[0].Body["tools"].([]any) {
		names = append(names, tool.(map[string]any)["function"].(map[string]any)["name"].(string))
	}
	require.Equal(t, []string{"edit_file", "exec", "list_files", "read_file", "search", "write_file"}, names)
}

// What is wrong with a call is its answer, and the model goes on from there.
func TestACallThatIsWrongIsAnswered(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	quoted, err := json.Marshal(outside)
	require.NoError(t, err)
	a := newHands(t, allTools+", approve: never", calls(
		"rm_file", `{"path":"a"}`,
		"read_file", `{"path":`,
		"read_file", `["a"]`,
		"read_file", `{}`,
		"read_file", `{"path":"a","mode":"r"}`,
		"read_file", `{"path":"../secret"}`,
		"read_file", `{"path":`+string(quoted)+`}`,
		"read_file", `{"path":"link"}`,
		"write_file", `{"path":"link","content":"x"}`,
		"write_file", `{"path":"out/x","content":"x"}`,
		"exec", `{"command":"pwd","cwd":".."}`,
		"exec", `{"command":"  "}`,
		"edit_file", `{"path":"a","old_text":"x","new_text":"y"}`,
		"edit_file", `{"path":"a","old_text":"nowhere","new_text":"y"}`,
		"edit_file", `{"path":"b","old_text":"x","new_text":"y"}`,
		"write_file", `{"path":"a","content":"x x"}`,
		"read_file", `{"path":"binary"}`,
		"search", `{"pattern":"("}`,
		"list_files", `{"path":"nowhere"}`,
		"read_file", ``,
	))
	a.write("a", "x x")
	a.write("binary", "\x00\x01")
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(outside, filepath.Join(a.dir, "link")))
		require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(a.dir, "out")))
	}
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	for i, want := range []string{
		`there is no tool "rm_file"; there are edit_file, exec`, "not valid JSON", "must be a JSON object, not list",
		"path", "mode", `has ".."`, "outside of the folders", "link", "link", "out",
		`has ".."`, "empty", "2 times", "does not stand in the file", "there is no such file",
		"holds that already", "no text", "pattern", "error: nowhere: no such file", "path",
	} {
		got := a.results()[i]
		require.True(t, strings.HasPrefix(got, "error: "), "%d: %s", i, got)
		require.Contains(t, got, want, "%d", i)
	}
	require.Equal(t, "x x", a.read("a"))
	data, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
	require.NoFileExists(t, filepath.Join(filepath.Dir(outside), "x"))
}

func TestARuleRunsDeniesAsksAndRewrites(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools+`, approve: {"*": deny, list_files: never, read_file: '"not " + args.path', exec: 'args.command == "ls" ? {args: {command: "echo rewritten"}} : args.command == "ask" ? {args: {command: "echo asked"}, ask: true} : safe', search: args.nothing.here}`,
		calls(
			"write_file", `{"path":"x","content":"x"}`, "read_file", `{"path":"x"}`, "list_files", `{}`,
			"exec", `{"command":"ls"}`, "exec", `{"command":"echo free"}`, "exec", `{"command":"ask"}`, "search", `{"pattern":"x"}`,
		))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "Run echo asked?", turn.Questions[0].Payload.Message)
	require.Equal(t, map[string]any{"tool": "exec", "call_id": "c6", "command": "echo asked", "cwd": a.dir}, turn.Questions[0].Payload.Data)
	turn, err = a.resume(yes())
	require.NoError(t, err)
	require.Contains(t, turn.Questions[0].Payload.Message, "Search \"x\" in .? (its rule failed: ", "what a rule cannot decide a person does")
	_, err = a.resume(interrupt.Answer{Choice: interrupt.Reject, Reason: "no need"})
	require.NoError(t, err)
	require.Equal(t, []string{
		"error: denied: tool write_file may not be used here", "error: denied: not x", "no files",
		"rewritten\n(exit code 0)", "free\n(exit code 0)", "asked\n(exit code 0)", "error: denied: no need",
	}, a.results())
	require.Equal(t, engine.CallFailed, a.shown(engine.ShownCall)["c1"].Call.Status)
}

func TestWithoutRulesWhatChangesSomethingIsAskedAbout(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools, calls("list_files", "{}", "exec", `{"command":"touch here"}`))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "Run touch here?", turn.Questions[0].Payload.Message)
	require.NoFileExists(t, filepath.Join(a.dir, "here"))
	turn, err = a.resume(interrupt.Answer{Choice: interrupt.Reject})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"no files", "error: denied: a person rejected it"}, a.results())
	require.NoFileExists(t, filepath.Join(a.dir, "here"))
}

// A person approved a change of the file that was shown, not of another.
func TestAFileThatChangedSinceItWasShownIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools, calls("edit_file", `{"path":"a","old_text":"one","new_text":"1"}`))
	a.write("a", "one")
	_, err := a.say("Hi")
	require.NoError(t, err)
	a.write("a", "one and more")
	_, err = a.resume(yes())
	require.NoError(t, err)
	require.Equal(t, "one and more", a.read("a"))
	require.Contains(t, a.results()[0], "error: a has changed since the call was looked at")
}

// What has run is neither run nor asked about again, and what was cut short is
// asked about with what it was.
func TestABatchThatWasCutShortGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools+", approve: {exec: never, write_file: always}", calls(
		"write_file", `{"path":"a","content":"new"}`,
		"exec", `{"command":"echo x >> count; touch started; while test ! -e go; do sleep 0.01; done"}`,
	))
	a.write("a", "old")
	_, err := a.say("Hi")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	a.host = hostFunc{terminal: func(ctx context.Context, c engine.Command) (engine.CommandResult, error) {
		stop() // the process ends while the command runs
		<-ctx.Done()
		return engine.CommandResult{}, context.Cause(ctx)
	}}
	_, err = a.engine().Resume(ctx, "t", yes())
	require.ErrorIs(t, err, engine.ErrStopped)
	require.Equal(t, "new", a.read("a"))

	a.host = nil
	turn, err := a.resume()
	require.NoError(t, err)
	require.Len(t, turn.Questions, 1)
	require.True(t, turn.Questions[0].IsDoubt(), "the approved write is not asked about again")
	require.Equal(t, "exec", turn.Questions[0].Doubt.Effect.(map[string]any)["tool"])
	turn, err = a.resume(interrupt.Answer{Choice: interrupt.DoneIt, Value: "it went well"})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, []string{"a: 3 bytes", "it went well"}, a.results())
	require.NoFileExists(t, filepath.Join(a.dir, "count"))
}

func TestAResultHasABound(t *testing.T) {
	t.Parallel()
	a := newHands(t, "tools: [exec, read_file, search], approve: never, max_output: 2000", calls(
		"exec", `{"command":"yes | head -c 3000000"}`,
		"read_file", `{"path":"long"}`, "read_file", `{"path":"long","offset":500,"limit":2}`, "read_file", `{"path":"long","offset":5000}`,
		"search", `{"pattern":"line"}`,
	))
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	a.write("long", b.String())
	_, err := a.say("Hi")
	require.NoError(t, err)
	got := a.results()
	for _, text := range got {
		require.LessOrEqual(t, len(text), 2100)
	}
	require.Contains(t, got[0], "bytes left out")
	require.Contains(t, got[0], "(exit code 0)")
	require.True(t, strings.HasPrefix(got[1], "line 1\n"))
	require.Regexp(t, `\(lines 1 to \d+ of 1000; go on with offset \d+\)$`, got[1])
	require.Equal(t, "line 500\nline 501\n(lines 500 to 501 of 1000; go on with offset 502)", got[2])
	require.Equal(t, "(the file has 1000 lines)", got[3])
	require.Contains(t, got[4], "bytes left out")
}

func TestACommandOfAModelIsKilledAtItsTimeout(t *testing.T) {
	t.Parallel()
	a := newHands(t, "tools: [exec], approve: never, timeout: 100ms", calls("exec", `{"command":"echo begun; exec sleep 60"}`))
	_, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, []string{"begun\n(killed after 100ms)"}, a.results())
}

// hostFunc is a host with what its functions offer.
type hostFunc struct {
	engine.NoHost
	terminal func(context.Context, engine.Command) (engine.CommandResult, error)
	tools    []engine.HostTool
	call     func(name string, args any) (any, error)
	files    map[string]string
}

func (h hostFunc) Terminal(ctx context.Context, _ *engine.Task, c engine.Command) (engine.CommandResult, error) {
	if h.terminal == nil {
		return engine.CommandResult{}, engine.ErrNoTerminal
	}
	return h.terminal(ctx, c)
}

func (h hostFunc) Tools(context.Context, *engine.Task) ([]engine.HostTool, error) {
	return h.tools, nil
}

func (h hostFunc) CallTool(_ context.Context, _ *engine.Task, name string, args any) (any, error) {
	return h.call(name, args)
}

func (h hostFunc) ReadFile(_ context.Context, _ *engine.Task, path string) (string, error) {
	if h.files == nil {
		return "", engine.ErrNoFiles
	}
	text, ok := h.files[filepath.Base(path)]
	if !ok {
		return "", fmt.Errorf("read: %w", os.ErrNotExist)
	}
	return text, nil
}

func (h hostFunc) WriteFile(_ context.Context, _ *engine.Task, path, text string) error {
	if h.files == nil {
		return engine.ErrNoFiles
	}
	h.files[filepath.Base(path)] = text
	return nil
}

func TestFilesAreThoseOfTheEditorAndCommandsRunInItsTerminal(t *testing.T) {
	t.Parallel()
	a := newHands(t, allTools+", approve: never", calls(
		"edit_file", `{"path":"a","old_text":"unsaved","new_text":"saved"}`, "read_file", `{"path":"a"}`, "exec", `{"command":"make"}`,
	))
	a.write("a", "on the disk")
	host := hostFunc{files: map[string]string{"a": "unsaved text"}, terminal: func(_ context.Context, c engine.Command) (engine.CommandResult, error) {
		return engine.CommandResult{Output: strings.Join(c.Args, " ") + " in " + filepath.Base(c.Dir), ExitCode: 2}, nil
	}}
	a.host = host
	_, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "saved text", host.files["a"])
	require.Equal(t, "on the disk", a.read("a"))
	require.Equal(t, []string{"a: 10 bytes", "saved text", "sh -c make in " + filepath.Base(a.dir) + "\n(exit code 2)"}, a.results())
}

func TestToolsOfTheSessionAreOfferedAndCalled(t *testing.T) {
	t.Parallel()
	list := []engine.HostTool{
		{Name: "git__log", Description: "the log", ReadOnly: true, Schema: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
		{Name: "git__push", Title: "Push the branch"}, {Name: "db__drop"},
	}
	a := newHands(t, `tools: ["git__*"], approve: {git__log: never}`, calls("git__log", `{"n":"x"}`, "git__log", `{"n":2}`, "git__push", `{}`, "db__drop", `{}`))
	a.host = hostFunc{tools: list, call: func(name string, args any) (any, error) {
		if name == "git__push" {
			return nil, &engine.ToolError{Message: "no remote"}
		}
		return map[string]any{"got": args}, nil
	}}
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, "Push the branch?", turn.Questions[0].Payload.Message)
	_, err = a.resume(yes())
	require.NoError(t, err)
	got := a.results()
	require.Contains(t, got[0], "error: the arguments do not fit the tool")
	require.Equal(t, `{"got":{"n":2}}`, got[1])
	require.Equal(t, "error: no remote", got[2])
	require.Contains(t, got[3], `there is no tool "db__drop"; there are git__log, git__push`)
	require.Len(t, a.model.Requests()[0].Body["tools"], 2)
}

// A gate in front of the node shows what would run; a rejection leaves calls
// without an answer, and the next turn is possible all the same.
func TestAGateInFrontOfToolsShowsTheCalls(t *testing.T) {
	t.Parallel()
	a := newAgent(t, strings.ReplaceAll(hands, "HANDS", allTools+", approve: never")+"interrupt_before: [hands]\n",
		calls("exec", `{"command":"touch x"}`), modeltest.Text("all right"))
	turn, err := a.say("Hi")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"calls": []any{map[string]any{"tool": "exec", "arguments": `{"command":"touch x"}`}}}, turn.Questions[0].Shows)
	turn, err = a.resume(interrupt.Answer{Choice: interrupt.Reject})
	require.NoError(t, err)
	require.Equal(t, engine.Rejected, turn.Status)
	turn, err = a.say("Then not")
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)
	require.Equal(t, "This call was not run.", a.model.Requests()[1].Messages()[2]["content"])
	require.NoFileExists(t, filepath.Join(a.dir, "x"))
}

func TestMistakesOfAToolsNodeAreFoundWhenTheFileIsLoaded(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"tools: [readfile]":                 "did you mean read_file?",
		"tools: [rm]":                       "a tool of an MCP server is called SERVER__TOOL",
		"tools: []":                         "tools",
		"approve: never":                    "needs tools",
		"tools: [exec], approve: sometimes": "unknown name sometimes",
		"tools: [exec], approve: {write_file: always}": "not among its tools",
		"tools: [exec], approve: {exce: always}":       "did you mean exec?",
		"tools: [exec], approve: {exec: 'arg.x'}":      "did you mean args?",
		"tools: [exec], approve: [exec]":               "approve",
		"tools: [exec], timeout: 5":                    "timeout",
		"tools: [exec], max_output: 1":                 "max_output",
		`tools: ["mcp__["]`:                            "is no pattern",
	} {
		_, err := Load("x", []byte(strings.ReplaceAll(strings.ReplaceAll(hands, "HANDS", keys), "URL", "http://x")))
		require.ErrorContains(t, err, want, keys)
	}
}
