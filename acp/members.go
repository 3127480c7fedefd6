package acp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// eachMember calls visit for every member of the object that text holds, in
// order, a name that occurs twice twice. The values are parts of text. It returns
// false, and calls nothing, where text is not an object. text must be valid JSON.
//
// encoding/json cannot say this much: it compares names without regard to case,
// drops all but the last of equal names, and copies what it keeps.
func eachMember(text []byte, visit func(name string, value json.RawMessage)) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	i = skipSpace(text, i+1)
	for text[i] != '}' {
		end := skipValue(text, i)
		name := unquote(text[i:end])
		i = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		end = skipValue(text, i)
		visit(name, json.RawMessage(text[i:end:end]))
		i = skipSpace(text, end)
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return true
}

// eachItem is eachMember for an array.
func eachItem(text []byte, visit func(value json.RawMessage)) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '[' {
		return false
	}
	i = skipSpace(text, i+1)
	for text[i] != ']' {
		end := skipValue(text, i)
		visit(json.RawMessage(text[i:end:end]))
		i = skipSpace(text, end)
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return true
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
		depth := 0
		for {
			switch text[i] {
			case '"':
				i = skipString(text, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
	default:
		for i < len(text) && bytes.IndexByte([]byte(",]} \t\r\n"), text[i]) < 0 {
			i++
		}
		return i
	}
}

func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote gives the value of a JSON string, with invalid UTF-8 replaced.
func unquote(quoted []byte) string {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside)
	}
	var s string
	// It is a valid JSON string, so this cannot fail.
	_ = json.Unmarshal(quoted, &s)
	return s
}
