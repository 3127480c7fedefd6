package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/nodes"
	"github.com/holdfast-agent/holdfast/store"
)

// The channels that text goes to and comes from.
const (
	inputChannel    = "prompt"
	messagesChannel = "messages"
)

type runFlags struct {
	thread   string
	input    string
	set      []string
	maxSteps int
	yes      bool
	as       string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [GRAPH]",
		Short: "Run one turn of a graph, with live progress, and ask its questions here",
		Long: `Runs one turn of a graph file in the terminal, or of the embedded default agent,
whose input is a shell command line that it asks about before it runs it.

The turn's reply goes to stdout, all else to stderr. A turn of the thread that a
crash cut short is finished first. A thread that is paused takes no input: the
questions are shown and the exit code is 3. Without a terminal to ask in the turn
pauses, and the last line is the command that answers. A turn that sleeps is waited
for.`,
		Example: `  agent run --input 'ls -l'
  agent run release.yaml --thread release-7 --input 'version 1.2' --set 'targets=["eu","us"]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			return a.runTurn(cmd, args, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.thread, "thread", "", "the thread `ID`; without it a new one is made and printed")
	flags.StringVar(&f.input, "input", "", "the `TEXT` of the input: channel prompt, or a user message in messages; or a command of the graph, as /name")
	flags.StringArrayVar(&f.set, "set", nil, "write a channel: `CHANNEL=JSON`; may be repeated")
	flags.IntVar(&f.maxSteps, "max-steps", 0, fmt.Sprintf("`N` steps at most since the last event from outside (default %d)", engine.DefaultMaxSteps))
	flags.BoolVar(&f.yes, "yes", false, "approve gates; choices and doubts still need a person")
	flags.StringVar(&f.as, "as", "", "the `NAME` that the log gets, beside the user of the system")
	return cmd
}

func (a *app) runTurn(cmd *cobra.Command, args []string, f runFlags) error {
	graph, err := a.loadGraph(args)
	if err != nil {
		return a.graphMistakes(err)
	}
	in, err := input(graph, f, cmd.Flags().Changed("input"))
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("thread") { // an empty one is a shell's variable that is not set
		if err := engine.CheckThreadID(f.thread); err != nil {
			return usage("--thread: %w", err)
		}
	}
	if f.maxSteps < 0 {
		return usage("--max-steps is %d; it is 1 or more", f.maxSteps)
	}
	if in.Cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("the folder in which the thread's commands would run: %w", err)
	}
	// Before the file is opened, which makes one where there is none.
	if err := graph.CheckInput(in.Values); err != nil {
		return err
	}
	ctx, stop := a.interruptible(cmd.Context())
	defer stop()
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	return closing(s, a.startTurn(ctx, s, graph, in, f))
}

func (a *app) startTurn(ctx context.Context, s *store.Store, graph *engine.Graph, in engine.Input, f runFlags) error {
	e := a.engine(graph, s, engine.Options{Ask: a.asker(f.as, f.yes), Sleep: true})
	thread := f.thread
	if thread == "" {
		var err error
		if thread, err = newThreadID(ctx, e, graph.Name()); err != nil {
			return err
		}
		a.screen.made = thread
	}
	turn, err := e.Start(ctx, thread, in)
	return a.conclude(ctx, s, thread, turn, err)
}

// loadGraph gives the graph that a command names, or the default agent.
func (a *app) loadGraph(args []string) (*engine.Graph, error) {
	if len(args) == 0 {
		return nodes.Default(), nil
	}
	return a.graphs.file(args[0])
}

// graphMistakes is the error of a graph that cannot be used.
func (a *app) graphMistakes(err error) error {
	return &exitError{code: exitUsage, err: err}
}

// input makes the input of a turn from the flags.
func input(graph *engine.Graph, f runFlags, hasText bool) (engine.Input, error) {
	in := engine.Input{
		Actor: f.as, Via: "cli", Client: client(), MaxSteps: f.maxSteps,
		Title: title(f.input, graph.Name()),
	}
	var err error
	if in.Values, err = channelValues("set", f.set); err != nil || !hasText {
		return in, err
	}
	if c, behind, ok := graph.Command(f.input); ok {
		given, err := c.Input(behind)
		if err != nil {
			return in, usage("--input: %w", err)
		}
		in.Text = f.input
		for channel, v := range given {
			if _, twice := in.Values[channel]; twice {
				return in, usage("--input %s writes channel %s, and so does --set: use one of them", quote("/"+c.Name), channel)
			}
			in.Values[channel] = v
		}
		return in, nil
	}
	channel, v := inputChannel, any(f.input)
	if !graph.HasChannel(inputChannel) {
		if !graph.HasChannel(messagesChannel) {
			return in, usage("--input: graph %s takes no text: it declares neither channel %s nor %s; declare one, or write its channels with --set CHANNEL=JSON",
				graph.Name(), inputChannel, messagesChannel)
		}
		channel, v = messagesChannel, []any{map[string]any{"role": "user", "content": f.input}}
	}
	if _, twice := in.Values[channel]; twice {
		return in, usage("--input writes channel %s, and so does --set: use one of them", channel)
	}
	in.Values[channel], in.Text = v, f.input
	return in, nil
}

// channelValues reads a flag that gives channels a value, CHANNEL=JSON each.
func channelValues(flag string, set []string) (engine.Values, error) {
	values := engine.Values{}
	for _, s := range set {
		channel, text, found := strings.Cut(s, "=")
		if !found || channel == "" {
			return nil, usage("--%s %s: expected CHANNEL=JSON, such as --%[1]s 'count=3'", flag, quote(s))
		}
		if _, twice := values[channel]; twice {
			return nil, usage("--%s %s: channel %s is set twice", flag, quote(s), channel)
		}
		v, err := decodeJSON(text)
		if err != nil {
			return nil, usage("--%s %s: %w", flag, channel, err)
		}
		values[channel] = v
	}
	return values, nil
}

// decodeJSON reads the JSON of a flag. Most mistakes are a text without quotes.
func decodeJSON(text string) (any, error) {
	v, err := value.Decode([]byte(text))
	if err == nil {
		return v, nil
	}
	quoted, quoteErr := value.Marshal(text)
	if quoteErr != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", quote(text), err)
	}
	return nil, fmt.Errorf("%s is not JSON (%w); for the text itself write %s", quote(shorten(text, 60)), err, quote(shorten(string(quoted), 80)))
}

func title(text, graph string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return graph
	}
	return shorten(line, 80)
}

// letters are those of Crockford's base 32: none that is taken for another.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

// newThreadID makes an id that no thread has: the graph's name and six letters.
func newThreadID(ctx context.Context, e *engine.Engine, graph string) (string, error) {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_') {
			return unicode.ToLower(r)
		}
		return '-'
	}, graph), "-.")
	if len(name) > 32 {
		name = strings.TrimRight(name[:32], "-.")
	}
	if name == "" {
		name = "thread"
	}
	for {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
		for i, b := range random {
			random[i] = letters[b&31]
		}
		id := name + "-" + string(random[:])
		_, err := e.State(ctx, id, 0)
		switch {
		case errors.Is(err, engine.ErrNotFound):
			return id, nil
		case err != nil && !errors.Is(err, engine.ErrDeleted):
			return "", err
		}
	}
}
