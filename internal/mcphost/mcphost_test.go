//go:build unix

package mcphost

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/toolserver"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

func TestMain(m *testing.M) {
	toolserver.Main()
	os.Exit(m.Run())
}

func started(mode string, env ...string) Server {
	return Server{Name: mode, Command: toolserver.Command(), Env: append(env, toolserver.Variable+"="+mode)}
}

// problems collects what is reported.
type problems struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func newProblems() *problems { return &problems{more: make(chan struct{}, 1000)} }

func (p *problems) report(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, problem)
	p.more <- struct{}{}
}

func (p *problems) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.all, "\n")
}

func (p *problems) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

func connect(t *testing.T, o Options, servers ...Server) (*Set, *problems) {
	t.Helper()
	p := newProblems()
	o.Report, o.Name, o.Version = p.report, "test", "1"
	s := Connect(servers, o)
	t.Cleanup(s.Close)
	return s, p
}

func names(t *testing.T, s *Set) []string {
	t.Helper()
	tools, err := s.Tools(context.Background())
	require.NoError(t, err)
	var all []string
	for _, tool := range tools {
		all = append(all, tool.Name)
	}
	return all
}

func call(t *testing.T, s *Set, name string, args map[string]any) any {
	t.Helper()
	v, err := s.Call(context.Background(), name, args)
	require.NoError(t, err)
	return v
}

func TestToolsAreListedAndCalledOverEveryTransport(t *testing.T) {
	t.Parallel()
	streamable := httptest.NewServer(toolserver.Handler(toolserver.New(), false))
	t.Cleanup(streamable.Close)
	sse := httptest.NewServer(toolserver.Handler(toolserver.New(), true))
	t.Cleanup(sse.Close)
	dir := t.TempDir()
	stdio := started(toolserver.Good, "GIVEN=a value")
	for name, server := range map[string]Server{
		"stdio": stdio,
		"http":  {URL: streamable.URL, Headers: []Header{{"X-Token", "secret"}}},
		"sse":   {URL: sse.URL, SSE: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.Name = "my server!"
			s, p := connect(t, Options{Dir: dir, Roots: []string{dir}}, server)
			tools, err := s.Tools(context.Background())
			require.NoError(t, err)
			require.Empty(t, p.String())
			byName := map[string]engine.HostTool{}
			for _, tool := range tools {
				byName[tool.Name] = tool
			}
			add := byName["my_server__add"]
			require.Equal(t, "Add", add.Title)
			require.Equal(t, "adds two numbers", add.Description)
			require.True(t, add.ReadOnly)
			require.Contains(t, add.Schema["properties"], "a")
			require.False(t, byName["my_server__echo"].ReadOnly)

			require.Equal(t, map[string]any{"sum": float64(5)}, call(t, s, "my_server__add", map[string]any{"a": 2, "b": 3}))
			require.Equal(t, "echo: hi", call(t, s, "my_server__echo", map[string]any{"text": "hi"}))
			image := call(t, s, "my_server__image", map[string]any{"text": ""}).([]any)
			require.Equal(t, "image/png", image[1].(map[string]any)["mimeType"])
			switch name {
			case "stdio":
				real, err := filepath.EvalSymlinks(dir)
				require.NoError(t, err)
				require.Equal(t, real+" a value", call(t, s, "my_server__where", map[string]any{"text": ""}))
			case "http":
				require.Equal(t, "secret", call(t, s, "my_server__header", map[string]any{"text": ""}))
			}

			var said *engine.ToolError
			_, err = s.Call(context.Background(), "my_server__fail", map[string]any{"text": ""})
			require.ErrorAs(t, err, &said)
			require.Contains(t, said.Message, "the disk is full")
			for tool, args := range map[string]any{
				"my_server__echo": map[string]any{"text": 1}, "my_server__none": nil, "other__echo": nil, "echo": nil, "": nil, "my_server__add": "text",
			} {
				_, err = s.Call(context.Background(), tool, args)
				require.ErrorAs(t, err, &said, tool)
				require.NotErrorIs(t, err, engine.ErrInDoubt)
			}

			// The list of tools changes. Over HTTP the news has a connection of its own,
			// which may come later.
			if name == "stdio" {
				call(t, s, "my_server__grow", map[string]any{"text": ""})
				require.Equal(t, "grown", callUntilThere(t, s, "my_server__grown"))
			}
		})
	}
}

// callUntilThere calls a tool of which the news is on its way.
func callUntilThere(t *testing.T, s *Set, name string) any {
	t.Helper()
	for range 1000 {
		v, err := s.Call(context.Background(), name, map[string]any{"text": ""})
		if err == nil {
			return v
		}
		call(t, s, "my_server__echo", map[string]any{"text": ""}) // a round trip
	}
	require.FailNow(t, "the tool is not there")
	return nil
}

func TestAServerThatIsNoGoodIsReportedAndTheOthersWork(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	s, p := connect(t, Options{Farewell: 100 * time.Millisecond},
		started(toolserver.Crash), started(toolserver.Long), started(toolserver.Refuse),
		Server{Name: "missing", Command: "/no/such/program"}, Server{Name: "nothing"}, Server{Name: "url", URL: "ftp://x"},
		Server{Name: "404", URL: gone.URL}, started(toolserver.Garbage), started(toolserver.Good))
	all := names(t, s)
	require.Contains(t, all, "good__add")
	require.Contains(t, all, "garbage__add", "what is no message is skipped")
	for _, name := range all {
		require.Contains(t, []string{"good", "garbage"}, nameOfServer(name))
	}
	require.Equal(t, "echo: x", call(t, s, "garbage__echo", map[string]any{"text": "x"}))
	for _, want := range []string{
		`"crash" could not be started: `, "exit code 3", "no such database",
		`"long" could not be started: `, "a line of more than 16 MiB", `"refuse" could not be started: `, "never heard of it",
		`"missing" could not be started: `, `"nothing" could not be started: it has neither`, `"url" could not be started: "ftp://x" is no URL`, `"404" could not be started: `,
	} {
		require.Contains(t, p.String(), want)
	}
	require.Equal(t, 7, p.count(), p)
	_, err := s.Call(context.Background(), "crash__add", nil)
	require.ErrorContains(t, err, "no such database")
	require.NotErrorIs(t, err, engine.ErrInDoubt, "nothing was called")
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	s, p := connect(t, Options{Patience: 300 * time.Millisecond, Farewell: 100 * time.Millisecond}, started(toolserver.Hang))
	require.Empty(t, names(t, s))
	require.Equal(t, `MCP server "hang" could not be started: it did not answer within 300ms`, p.String())
}

func TestAFloodIsBounded(t *testing.T) {
	t.Parallel()
	s, p := connect(t, Options{Farewell: 100 * time.Millisecond}, started(toolserver.Flood))
	require.Contains(t, names(t, s), "flood__echo", p)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		require.Equal(t, "echo: x", call(t, s, "flood__echo", map[string]any{"text": "x"}))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(32<<20))
	require.Greater(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "it did flood")
}

func TestADeadServerLeavesADoubtAndIsStartedAgain(t *testing.T) {
	t.Parallel()
	s, p := connect(t, Options{}, started(toolserver.Good))
	_, err := s.Call(context.Background(), "good__die", map[string]any{"text": ""})
	require.ErrorIs(t, err, engine.ErrInDoubt)
	<-p.more
	require.Contains(t, p.String(), `MCP server "good" has ended`)
	require.Equal(t, "echo: again", call(t, s, "good__echo", map[string]any{"text": "again"}))
}

func TestAServerThatDoesNotStartIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s, p := connect(t, Options{Clock: fake}, Server{Name: "missing", Command: "/no/such/program"})
	require.Empty(t, names(t, s))
	require.Empty(t, names(t, s))
	require.Equal(t, 1, p.count(), p)
	fake.Advance(again)
	require.Empty(t, names(t, s))
	require.Equal(t, 2, p.count(), p)
}

func TestACallThatIsGivenUpIsInDoubt(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, Options{}, started(toolserver.Good))
	up := filepath.Join(t.TempDir(), "up")
	require.NoError(t, syscall.Mkfifo(up, 0o600))
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("not wanted any more")
	go func() {
		_, _ = os.ReadFile(up) // until it runs
		cancel(why)
	}()
	_, err := s.Call(ctx, "good__hang", map[string]any{"text": up})
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, engine.ErrInDoubt)
	require.Equal(t, "echo: x", call(t, s, "good__echo", map[string]any{"text": "x"}), "the server is still of use")

	_, err = s.Tools(ctx)
	require.ErrorIs(t, err, why)
}

func TestProcessesEndWithTheSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return "PIDFILE=" + filepath.Join(dir, name) }
	s, _ := connect(t, Options{Farewell: 200 * time.Millisecond},
		started(toolserver.Good, file("good")), started(toolserver.Stubborn, file("stubborn")))
	require.NotEmpty(t, names(t, s))
	s.Close()
	for _, name := range []string{"good", "stubborn", "stubborn.child"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		require.NoError(t, err)
		requireGone(t, name, pid)
	}
	require.Empty(t, names(t, s), "nothing is started again")
	_, err := s.Call(context.Background(), "good__echo", nil)
	require.Error(t, err)
}

// requireGone waits for the end of a process that was killed: init has to bury it.
func requireGone(t *testing.T, name string, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	require.FailNow(t, name+" lives on")
}

func TestNamesAreUniqueAndSayWhichServer(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, test := range [][2]string{
		{"files", "files"}, {"files", "files_2"}, {"files_2", "files_2_2"}, {"a__b", "a_b"}, {"__a__", "a"}, {"", "server"}, {"日本", "server_2"}, {"My Files!", "My_Files"},
	} {
		name := serverName(test[0], taken)
		require.Equal(t, test[1], name)
		taken[name] = true
		for _, tool := range []string{"x", "_x", "x__y", "x/y.z", ""} {
			require.Equal(t, name, nameOfServer(toolName(name, tool, map[string]bool{})))
		}
	}
	require.Equal(t, "a__x_y_2", toolName("a", "x.y", map[string]bool{"a__x_y": true}))
}
