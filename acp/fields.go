package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The schema says for every field whether a malformed value is an error or counts
// as absent. Here that is the choice between three functions:
//
//	required   a missing or malformed value is an error that names the field
//	strict     as required, but absent and null are allowed
//	optional   a missing or malformed value is the zero value
//
// and, for arrays that may lose items, listOf with dropping = true.

// maxMembers bounds the objects that are taken apart: a line of 32 MiB has room
// for millions of members, and each costs far more in a map than on the wire.
const maxMembers = 4096

// parser makes a value of JSON. path says where the JSON stood ("params.cwd").
// Its error is one that can be sent: InvalidParams.
type parser[T any] func(text json.RawMessage, path string) (T, error)

// object is a JSON object that is being read. It keeps the first error, so that a
// type is read line by line and checked once.
type object struct {
	path    string
	members map[string]json.RawMessage
	err     error
}

func parseObject(text json.RawMessage, path string) (*object, error) {
	o := &object{path: path, members: map[string]json.RawMessage{}}
	twice, count := "", 0
	isObject := eachMember(text, func(name string, value json.RawMessage) {
		if count++; count > maxMembers {
			return
		}
		if _, there := o.members[name]; there {
			twice = name
		}
		o.members[name] = value
	})
	switch {
	case !isObject:
		return nil, InvalidParams(path, "must be an object, not "+typeOf(text))
	case twice != "":
		return nil, InvalidParams(path+"."+shorten(twice), "is there twice")
	case count > maxMembers:
		return nil, InvalidParams(path, fmt.Sprintf("has more than %d members", maxMembers))
	}
	return o, nil
}

// parseWhole is the entry for the params or the result of a message: with text
// from anywhere, and absent params as an empty object, so that a missing field
// is what the error names.
func parseWhole[T any](text json.RawMessage, path string, parse parser[T]) (T, error) {
	if len(text) == 0 || isNull(text) {
		text = json.RawMessage("{}")
	}
	if !json.Valid(text) {
		var zero T
		return zero, InvalidParams(path, "is not JSON")
	}
	v, err := parse(text, path)
	if err != nil {
		var zero T // half of a message is no message
		return zero, err
	}
	return v, nil
}

func required[T any](o *object, name string, parse parser[T]) T {
	var v T
	if o.err != nil {
		return v
	}
	text, there := o.members[name]
	if !there {
		o.err = InvalidParams(o.path+"."+name, "is missing")
		return v
	}
	v, o.err = parse(text, o.path+"."+name)
	return v
}

func strict[T any](o *object, name string, parse parser[T]) T {
	if text, there := o.members[name]; there && !isNull(text) {
		return required(o, name, parse)
	}
	var zero T
	return zero
}

func optional[T any](o *object, name string, parse parser[T]) T {
	var zero T
	text, there := o.members[name]
	if !there || isNull(text) {
		return zero
	}
	v, err := parse(text, o.path+"."+name)
	if err != nil {
		return zero
	}
	return v
}

// orNull lets null stand for the zero value of a field that must be there.
func orNull[T any](parse parser[T]) parser[T] {
	return func(text json.RawMessage, path string) (T, error) {
		if isNull(text) {
			var zero T
			return zero, nil
		}
		return parse(text, path)
	}
}

// pointer tells an absent optional value from one that is zero.
func pointer[T any](parse parser[T]) parser[*T] {
	return func(text json.RawMessage, path string) (*T, error) {
		v, err := parse(text, path)
		if err != nil {
			return nil, err
		}
		return &v, nil
	}
}

// listOf reads an array. With dropping, malformed items are left out; the others
// stay. Without, the first malformed one is the error.
func listOf[T any](item parser[T], dropping bool) parser[[]T] {
	return func(text json.RawMessage, path string) ([]T, error) {
		list := []T{}
		var first error
		i := 0
		isArray := eachItem(text, func(value json.RawMessage) {
			if first == nil {
				v, err := item(value, path+"["+strconv.Itoa(i)+"]")
				switch {
				case err == nil:
					list = append(list, v)
				case !dropping:
					first = err
				}
			}
			i++
		})
		if !isArray {
			return nil, InvalidParams(path, "must be an array, not "+typeOf(text))
		}
		if first != nil {
			return nil, first
		}
		return list, nil
	}
}

func asString(text json.RawMessage, path string) (string, error) {
	if !isString(text) {
		return "", InvalidParams(path, "must be a string, not "+typeOf(text))
	}
	return unquote(text), nil
}

// asAbsolutePath reads a path of this system. The protocol has no relative ones.
func asAbsolutePath(text json.RawMessage, path string) (string, error) {
	s, err := asString(text, path)
	if err == nil && !filepath.IsAbs(s) {
		return "", InvalidParams(path, fmt.Sprintf("must be an absolute path, not %q", shorten(s)))
	}
	return s, err
}

// oneOf reads a string of a closed set.
func oneOf[T ~string](known ...T) parser[T] {
	return func(text json.RawMessage, path string) (T, error) {
		s, err := asString(text, path)
		if err == nil && !slices.Contains(known, T(s)) {
			return "", InvalidParams(path, fmt.Sprintf("must be one of %q, not %q", known, shorten(s)))
		}
		return T(s), err
	}
}

func asBool(text json.RawMessage, path string) (bool, error) {
	switch string(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, InvalidParams(path, "must be true or false, not "+typeOf(text))
}

// asInt64 takes 3, and also 3.0, which is what some languages make of it.
func asInt64(text json.RawMessage, path string) (int64, error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(string(text), 64); err == nil && f == float64(int64(f)) && f > -1<<53 && f < 1<<53 {
		return int64(f), nil
	}
	return 0, InvalidParams(path, "must be an integer, not "+typeOf(text))
}

func asUint16(text json.RawMessage, path string) (uint16, error) {
	n, err := asInt64(text, path)
	if err == nil && (n < 0 || n > 65535) {
		return 0, InvalidParams(path, "must be between 0 and 65535")
	}
	return uint16(n), err
}

func asUint32(text json.RawMessage, path string) (uint32, error) {
	n, err := asInt64(text, path)
	if err == nil && (n < 0 || n > 1<<32-1) {
		return 0, InvalidParams(path, "must be an integer between 0 and 4294967295")
	}
	return uint32(n), err
}

func asFloat(text json.RawMessage, path string) (float64, error) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, InvalidParams(path, "must be a number, not "+typeOf(text))
	}
	return f, nil
}

// asRaw keeps a value as it came, with its numbers exact.
func asRaw(text json.RawMessage, _ string) (json.RawMessage, error) { return text, nil }

func asMeta(text json.RawMessage, path string) (Meta, error) {
	o, err := parseObject(text, path)
	if err != nil {
		return nil, err
	}
	return o.members, nil
}

// asSupported reads a capability whose presence is all that it says.
func asSupported(text json.RawMessage, path string) (*Supported, error) {
	if text[0] != '{' {
		return nil, InvalidParams(path, "must be an object, not "+typeOf(text))
	}
	return &Supported{}, nil
}

// typeOf names the type of a JSON value for an error message.
func typeOf(text json.RawMessage) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "the number " + shorten(string(text))
}

// shorten keeps what a peer sent from making an error message as long as a line.
func shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}
