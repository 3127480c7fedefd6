//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/store"
)

// A client that does everything wrong hurts itself at most: its own good requests
// are answered, the dialog of another session stays open and can be answered, and
// the program does not grow.
func TestAClientThatIsHostileOnPurpose(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e := h.serve()
	write := func(text string) {
		_, err := io.WriteString(e.in, text)
		require.NoError(t, err)
	}
	// The wrong order: work before initialize, and answers that nobody asked for.
	require.Equal(t, -32600, e.Refused("session/prompt", editor.Prompt("sess_x", "echo x")).Code)
	answers := func() {
		for i := range 200 {
			write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"outcome":{"outcome":"selected","optionId":"approve"}}}`+"\n", i))
			write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","error":{"code":-1,"message":"no"}}`+"\n", i))
		}
		write(`{"jsonrpc":"2.0","id":null,"result":{}}` + "\n")
	}
	answers()
	e.hello(nil)
	answers()

	// Another session, with a dialog that is open all the time.
	victim := e.NewSession()
	prompt := e.Request("session/prompt", editor.Prompt(victim, does("A", "1", "")))
	permission := e.Until("session/request_permission")
	alive := func() {
		t.Helper()
		list := e.Call("session/list", object{"cwd": h.dir})
		require.NotEmpty(t, list["sessions"])
		require.Equal(t, "paused", h.status(victim))
		require.Empty(t, h.effects())
	}

	// Half lines: a request in pieces, and between them nothing else is answered.
	e.Expect(`{"id":"half","method":"session/list"}`)
	for _, piece := range []string{`{"jsonrpc":"2.0",`, `"id":"half","method":"session/`, `list","params":{"cwd":"`, h.dir, `"}}`, "\n"} {
		write(piece)
	}
	m, _ := e.Response("half")
	require.NotNil(t, m.Result["sessions"], m.Line)
	alive()

	// One id for two requests: both are answered.
	twice := `{"jsonrpc":"2.0","id":"twice","method":"session/list","params":{}}` + "\n"
	e.Expect(twice)
	e.Expect(twice)
	write(twice + twice)
	for range 2 {
		m, _ := e.Response("twice")
		require.NotNil(t, m.Result["sessions"], m.Line)
	}
	// The id of the victim's prompt, for another request.
	write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/load","params":{"sessionId":"sess_none","cwd":"/","mcpServers":[]}}`+"\n", prompt))
	m, _ = e.Response(prompt)
	require.NotNil(t, m.Error, "of the load: the prompt is not over")
	require.Equal(t, -32002, m.Error.Code)
	e.Expect(fmt.Sprintf(`{"id":%d,"method":"session/prompt"}`, prompt))
	alive()

	// A line of 100 MiB.
	write(`{"jsonrpc":"2.0","id":"large","method":"session/list","params":{"cwd":"`)
	for range 100 {
		write(strings.Repeat("x", 1<<20))
	}
	write("\"}}\n")
	m, _ = e.Next()
	require.NotNil(t, m.Error, m.Line)
	require.Equal(t, "null", string(m.ID), "who reads no further cannot know the id")
	require.Contains(t, m.Error.Message, "longer than 33554432 bytes")
	alive()

	// Nonsense in great number, which is answered line by line or not at all.
	go write(strings.Repeat("{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"sess_none\"}}\n[1,\n\x00\n", 3000))
	for range 6000 {
		m, _ := e.Next()
		require.NotNil(t, m.Error, m.Line)
		require.Equal(t, "null", string(m.ID))
	}
	e.Log = nil
	alive()

	// 1,000 sessions, all asked for at once.
	var asked strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&asked, `{"jsonrpc":"2.0","id":"new %d","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`+"\n", i, h.dir)
	}
	for line := range strings.Lines(asked.String()) {
		e.Expect(line)
	}
	go write(asked.String())
	sessions := map[any]bool{}
	for len(sessions) < 1000 {
		m, ok := e.Next()
		require.True(t, ok)
		if m.Method == "" {
			require.Nil(t, m.Error, m.Line)
			sessions[m.Result["sessionId"]] = true
		}
	}
	alive()

	// And the other session: nobody has decided for it, and now its user does.
	e.Respond(permission, editor.Chosen("approve"))
	m, _ = e.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"], m.Line)
	require.Equal(t, 1, counts(h.effects())["A 1"])
	require.Less(t, peakMemory(t, e.cmd.Process.Pid), 300<<20)
	require.Zero(t, e.leave())
	h.verify()
}

// rawClient writes to agent serve and reads its lines only when it is told to.
type rawClient struct {
	h   *harness
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *harness) raw() *rawClient {
	h.t.Helper()
	cmd := exec.Command(h.bin, "serve")
	cmd.Dir, cmd.Env = h.dir, append(cleanEnv(), "HOLDFAST_DB="+h.db)
	in, err := cmd.StdinPipe()
	require.NoError(h.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, cmd.Start())
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := &rawClient{h: h, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	c.send(1, "initialize", object{"protocolVersion": 1})
	c.response(1)
	return c
}

func (c *rawClient) send(id int, method string, params any) {
	c.h.t.Helper()
	message := object{"jsonrpc": "2.0", "method": method, "params": params}
	if id > 0 {
		message["id"] = id
	}
	_, err := io.WriteString(c.in, editor.JSON(c.h.t, message)+"\n")
	require.NoError(c.h.t, err)
}

// response reads up to a response and keeps nothing but how much it was.
func (c *rawClient) response(id int) (result string, updates, bytes int) {
	c.h.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	for {
		line, err := c.out.ReadString('\n')
		require.NoError(c.h.t, err)
		var m message
		if strings.Contains(line[:min(len(line), 200)], `"method":"session/update"`) {
			updates++
			bytes += len(line)
			continue
		}
		require.NoError(c.h.t, json.Unmarshal([]byte(line), &m))
		if string(m.ID) == fmt.Sprint(id) && m.Method == "" {
			return line, updates, bytes
		}
	}
}

// longThread makes a thread with a transcript of so many entries, each of 4 KiB.
func (h *harness) longThread(entries int) string {
	h.t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, h.db, store.Options{Synchronous: "NORMAL"})
	require.NoError(h.t, err)
	text := strings.Repeat("0123456789abcdef", 256)
	graph := engine.MustCompile(engine.Definition{
		Name: "talks", Channels: map[string]engine.Channel{"prompt": {}, "response": {}},
		Nodes: map[string]engine.Node{"say": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
			t.Say("a", text)
			t.Say("b", text)
			return engine.Set("response", text[1:]), nil
		}}},
		Edges: []engine.Edge{{From: engine.Start, To: "say"}},
	})
	e := engine.New(graph, s, engine.Options{})
	for range entries / 4 {
		_, err := e.Start(ctx, "long", engine.Input{Values: engine.Values{"prompt": text}, Text: text, Cwd: h.dir})
		require.NoError(h.t, err)
	}
	require.NoError(h.t, s.Close())
	return "long"
}

// A transcript of 10,000 entries is streamed: what the program holds does not grow
// with it, and not either where its reader is slow.
func TestALongTranscriptIsStreamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const entries = 10_000
	load := object{"sessionId": h.longThread(entries), "cwd": h.dir, "mcpServers": []any{}}
	c := h.raw()
	before := peakMemory(t, c.cmd.Process.Pid)
	c.send(2, "session/load", load)
	line, updates, bytes := c.response(2)
	require.Contains(t, line, `"result"`)
	require.GreaterOrEqual(t, updates, entries)
	require.Greater(t, bytes, entries*4<<10)
	after := peakMemory(t, c.cmd.Process.Pid)
	t.Logf("before %d MiB, with %d MiB of updates %d MiB", before>>20, bytes>>20, after>>20)
	require.Less(t, after-before, 30<<20, "%d MiB were streamed", bytes>>20)

	// Now it does not read. The connection lives: what it sends is done.
	c.send(0, "session/cancel", object{"sessionId": "long"})
	c.send(3, "session/load", load)
	c.send(4, "session/new", object{"cwd": h.dir, "mcpServers": []any{}})
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		if out := h.run("threads", "--json").stdout; strings.Contains(out, "sess_") {
			break
		}
		require.True(t, time.Now().Before(deadline), "a reader that is slow keeps others from being served")
	}
	slow := peakMemory(t, c.cmd.Process.Pid)
	require.Less(t, slow-before, 40<<20, "what is not read waits in the file, not in memory")
	_, more, _ := c.response(3)
	require.Greater(t, more, entries/2)
	require.NoError(t, c.in.Close())
	_, err := io.Copy(io.Discard, c.out)
	require.NoError(t, err)
	require.NoError(t, c.cmd.Wait())
	h.verify()
}
