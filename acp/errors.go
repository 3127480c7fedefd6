package acp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sourcegraph/jsonrpc2"
)

// The error codes of protocol version 1. -32000 is not used for anything but
// AuthRequired, because clients open a login dialog on it, and -32001 is not used
// at all, because some clients take it for "no such session".
const (
	CodeParseError       = jsonrpc2.CodeParseError     // a line is not JSON
	CodeInvalidRequest   = jsonrpc2.CodeInvalidRequest // JSON, but not a message
	CodeMethodNotFound   = jsonrpc2.CodeMethodNotFound
	CodeInvalidParams    = jsonrpc2.CodeInvalidParams
	CodeInternalError    = jsonrpc2.CodeInternalError
	CodeAuthRequired     = -32000
	CodeResourceNotFound = -32002
	CodeBusy             = -32010 // ours: try again later; data.reason says why
	CodeRequestCancelled = -32800
)

// ErrDisconnected says that the peer is gone or that the connection is closed:
// nothing can be sent any more and no answer will come.
var ErrDisconnected = errors.New("the ACP connection is closed")

// ErrReplied says that a request has its answer already. The first one was sent.
var ErrReplied = errors.New("the request is answered already")

// LineTooLong says that a message was not sent because its line would be longer
// than peers read. Text is to be split where it is made: see SplitText.
type LineTooLong struct {
	Bytes, Limit int
}

func (e *LineTooLong) Error() string {
	return fmt.Sprintf("message of %d bytes is longer than the %d bytes that a line may have; split it", e.Bytes, e.Limit)
}

// NewError makes an error to be answered. data is left out when it is nil, and
// also when it has no JSON form: an error must reach the peer in any case.
func NewError(code int64, message string, data any) *jsonrpc2.Error {
	e := &jsonrpc2.Error{Code: code, Message: message}
	if data != nil {
		if text, err := json.Marshal(data); err == nil {
			e.Data = (*json.RawMessage)(&text)
		}
	}
	return e
}

// ParseError is for a line that is not JSON.
func ParseError(message string) *jsonrpc2.Error {
	return NewError(CodeParseError, message, nil)
}

// InvalidRequest is for JSON that is not a message, or a message at a time when
// it is not allowed.
func InvalidRequest(message string) *jsonrpc2.Error {
	return NewError(CodeInvalidRequest, message, nil)
}

// MethodNotFound is for a method that this agent does not have.
func MethodNotFound(method string) *jsonrpc2.Error {
	method = shorten(method)
	return NewError(CodeMethodNotFound, fmt.Sprintf("method %q is not known", method), map[string]string{"method": method})
}

// InvalidParams names the field that is wrong, as a path that starts with
// "params", and says what is wrong with it.
func InvalidParams(field, problem string) *jsonrpc2.Error {
	return NewError(CodeInvalidParams, field+" "+problem, map[string]string{"field": field})
}

// Internal is for everything unexpected. Its message is the cause, because many
// clients show only the message.
func Internal(cause error) *jsonrpc2.Error {
	return NewError(CodeInternalError, cause.Error(), nil)
}

// SessionNotFound is for a session that is not stored.
func SessionNotFound(sessionID string) *jsonrpc2.Error {
	sessionID = shorten(sessionID)
	return NewError(CodeResourceNotFound, fmt.Sprintf("session %q is not known", sessionID), map[string]string{"sessionId": sessionID})
}

// ResourceNotFound is for anything else that is not there.
func ResourceNotFound(message string, data any) *jsonrpc2.Error {
	return NewError(CodeResourceNotFound, message, data)
}

// SessionBusy refuses a prompt while another one of the session runs.
func SessionBusy(sessionID string) *jsonrpc2.Error {
	return NewError(CodeBusy, fmt.Sprintf("session %q is busy with another prompt; wait for it or cancel it", sessionID),
		map[string]string{"reason": "session_busy", "sessionId": sessionID})
}

// TooManyRequests refuses a request because too many wait for their answers.
func TooManyRequests(waiting int) *jsonrpc2.Error {
	return NewError(CodeBusy, fmt.Sprintf("too many requests in flight: %d wait for their answers", waiting),
		map[string]any{"reason": "too_many_requests", "inFlight": waiting})
}

// RequestCancelled answers a request that $/cancel_request ended.
func RequestCancelled() *jsonrpc2.Error {
	return NewError(CodeRequestCancelled, "the request was cancelled", nil)
}

// AsError gives the error to be answered for any error of Go: itself, where it is
// one, and Internal otherwise. (jsonrpc2 would send such an error with code 0.)
func AsError(err error) *jsonrpc2.Error {
	if err == nil {
		err = errors.New("failed without a cause")
	}
	if e, ok := errors.AsType[*jsonrpc2.Error](err); ok && e != nil {
		return e
	}
	return Internal(err)
}
