package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-agent/holdfast/integration/acpschema"
)

// free are the fields of messages that may hold any text. The others are of a closed
// set, or have a form of their own.
var free = map[string]bool{
	"Title": true, "Text": true, "Message": true, "Name": true, "Description": true, "Hint": true, "ToolCallID": true, "MessageID": true,
	"SessionID": true, "OptionID": true, "ModeID": true, "CurrentModeID": true, "Value": true, "Group": true, "Command": true, "TerminalID": true,
	"ElicitationID": true, "NextCursor": true, "Version": true, "OldText": true, "NewText": true, "Const": true, "Data": true, "ID": true,
}

// filled is a copy of a message in which every free text is this one. It says how
// many there are.
func filled(v reflect.Value, text string) (out reflect.Value, n int) {
	out = reflect.New(v.Type()).Elem()
	out.Set(v)
	add := func(set func(reflect.Value), inner reflect.Value) {
		made, more := filled(inner, text)
		set(made)
		n += more
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			add(out.Elem().Set, v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			add(out.Set, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct && v.Len() > 0 {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				add(out.Index(i).Set, v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch inner := v.Field(i); {
			case free[field.Name] && field.Type == reflect.TypeFor[string]():
				// An empty one may mean that it is not there.
				if inner.Len() > 0 {
					out.Field(i).SetString(text)
					n++
				}
			case field.Name != "ID" && field.IsExported():
				add(out.Field(i).Set, inner)
			}
		}
	}
	return out, n
}

// says reports whether a JSON value holds a text.
func says(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		for _, inner := range v {
			if says(inner, text) {
				return true
			}
		}
	case map[string]any:
		for _, inner := range v {
			if says(inner, text) {
				return true
			}
		}
	}
	return false
}

// Every message that can be sent, with any text in it: it is one line, the published
// schema knows it, it says that text, and what a reader makes of it is the same when
// it is written and read again.
func FuzzWhatIsSentIsReadAsItWasMeant(f *testing.F) {
	schema := acpschema.Load(f)
	for _, seed := range []string{"", "x", "line\nline\r\n", "\u2028\u2029<&>", `"\`, "\x00\x1f\x7f", "\xff\xc0", "ünï \U0001F600", "null", "{}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checker := schema.NewChecker()
		text = "t" + text // some must not be empty
		// Each byte that is not UTF-8 is replaced, here as there.
		want := string([]rune(text))
		check := func(what string, line []byte, texts int) {
			if bytes.ContainsAny(line, "\n\r") {
				t.Fatalf("%s: more than one line: %q", what, line)
			}
			if err := checker.Agent(line); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			var once, again any
			if err := json.Unmarshal(line, &once); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if texts > 0 && !says(once, want) {
				t.Fatalf("%s: does not say %q: %s", what, want, line)
			}
			written, err := json.Marshal(once)
			if err != nil || json.Unmarshal(written, &again) != nil || !reflect.DeepEqual(once, again) {
				t.Fatalf("%s: %s became %s (%v)", what, line, written, err)
			}
		}
		marshal := func(v any) ([]byte, int) {
			made, n := filled(reflect.ValueOf(v), text)
			out, err := json.Marshal(made.Interface())
			if err != nil {
				t.Fatal(err)
			}
			return out, n
		}
		for i, m := range outgoing {
			id := ""
			if m.call {
				id = fmt.Sprintf(`"id":%d,`, i)
			}
			params, n := marshal(m.params)
			check(m.method, fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"method":%q,"params":%s}`, id, m.method, params), n)
		}
		for _, u := range updates {
			params, n := marshal(SessionNotification{SessionID: "s", Update: u, Meta: meta})
			check(fmt.Sprintf("%T", u), fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":%s}`, params), n)
		}
		for i, r := range results {
			if r.result == nil {
				continue
			}
			if err := checker.Client(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, r.method, r.params)); err != nil {
				t.Fatal(err)
			}
			result, n := marshal(r.result)
			check("result of "+r.method, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, i, result), n)
		}
		for _, e := range []error{ParseError(text), InvalidRequest(text), MethodNotFound(text), InvalidParams("f", text), SessionNotFound(text), Internal(fmt.Errorf("%s", text))} {
			line, err := responseLine(jsonNull, nil, AsError(e))
			if err != nil {
				t.Fatal(err)
			}
			check("error", line, 0)
		}
	})
}
