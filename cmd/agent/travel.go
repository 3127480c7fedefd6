package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

func (a *app) forkCommand() *cobra.Command {
	var into string
	var inPlace bool
	by := engine.By{Via: "cli", Client: client()}
	cmd := &cobra.Command{
		Use:   "fork THREAD@SEQ [--thread NEW | --in-place]",
		Short: "Go on from a checkpoint in a new thread, or go back to it",
		Long: `Makes a thread that goes on from a checkpoint of another: with the state it had
then, and what was ready to run. THREAD alone is its newest checkpoint. With
--in-place the thread itself goes back; what came after stays in its log.

Answers are not copied: a gate at that point is asked anew, and the exit code is 3.
Nothing runs: agent resume goes on, in the folder of the thread.`,
		Example: `  agent fork release-7@4
  agent fork release-7@4 --thread release-7b
  agent fork release-7@4 --in-place --reason 'wrong version'`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			source, seq, err := checkpoint(args[0])
			if err != nil {
				return err
			}
			named := cmd.Flags().Changed("thread")
			switch {
			case inPlace && named:
				return usage("--thread makes a new thread and --in-place changes the old one: use one of them")
			case inPlace && seq == 0:
				return usage("%s is not a checkpoint: say which one the thread goes back to, as THREAD@SEQ; agent history %s lists them", args[0], quote(source))
			case named && into == source:
				return usage("--thread %s is the thread that is forked: name a new one, or use --in-place to go back", quote(into))
			case named:
				if err := engine.CheckThreadID(into); err != nil {
					return usage("--thread: %w", err)
				}
			}
			return a.working(cmd.Context(), func(s *store.Store) error {
				ctx := cmd.Context()
				view, err := s.At(ctx, source, seq)
				if err != nil {
					return err
				}
				e := a.engine(nil, s, engine.Options{})
				switch {
				case inPlace:
					into = source
				case !named:
					if into, err = newThreadID(ctx, e, view.Thread.GraphName); err != nil {
						return err
					}
				}
				from := engine.CheckpointID(source, view.Head.Seq)
				turn, err := e.Fork(ctx, from, into, by)
				if err != nil {
					return err
				}
				if inPlace {
					a.screen.line("thread %s went back to %s", into, from)
				} else {
					a.screen.line("thread %s\nit goes on from %s", into, from)
				}
				return a.stands(turn)
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&into, "thread", "", "the new thread's `ID`; without it one is made and printed")
	flags.BoolVar(&inPlace, "in-place", false, "let the thread itself go back")
	flags.StringVar(&by.Reason, "reason", "", "why, for the log (`TEXT`)")
	flags.StringVar(&by.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	return cmd
}

func (a *app) updateCommand() *cobra.Command {
	var set, overwrite []string
	edit := engine.Edit{By: engine.By{Via: "cli", Client: client()}}
	cmd := &cobra.Command{
		Use:   "update THREAD [--node NODE] --set CHANNEL=JSON... --overwrite CHANNEL=JSON...",
		Short: "Change the state of a thread at rest",
		Long: `Writes channels of a thread at rest: --set through their reducers, so that it adds
to a list; --overwrite past them, before any --set. What is ready to run stays; with --node the edit counts as what that node wrote, and where the node leads
is ready next: what was dropped for that is said.

Open questions become void: gates are asked again on the new state, and the exit code
is 3; a node that asked, or slept, runs again from its top. Nothing runs here: agent
resume goes on.`,
		Example: `  agent update release-7 --set 'version="1.3"' --reason 'a typo'
  agent update release-7 --overwrite 'log=[]'
  agent update release-7 --node test --set 'log={"exit_code": 0}'`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			thread, err := threadArg(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("node") && edit.Node == "" {
				return usage("--node is empty: name a node of the graph, or leave the flag out")
			}
			if len(set) == 0 && len(overwrite) == 0 && edit.Node == "" {
				return usage("there is nothing to change: say what with --set CHANNEL=JSON or --overwrite CHANNEL=JSON, or what counts as done with --node NODE")
			}
			if edit.Writes, err = writes(overwrite, set); err != nil {
				return err
			}
			return a.working(cmd.Context(), func(s *store.Store) error {
				before, err := s.At(cmd.Context(), thread, 0)
				if err != nil {
					return err
				}
				edited, err := a.engine(nil, s, engine.Options{}).Update(cmd.Context(), thread, edit)
				if err != nil {
					return err
				}
				a.edited(thread, before, edited)
				return a.stands(edited.Turn)
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&set, "set", nil, "write a channel through its reducer: `CHANNEL=JSON`; may be repeated")
	flags.StringArrayVar(&overwrite, "overwrite", nil, "write a channel past its reducer: `CHANNEL=JSON`; may be repeated")
	flags.StringVar(&edit.Node, "node", "", "let the edit count as what this `NODE` wrote")
	flags.StringVar(&edit.By.Reason, "reason", "", "why, for the log (`TEXT`)")
	flags.StringVar(&edit.By.Actor, "as", "", "the `NAME` that the log gets, beside the user of the system")
	return cmd
}

// writes reads --overwrite and --set. What is overwritten comes first: after a
// --set of its channel it would undo that.
func writes(overwrite, set []string) (out []engine.Write, err error) {
	for _, f := range []struct {
		name string
		set  []string
	}{{"overwrite", overwrite}, {"set", set}} {
		values, err := channelValues(f.name, f.set)
		if err != nil {
			return nil, err
		}
		for _, s := range f.set {
			channel, _, _ := strings.Cut(s, "=")
			out = append(out, engine.Write{Channel: channel, Value: values[channel], Overwrite: f.name == "overwrite"})
		}
	}
	return out, nil
}

// edited says what an edit did, and what does not count any more.
func (a *app) edited(thread string, before *engine.View, edited *engine.Edited) {
	a.screen.line("thread %s is changed", thread)
	if len(edited.Dropped) > 0 {
		a.screen.line("dropped: %s, ready before and not any more", strings.Join(edited.Dropped, ", "))
	}
	var void []string
	for _, questions := range [][]interrupt.Question{before.Open(), before.Waits()} {
		for _, q := range questions {
			void = append(void, q.ID()+" ("+where(q)+")")
		}
	}
	if len(void) > 0 {
		a.screen.line("void: %s", strings.Join(void, ", "))
	}
}
