package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// seeds are lines near the border between good and bad.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,{"b":"}\"]"}]}}`,
	`{"jsonrpc":"2.0","id":null,"method":"m"}`,
	`{"jsonrpc":"2.0","id":"\u0061\ud800","method":"\"","params":[]}`,
	`{"jsonrpc":"2.0","id":-9223372036854775808,"method":""}`,
	`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`,
	`{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1.0,"error":{"code":-1,"message":"m","data":{}}}`,
	`{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"error":null}`,
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\",\"params\":{\"\xfe\":\"\xfd\"}}",
	`[]`, `{}`, `{`, `null`, `42`, `"`, "", " ", "\r", "\x00", "{\"\\u00", "\ufeff{}",
}

// checkOutput fails where a line that went out is not JSON-RPC, or where there are
// more lines than the input may have caused.
func checkOutput(t interface{ Fatalf(string, ...any) }, input []byte, lines []string) {
	if most := bytes.Count(input, []byte("\n")) + 1; len(lines) > most {
		t.Fatalf("%d lines out for %d lines in: %q", len(lines), most, lines)
	}
	for _, line := range lines {
		if !utf8.ValidString(line) {
			t.Fatalf("not UTF-8: %q", line)
		}
		count := map[string]int{}
		if !json.Valid([]byte(line)) || !eachMember([]byte(line), func(name string, value json.RawMessage) {
			count[name]++
			if name == "id" && checkID(value) != "" || name == "jsonrpc" && string(value) != `"2.0"` {
				t.Fatalf("bad %s: %s", name, line)
			}
		}) {
			t.Fatalf("not an object: %q", line)
		}
		if len(count) != 3 || count["jsonrpc"] != 1 || count["id"] != 1 || count["result"]+count["error"] != 1 {
			t.Fatalf("not a response: %s", line)
		}
	}
}

func reflectParams(_ context.Context, r *Request) {
	_ = r.Reply(map[string]any{"method": r.Method, "params": r.Params})
}

func FuzzWhateverComesInOnlyJSONRPCGoesOut(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
		f.Add([]byte(seed + "\n" + seeds[0]))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		lines := exchange(t, bytes.NewReader(input), handlerFuncs{request: reflectParams}, Options{MaxLine: 10_000})
		checkOutput(t, input, lines)
	})
}

func FuzzWhatIsReadCanBeWrittenAndReadAgain(f *testing.F) {
	for _, seed := range []string{
		`{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"n","version":"v"}}`,
		`{"sessionId":"s","cwd":"/w","mcpServers":[{"name":"a","command":"/a","args":[],"env":[]}],"cursor":"c"}`,
		`{"sessionId":"s","prompt":[{"type":"resource","resource":{"uri":"u","blob":"b"}},{"type":"resource_link","uri":"u","name":"n","size":1}]}`,
		`{"sessionId":"s","prompt":[{"type":"image","data":"","mimeType":"","annotations":{"audience":["user"],"priority":0.1}}],"_meta":{"a":1e1}}`,
		`{"sessionId":"s","modeId":"m","methodId":"m","requestId":null}`,
		`{"outcome":{"outcome":"cancelled"},"action":"decline","sessionId":"s","configId":"c","value":"v"}`,
		`{"sessionId":"s","configId":"c","value":true,"type":"boolean","action":"other"}`,
		`{"outcome":{"outcome":"selected","optionId":"a"},"action":"accept","content":{"a":["b"]}}`,
		`{"output":"","truncated":true,"exitStatus":{"exitCode":1},"terminalId":"t"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, parse := range parsers {
			v, err := parse(text)
			if err != nil {
				if AsError(err).Code != CodeInvalidParams {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			once, err := json.Marshal(v)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again, err := parse(once)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, once, err)
			}
			if twice, _ := json.Marshal(again); !bytes.Equal(once, twice) {
				t.Fatalf("%s: %s became %s", name, once, twice)
			}
		}
	})
}

// Good lines and bad ones, mixed: each good request gets its
// answer, in order, whatever is between them.
func TestEveryGoodRequestIsAnsweredWhateverIsAroundIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) string { b, _ := json.Marshal(rapid.Int64().Draw(t, "number")); return string(b) }),
			rapid.Custom(func(t *rapid.T) string { b, _ := json.Marshal(rapid.String().Draw(t, "string")); return string(b) }),
			rapid.Just("null"),
		)
		noise := rapid.OneOf(
			rapid.SampledFrom(seeds),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
		)
		var input strings.Builder
		var want []string
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			if rapid.Bool().Draw(t, "good") {
				id := id.Draw(t, "id")
				input.WriteString(`{"jsonrpc":"2.0","id":` + id + `,"method":"good"}` + "\n")
				want = append(want, done(id, "good"))
			} else {
				input.WriteString(noise.Draw(t, "noise") + "\n")
			}
		}
		in := []byte(input.String())
		var out bytes.Buffer
		conn := NewConn(bytes.NewReader(in), &out, quiet(Options{}))
		conn.Start(context.Background(), handlerFuncs{})
		<-conn.Done()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		var lines, good []string
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			lines = append(lines, line)
			if strings.HasSuffix(line, `"result":{"did":"good"}}`) {
				good = append(good, line)
			}
		}
		checkOutput(t, in, lines)
		if strings.Join(good, "\n") != strings.Join(want, "\n") {
			t.Fatalf("answers\n%s\nwant\n%s", strings.Join(good, "\n"), strings.Join(want, "\n"))
		}
	})
}
