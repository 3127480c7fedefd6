package acp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// ProtocolVersion is the only version that this agent speaks. A client that asks
// for another one is answered with this one, and may leave.
const ProtocolVersion = 1

// Methods that a client calls.
const (
	MethodInitialize             = "initialize"
	MethodAuthenticate           = "authenticate"
	MethodLogout                 = "logout"
	MethodSessionNew             = "session/new"
	MethodSessionLoad            = "session/load"
	MethodSessionResume          = "session/resume"
	MethodSessionList            = "session/list"
	MethodSessionClose           = "session/close"
	MethodSessionDelete          = "session/delete"
	MethodSessionPrompt          = "session/prompt"
	MethodSessionCancel          = "session/cancel" // a notification
	MethodSessionSetMode         = "session/set_mode"
	MethodSessionSetConfigOption = "session/set_config_option"
)

// Methods that a client offers.
const (
	MethodSessionUpdate            = "session/update" // a notification
	MethodSessionRequestPermission = "session/request_permission"
	MethodElicitationCreate        = "elicitation/create"
	MethodElicitationComplete      = "elicitation/complete" // a notification
	MethodReadTextFile             = "fs/read_text_file"
	MethodWriteTextFile            = "fs/write_text_file"
	MethodTerminalCreate           = "terminal/create"
	MethodTerminalOutput           = "terminal/output"
	MethodTerminalWaitForExit      = "terminal/wait_for_exit"
	MethodTerminalKill             = "terminal/kill"
	MethodTerminalRelease          = "terminal/release"
)

// MethodCancelRequest is a notification of both sides. The connection handles it.
const MethodCancelRequest = "$/cancel_request"

// Meta is the "_meta" that every object may have. Its values stay as they came.
type Meta map[string]json.RawMessage

// Set stores a value. It fails where the value has no JSON form.
func (m *Meta) Set(key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if *m == nil {
		*m = Meta{}
	}
	(*m)[key] = text
	return nil
}

// List is an array that must be there: without items it is [], never null.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Supported is a capability that says all by being there: {} is yes, absent is no.
type Supported struct{}

// Empty is the result of a method that has nothing to tell.
type Empty struct {
	Meta Meta `json:"_meta,omitempty"`
}

// CancelRequestParams are the params of MethodCancelRequest.
type CancelRequestParams struct {
	RequestID json.RawMessage `json:"requestId"`
	Meta      Meta            `json:"_meta,omitempty"`
}

// ParseCancelRequest reads the params of $/cancel_request.
func ParseCancelRequest(params json.RawMessage) (CancelRequestParams, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v CancelRequestParams, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.RequestID = required(o, "requestId", func(text json.RawMessage, path string) (json.RawMessage, error) {
			if problem := checkID(text); problem != "" {
				return nil, InvalidParams(path, "is no id of a request: "+problem)
			}
			return text, nil
		})
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// tagged marshals v, which becomes an object, with one more member in front: the
// one that tells the variants of a union apart.
func tagged(name, value string, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tag, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return nil, err
	}
	if bytes.Equal(text, []byte("{}")) {
		return tag, nil
	}
	return append(append(tag[:len(tag)-1], ','), text[1:]...), nil
}

// maxText is how much text goes into one message. Escaping makes at most six
// bytes of one, so the line stays below maxOutgoing.
const maxText = 1 << 20

// SplitText splits text that is too long for one message, between runes. Text
// that is short enough, the empty text too, gives one part.
func SplitText(text string) []string {
	var parts []string
	for len(text) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		parts = append(parts, text[:end])
		text = text[end:]
	}
	return append(parts, text)
}
