package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

const about = `agent runs agents and workflows as durable turns in one SQLite file: no step is
lost, no answer is acted on twice, and the file says who approved what.

The file is --db, else $HOLDFAST_DB, else $XDG_DATA_HOME/holdfast/agent.db (unset:
~/.local/share, or the system's place for application data).

`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Durable agent turns in one SQLite file",
		Long:          about + exitHelp,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.db, "db", "", "the database `FILE`")
	root.AddCommand(
		a.serveCommand(), a.runCommand(), a.answerCommand(), a.resumeCommand(), a.cancelCommand(), a.signalCommand(),
		a.forkCommand(), a.updateCommand(), a.deleteCommand(),
		a.threadsCommand(), a.showCommand(), a.historyCommand(), a.logCommand(), a.diffCommand(), a.inboxCommand(),
		a.auditCommand(), a.doctorCommand(), a.pruneCommand(), a.redactCommand(), a.backupCommand(), a.graphCommand(), a.nodesCommand(),
	)
	return root
}

// does notes that the command line was right: what goes wrong from here on is
// no mistake in it.
func (a *app) does(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		if cmd.Flags().Changed("db") && a.db == "" {
			return usage("--db is empty; name a file, or leave the flag out")
		}
		return f(cmd, args)
	}
}

// group is a command that is only the name of others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("unknown command %q for %q; there are %s", args[0], cmd.CommandPath(), strings.Join(commandNames(cmd), ", "))
		},
	}
	g.AddCommand(commands...)
	return g
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "one JSON value a line")
}

// version is that of the module, with the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && v == "(devel)" {
			v += " " + s.Value[:12]
		}
	}
	return v + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// moduleVersion is the version alone.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// client names this program in the log.
func client() string { return "agent " + moduleVersion() }

// sayArguments lets each command say what arguments it takes when it got others.
func sayArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		sayArguments(c)
	}
	fit := cmd.Args
	if fit == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if fit(cmd, args) == nil {
			return nil
		}
		given := make([]string, len(args))
		for i, arg := range args {
			given[i] = strconv.Quote(arg)
		}
		line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		if len(args) == 0 {
			return fmt.Errorf("an argument is missing: %s", line)
		}
		return fmt.Errorf("the arguments %s are too many or too few: %s", strings.Join(given, " "), line)
	}
}
