package acp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// desk is a server on a file, to which clients can come and go.
type desk struct {
	t      testing.TB
	dir    string
	store  *store.Store
	config acp.Config
	log    io.Writer
}

func newDesk(t testing.TB, adapter acp.Adapter, graphs ...*engine.Graph) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), log: io.Discard}
	if os.Getenv("HOLDFAST_TEST_LOG") != "" {
		d.log = os.Stderr
	}
	s, err := store.Open(context.Background(), filepath.Join(d.dir, "agent.db"), store.Options{})
	require.NoError(t, err)
	d.store = s
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	d.config = acp.Config{
		Store: s, Graphs: graphs, Name: "test", Version: "1",
		Adapter: func(*engine.Graph) acp.Adapter { return adapter },
		Log:     slog.New(slog.NewTextHandler(d.log, nil)),
	}
	return d
}

// visitor is a client at the desk.
type visitor struct {
	*editor.Editor
	in    *io.PipeWriter
	ended chan struct{}
}

// client begins a connection and initializes it.
func (d *desk) client(capabilities editor.Object) *visitor {
	d.t.Helper()
	server, err := acp.NewServer(d.config)
	require.NoError(d.t, err)
	r, in := io.Pipe()
	out, w := io.Pipe()
	v := &visitor{in: in, ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		_ = server.Serve(context.Background(), r, w)
		_ = w.Close()
	}()
	v.Editor = editor.New(d.t, in, out, d.dir)
	d.t.Cleanup(v.leave)
	v.Hello(capabilities)
	return v
}

// leave closes the connection and waits until the server is done with it.
func (v *visitor) leave() {
	_ = v.in.Close()
	v.Rest()
	<-v.ended
}

// answered is what the thread's channel holds.
func (d *desk) channel(thread, name string) any {
	d.t.Helper()
	view, err := d.store.At(context.Background(), thread, 0)
	require.NoError(d.t, err)
	return view.State[name]
}

func (d *desk) status(thread string) engine.Status {
	d.t.Helper()
	view, err := d.store.At(context.Background(), thread, 0)
	require.NoError(d.t, err)
	return view.Thread.Status
}

// The graphs of these tests.

func set(channel string, v any) engine.Func {
	return func(context.Context, *engine.Task) (engine.Output, error) { return engine.Set(channel, v), nil }
}

// echo replies with its prompt.
func echo(_ context.Context, t *engine.Task) (engine.Output, error) {
	return engine.Set("response", "you said: "+fmt.Sprint(t.Get("prompt"))), nil
}

func channels(names ...string) map[string]engine.Channel {
	out := map[string]engine.Channel{"prompt": {}, "response": {}}
	for _, name := range names {
		out[name] = engine.Channel{}
	}
	return out
}

func single(name string, run engine.Func) *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name: name, Channels: channels("answer"),
		Nodes: map[string]engine.Node{name: {Run: run}},
		Edges: []engine.Edge{{From: engine.Start, To: name}, {From: name, To: engine.End}},
	})
}

// asking asks once and replies with the answer.
func asking(a engine.Ask) *engine.Graph {
	return single("asker", func(_ context.Context, t *engine.Task) (engine.Output, error) {
		answer, err := t.Ask(a)
		if err != nil {
			return engine.Output{}, err
		}
		return engine.Set("response", "answer: "+string(appendJSON(answer.Value))).Set("answer", answer.Value), nil
	})
}

// gated has a gate in front of its node, which replies.
func gated(run engine.Func) *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name: "gated", Channels: channels(),
		Nodes:           map[string]engine.Node{"work": {Run: run}},
		Edges:           []engine.Edge{{From: engine.Start, To: "work"}},
		InterruptBefore: []engine.Gate{{Node: "work"}},
	})
}

func appendJSON(v any) []byte {
	switch v := v.(type) {
	case string:
		return strconv.AppendQuote(nil, v)
	default:
		return fmt.Append(nil, v)
	}
}

var errBroken = errors.New("the disk of the node is full")

func TestAPromptRunsATurnAndItsReplyComesBeforeTheResponse(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("echo", echo))
	c := d.client(nil)
	s := c.NewSession()
	require.Regexp(t, `^sess_[0-9a-f]{32}$`, s)
	require.Equal(t, "end_turn", c.Says(s, "hello"))
	last := c.Log[len(c.Log)-1]
	require.Equal(t, "end_turn", last.Result["stopReason"], "the response is the last line")
	require.Equal(t, "you said: hello\n", editor.Text(c.Log, "agent_message_chunk"))
	titles := 0
	for _, m := range c.Log {
		if m.Is("session_info_update") {
			titles++
			require.Equal(t, "hello", m.Update()["title"])
		}
	}
	require.Equal(t, 1, titles)
	require.Equal(t, "end_turn", c.Says(s, "again"))
	require.Equal(t, 2, len(editor.Text(c.Log, "agent_message_chunk"))/len("you said: hello\n"))
}

func TestAFailedTurnIsAnErrorThatNamesNodeAndCause(t *testing.T) { // acp-cases 49, 50, 51, 54
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(func(context.Context, *engine.Task) (engine.Output, error) { return engine.Output{}, errBroken }))
	c := d.client(nil)
	s := c.NewSession()
	e := c.Refused("session/prompt", editor.Prompt(s, "x"))
	require.Equal(t, -32603, e.Code)
	require.Contains(t, e.Message, "work")
	require.Contains(t, e.Message, errBroken.Error())
	require.Equal(t, "work", e.Data["node"])
	calls, order := editor.ToolCalls(t, c.Log)
	require.Len(t, order, 1)
	require.Equal(t, "failed", calls[order[0]]["status"])
	require.Equal(t, engine.Failed, d.status(s))

	calls, again := editor.ToolCalls(t, d.client(nil).Load(s))
	require.Equal(t, order, again)
	require.Equal(t, "failed", calls[order[0]]["status"])
}

func TestTheStepLimitIsMaxTurnRequests(t *testing.T) {
	t.Parallel()
	loop := engine.MustCompile(engine.Definition{
		Name: "loop", Channels: channels(),
		Nodes:            map[string]engine.Node{"a": {Run: set("response", "x")}},
		Edges:            []engine.Edge{{From: engine.Start, To: "a"}},
		ConditionalEdges: []engine.ConditionalEdge{{From: "a", Route: func(engine.State) ([]string, error) { return []string{"a"}, nil }, Routes: map[string]string{"a": "a", "end": engine.End}}},
	})
	d := newDesk(t, acp.Adapter{}, loop)
	c := d.client(nil)
	require.Equal(t, "max_turn_requests", c.Says(c.NewSession(), "go"))
	for _, m := range c.Log {
		require.False(t, m.Is("plan"), "a graph with a loop has no plan")
	}
}

func TestAPanicInANodeFailsTheTurnAndNotTheAgent(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("bad", func(context.Context, *engine.Task) (engine.Output, error) { panic("oh") }))
	c := d.client(nil)
	s := c.NewSession()
	require.Contains(t, c.Refused("session/prompt", editor.Prompt(s, "x")).Message, "oh")
	require.Contains(t, c.Refused("session/prompt", editor.Prompt(s, "x")).Message, "oh")
}

// blocked is a node that says that it runs and waits for its end.
func blocked(running chan<- string) engine.Func {
	return func(ctx context.Context, t *engine.Task) (engine.Output, error) {
		running <- t.Thread()
		<-ctx.Done()
		return engine.Output{}, context.Cause(ctx)
	}
}

func TestASecondPromptIsRefusedAtOnce(t *testing.T) { // acp-cases 62
	t.Parallel()
	running := make(chan string, 4)
	d := newDesk(t, acp.Adapter{}, single("wait", blocked(running)))
	c := d.client(nil)
	s, other := c.NewSession(), c.NewSession()
	first := c.Request("session/prompt", editor.Prompt(s, "a"))
	<-running
	e := c.Refused("session/prompt", editor.Prompt(s, "b"))
	require.Equal(t, -32010, e.Code)
	require.Equal(t, "session_busy", e.Data["reason"])
	second := c.Request("session/prompt", editor.Prompt(other, "c"))
	<-running

	c.Notify("session/cancel", editor.Object{"sessionId": s}) // acp-cases 6: of this session only
	m, _ := c.Response(first)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	require.Equal(t, engine.Cancelled, d.status(s))
	require.Equal(t, engine.Running, d.status(other))
	c.Notify("$/cancel_request", editor.Object{"requestId": second})
	m, _ = c.Response(second)
	require.Equal(t, "cancelled", m.Result["stopReason"])
	require.Empty(t, editor.Text(c.Log, "agent_message_chunk"), "acp-cases 2: no text for a user's cancel")
}

func TestCancelsAtOddTimes(t *testing.T) { // acp-cases 4, 7, 8, 12, 16
	t.Parallel()
	running := make(chan string, 4)
	d := newDesk(t, acp.Adapter{}, single("wait", blocked(running)), single("echo", echo))
	c := d.client(nil)
	s := c.NewSession()
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	c.Notify("session/cancel", editor.Object{"sessionId": "nobody"})
	// Both lines in one write: the cancel finds its prompt.
	prompt := editor.JSON(t, editor.Object{"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": editor.Prompt(s, "x")})
	c.Raw(prompt + "\n" + editor.JSON(t, editor.Object{"jsonrpc": "2.0", "method": "session/cancel", "params": editor.Object{"sessionId": s}}))
	m, _ := c.Response("p")
	require.Equal(t, "cancelled", m.Result["stopReason"])
	c.Notify("session/cancel", editor.Object{"sessionId": s})
	c.Call("session/set_config_option", editor.Object{"sessionId": s, "configId": "graph", "value": "echo"})
	require.Equal(t, "end_turn", c.Says(s, "hello"), "a cancel of an earlier prompt is not for this one")
}

func TestAnInterruptedPromptKeepsItsQuestion(t *testing.T) {
	t.Parallel()
	none := acp.Adapter{InterruptPermission: func(interrupt.Question) (*acp.Permission, error) { return nil, nil }}
	d := newDesk(t, none, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	e := c.Refused("session/prompt", editor.Prompt(s, "x"))
	require.Equal(t, "NG.Interrupted", e.Data["code"])
	require.Equal(t, s+"@2", e.Data["payload"].(map[string]any)["checkpoint_id"])
	require.Equal(t, engine.Paused, d.status(s))
	require.Equal(t, "end_turn", c.Says(s, " Approve "), "the text names an option")
	require.Equal(t, "ran\n", editor.Text(c.Log, "agent_message_chunk"))
}
