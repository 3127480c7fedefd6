package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

// A program that is an agent of an editor: its graph is written in Go, the sessions
// are threads of one file, and an editor starts it and talks on stdin and stdout.
func ExampleNewServer() {
	greeter := engine.MustCompile(engine.Definition{
		Name:     "greeter",
		Channels: map[string]engine.Channel{"prompt": {}, "response": {}},
		Nodes: map[string]engine.Node{
			"greet": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				return engine.Set("response", fmt.Sprintf("Hello, %v!", t.Get("prompt"))), nil
			}},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "greet"}},
		// Whoever uses the agent approves each greeting.
		InterruptBefore: []engine.Gate{{Node: "greet", Message: "Really greet?"}},
	})

	serve := func(in io.Reader, out io.Writer) error {
		dir, err := os.MkdirTemp("", "greeter")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		threads, err := store.Open(context.Background(), filepath.Join(dir, "threads.db"), store.Options{})
		if err != nil {
			return err
		}
		server, err := acp.NewServer(acp.Config{
			Store: threads, Graphs: []*engine.Graph{greeter}, Name: "greeter", Version: "1.0.0",
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return errors.Join(err, threads.Close())
		}
		// In a real agent: server.Serve(ctx, os.Stdin, os.Stdout)
		return errors.Join(server.Serve(context.Background(), in, out), threads.Close())
	}

	// What an editor does. It says yes to everything.
	talk(serve, "world")
	// Output:
	// the editor is asked: Really greet? [approve]
	// the agent says: Hello, world!
}

// An adapter changes how a prompt becomes the input of a graph, and how what the
// graph gives and asks becomes the session. A field that is not set stays as it is,
// and what calls it sees the change: here UserText, and so the default InitialState
// too.
func ExampleAdapter() {
	counter := engine.MustCompile(engine.Definition{
		Name:     "counter",
		Channels: map[string]engine.Channel{"question": {}, "answer": {}},
		Nodes: map[string]engine.Node{
			"count": {Run: func(_ context.Context, t *engine.Task) (engine.Output, error) {
				words := strings.Fields(fmt.Sprint(t.Get("question")))
				return engine.Set("answer", map[string]any{"words": len(words)}), nil
			}},
		},
		Edges:           []engine.Edge{{From: engine.Start, To: "count"}},
		InterruptBefore: []engine.Gate{{Node: "count"}},
	})
	adapter := acp.Adapter{
		InputChannel:  "question",
		OutputChannel: "answer",
		// Only what was typed counts; links and files are left out.
		UserText: func(blocks []acp.ContentBlock) (string, error) {
			var typed []string
			for _, b := range blocks {
				if b.Type == acp.ContentText {
					typed = append(typed, b.Text)
				}
			}
			return strings.Join(typed, "\n"), nil
		},
		// A sentence, and not the JSON of the value.
		AgentText: func(output acp.TurnOutput) (string, error) {
			answer, _ := output.Values["answer"].(map[string]any)
			return fmt.Sprintf("That has %v words.", answer["words"]), nil
		},
		// Other words, and other buttons.
		InterruptPermission: func(q interrupt.Question) (*acp.Permission, error) {
			return &acp.Permission{
				ToolCall: acp.ToolCall{Title: "Count the words of your prompt", Kind: acp.ToolThink},
				Options: []acp.PermissionOption{
					{OptionID: "yes", Name: "Count", Kind: acp.AllowOnce},
					{OptionID: "no", Name: "Leave it", Kind: acp.RejectOnce},
				},
			}, nil
		},
		// What they stand for. A gate takes "approve" and "reject".
		InterruptAnswer: func(_ interrupt.Question, optionID string) (any, error) {
			if optionID == "yes" {
				return interrupt.Approve, nil
			}
			return interrupt.Reject, nil
		},
	}
	talk(func(in io.Reader, out io.Writer) error {
		dir, err := os.MkdirTemp("", "counter")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		threads, err := store.Open(context.Background(), filepath.Join(dir, "threads.db"), store.Options{})
		if err != nil {
			return err
		}
		server, err := acp.NewServer(acp.Config{
			Store: threads, Graphs: []*engine.Graph{counter},
			Adapter: func(*engine.Graph) acp.Adapter { return adapter },
			Name:    "counter", Version: "1.0.0", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return errors.Join(err, threads.Close())
		}
		return errors.Join(server.Serve(context.Background(), in, out), threads.Close())
	}, "how many are these?")
	// Output:
	// the editor is asked: Count the words of your prompt [yes]
	// the agent says: That has 4 words.
}

// talk is a small editor: it begins a session, prompts once, and takes the first
// option of every dialog.
func talk(serve func(in io.Reader, out io.Writer) error, text string) {
	fromEditor, toAgent := io.Pipe()
	fromAgent, toEditor := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(fromEditor, toEditor)
		_ = toEditor.Close()
	}()
	send := func(format string, args ...any) {
		if _, err := fmt.Fprintf(toAgent, format+"\n", args...); err != nil {
			log.Fatal(err)
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	send(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, os.TempDir())
	lines := bufio.NewScanner(fromAgent)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Update struct {
					SessionUpdate string
					Content       struct{ Text string }
				}
				ToolCall struct{ Title string }
				Options  []acp.PermissionOption
			}
			Result struct{ SessionID, StopReason string }
			Error  json.RawMessage
		}
		// Content is a list in tool calls, which this editor does not show.
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil && m.Method != acp.MethodSessionUpdate {
			log.Fatal(err)
		}
		switch {
		case m.Error != nil:
			fmt.Println("the agent fails:", string(m.Error))
			_ = toAgent.Close()
		case m.Result.SessionID != "":
			send(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, m.Result.SessionID, text)
		case m.Method == acp.MethodSessionRequestPermission:
			fmt.Printf("the editor is asked: %s [%s]\n", m.Params.ToolCall.Title, m.Params.Options[0].OptionID)
			send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, m.ID, m.Params.Options[0].OptionID)
		case m.Params.Update.SessionUpdate == "agent_message_chunk":
			fmt.Println("the agent says:", m.Params.Update.Content.Text)
		case m.Result.StopReason != "":
			_ = toAgent.Close() // the editor leaves
		}
	}
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}
