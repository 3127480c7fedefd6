package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/nodes"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) graphCommand() *cobra.Command {
	return group("graph", "Check a graph file, draw it, or describe the format",
		a.graphCheckCommand(), a.graphShowCommand(), a.graphSchemaCommand())
}

// problemJSON is a mistake or a warning in a graph file.
type problemJSON struct {
	Severity   string `json:"severity"` // error or warning
	File       string `json:"file"`
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Pointer    string `json:"pointer"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

func (a *app) graphCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check GRAPH",
		Short: "Report every mistake of a graph file, with its place",
		Long: `Reports every mistake of a graph file at once, with line, column and the line
itself, and then the warnings. The exit code is 1 if there is a mistake.`,
		Example: "  agent graph check release.yaml",
		Args:    cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(_ *cobra.Command, args []string) error {
		graph, err := nodes.LoadFile(args[0])
		var mistakes *engine.CompileError
		if err != nil && !errors.As(err, &mistakes) {
			return &exitError{code: exitUsage, err: err}
		}
		lines := sourceLines(args[0])
		if mistakes != nil {
			for _, p := range mistakes.Problems {
				a.graphProblem("error", args[0], lines, p, *asJSON)
			}
			a.screen.line("%s: %s", args[0], count(int64(len(mistakes.Problems)), "mistake", "mistakes"))
			return said(exitFailed)
		}
		for _, p := range graph.Warnings() {
			a.graphProblem("warning", args[0], lines, p, *asJSON)
		}
		if !*asJSON {
			fmt.Fprintf(a.out, "%s: ok: graph %s, %s, %s\n", oneLine(args[0]), oneLine(graph.Name()),
				count(int64(len(graph.Nodes())), "node", "nodes"), count(int64(len(graph.Channels())), "channel", "channels"))
		}
		return nil
	})
	return cmd
}

// sourceLines are the lines of a file that was read before; none if it cannot
// be read again.
func sourceLines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\n")
}

func (a *app) graphProblem(severity, file string, lines []string, p engine.Problem, asJSON bool) {
	if asJSON {
		// An error of stdout is kept by out, and said at the end.
		_ = a.out.json(problemJSON{
			Severity: severity, File: file, Line: p.Line, Column: p.Column,
			Pointer: p.Pointer, Message: p.Message, Suggestion: p.Suggestion,
		})
		return
	}
	at := file
	if p.Line > 0 {
		at += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	fmt.Fprintf(a.out, "%s: %s: %s", oneLine(at), severity, oneLine(p.Message))
	if p.Suggestion != "" {
		fmt.Fprintf(a.out, "; %s", oneLine(p.Suggestion))
	}
	if p.Pointer != "" {
		fmt.Fprintf(a.out, " (%s)", oneLine(p.Pointer))
	}
	fmt.Fprintln(a.out)
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
		return
	}
	line := []rune(strings.TrimRight(lines[p.Line-1], "\r"))
	if len(line) > 200 {
		return // not written for people
	}
	before := visible(string(line[:min(p.Column-1, len(line))]))
	fmt.Fprintf(a.out, "%6d | %s\n       | %s^\n", p.Line, visible(string(line)), strings.Repeat(" ", drawn(before)))
}

// drawn is how wide text most likely is on a screen.
func drawn(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 && r <= 0xFFDC && (r <= 0x115F || r >= 0x2E80) || r >= 0x1F300 {
			n++
		}
	}
	return n
}

func (a *app) graphShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [GRAPH]",
		Short: "Draw a graph, or the default agent, as a Mermaid flow chart",
		Long: `Draws a graph, or the default agent, as a Mermaid flow chart. With --thread it is
the graph of that thread's turn, with colours for what ran in the turn, where it
is now, and what is next; with @SEQ as it was right after that entry.`,
		Example: "  agent graph show release.yaml > release.mmd\n  agent graph show --thread release-7",
		Args:    cobra.MaximumNArgs(1),
	}
	thread := cmd.Flags().String("thread", "", "the `THREAD[@SEQ]` that is drawn")
	cmd.RunE = a.does(func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("thread") {
			if len(args) > 0 {
				return usage("a thread has a graph of its own; leave out %s", args[0])
			}
			return a.showThreadGraph(cmd.Context(), *thread)
		}
		graph, err := a.loadGraph(args)
		if err != nil {
			return &exitError{code: exitUsage, err: err}
		}
		a.out.text(graph.Mermaid())
		return nil
	})
	return cmd
}

// showThreadGraph draws where a thread is.
func (a *app) showThreadGraph(ctx context.Context, arg string) error {
	thread, seq, err := checkpoint(arg)
	if err != nil {
		return err
	}
	return a.looking(ctx, func(s *store.Store) error {
		view, err := s.At(ctx, thread, seq)
		if err != nil {
			return err
		}
		definition, err := s.Graph(ctx, view.Thread.Graph)
		if err != nil {
			return err
		}
		graph, err := a.graphs.load(view.Thread.GraphName, definition)
		if err != nil {
			return fmt.Errorf("graph %s of thread %s cannot be loaded: %w", view.Thread.GraphName, thread, err)
		}
		turn, err := s.History(ctx, thread, max(view.InputSeq-1, 0), 0)
		if err != nil {
			return err
		}
		a.out.text(graph.MermaidAt(view, turn))
		return nil
	})
}

func (a *app) graphSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of graph files, for an editor's completion",
		Long: `Prints the JSON Schema of graph files, which an editor uses to complete and check
them: save it, and name it in the editor's settings, or in the first line of a
YAML file as # yaml-language-server: $schema=PATH`,
		Example: "  agent graph schema > graph.schema.json",
		Args:    cobra.NoArgs,
		RunE: a.does(func(*cobra.Command, []string) error {
			_ = a.out.json(nodes.Schema()) // kept by out, and said at the end
			return nil
		}),
	}
}
