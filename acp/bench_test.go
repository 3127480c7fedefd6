package acp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// BenchmarkPrompt measures in one run, over pipes of the operating system: a
// session/prompt around a turn of one node, the same turn without a protocol, and a
// bare round trip of jsonrpc2. The metric x-roundtrips is what the prompt adds to
// its turn, in round trips: the medians of both, subtracted and divided.
func BenchmarkPrompt(b *testing.B) {
	s, err := store.Open(context.Background(), filepath.Join(b.TempDir(), "agent.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	graph := single("echo", echo)
	prompt := served(b, s, graph)
	trip := bare(b)
	bareEngine := engine.New(graph, s, engine.Options{})
	turn := func() {
		if _, err := bareEngine.Start(context.Background(), "bare", engine.Input{Values: engine.Values{"prompt": "hello"}, Text: "hello"}); err != nil {
			b.Fatal(err)
		}
	}
	var prompts, turns, trips []time.Duration
	timed := func(list *[]time.Duration, f func()) {
		began := time.Now()
		f()
		*list = append(*list, time.Since(began))
	}
	prompt()
	turn()
	trip()
	for b.Loop() {
		timed(&prompts, prompt)
		timed(&turns, turn)
		timed(&trips, trip)
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2])
	}
	b.ReportMetric(median(prompts), "ns/prompt")
	b.ReportMetric(median(turns), "ns/turn")
	b.ReportMetric(median(trips), "ns/roundtrip")
	b.ReportMetric((median(prompts)-median(turns))/median(trips), "x-roundtrips")
}

func pipes(b *testing.B) (r, w *os.File) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	return r, w
}

// served gives a function that prompts once and waits for the response.
func served(b *testing.B, s *store.Store, graph *engine.Graph) func() {
	b.Helper()
	server, err := acp.NewServer(acp.Config{Store: s, Graphs: []*engine.Graph{graph}})
	if err != nil {
		b.Fatal(err)
	}
	fromClient, toAgent := pipes(b)
	fromAgent, toClient := pipes(b)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(context.Background(), fromClient, toClient)
	}()
	b.Cleanup(func() { _ = toAgent.Close(); <-ended })
	lines := bufio.NewReaderSize(fromAgent, 64<<10)
	id := 0
	call := func(method, params string) string {
		id++
		if _, err := fmt.Fprintf(toAgent, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			b.Fatal(err)
		}
		want := fmt.Sprintf(`"id":%d,"result"`, id)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			if strings.Contains(line, want) {
				return line
			}
		}
	}
	call("initialize", `{"protocolVersion":1}`)
	session := call("session/new", `{"cwd":"/","mcpServers":[]}`)
	session = session[strings.Index(session, "sess_"):][:len("sess_")+32]
	params := `{"sessionId":"` + session + `","prompt":[{"type":"text","text":"hello"}]}`
	return func() { call("session/prompt", params) }
}

// bare gives a function that makes one round trip of jsonrpc2.
func bare(b *testing.B) func() {
	b.Helper()
	type ends struct {
		io.Reader
		io.WriteCloser
	}
	fromClient, toServer := pipes(b)
	fromServer, toClient := pipes(b)
	answer := jsonrpc2.HandlerWithError(func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) (any, error) {
		return map[string]string{"stopReason": "end_turn"}, nil
	})
	server := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewPlainObjectStream(ends{fromClient, toClient}), answer)
	client := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewPlainObjectStream(ends{fromServer, toServer}), answer)
	b.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	params := map[string]any{"sessionId": "s", "prompt": []any{map[string]string{"type": "text", "text": "hello"}}}
	return func() {
		var result map[string]string
		if err := client.Call(context.Background(), "session/prompt", params, &result); err != nil {
			b.Fatal(err)
		}
	}
}
