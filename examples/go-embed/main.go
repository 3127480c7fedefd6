// Command go-embed has the library in a program of its own: a node type in Go, a
// graph from a file that names it, and turns that outlive the process.
//
//	go run ./examples/go-embed order-1 pears 3     begins a turn, which pauses
//	go run ./examples/go-embed order-1 approve     answers, in another process
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/nodes"
	"github.com/holdfast-agent/holdfast/store"
)

//go:embed graph.yaml
var graphFile []byte

var prices = map[string]int{"pears": 3, "plums": 2}

// price is a node type for graph files. Its schema is checked when a file is
// loaded, and again when the values of ${{ }} are known.
var price = nodes.Type{
	Name: "price", Version: 1,
	Doc: "Writes what so many of an item cost to output.",
	Schema: map[string]any{
		"required": []string{"item", "output"},
		"properties": map[string]any{
			"item":   map[string]any{"type": "string", "minLength": 1, "description": "what is ordered"},
			"count":  map[string]any{"type": "integer", "minimum": 1, "description": "how many; absent: one"},
			"output": map[string]any{"type": "string", "description": "the channel that gets the price"},
		},
	},
	New: func(c *nodes.Config) engine.Node {
		output := c.Output("output", nil)
		return engine.Node{Run: func(ctx context.Context, t *engine.Task) (engine.Output, error) {
			order, err := engine.Resolved[struct {
				Item  string
				Count int
			}](t)
			if err != nil {
				return engine.Output{}, err
			}
			// An effect: what it gave is stored, and it is not asked for again when
			// this node runs once more.
			each, err := engine.Step(ctx, "look up", func(context.Context) (int, error) {
				p, ok := prices[order.Item]
				if !ok {
					return 0, fmt.Errorf("there are no %s", order.Item)
				}
				return p, nil
			})
			if err != nil {
				return engine.Output{}, err
			}
			return engine.Set(output, each*max(order.Count, 1)), nil
		}}
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "orders.db", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, args []string, out io.Writer) (err error) {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: go-embed ORDER ITEM [COUNT], or go-embed ORDER approve|reject")
	}
	// Only what the graph needs, and what is the program's own.
	own, err := nodes.Only("set")
	if err != nil {
		return err
	}
	if err := own.Register(price); err != nil {
		return err
	}
	graph, err := own.Load("order", graphFile)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, file, store.Options{Program: "go-embed"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	e := engine.New(graph, s, engine.Options{Load: own.Load})

	thread := args[0]
	var turn *engine.Turn
	if choice := args[1]; choice == interrupt.Approve || choice == interrupt.Reject {
		now, err := e.State(ctx, thread, 0)
		if err != nil {
			return err
		}
		if len(now.Open()) == 0 {
			return fmt.Errorf("order %s has no open question: it is %s", thread, now.Head.Status)
		}
		turn, err = e.Resume(ctx, thread, interrupt.Answer{Question: now.Open()[0].ID(), Choice: choice})
		if err != nil {
			return err
		}
	} else {
		values := engine.Values{"item": args[1]}
		if len(args) == 3 {
			n, err := strconv.Atoi(args[2])
			if err != nil {
				return fmt.Errorf("COUNT is a number, not %q", args[2])
			}
			values["count"] = n
		}
		turn, err = e.Start(ctx, thread, engine.Input{Values: values})
	}
	if err != nil {
		return err
	}
	switch {
	case len(turn.Questions) > 0:
		fmt.Fprintf(out, "%s It costs %v. Answer with: go-embed %s approve\n", turn.Questions[0].Payload.Message, turn.State["total"], thread)
	case turn.Status == engine.Done:
		fmt.Fprintf(out, "paid %v\n", turn.State["paid"])
	default:
		fmt.Fprintf(out, "the order is %s\n", turn.Status)
	}
	return nil
}
