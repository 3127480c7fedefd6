package acp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"
)

// parsers are all that read what a peer sends, by name.
var parsers = map[string]func(json.RawMessage) (any, error){
	"initialize":           as(ParseInitialize),
	"authenticate":         as(ParseAuthenticate),
	"new":                  as(ParseNewSession),
	"load":                 as(ParseLoadSession),
	"resume":               as(ParseResumeSession),
	"list":                 as(ParseListSessions),
	"session":              as(ParseSession),
	"prompt":               as(ParsePrompt),
	"set_mode":             as(ParseSetMode),
	"set_config_option":    as(ParseSetConfigOption),
	"cancel_request":       as(ParseCancelRequest),
	"permission outcome":   as(ParsePermissionOutcome),
	"elicitation response": as(ParseElicitationResponse),
	"read file":            as(ParseReadTextFile),
	"create terminal":      as(ParseCreateTerminal),
	"terminal output":      as(ParseTerminalOutput),
	"terminal exit":        as(ParseTerminalExit),
}

func as[T any](parse func(json.RawMessage) (T, error)) func(json.RawMessage) (any, error) {
	return func(text json.RawMessage) (any, error) { return parse(text) }
}

func TestAMissingOrMalformedRequiredFieldIsNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ parser, params, want string }{
		{"initialize", ``, "params.protocolVersion is missing"},
		{"initialize", `null`, "params.protocolVersion is missing"},
		{"initialize", `[]`, "params must be an object, not an array"},
		{"initialize", `{"protocolVersion":"1"}`, "params.protocolVersion must be an integer, not a string"},
		{"initialize", `{"protocolVersion":1.5}`, "params.protocolVersion must be an integer, not the number 1.5"},
		{"initialize", `{"protocolVersion":-1}`, "params.protocolVersion must be between 0 and 65535"},
		{"initialize", `{"protocolVersion":65536}`, "params.protocolVersion must be between 0 and 65535"},
		{"initialize", `{"protocolVersion":1e400}`, "params.protocolVersion must be an integer, not the number 1e400"},
		{"initialize", `{"ProtocolVersion":1}`, "params.protocolVersion is missing"},
		{"initialize", `{"protocolVersion":1,"protocolVersion":1}`, "params.protocolVersion is there twice"},
		{"initialize", `{"protocolVersion":null}`, "params.protocolVersion must be an integer, not null"},
		{"authenticate", `{}`, "params.methodId is missing"},

		{"new", `{"mcpServers":[]}`, "params.cwd is missing"},
		{"new", `{"cwd":"/w"}`, "params.mcpServers is missing"},
		{"new", `{"cwd":"w","mcpServers":[]}`, `params.cwd must be an absolute path, not "w"`},
		{"new", `{"cwd":"","mcpServers":[]}`, `params.cwd must be an absolute path, not ""`},
		{"new", `{"cwd":7,"mcpServers":[]}`, "params.cwd must be a string, not the number 7"},
		{"new", `{"cwd":"/w","mcpServers":[],"additionalDirectories":["/a","b"]}`, `params.additionalDirectories[1] must be an absolute path, not "b"`},
		{"new", `{"cwd":"/w","mcpServers":[],"additionalDirectories":["/a",""]}`, `params.additionalDirectories[1] must be an absolute path, not ""`},
		{"new", `{"cwd":"/w","mcpServers":[],"additionalDirectories":[{}]}`, "params.additionalDirectories[0] must be a string, not an object"},
		{"new", `{"cwd":"/w","mcpServers":[],"additionalDirectories":"/a"}`, "params.additionalDirectories must be an array, not a string"},
		{"load", `{"cwd":"/w","mcpServers":[]}`, "params.sessionId is missing"},
		{"load", `{"sessionId":"s","cwd":"/w"}`, "params.mcpServers is missing"},
		{"load", `{"sessionId":true,"cwd":"/w","mcpServers":[]}`, "params.sessionId must be a string, not a boolean"},
		{"resume", `{"sessionId":"s"}`, "params.cwd is missing"},
		{"list", `{"cwd":"w"}`, `params.cwd must be an absolute path, not "w"`},
		{"list", `{"cursor":3}`, "params.cursor must be a string, not the number 3"},
		{"session", ``, "params.sessionId is missing"},
		{"session", `{"sessionId":null}`, "params.sessionId must be a string, not null"},

		{"prompt", `{"sessionId":"s"}`, "params.prompt is missing"},
		{"prompt", `{"sessionId":"s","prompt":"hello"}`, "params.prompt must be an array, not a string"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"text"}]}`, "params.prompt[0].text is missing"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"text":"b"}]}`, "params.prompt[1].type is missing"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"a","text":"b"}]}`, "params.prompt[0].text is there twice"},
		{"prompt", `{"sessionId":"s","prompt":["text"]}`, "params.prompt[0] must be an object, not a string"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"video","data":""}]}`, `params.prompt[0].type must be one of ["text" "image" "audio" "resource_link" "resource"], not "video"`},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"image","data":""}]}`, "params.prompt[0].mimeType is missing"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"resource_link","uri":"u"}]}`, "params.prompt[0].name is missing"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"resource","resource":{"uri":"u"}}]}`, "params.prompt[0].resource.text is missing"},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"resource","resource":{"uri":"u","blob":1}}]}`, "params.prompt[0].resource.blob must be a string, not the number 1"},

		{"set_mode", `{"sessionId":"s"}`, "params.modeId is missing"},
		{"set_config_option", `{"sessionId":"s","configId":"c"}`, "params.value is missing"},
		{"set_config_option", `{"sessionId":"s","configId":"c","value":3}`, "params.value must be true or false, not the number 3"},
		{"set_config_option", `{"sessionId":"s","configId":"c","value":true}`, `params.type must be "boolean" where the value is true or false`},
		{"cancel_request", `{}`, "params.requestId is missing"},
		{"cancel_request", `{"requestId":[]}`, "params.requestId is no id of a request: the id must be a string, an integer or null"},

		{"permission outcome", `null`, "result.outcome is missing"},
		{"permission outcome", `{"outcome":"selected"}`, "result.outcome must be an object, not a string"},
		{"permission outcome", `{"outcome":{"outcome":"selected"}}`, "result.outcome.optionId is missing"},
		{"permission outcome", `{"outcome":{"optionId":"allow"}}`, "result.outcome.outcome is missing"},
		{"permission outcome", `{"outcome":{"outcome":"approved","optionId":"allow"}}`, `result.outcome.outcome must be one of ["selected" "cancelled"], not "approved"`},
		{"permission outcome", `{"outcome":{"outcome":"selected","optionId":"no","optionId":"yes"}}`, "result.outcome.optionId is there twice"},
		{"permission outcome", `{"outcome":{"outcome":"selected","OptionId":"yes"}}`, "result.outcome.optionId is missing"},
		{"permission outcome", `{"outcome":{"outcome":"selected","optionId":null}}`, "result.outcome.optionId must be a string, not null"},
		{"elicitation response", `{}`, "result.action is missing"},
		{"elicitation response", `{"action":"accept","content":[]}`, "result.content must be an object, not an array"},
		{"elicitation response", `{"action":"accept","content":{"answer":{}}}`, "result.content.answer must be a string, a number, a boolean or an array of strings, not an object"},
		{"elicitation response", `{"action":"accept","content":{"answer":null}}`, "result.content.answer must be a string, a number, a boolean or an array of strings, not null"},
		{"elicitation response", `{"action":"accept","content":{"answer":["a",1]}}`, "result.content.answer[1] must be a string, not the number 1"},
		{"read file", `{}`, "result.content is missing"},
		{"create terminal", `null`, "result.terminalId is missing"},
		{"terminal output", `{"output":""}`, "result.truncated is missing"},
		{"terminal output", `{"output":"","truncated":0}`, "result.truncated must be true or false, not the number 0"},
	} {
		_, err := parsers[test.parser]([]byte(test.params))
		e, ok := err.(*jsonrpc2.Error)
		if !ok || e.Code != CodeInvalidParams || e.Message != test.want {
			t.Errorf("%s %s: error %v, want %q", test.parser, test.params, err, test.want)
			continue
		}
		if field, _, _ := strings.Cut(test.want, " "); !strings.Contains(string(*e.Data), field) {
			t.Errorf("%s %s: data %s", test.parser, test.params, *e.Data)
		}
	}
}

func TestAMalformedOptionalValueCountsAsAbsent(t *testing.T) {
	t.Parallel()
	yes := &Supported{}
	for _, test := range []struct {
		parser, params string
		want           any
	}{
		{"initialize", `{"protocolVersion":1}`, InitializeRequest{ProtocolVersion: 1}},
		{"initialize", `{"protocolVersion":2.0}`, InitializeRequest{ProtocolVersion: 2}},
		{"initialize", `{"protocolVersion":1,"clientCapabilities":7,"clientInfo":{"name":"n"},"_meta":[],"other":1}`, InitializeRequest{ProtocolVersion: 1}},
		{"initialize", `{"protocolVersion":1,"clientCapabilities":null,"clientInfo":null,"_meta":null}`, InitializeRequest{ProtocolVersion: 1}},
		{"initialize", `{"protocolVersion":1,"clientInfo":{"name":"n","version":"v","title":3}}`,
			InitializeRequest{ProtocolVersion: 1, ClientInfo: &Implementation{Name: "n", Version: "v"}}},
		{"initialize", `{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":"yes"},"terminal":1,"auth":[],
			"elicitation":{"form":{},"url":null},"session":{"configOptions":{"boolean":{}},"notices":true}}}`,
			InitializeRequest{ProtocolVersion: 1, ClientCapabilities: ClientCapabilities{
				FS:          FileSystemCapabilities{ReadTextFile: true},
				Elicitation: ElicitationCapabilities{Form: yes},
				Session:     ClientSessionCapabilities{ConfigOptions: ConfigOptionCapabilities{Boolean: yes}},
			}}},
		{"initialize", `{"protocolVersion":1,"clientCapabilities":{"terminal":true,"fs":null,"elicitation":{}}}`,
			InitializeRequest{ProtocolVersion: 1, ClientCapabilities: ClientCapabilities{Terminal: true}}},
		{"initialize", `{"protocolVersion":1,"clientCapabilities":{"terminal":true,"terminal":false}}`, InitializeRequest{ProtocolVersion: 1}},

		{"new", `{"cwd":"/w","mcpServers":null,"additionalDirectories":null}`, NewSessionRequest{CWD: "/w"}},
		{"new", `{"cwd":"/w","mcpServers":{}}`, NewSessionRequest{CWD: "/w", DroppedMCPServers: []string{"params.mcpServers must be an array, not an object"}}},
		{"new", `{"cwd":"/w","additionalDirectories":["/a"],"mcpServers":[
			{"name":"a","command":"/bin/a","args":["x"],"env":[{"name":"K","value":"V"}]},
			{"name":"b","command":"/bin/b"},
			{"type":"stdio","name":"c","command":"/bin/c","args":null,"env":null},
			{"type":"http","name":"d","url":"http://d","headers":[]},
			{"type":"acp","name":"e","id":"1"},
			7]}`,
			NewSessionRequest{CWD: "/w", AdditionalDirectories: []string{"/a"},
				MCPServers: List[MCPServer]{
					{Type: MCPStdio, Name: "a", Command: "/bin/a", Args: List[string]{"x"}, Env: List[Variable]{{Name: "K", Value: "V"}}},
					{Type: MCPStdio, Name: "c", Command: "/bin/c"},
					{Type: MCPHTTP, Name: "d", URL: "http://d", Headers: List[Variable]{}},
				},
				DroppedMCPServers: []string{
					"params.mcpServers[1].args is missing",
					`params.mcpServers[4].type must be one of ["stdio" "http" "sse"], not "acp"`,
					"params.mcpServers[5] must be an object, not the number 7",
				}}},
		{"resume", `{"sessionId":"s","cwd":"/w"}`, OpenSessionRequest{SessionID: "s", NewSessionRequest: NewSessionRequest{CWD: "/w"}}},
		{"list", ``, ListSessionsRequest{}},
		{"list", `{"cwd":null,"cursor":null}`, ListSessionsRequest{}},
		{"session", `{"sessionId":"","_meta":{"a":1.50}}`, SessionRequest{Meta: Meta{"a": json.RawMessage("1.50")}}},

		{"prompt", `{"sessionId":"s","prompt":[]}`, PromptRequest{SessionID: "s", Prompt: List[ContentBlock]{}}},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"resource_link","uri":"u","name":"n","size":"big","mimeType":null,"title":7,
			"annotations":{"audience":["user",1,"dog"],"priority":"high"}}]}`,
			PromptRequest{SessionID: "s", Prompt: List[ContentBlock]{{Type: ContentResourceLink, URI: "u", Name: "n",
				Annotations: &Annotations{Audience: []string{"user"}}}}}},
		{"prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"","annotations":7,"_meta":7,"data":7}]}`,
			PromptRequest{SessionID: "s", Prompt: List[ContentBlock]{TextBlock("")}}},
		{"set_config_option", `{"sessionId":"s","configId":"c","value":"v","type":"anything"}`, SetConfigOptionRequest{SessionID: "s", ConfigID: "c", Value: "v"}},
		{"set_config_option", `{"sessionId":"s","configId":"c","value":false,"type":"boolean"}`, SetConfigOptionRequest{SessionID: "s", ConfigID: "c", On: new(false)}},

		{"permission outcome", `{"outcome":{"outcome":"selected","optionId":""}}`, PermissionOutcome{Selected: true}},
		{"permission outcome", `{"outcome":{"outcome":"cancelled","optionId":"allow"}}`, PermissionOutcome{}},
		{"elicitation response", `{"action":"accept"}`, ElicitationResponse{Action: "accept"}},
		{"elicitation response", `{"action":"accept","content":{"a":1.50,"b":["x"],"c":false}}`, ElicitationResponse{Action: "accept",
			Content: map[string]json.RawMessage{"a": json.RawMessage("1.50"), "b": json.RawMessage(`["x"]`), "c": json.RawMessage("false")}}},
		{"elicitation response", `{"action":"decline","content":7}`, ElicitationResponse{Action: "decline"}},
		{"elicitation response", `{"action":"later"}`, ElicitationResponse{Action: "later"}},
		{"terminal output", `{"output":"o","truncated":true,"exitStatus":7}`, TerminalOutputResponse{Output: "o", Truncated: true}},
		{"terminal output", `{"output":"o","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}`, TerminalOutputResponse{Output: "o", ExitStatus: &TerminalExitStatus{ExitCode: new(uint32(0))}}},
		{"terminal exit", `null`, TerminalExitStatus{}},
		{"terminal exit", `{"exitCode":-1,"signal":"SIGKILL"}`, TerminalExitStatus{Signal: "SIGKILL"}},
	} {
		got, err := parsers[test.parser]([]byte(test.params))
		if err != nil {
			t.Errorf("%s %s: %v", test.parser, test.params, err)
		} else if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s %s:\n%+v, want\n%+v", test.parser, test.params, got, test.want)
		}
	}
}

func TestAnObjectWithTooManyMembersIsRefused(t *testing.T) {
	t.Parallel()
	params := `{"sessionId":"s"` + strings.Repeat(`,"":0`, maxMembers) + `}`
	if _, err := ParseSession([]byte(params)); err == nil {
		t.Error("it was accepted")
	}
}

func TestWhatOneFieldIsOthersAreNot(t *testing.T) {
	t.Parallel()
	// A content block writes the fields of its type only.
	full := ContentBlock{Text: "t", Data: "d", MimeType: "m", URI: "u", Name: "n", Title: "ti", Description: "de", Size: new(int64(3)),
		Resource: &ResourceContents{URI: "r", Text: "x", Blob: "b"}, Annotations: &Annotations{}, Meta: Meta{"k": json.RawMessage("1")}}
	for kind, want := range map[string]string{
		ContentText:         `{"type":"text","text":"t","annotations":{},"_meta":{"k":1}}`,
		ContentImage:        `{"type":"image","data":"d","mimeType":"m","uri":"u","annotations":{},"_meta":{"k":1}}`,
		ContentAudio:        `{"type":"audio","data":"d","mimeType":"m","annotations":{},"_meta":{"k":1}}`,
		ContentResourceLink: `{"type":"resource_link","uri":"u","name":"n","mimeType":"m","title":"ti","description":"de","size":3,"annotations":{},"_meta":{"k":1}}`,
		ContentResource:     `{"type":"resource","resource":{"uri":"r","text":"x"},"annotations":{},"_meta":{"k":1}}`,
	} {
		full.Type = kind
		if got, err := json.Marshal(full); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
		var back ContentBlock
		if err := json.Unmarshal([]byte(want), &back); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if again, _ := json.Marshal(back); string(again) != want {
			t.Errorf("%s: stored and read it is %s", kind, again)
		}
	}
	for _, bad := range []json.Marshaler{ContentBlock{}, ContentBlock{Type: "video"}, ContentBlock{Type: ContentResource}, ToolCallContent{}, ConfigOption{}, SessionNotification{}} {
		if text, err := bad.MarshalJSON(); err == nil {
			t.Errorf("%#v became %s", bad, text)
		}
	}
}
