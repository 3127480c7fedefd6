package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"
)

var jsonNull = json.RawMessage("null")

type messageKind int

const (
	isRequest messageKind = iota + 1
	isNotification
	isResponse
)

// message is one line from the peer, understood.
type message struct {
	kind   messageKind
	id     json.RawMessage // of a request: the bytes that came, to be sent back
	method string
	params json.RawMessage // nil where absent or null

	// Of a response:
	call   uint64          // the id of our call
	result json.RawMessage // where err is nil
	err    *jsonrpc2.Error

	bytes int // of the line
}

// fault is a line that is no message.
type fault struct {
	// id is what the answer carries: the request's own id where the line is a
	// request with a legal one, else null. nil means that nobody is answered.
	id  json.RawMessage
	err *jsonrpc2.Error

	// call is our call that the line tries to answer, or 0. It fails with err,
	// because waiting for a second answer could be waiting for ever.
	call uint64
}

func refuse(id json.RawMessage, format string, a ...any) *fault {
	return &fault{id: id, err: InvalidRequest(fmt.Sprintf(format, a...))}
}

// parseLine makes a message of a line. Both results are nil where there is
// nothing to do: a response to something that we did not ask.
func parseLine(line []byte) (*message, *fault) {
	if !json.Valid(line) {
		return nil, &fault{id: jsonNull, err: ParseError("the line is not JSON")}
	}
	var version, id, method, params, result, failure json.RawMessage
	known := map[string]*json.RawMessage{
		"jsonrpc": &version, "id": &id, "method": &method, "params": &params, "result": &result, "error": &failure,
	}
	twice, idTwice := "", false
	isObject := eachMember(line, func(name string, value json.RawMessage) {
		place := known[name]
		switch {
		case place == nil: // a peer may have members of its own
		case *place != nil:
			twice = name
			idTwice = idTwice || name == "id"
		default:
			*place = value
		}
	})
	switch {
	case !isObject && line[skipSpace(line, 0)] == '[':
		return nil, refuse(jsonNull, "batches are not supported: send one message a line")
	case !isObject:
		return nil, refuse(jsonNull, "a message must be a JSON object")
	case method == nil:
		if idTwice {
			id = nil // it could be either
		}
		return parseResponse(version, id, result, failure, twice)
	}

	idProblem := ""
	if id != nil {
		idProblem = checkID(id)
	}
	// What an answer to a bad request carries. A notification gets none, whatever
	// else is wrong with it.
	answerID := id
	switch {
	case id == nil && isString(method):
		answerID = nil
	case id == nil, idTwice, idProblem != "", result != nil, failure != nil:
		answerID = jsonNull
	}
	switch {
	case twice != "":
		return nil, refuse(answerID, "the member %q is there twice", twice)
	case !isVersion2(version):
		return nil, refuse(answerID, `the member "jsonrpc" must be "2.0"`)
	case idProblem != "":
		return nil, refuse(answerID, "%s", idProblem)
	case !isString(method):
		return nil, refuse(answerID, `the member "method" must be a string`)
	case result != nil || failure != nil:
		return nil, refuse(answerID, `a message with "method" must not have "result" or "error"`)
	case params != nil && params[0] != '{' && params[0] != '[' && !isNull(params):
		return nil, refuse(answerID, `the member "params" must be an object`)
	}

	m := &message{kind: isRequest, id: id, method: unquote(method), bytes: len(line)}
	if id == nil {
		m.kind = isNotification
	}
	if params != nil && !isNull(params) {
		// Params may be passed on as they are, so what leaves us is UTF-8.
		m.params = toUTF8(params)
	}
	return m, nil
}

// parseResponse looks at an object without a method.
func parseResponse(version, id, result, failure json.RawMessage, twice string) (*message, *fault) {
	bad := func(format string, a ...any) (*message, *fault) {
		f := refuse(jsonNull, format, a...)
		if id != nil {
			f.call = callOf(id)
		}
		return nil, f
	}
	switch {
	case twice != "":
		return bad("the member %q is there twice", twice)
	case result == nil && failure == nil:
		return bad(`a message must have "method", or "result", or "error"`)
	case !isVersion2(version):
		return bad(`the member "jsonrpc" must be "2.0"`)
	case result != nil && failure != nil:
		return bad(`a response must not have both "result" and "error"`)
	}

	m := &message{kind: isResponse, result: result}
	if failure != nil {
		if m.err = parseFailure(failure); m.err == nil {
			return bad(`the member "error" must be an object with an integer "code" and a string "message"`)
		}
		if id == nil || isNull(id) {
			// The peer could not read a line of ours. To answer that would be the
			// start of an endless exchange of errors.
			return nil, nil
		}
	}
	if id == nil {
		return bad("a response must have an id")
	}
	if m.call = callOf(id); m.call == 0 {
		if problem := checkID(id); problem != "" {
			return bad("%s", problem)
		}
		return nil, nil
	}
	m.result = toUTF8(result)
	return m, nil
}

// parseFailure reads an error object, or gives nil where it is malformed.
func parseFailure(text json.RawMessage) *jsonrpc2.Error {
	o, err := parseObject(text, "error")
	if err != nil {
		return nil
	}
	e := &jsonrpc2.Error{
		Code:    required(o, "code", asInt64),
		Message: required(o, "message", asString),
	}
	if data, ok := o.members["data"]; ok {
		data = toUTF8(data)
		e.Data = &data
	}
	if o.err != nil {
		return nil
	}
	return e
}

// checkID says what is wrong with the id of a request, or "". Legal are null,
// strings and integers of 64 bits.
func checkID(id json.RawMessage) string {
	switch {
	case isNull(id):
		return ""
	case isString(id):
		// It could not be sent back byte for byte, because what we send is UTF-8.
		if !utf8.Valid(id) {
			return "the id is not valid UTF-8"
		}
		return ""
	case id[0] == '-' || id[0] >= '0' && id[0] <= '9':
		if _, err := strconv.ParseInt(string(id), 10, 64); err != nil {
			return "a number as id must be an integer of 64 bits"
		}
		return ""
	}
	return "the id must be a string, an integer or null"
}

// sameID says whether two legal ids have the same value: 1 and "1" have not, "a"
// and "\u0061" have.
func sameID(a, b json.RawMessage) bool {
	switch {
	case isString(a) && isString(b):
		return unquote(a) == unquote(b)
	case isString(a) || isString(b):
		return false
	case isNull(a) || isNull(b):
		return isNull(a) && isNull(b)
	}
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	return errX == nil && errY == nil && x == y
}

// callOf gives the number of our call that a response is for, or 0. Ours are
// positive integers; some peers know only floating point and send 1.0 for 1.
func callOf(id json.RawMessage) uint64 {
	if n, err := strconv.ParseUint(string(id), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(id), 64)
	if err != nil || f < 1 || f > 1<<53 || f != math.Trunc(f) {
		return 0
	}
	return uint64(f)
}

// toUTF8 replaces what is not UTF-8. JSON must be UTF-8, json.Valid does not look.
func toUTF8(text json.RawMessage) json.RawMessage {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

func isVersion2(version json.RawMessage) bool {
	return version != nil && isString(version) && unquote(version) == "2.0"
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func isString(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// answeredCall gives the call of ours that a line answers, of which only the
// beginning is there; 0 where that does not say.
func answeredCall(beginning []byte) uint64 {
	d := json.NewDecoder(bytes.NewReader(beginning))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return 0
	}
	var call uint64
	for {
		name, err := d.Token()
		if name == "result" || name == "error" {
			return call
		}
		if err != nil || name != "id" && name != "jsonrpc" {
			return 0 // a request, or nothing that is known
		}
		v, err := d.Token()
		if err != nil {
			return 0
		}
		if number, is := v.(json.Number); is && name == "id" {
			call = callOf(json.RawMessage(number))
		}
	}
}
