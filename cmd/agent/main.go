// Command agent runs graphs as durable turns, asks people before the dangerous
// step, and shows what happened: one SQLite file, one program.
//
// Rules that hold here:
//
//   - The commands have no logic of their own: flags in, calls to the other
//     packages, text or JSON out.
//   - stdout is for what was asked for: a turn's reply, a listing. Progress,
//     questions and errors go to stderr.
//   - Text that a graph, a model or a command wrote is never sent to a terminal
//     as it is: what cannot be seen is written as an escape (text.go), so that
//     an approver sees the command that will run and nothing else.
//   - What is typed before a question was shown never answers it.
//   - An error says what was wrong, where, and what to do. The exit codes are
//     in exit.go and in the help of the program.
package main

import (
	"context"
	"io"
	"os"
	"sync/atomic"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/nodes"
)

func main() {
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).run(context.Background(), os.Args[1:]))
}

// app is one run of the program: its streams, and the flags of all commands.
type app struct {
	stdin  *os.File
	out    *output
	screen *screen
	db     string // --db as given
	dialog bool   // a person is there to be asked
	graphs library

	// begun says that a command began its own work: an error before that is
	// about flags and arguments.
	begun   bool
	lines   *typedLines
	resting atomic.Bool // a dialog is open, or the turn sleeps: nothing runs
	stopped atomic.Bool // a signal to stop has come
}

func newApp(stdin, stdout, stderr *os.File) *app {
	return &app{
		stdin:  stdin,
		out:    newOutput(stdout),
		screen: newScreen(stderr),
		dialog: isTerminal(stdin) && isTerminal(stderr),
		lines:  newTypedLines(stdin),
		graphs: library{file: nodes.LoadFile, load: nodes.Load},
	}
}

// library is where graphs come from.
type library struct {
	file func(path string) (*engine.Graph, error)
	load func(name string, definition []byte) (*engine.Graph, error) // of the database
}

// run runs one command line and gives the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	ignoreClosedPipes()
	root := a.rootCommand()
	sayArguments(root)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(io.Discard) // errors are written here, and nowhere else
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.begun {
		err = &exitError{code: exitUsage, err: err, hint: "see " + cmd.CommandPath() + " --help"}
	}
	code := a.report(err)
	if err := a.out.Close(); err != nil {
		a.screen.problem("write to stdout: " + err.Error())
		if code == exitDone {
			code = exitFailed
		}
	}
	return code
}
