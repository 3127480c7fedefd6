package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // for the command sql
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agent": programWithTestGraphs})
}

// TestScripts runs testdata/script: every command, exit code and message, with
// the program as a user has it. Beside testscript's own commands there are
//
//	exits CODE PROGRAM ARG...   runs a program that must end with this code
//	last PATTERN                the last line of stderr matches
//	sql FILE STATEMENT          changes a database behind the program's back
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("HOLDFAST_DB", filepath.Join(env.WorkDir, "agent.db"))
			env.Setenv("XDG_DATA_HOME", "")
			env.Setenv("TZ", "UTC")
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "last": last, "sql": statement,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, expected %d", code, want)
	}
}

func last(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: last LINE")
	}
	lines := strings.Split(strings.TrimRight(ts.ReadFile("stderr"), "\n"), "\n")
	if got := lines[len(lines)-1]; got != args[0] {
		ts.Fatalf("the last line of stderr is %q, expected %q", got, args[0])
	}
}

func statement(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[1])
	ts.Check(err)
}
