// Package toolserver is a server of the Model Context Protocol for tests, which does
// what it is told to, also what is wrong. A test program is the server itself when
// it is started by Command: its TestMain calls Main first.
package toolserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Variable is the environment variable that makes a program the server.
const Variable = "HOLDFAST_TEST_TOOLSERVER"

// The ways in which a server behaves.
const (
	Good     = "good"
	Crash    = "crash"    // says why on stderr and exits
	Hang     = "hang"     // answers nothing
	Garbage  = "garbage"  // writes what is no message in between
	Flood    = "flood"    // sends notifications and requests without end
	Long     = "long"     // a line that is too long
	Stubborn = "stubborn" // does not end when it is asked to, and has a child
	Refuse   = "refuse"   // does not know initialize
)

// Main serves and ends the program, if it was started as a server.
func Main() {
	mode := os.Getenv(Variable)
	if mode == "" {
		return
	}
	if file := os.Getenv("PIDFILE"); file != "" {
		// The whole line is written at once, to whoever waits for it.
		_ = os.WriteFile(file, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
	}
	switch mode {
	case Crash:
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(3)
	case Hang:
		wait()
	case Refuse:
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var m struct{ ID json.RawMessage }
			if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID != nil {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"never heard of it"}}`+"\n", m.ID)
			}
		}
		os.Exit(0)
	case Garbage:
		fmt.Println("Starting up...")
		fmt.Println(`{"level":"info","msg":"ready"}`)
		fmt.Println()
		go every(time.Millisecond, func() { fmt.Println("garbage [") })
	case Flood:
		go flood()
	case Long:
		fmt.Println(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 20<<20) + `"}`)
	case Stubborn:
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err == nil {
			_ = os.WriteFile(os.Getenv("PIDFILE")+".child", fmt.Appendf(nil, "%d\n", child.Process.Pid), 0o600)
		}
	}
	fmt.Fprintln(os.Stderr, "tool server is up")
	err := New().Run(context.Background(), &mcp.StdioTransport{})
	if mode == Stubborn {
		wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(0)
}

// wait waits for ever, without the runtime taking it for a deadlock.
func wait() {
	for {
		time.Sleep(time.Hour)
	}
}

func every(pause time.Duration, do func()) {
	for {
		do()
		time.Sleep(pause)
	}
}

func flood() {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for i := 0; ; i++ {
		_, _ = out.WriteString(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1000) + `"}}` + "\n")
		if i%10 == 0 {
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"flood-%d","method":"ping"}`+"\n", i)
		}
		if out.Flush() != nil {
			return
		}
	}
}

// Command is how a test starts this program as a server.
func Command() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self
}

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

type total struct {
	Sum int `json:"sum"`
}

type text struct {
	Text string `json:"text"`
}

// New makes a server with its tools.
func New() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "toolserver", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{ListChanged: true},
	}})
	mcp.AddTool(s, &mcp.Tool{Name: "add", Title: "Add", Description: "adds two numbers", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in sum) (*mcp.CallToolResult, total, error) {
			return nil, total{in.A + in.B}, nil
		})
	plain := func(name string, do func(ctx context.Context, r *mcp.CallToolRequest, in text) ([]mcp.Content, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "for tests"}, func(ctx context.Context, r *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			content, err := do(ctx, r, in)
			return &mcp.CallToolResult{Content: content}, nil, err
		})
	}
	says := func(text string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: text}} }
	plain("echo", func(_ context.Context, _ *mcp.CallToolRequest, in text) ([]mcp.Content, error) {
		return says("echo: " + in.Text), nil
	})
	plain("fail", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) {
		return nil, errors.New("the disk is full")
	})
	plain("image", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) {
		return []mcp.Content{&mcp.TextContent{Text: "a dot"}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}, nil
	})
	plain("where", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) {
		folder, err := os.Getwd()
		return says(folder + " " + os.Getenv("GIVEN")), err
	})
	plain("header", func(_ context.Context, r *mcp.CallToolRequest, _ text) ([]mcp.Content, error) {
		if r.Extra == nil {
			return says(""), nil
		}
		return says(r.Extra.Header.Get("X-Token")), nil
	})
	// It says in a file that it runs, and hangs until it is not wanted any more.
	plain("hang", func(ctx context.Context, _ *mcp.CallToolRequest, in text) ([]mcp.Content, error) {
		if err := os.WriteFile(in.Text, []byte("up\n"), 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	plain("die", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) {
		os.Exit(1)
		return nil, nil
	})
	plain("grow", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) {
		plain("grown", func(context.Context, *mcp.CallToolRequest, text) ([]mcp.Content, error) { return says("grown"), nil })
		return says("ok"), nil
	})
	return s
}

// Handler serves the server over HTTP: the present transport, or the older one.
func Handler(server *mcp.Server, sse bool) http.Handler {
	get := func(*http.Request) *mcp.Server { return server }
	if sse {
		return mcp.NewSSEHandler(get, nil)
	}
	return mcp.NewStreamableHTTPHandler(get, nil)
}
