package main

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/nodes"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) serveCommand() *cobra.Command {
	var files []string
	var keep store.Retention
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Be an agent of an editor: speak the Agent Client Protocol on stdin and stdout",
		Long: `Speaks version 1 of the Agent Client Protocol on stdin and stdout, for an editor
that starts it. A session is a thread, with the same id. Without --graph it is the
embedded default agent, whose prompt is a shell command line that it asks about
before it runs it.

stdout is the protocol and nothing else; the log goes to stderr. When the editor
leaves, work that runs is stopped, what is stored stays, and the exit code is 0.
A turn that is paused stays paused: the next prompt, in this process or a later
one, asks again, and so do agent inbox and agent answer.

With --keep-turns or --max-age it removes the payloads of old turns while it runs, as
agent prune does: at its start and every hour, a few at a time.`,
		Example: `  agent serve
  agent serve --max-age 90d
  agent serve --graph release.yaml --graph survey.yaml`,
		Args: cobra.NoArgs,
		RunE: a.does(func(cmd *cobra.Command, _ []string) error {
			if err := checkRetention(cmd.Flags(), keep); err != nil {
				return err
			}
			return a.serve(cmd.Context(), files, keep)
		}),
	}
	retentionFlags(cmd.Flags(), &keep)
	cmd.Flags().StringArrayVar(&files, "graph", nil, "serve the graph of this `FILE`; of several a session chooses one, and the first is the default")
	return cmd
}

func (a *app) serve(ctx context.Context, files []string, keep store.Retention) error {
	// From here on nothing but the protocol gets to the real stdout, whoever
	// prints: a node, a library, a panic.
	stdout := os.Stdout
	os.Stdout = os.Stderr

	graphs, err := servedGraphs(files)
	if err != nil {
		return a.graphMistakes(err)
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := a.openLogging(ctx, log)
	if err != nil {
		return err
	}
	server, err := acp.NewServer(acp.Config{
		Store: s, Graphs: graphs, Load: nodes.Load,
		Name: "holdfast", Version: moduleVersion(),
		Log: log,
	})
	if err != nil {
		return closing(s, &exitError{code: exitUsage, err: err})
	}
	pruning, stopPruning := context.WithCancel(ctx)
	var pruner sync.WaitGroup
	if keep.Limits() {
		pruner.Go(func() { s.Keep(pruning, keep, engine.By{Actor: "retention", Via: "serve", Client: client()}) })
	}
	err = server.Serve(ctx, a.stdin, stdout)
	stopPruning()
	pruner.Wait() // with what it is at, before the file is closed
	return closing(s, err)
}

func servedGraphs(files []string) ([]*engine.Graph, error) {
	if len(files) == 0 {
		return []*engine.Graph{nodes.Default()}, nil
	}
	var graphs []*engine.Graph
	for _, file := range files {
		g, err := nodes.LoadFile(file)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, g)
	}
	return graphs, nil
}
