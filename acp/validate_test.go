package acp

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/holdfast-agent/holdfast/integration/acpschema"
)

var (
	meta  = Meta{"x/y": json.RawMessage(`{"a":1}`)}
	yes   = &Supported{}
	block = TextBlock("")
)

// outgoing is every notification and request that can be sent, with all of its
// fields and with none.
var outgoing = []struct {
	method string
	call   bool
	params any
}{
	{MethodSessionRequestPermission, true, RequestPermissionRequest{}},
	{MethodSessionRequestPermission, true, RequestPermissionRequest{SessionID: "s", ToolCall: fullToolCall.Update(), Meta: meta,
		Options: List[PermissionOption]{{"a", "A", AllowOnce, meta}, {"b", "B", AllowAlways, nil}, {"c", "C", RejectOnce, nil}, {"d", "D", RejectAlways, nil}}}},
	{MethodElicitationCreate, true, ElicitationForm{}},
	{MethodElicitationCreate, true, ElicitationForm{SessionID: "s", ToolCallID: "t", Message: "m", Meta: meta, RequestedSchema: ElicitationSchema{
		Title: "t", Description: "d", Required: []string{"string"},
		Properties: map[string]ElicitationProperty{
			"string": {Type: "string", Title: "t", Description: "d", Default: json.RawMessage(`"x"`), MinLength: new(uint32(0)), MaxLength: new(uint32(9)), Pattern: "x*", Format: "date-time"},
			"choice": {Type: "string", Enum: []string{"a"}},
			"titled": {Type: "string", OneOf: []EnumOption{{"a", "A", "first"}}},
			"number": {Type: "number", Minimum: json.RawMessage("0.5"), Maximum: json.RawMessage("1e3"), Default: json.RawMessage("1")},
			"int":    {Type: "integer", Minimum: json.RawMessage("0"), Maximum: json.RawMessage("7")},
			"bool":   {Type: "boolean", Default: json.RawMessage("false")},
			"some":   {Type: "array", Items: &ElicitationItems{Enum: []string{"a"}}, MinItems: new(uint64(0)), MaxItems: new(uint64(1)), Default: json.RawMessage(`["a"]`)},
			"any":    {Type: "array", Items: &ElicitationItems{AnyOf: []EnumOption{{"a", "A", ""}}}},
			"none":   {Type: "array", Items: &ElicitationItems{}},
		}}}},
	{MethodElicitationCreate, true, ElicitationURL{SessionID: "s", ToolCallID: "t", Message: "m", ElicitationID: "e", URL: "https://example.org/x", Meta: meta}},
	{MethodElicitationComplete, false, ElicitationComplete{ElicitationID: "e", Meta: meta}},
	{MethodReadTextFile, true, ReadTextFileRequest{}},
	{MethodReadTextFile, true, ReadTextFileRequest{"s", "/f", 1, 2, meta}},
	{MethodWriteTextFile, true, WriteTextFileRequest{"s", "/f", "", meta}},
	{MethodTerminalCreate, true, CreateTerminalRequest{}},
	{MethodTerminalCreate, true, CreateTerminalRequest{"s", "ls", []string{"-l"}, []Variable{{"A", "B", meta}}, "/w", new(uint64(1)), meta}},
	{MethodTerminalOutput, true, TerminalRequest{"s", "t", meta}},
	{MethodTerminalWaitForExit, true, TerminalRequest{}},
	{MethodTerminalKill, true, TerminalRequest{}},
	{MethodTerminalRelease, true, TerminalRequest{}},
	{MethodCancelRequest, false, CancelRequestParams{RequestID: json.RawMessage("1"), Meta: meta}},
}

var fullToolCall = ToolCall{
	ToolCallID: "t", Title: "T", Kind: ToolExecute, Status: ToolPending,
	Content: []ToolCallContent{
		ToolText("x"), ToolDiff("/f", nil, ""), ToolDiff("/f", new(""), "x"), ToolTerminal("term"),
		{Type: ToolContentBlock, Content: ContentBlock{Type: ContentResourceLink, Annotations: &Annotations{[]string{"user"}, "2026-01-01T00:00:00Z", new(0.5), meta}}, Meta: meta},
		{Type: ToolContentBlock, Content: ContentBlock{Type: ContentResource, Resource: &ResourceContents{IsBlob: true, Meta: meta}}},
	},
	Locations: []Location{{"/f", 0, nil}, {"/f", 3, meta}},
	RawInput:  json.RawMessage(`{"command":"ls"}`), RawOutput: json.RawMessage(`null`), Meta: meta,
}

// updates is every kind of session/update.
var updates = []SessionUpdate{
	UserMessageChunk{Content: block}, AgentMessageChunk{Content: block, MessageID: "m", Meta: meta}, AgentThoughtChunk{Content: block},
	fullToolCall, ToolCall{}, fullToolCall.Update(), ToolCallUpdate{},
	ToolCallUpdate{Content: []ToolCallContent{}, Locations: []Location{}},
	Plan{}, Plan{Entries: List[PlanEntry]{{"c", "high", "pending", meta}, {"", "medium", "in_progress", nil}, {"", "low", "completed", nil}}, Meta: meta},
	AvailableCommandsUpdate{}, AvailableCommandsUpdate{AvailableCommands: List[AvailableCommand]{{"n", "d", &CommandInput{"h"}, meta}, {}}},
	CurrentModeUpdate{}, CurrentModeUpdate{"m", meta},
	ConfigOptionUpdate{}, ConfigOptionUpdate{ConfigOptions: configOptions},
	SessionInfoUpdate{}, SessionInfoUpdate{"t", "2026-01-01T00:00:00Z", meta},
	UsageUpdate{}, UsageUpdate{1, 2, &Cost{0.5, "EUR"}, meta},
	Notice{Severity: "warning", Title: "t", Description: "d", Meta: meta},
}

var configOptions = List[ConfigOption]{
	{Type: ConfigBoolean, ID: "b", Name: "B"},
	{Type: ConfigSelect, ID: "e", Name: "E"},
	{Type: ConfigSelect, ID: "s", Name: "S", Description: "d", Category: "mode", Value: "v", Options: []ConfigChoice{{"v", "V", "d", meta}}, Meta: meta},
	{Type: ConfigSelect, ID: "g", Name: "G", Value: "v", Groups: []ConfigGroup{{"g", "G", []ConfigChoice{{"v", "V", "", nil}}, meta}, {}}},
}

var modes = &ModeState{"m", List[Mode]{{"m", "M", "d", meta}}, meta}

// results is every result, by the method that it answers.
var results = []struct {
	method, params string
	result         any
}{
	{MethodInitialize, `{"protocolVersion":1}`, InitializeResponse{}},
	{MethodInitialize, `{"protocolVersion":1}`, InitializeResponse{
		ProtocolVersion: ProtocolVersion,
		AgentCapabilities: AgentCapabilities{
			LoadSession:         true,
			PromptCapabilities:  PromptCapabilities{true, true, true},
			MCPCapabilities:     MCPCapabilities{true, true},
			SessionCapabilities: SessionCapabilities{yes, yes, yes, yes, yes},
			Auth:                AgentAuth{yes},
			Meta:                meta,
		},
		AgentInfo:   &Implementation{"n", "v", "t", meta},
		AuthMethods: List[AuthMethod]{{"i", "n", "d", meta}},
		Meta:        meta,
	}},
	{MethodAuthenticate, `{"methodId":"m"}`, Empty{}},
	{MethodLogout, `{}`, Empty{meta}},
	{MethodSessionNew, `{"cwd":"/w","mcpServers":[]}`, NewSessionResponse{}},
	{MethodSessionNew, `{"cwd":"/w","mcpServers":[]}`, NewSessionResponse{"s", OpenSessionResponse{modes, configOptions, meta}}},
	{MethodSessionNew, `{"cwd":"/w","mcpServers":[]}`, NewSessionResponse{"s", OpenSessionResponse{&ModeState{}, []ConfigOption{}, nil}}},
	{MethodSessionLoad, `{"sessionId":"s","cwd":"/w","mcpServers":[]}`, OpenSessionResponse{}},
	{MethodSessionResume, `{"sessionId":"s","cwd":"/w"}`, OpenSessionResponse{modes, configOptions, meta}},
	{MethodSessionList, `{}`, ListSessionsResponse{}},
	{MethodSessionList, `{}`, ListSessionsResponse{List[SessionInfo]{{}, {"s", "/w", []string{"/a"}, "t", "2026-01-01T00:00:00Z", meta}}, "next", meta}},
	{MethodSessionDelete, `{"sessionId":"s"}`, nil},
	{MethodSessionClose, `{"sessionId":"s"}`, Empty{}},
	{MethodSessionSetMode, `{"sessionId":"s","modeId":"m"}`, Empty{}},
	{MethodSessionSetConfigOption, `{"sessionId":"s","configId":"c","value":"v"}`, SetConfigOptionResponse{}},
	{MethodSessionSetConfigOption, `{"sessionId":"s","configId":"c","value":true,"type":"boolean"}`, SetConfigOptionResponse{configOptions, meta}},
	{MethodSessionPrompt, `{"sessionId":"s","prompt":[]}`, PromptResponse{StopEndTurn, nil}},
	{MethodSessionPrompt, `{"sessionId":"s","prompt":[]}`, PromptResponse{StopMaxTokens, meta}},
	{MethodSessionPrompt, `{"sessionId":"s","prompt":[]}`, PromptResponse{StopMaxTurnRequests, nil}},
	{MethodSessionPrompt, `{"sessionId":"s","prompt":[]}`, PromptResponse{StopRefusal, nil}},
	{MethodSessionPrompt, `{"sessionId":"s","prompt":[]}`, PromptResponse{StopCancelled, nil}},
}

func TestEverythingThatIsSentIsAsThePublishedSchemaWantsIt(t *testing.T) {
	t.Parallel()
	checker := acpschema.Load(t).NewChecker()
	check := func(what string, line []byte) {
		if err := checker.Agent(line); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i, m := range outgoing {
		id := ""
		if m.call {
			id = fmt.Sprintf(`"id":%d,`, i)
		}
		params, err := json.Marshal(m.params)
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%d %s", i, m.method), fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"method":%q,"params":%s}`, id, m.method, params))
	}
	for i, update := range updates {
		params, err := json.Marshal(SessionNotification{SessionID: "s", Update: update, Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("update %d %T", i, update), fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":%s}`, params))
	}
	for i, r := range results {
		request := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, r.method, r.params)
		if err := checker.Client(request); err != nil {
			t.Fatal(err)
		}
		result := r.result
		if result == nil {
			result = Empty{} // as Reply does
		}
		line, err := responseLine(json.RawMessage(fmt.Sprint(i)), result, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("result %d of %s", i, r.method), line)
	}
	for _, e := range []error{ParseError("m"), InvalidRequest("m"), MethodNotFound("m"), InvalidParams("f", "p"), SessionNotFound("s"),
		SessionBusy("s"), TooManyRequests(1), RequestCancelled(), Internal(fmt.Errorf("x")), NewError(CodeAuthRequired, "m", nil), ResourceNotFound("m", nil)} {
		line, err := responseLine(jsonNull, nil, AsError(e))
		if err != nil {
			t.Fatal(err)
		}
		check(e.Error(), line)
	}
}

func TestWhatWeWouldSendAsAClientIsAsThePublishedSchemaWantsIt(t *testing.T) {
	t.Parallel()
	checker := acpschema.Load(t).NewChecker()
	servers := List[MCPServer]{
		{Type: MCPStdio, Name: "a", Command: "/bin/a"},
		{Type: MCPHTTP, Name: "b", URL: "http://localhost", Headers: List[Variable]{{"k", "v", nil}}, Meta: meta},
		{Type: MCPSSE, Name: "c", URL: "http://localhost"},
	}
	session := NewSessionRequest{CWD: "/w", AdditionalDirectories: []string{"/a"}, MCPServers: servers, Meta: meta}
	for i, m := range []struct {
		method string
		params any
	}{
		{MethodInitialize, InitializeRequest{ProtocolVersion: 1, ClientInfo: &Implementation{Name: "n", Version: "v"}, ClientCapabilities: ClientCapabilities{
			Elicitation: ElicitationCapabilities{yes, yes}, Session: ClientSessionCapabilities{ConfigOptionCapabilities{yes}, yes, yes}}}},
		{MethodInitialize, InitializeRequest{}},
		{MethodAuthenticate, AuthenticateRequest{}},
		{MethodSessionNew, session},
		{MethodSessionNew, NewSessionRequest{}},
		{MethodSessionLoad, OpenSessionRequest{"s", session}},
		{MethodSessionList, ListSessionsRequest{"/w", "c", meta}},
		{MethodSessionClose, SessionRequest{}},
		{MethodSessionPrompt, PromptRequest{"s", List[ContentBlock]{block}, meta}},
		{MethodSessionSetMode, SetModeRequest{"s", "m", meta}},
		{MethodSessionSetConfigOption, SetConfigOptionRequest{SessionID: "s", ConfigID: "c", Value: "v"}},
		{MethodSessionSetConfigOption, SetConfigOptionRequest{SessionID: "s", ConfigID: "c", On: new(false), Meta: meta}},
	} {
		params, err := json.Marshal(m.params)
		if err != nil {
			t.Fatal(err)
		}
		if err := checker.Client(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, m.method, params)); err != nil {
			t.Error(err)
		}
	}
}
