// Package editor is a scripted client of the Agent Client Protocol, for tests. It
// does what it is told to, also what is wrong, and checks every line of the agent
// against the published schema.
package editor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/integration/acpschema"
)

// Patience is how long an agent may be silent before a test says that it hangs.
// No test that passes waits for it.
const Patience = 60 * time.Second

// Object is a JSON object of the wire.
type Object = map[string]any

// Message is a line of the agent.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params Object          `json:"params"`
	Result Object          `json:"result"`
	Error  *Error          `json:"error"`
	Line   string          `json:"-"`
}

// Error is the error of a response.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    Object `json:"data"`
}

// Update gives the update of a session/update, nil if the message is none.
func (m Message) Update() Object {
	if m.Method != "session/update" {
		return nil
	}
	u, _ := m.Params["update"].(Object)
	return u
}

// Is reports whether it is an update of this kind.
func (m Message) Is(kind string) bool {
	return m.Update() != nil && m.Update()["sessionUpdate"] == kind
}

// Editor is one connection to an agent. It is for one goroutine.
type Editor struct {
	T    testing.TB
	Log  []Message // what came so far
	Cwd  string    // of sessions
	Ask  func(m Message) (result any, answer bool)
	Hang func() // called when the agent is silent; may say more

	in     io.Writer
	lines  chan Message
	lastID int

	mu      sync.Mutex
	checker *acpschema.Checker
	bad     []string
}

// New makes a client that writes to in and reads from out, until it ends. At the
// end of the test it says which lines did not fit the schema. Ask answers requests
// of the agent; at first it approves. An Error as result is sent as error; not
// answer means silence.
func New(tb testing.TB, in io.Writer, out io.Reader, cwd string) *Editor {
	tb.Helper()
	e := &Editor{
		T: tb, Cwd: cwd, Ask: Approve, Hang: func() {}, in: in, lines: make(chan Message, 4096),
		checker: acpschema.Load(tb).NewChecker(),
	}
	go func() {
		defer close(e.lines)
		e.read(out)
	}()
	tb.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		require.Empty(tb, e.bad, "lines that do not fit the schema")
	})
	return e
}

func (e *Editor) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return // half a line is what a killed process leaves
		}
		line = strings.TrimSuffix(line, "\n")
		m := Message{Line: line}
		e.mu.Lock()
		if err := e.checker.Agent([]byte(line)); err != nil {
			e.bad = append(e.bad, err.Error())
		}
		if len(line) > 10<<20 {
			e.bad = append(e.bad, fmt.Sprintf("a line of %d bytes", len(line)))
		}
		e.mu.Unlock()
		_ = json.Unmarshal([]byte(line), &m)
		e.lines <- m
	}
}

// Raw sends lines as they are, in one write. That the agent may be gone is found by
// what follows.
func (e *Editor) Raw(lines string) {
	e.mu.Lock()
	for _, line := range strings.Split(lines, "\n") {
		var m struct {
			Method *string `json:"method"`
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == nil {
			_ = e.checker.Client([]byte(line)) // it settles a request of the agent
		} else {
			e.checker.Sent([]byte(line))
		}
	}
	e.mu.Unlock()
	_, _ = io.WriteString(e.in, lines+"\n")
}

// Expect says that a request was written past the editor, so that its answer is one.
func (e *Editor) Expect(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checker.Sent([]byte(line))
}

// Send sends a message.
func (e *Editor) Send(m Object) {
	e.T.Helper()
	m["jsonrpc"] = "2.0"
	e.Raw(JSON(e.T, m))
}

// Request sends a request and gives its id.
func (e *Editor) Request(method string, params any) int {
	e.T.Helper()
	e.lastID++
	m := Object{"id": e.lastID, "method": method}
	if params != nil {
		m["params"] = params
	}
	e.Send(m)
	return e.lastID
}

// Notify sends a notification.
func (e *Editor) Notify(method string, params any) {
	e.T.Helper()
	e.Send(Object{"method": method, "params": params})
}

// Respond answers a request of the agent.
func (e *Editor) Respond(m Message, result any) {
	e.T.Helper()
	if failure, failed := result.(Error); failed {
		e.Send(Object{"id": m.ID, "error": Object{"code": failure.Code, "message": failure.Message}})
		return
	}
	e.Send(Object{"id": m.ID, "result": result})
}

// Next gives the next line, not ok if the agent has ended.
func (e *Editor) Next() (m Message, ok bool) {
	e.T.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case m, ok = <-e.lines:
		if ok {
			e.Log = append(e.Log, m)
		}
	case <-timer.C:
		e.Hang()
		require.FailNow(e.T, "the agent is silent")
	}
	return m, ok
}

// Rest reads all lines up to the agent's end.
func (e *Editor) Rest() {
	for {
		if _, ok := e.Next(); !ok {
			return
		}
	}
}

// Response reads up to the response to a request, and answers what the agent asks
// meanwhile. Not ok if the agent has ended.
func (e *Editor) Response(id any) (m Message, ok bool) {
	e.T.Helper()
	for {
		m, ok = e.Next()
		switch {
		case !ok:
			return m, false
		case m.Method == "" && string(m.ID) == JSON(e.T, id):
			return m, true
		case m.Method != "" && m.ID != nil:
			if result, answer := e.Ask(m); answer {
				e.Respond(m, result)
			}
		}
	}
}

// Until reads up to the first line of a method.
func (e *Editor) Until(method string) Message {
	e.T.Helper()
	for {
		m, ok := e.Next()
		require.True(e.T, ok, "the agent has ended")
		if m.Method == method {
			return m
		}
	}
}

// Call makes a request that must succeed, and gives its result.
func (e *Editor) Call(method string, params any) Object {
	e.T.Helper()
	m, ok := e.Response(e.Request(method, params))
	require.True(e.T, ok, "the agent has ended")
	require.Nil(e.T, m.Error, "%s: %s", method, m.Line)
	return m.Result
}

// Refused makes a request that must fail.
func (e *Editor) Refused(method string, params any) Error {
	e.T.Helper()
	m, ok := e.Response(e.Request(method, params))
	require.True(e.T, ok, "the agent has ended")
	require.NotNil(e.T, m.Error, "%s: %s", method, m.Line)
	return *m.Error
}

// Hello initializes. nil capabilities are none.
func (e *Editor) Hello(capabilities Object) *Editor {
	e.T.Helper()
	if capabilities == nil {
		capabilities = Object{}
	}
	e.Call("initialize", Object{"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": Object{"name": "editor", "version": "7"}})
	return e
}

// NewSession makes a session and gives its id.
func (e *Editor) NewSession() string {
	e.T.Helper()
	id, _ := e.Call("session/new", Object{"cwd": e.Cwd, "mcpServers": []any{}})["sessionId"].(string)
	require.NotEmpty(e.T, id)
	return id
}

// Load loads a session and gives what came until the answer.
func (e *Editor) Load(session string) []Message {
	e.T.Helper()
	before := len(e.Log)
	e.Call("session/load", Object{"sessionId": session, "cwd": e.Cwd, "mcpServers": []any{}})
	return e.Log[before:]
}

// Prompt makes the params of session/prompt.
func Prompt(session, text string) Object {
	return Object{"sessionId": session, "prompt": []any{Object{"type": "text", "text": text}}}
}

// Says prompts and gives the stop reason.
func (e *Editor) Says(session, text string) string {
	e.T.Helper()
	reason, _ := e.Call("session/prompt", Prompt(session, text))["stopReason"].(string)
	return reason
}

// JSON writes a value.
func JSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	require.NoError(tb, err)
	return string(text)
}

// Chosen is the outcome of an option.
func Chosen(option string) Object {
	return Object{"outcome": Object{"outcome": "selected", "optionId": option}}
}

// Dismissed is the outcome of a dialog that was closed.
func Dismissed() Object { return Object{"outcome": Object{"outcome": "cancelled"}} }

// Approve and Reject answer every dialog.
func Approve(Message) (any, bool) { return Chosen("approve"), true }

// Reject is Approve's opposite.
func Reject(Message) (any, bool) { return Chosen("reject"), true }

// Silent answers nothing.
func Silent(Message) (any, bool) { return nil, false }

// Text joins the text of the messages of a kind, one a line.
func Text(log []Message, kind string) string {
	var all strings.Builder
	for _, m := range log {
		if m.Is(kind) {
			content, _ := m.Update()["content"].(Object)
			text, _ := content["text"].(string)
			all.WriteString(text + "\n")
		}
	}
	return all.String()
}

// ToolCalls folds what was told of tool calls, and checks that each was announced
// once, before anything else was told of it.
func ToolCalls(tb testing.TB, log []Message) (calls map[string]Object, order []string) {
	tb.Helper()
	calls = map[string]Object{}
	for _, m := range log {
		u := m.Update()
		id, _ := u["toolCallId"].(string)
		switch {
		case m.Is("tool_call"):
			require.NotContains(tb, calls, id, "announced twice: %s", m.Line)
			calls[id] = Object{"status": "pending"}
			order = append(order, id)
		case m.Is("tool_call_update"):
			require.Contains(tb, calls, id, "not announced: %s", m.Line)
		default:
			continue
		}
		for name, v := range u {
			calls[id][name] = v
		}
	}
	return calls, order
}
