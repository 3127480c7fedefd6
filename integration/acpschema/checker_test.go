package acpschema_test

import (
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/integration/acpschema"
)

// A check that cannot fail proves nothing, so most of this is wrong on purpose.
func TestLinesOfAnAgentAreCheckedAgainstTheirOwnMethod(t *testing.T) {
	t.Parallel()
	schema := acpschema.Load(t)

	update := func(u string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + u + `}}`
	}
	for _, test := range []struct {
		name   string
		client string // a request before it
		agent  string
		want   string // part of the error; empty for a good line
	}{
		{"initialize", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[]}}`, ""},
		{"initialize with a result of another method", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"stopReason":"end_turn"}}`, "result of initialize"},
		{"initialize with a misspelt capability", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSessions":true}}}`, "loadSessions"},
		{"prompt", `{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			`{"jsonrpc":"2.0","id":"p","result":{"stopReason":"end_turn"}}`, ""},
		{"prompt with an unknown reason", `{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			`{"jsonrpc":"2.0","id":"p","result":{"stopReason":"paused"}}`, "stopReason"},
		{"prompt answered with null", `{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			`{"jsonrpc":"2.0","id":"p","result":null}`, "result of session/prompt"},
		{"an error", `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m","data":{"a":1}}}`, ""},
		{"an error without a message", `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603}}`, "error for session/prompt"},
		{"an answer to nothing", "", `{"jsonrpc":"2.0","id":9,"result":{}}`, "not open"},
		{"an error with the id null", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, ""},
		{"a result with the id null", "", `{"jsonrpc":"2.0","id":null,"result":{}}`, "not open"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"method":"session/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"sessions":[]},"error":{"code":1,"message":"m"}}`, "either"},
		{"sessions null", `{"jsonrpc":"2.0","id":1,"method":"session/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"sessions":null}}`, "sessions"},
		{"an id of another type", `{"jsonrpc":"2.0","id":1,"method":"session/list"}`,
			`{"jsonrpc":"2.0","id":"1","result":{"sessions":[]}}`, "not open"},

		{"a chunk", "", update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}`), ""},
		{"a chunk without text", "", update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}`), "params of session/update"},
		{"a chunk with a misspelt field inside", "", update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"","annotation":{}}}`), "params of session/update"},
		{"an unknown update", "", update(`{"sessionUpdate":"state_update"}`), "params of session/update"},
		{"a mode update as the prose has it", "", update(`{"sessionUpdate":"current_mode_update","modeId":"m"}`), "params of session/update"},
		{"a tool call with bare content", "", update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"t","content":[{"type":"text","text":"x"}]}`), "params of session/update"},
		{"a tool call with a status of version 2", "", update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"t","status":"cancelled"}`), "params of session/update"},
		{"an update with an id", "", `{"jsonrpc":"2.0","id":1,"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}`, "with an id"},

		{"a permission request", "", `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","name":"A","kind":"allow_once"}]}}`, ""},
		{"a permission request with an unknown kind", "", `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","name":"A","kind":"allow"}]}}`, "params of session/request_permission"},
		{"a permission request as a notification", "", `{"jsonrpc":"2.0","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}}`, "with an id"},
		{"a method of the agent itself", "", `{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}`, "itself"},
		{"a method of nobody", "", `{"jsonrpc":"2.0","method":"session/updates","params":{}}`, "unknown method"},
		{"a form without a scope", "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}`, "params of elicitation/create"},

		{"text", "", `starting`, "JSON"},
		{"an array", "", `[]`, "JSON"},
		{"two values", "", `{"jsonrpc":"2.0","method":"_x"} {}`, "more than one"},
		{"no version", "", `{"method":"_x"}`, "jsonrpc"},
		{"a root member of our own", "", `{"jsonrpc":"2.0","method":"_x","meta":{}}`, "unknown member"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checker := schema.NewChecker()
			if test.client != "" {
				if err := checker.Client([]byte(test.client)); err != nil {
					t.Fatal(err)
				}
			}
			err := checker.Agent([]byte(test.agent))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestALineOfAClientMayHaveMembersOfItsOwn(t *testing.T) {
	t.Parallel()
	checker := acpschema.Load(t).NewChecker()
	if err := checker.Client([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"archived":true}}`)); err != nil {
		t.Error(err)
	}
	if err := checker.Client([]byte(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":3}}`)); err == nil {
		t.Error("a cwd that is a number was accepted")
	}
}
