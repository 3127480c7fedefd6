package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// failure gives the answer for a bad line. The message is not compared.
func failure(id string, code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"*"}}`, id, code)
}

// blank replaces the message of an error by a star.
func blank(line string) string {
	before, rest, found := strings.Cut(line, `"message":"`)
	if !found {
		return line
	}
	_, after, _ := strings.Cut(rest, `"}}`)
	return before + `"message":"*"}}` + after
}

func done(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"did":%q}}`, id, method)
}

func TestABadLineIsAnsweredAndTheConnectionGoesOn(t *testing.T) { // acp-cases 52
	t.Parallel()
	for _, test := range []struct {
		name string
		line string
		want string // empty: no answer
	}{
		{"text", `hello`, failure("null", -32700)},
		{"half an object", `{"jsonrpc":"2.0","id":1`, failure("null", -32700)},
		{"two objects on a line", `{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"b"}`, failure("null", -32700)},
		{"a single quote", `{'jsonrpc':'2.0'}`, failure("null", -32700)},
		{"NaN", `{"jsonrpc":"2.0","id":NaN,"method":"a"}`, failure("null", -32700)},
		{"a raw control character", "{\"jsonrpc\":\"2.0\",\"id\":\"\x01\",\"method\":\"a\"}", failure("null", -32700)},
		{"deeper than any parser goes", strings.Repeat("[", 100_000), failure("null", -32700)},
		{"bytes that are not UTF-8", "\xff\xfe", failure("null", -32700)},

		{"a number", `42`, failure("null", -32600)},
		{"a string", `"initialize"`, failure("null", -32600)},
		{"null", `null`, failure("null", -32600)},
		{"true", `true`, failure("null", -32600)},
		{"an empty batch", `[]`, failure("null", -32600)},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"a"}]`, failure("null", -32600)},
		{"an empty object", `{}`, failure("null", -32600)},

		{"no version", `{"id":1,"method":"a"}`, failure("1", -32600)},
		{"version 1.0", `{"jsonrpc":"1.0","id":"x","method":"a"}`, failure(`"x"`, -32600)},
		{"a version that is a number", `{"jsonrpc":2.0,"id":1,"method":"a"}`, failure("1", -32600)},
		{"a name in another case", `{"jsonrpc":"2.0","id":1,"Method":"a"}`, failure("null", -32600)},
		{"a name in another case beside the right one", `{"jsonrpc":"2.0","ID":7,"id":1,"Method":"b","method":"a"}`, done("1", "a")},
		{"no method, no result", `{"jsonrpc":"2.0","id":1}`, failure("null", -32600)},
		{"a method that is a number", `{"jsonrpc":"2.0","id":1,"method":5}`, failure("1", -32600)},
		{"a method that is null", `{"jsonrpc":"2.0","id":1,"method":null}`, failure("1", -32600)},
		{"a method that is a number, without an id", `{"jsonrpc":"2.0","method":5}`, failure("null", -32600)},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, failure("null", -32600)},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"a","error":null}`, failure("null", -32600)},
		{"params that are a string", `{"jsonrpc":"2.0","id":1,"method":"a","params":"b"}`, failure("1", -32600)},
		{"params that are a number", `{"jsonrpc":"2.0","id":1,"method":"a","params":0}`, failure("1", -32600)},
		{"params that are null", `{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, done("1", "a")},
		{"params that are an array", `{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, done("1", "a")},
		{"an unknown root member", `{"jsonrpc":"2.0","id":1,"method":"a","meta":{},"x":[1,{"y":"}"}]}`, done("1", "a")},
		{"an escaped name", `{"jsonrpc":"2.0","id":1,"\u006dethod":"a"}`, done("1", "a")},
		{"an escaped method", `{"jsonrpc":"2.0","id":1,"method":"\u0061"}`, done("1", "a")},

		{"an id that is true", `{"jsonrpc":"2.0","id":true,"method":"a"}`, failure("null", -32600)},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"a"}`, failure("null", -32600)},
		{"an id that is an array", `{"jsonrpc":"2.0","id":[1],"method":"a"}`, failure("null", -32600)},
		{"an id with a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"a"}`, failure("null", -32600)},
		{"an id with an exponent", `{"jsonrpc":"2.0","id":1e3,"method":"a"}`, failure("null", -32600)},
		{"an id of 65 bits", `{"jsonrpc":"2.0","id":9223372036854775808,"method":"a"}`, failure("null", -32600)},
		{"an id that is not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"a\"}", failure("null", -32600)},

		{"an id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, failure("null", -32600)},
		{"a method twice", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, failure("1", -32600)},
		{"a method twice, once escaped", `{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, failure("1", -32600)},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}`, failure("1", -32600)},

		{"a notification", `{"jsonrpc":"2.0","method":"a"}`, ""},
		{"a notification with bad params", `{"jsonrpc":"2.0","method":"a","params":3}`, ""},
		{"a notification with a bad version", `{"jsonrpc":"1.0","method":"a"}`, ""},
		{"a notification with a method twice", `{"jsonrpc":"2.0","method":"a","method":"b"}`, ""},
		{"an extension as a notification", `{"jsonrpc":"2.0","method":"_x/y","params":{}}`, ""},
		{"$/cancel_request of nothing", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}`, ""},
		{"$/cancel_request without an id to cancel", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}`, ""},
		{"$/cancel_request without params", `{"jsonrpc":"2.0","method":"$/cancel_request"}`, ""},
		{"$/cancel_request with an id", `{"jsonrpc":"2.0","id":1,"method":"$/cancel_request","params":{"requestId":5}}`, failure("1", -32601)},

		{"a stray result", `{"jsonrpc":"2.0","id":77,"result":{}}`, ""},
		{"a stray result with a string as id", `{"jsonrpc":"2.0","id":"77","result":null}`, ""},
		{"a stray result with the id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, ""},
		{"a stray error", `{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"m"}}`, ""},
		{"an error with the id null", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, ""},
		{"an error without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, ""},
		{"a result without an id", `{"jsonrpc":"2.0","result":{}}`, failure("null", -32600)},
		{"a result with an id that is true", `{"jsonrpc":"2.0","id":true,"result":{}}`, failure("null", -32600)},
		{"a result in version 1.0", `{"jsonrpc":"1.0","id":1,"result":{}}`, failure("null", -32600)},
		{"an error that is null", `{"jsonrpc":"2.0","id":1,"error":null}`, failure("null", -32600)},
		{"an error that is text", `{"jsonrpc":"2.0","id":1,"error":"no"}`, failure("null", -32600)},
		{"an error without a code", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, failure("null", -32600)},
		{"an error with a code that has a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`, failure("null", -32600)},
		{"an error without a message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, failure("null", -32600)},
		{"an error with a code twice", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}`, failure("null", -32600)},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, failure("null", -32600)},
		{"a result twice", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, failure("null", -32600)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			input := strings.Join([]string{`{"jsonrpc":"2.0","id":"before","method":"x"}`, test.line, `{"jsonrpc":"2.0","id":"after","method":"y"}`, ""}, "\n")
			got := exchange(t, strings.NewReader(input), handlerFuncs{}, Options{})
			want := []string{done(`"before"`, "x")}
			if test.want != "" {
				want = append(want, test.want)
			}
			want = append(want, done(`"after"`, "y"))
			for i, line := range got {
				if strings.Contains(test.want, "*") {
					got[i] = blank(dropData(t, line))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("answers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// dropData takes the data out of an error, which is not the subject here.
func dropData(t *testing.T, line string) string {
	t.Helper()
	var m struct {
		ID    json.RawMessage `json:"id"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if m.Error == nil {
		return line
	}
	return failure(string(m.ID), m.Error.Code)
}

func TestEveryLegalIDIsEchoedByteForByte(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		`0`, `1`, `-1`, `-3`, `-0`, `9223372036854775807`, `-9223372036854775808`,
		`""`, `"a"`, `"1"`, `"null"`, `"\u0061\/\ud83d\ude00"`, `"😀"`, `"\ud800"`, `"<&>"`, `"  "`, `"\\\""`, `"a\nb"`,
		"\"\u2028\"", `"` + strings.Repeat("x", 200_000) + `"`,
		`null`,
	} {
		t.Run(shorten(id), func(t *testing.T) {
			t.Parallel()
			line := `{"jsonrpc":"2.0", "id" : ` + id + ` ,"method":"m"}` + "\n"
			got := exchange(t, strings.NewReader(line), handlerFuncs{}, Options{})
			if want := []string{done(id, "m")}; !slices.Equal(got, want) {
				t.Errorf("answers %.200q, want %.200q", got, want)
			}
		})
	}
}

func TestParamsArriveByteForByte(t *testing.T) {
	t.Parallel()
	// Numbers beyond float64, the order of members, and names that are there twice:
	// the library would change all of them.
	params := `{"z":12345678901234567890.10,"a":"<\u00e9>","a":[ 1e2 ]}`
	got := make(chan string, 2)
	h := handlerFuncs{
		request:      func(ctx context.Context, r *Request) { got <- string(r.Params); echo(ctx, r) },
		notification: func(_ context.Context, _ string, p json.RawMessage) { got <- string(p) },
	}
	exchange(t, strings.NewReader(`{"params":`+params+`,"jsonrpc":"2.0","id":1,"method":"m"}
{"params":`+params+`,"jsonrpc":"2.0","method":"m"}
`), h, Options{})
	for range 2 {
		if p := <-got; p != params {
			t.Errorf("params are %s, want %s", p, params)
		}
	}
}

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	t.Parallel()
	h := handlerFuncs{request: func(_ context.Context, r *Request) { _ = r.Reply(json.RawMessage(r.Params)) }}
	got := exchange(t, strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"x\xffy\"}}\n"), h, Options{})
	if want := []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"x` + "\uFFFD" + `y"}}`}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}

func TestTwoRequestsWithOneIDGetAnAnswerEach(t *testing.T) {
	t.Parallel()
	waiting := make(chan *Request, 2)
	p := connect(t, handlerFuncs{request: func(_ context.Context, r *Request) { waiting <- r }}, Options{})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"first"}`, `{"jsonrpc":"2.0","id":1,"method":"second"}`)
	first, second := <-waiting, <-waiting
	for _, r := range []*Request{second, first} {
		if err := r.Reply(map[string]string{"did": r.Method}); err != nil {
			t.Error(err)
		}
		p.expect(done("1", r.Method))
	}
	if n := len(p.conn.stream.open) + len(p.conn.requests) + p.conn.stream.bytes; n != 0 {
		t.Errorf("%d entries are left of requests that have their answers", n)
	}
}
