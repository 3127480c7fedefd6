//go:build unix

package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

// runExec runs one exec node whose configuration is given, and gives what it
// wrote and the folder that it ran in.
func runExec(t *testing.T, config string, values engine.Values) (map[string]any, string, error) {
	t.Helper()
	g := "schema_version: 1\nchannels: {v: {}, w: {}, out: {}}\nnodes:\n  a:\n    type: exec\n    output: out\n" +
		indent(config, "    ") + "\nedges: [{from: __start__, to: a}]\n"
	dir := t.TempDir()
	turn, err := engine.New(mustLoad(t, g), nil, engine.Options{}).
		Start(t.Context(), "t", engine.Input{Values: values, Cwd: dir})
	if err != nil {
		return nil, dir, err
	}
	out, _ := turn.State["out"].(map[string]any)
	return out, dir, nil
}

func TestACommandGivesItsOutputAndItsExitCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		values engine.Values
		want   map[string]any
	}{
		"a list": {`command: [printf, "%s|", a b, 5, 1.10, true, "${{ v }}", "x${{ w }}"]`, engine.Values{"v": "c  d", "w": []any{1, "y"}},
			map[string]any{"stdout": `a b|5|1.10|true|c  d|x[1,"y"]|`, "stderr": "", "exit_code": int64(0), "truncated": false}},
		"a line": {`command: echo out; echo err >&2; exit 3`, nil,
			map[string]any{"stdout": "out\n", "stderr": "err\n", "exit_code": int64(3), "truncated": false}},
		"a signal": {`command: kill -9 $$`, nil,
			map[string]any{"stdout": "", "stderr": "", "exit_code": int64(137), "signal": "killed", "truncated": false}},
		"stdin": {"command: [cat]\nstdin: 'got ${{ v }}'", engine.Values{"v": 7},
			map[string]any{"stdout": "got 7", "stderr": "", "exit_code": int64(0), "truncated": false}},
		"no stdin": {`command: [cat]`, nil,
			map[string]any{"stdout": "", "stderr": "", "exit_code": int64(0), "truncated": false}},
		"stdin that is not read": {"command: ['true']\nstdin: '${{ v }}'", engine.Values{"v": strings.Repeat("x", 500_000)},
			map[string]any{"stdout": "", "stderr": "", "exit_code": int64(0), "truncated": false}},
		"env": {"command: [sh, -c, 'printf %s \"$PORT $NAME\"']\nenv: {PORT: 8080, NAME: 'n ${{ v }}'}", engine.Values{"v": "x"},
			map[string]any{"stdout": "8080 n x", "stderr": "", "exit_code": int64(0), "truncated": false}},
		"invalid UTF-8": {`command: printf 'a\377b'`, nil,
			map[string]any{"stdout": "a\ufffdb", "stderr": "", "exit_code": int64(0), "truncated": false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, err := runExec(t, c.config, c.values)
			require.NoError(t, err)
			require.Equal(t, c.want, out)
		})
	}
}

func TestACommandRunsInTheThreadsFolder(t *testing.T) {
	t.Parallel()
	out, dir, err := runExec(t, `command: pwd -P`, nil)
	require.NoError(t, err)
	real, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.Equal(t, real+"\n", out["stdout"])
	out, _, err = runExec(t, "command: pwd -P\ncwd: ${{ v }}", engine.Values{"v": "/"})
	require.NoError(t, err)
	require.Equal(t, "/\n", out["stdout"])
}

func TestAProgramIsFoundInTheFolderThatTheCommandRunsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A link: a script that was just written may still be open for writing in
	// another test's child, which keeps it from being run.
	echo, err := exec.LookPath("echo")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(echo, filepath.Join(dir, "deploy.sh")))
	out, _, err := runExec(t, "command: [./deploy.sh, x]\ncwd: "+dir, nil)
	require.NoError(t, err)
	require.Equal(t, "x\n", out["stdout"])
}

func TestACommandThatCannotStartSaysSoAndIsNotInDoubt(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`command: [no-such-program-here, x]`:        "there is no such program",
		`command: ["echo hi"]`:                      "a list is a program and its arguments",
		"command: [ls]\ncwd: nowhere":               "nowhere does not exist",
		"command: [ls]\ncwd: /etc/passwd":           "is no folder",
		"command: [\"${{ v }}\"]":                   "there is no such program",
		"command: [echo, \"${{ w }}\"]":             "too long; give large values by stdin",
		"command: [/etc/passwd]":                    "it may not be executed",
		"command: exit 4\nfail_on: nonzero":         "exit code 4 (fail_on: nonzero)",
		"command: echo no; false\nfail_on: nonzero": "its last line: no",
	} {
		_, _, err := runExec(t, config, engine.Values{"w": strings.Repeat("x", 900_000)})
		require.ErrorContains(t, err, want, config)
		require.NotErrorIs(t, err, engine.ErrInDoubt, config)
	}
}

func TestNoValueIsEverReadAsAProgram(t *testing.T) {
	t.Parallel()
	values := []string{
		`'; touch pwned; '`, `"; touch pwned; "`, "`touch pwned`", `$(touch pwned)`, "a\ntouch pwned\n", `; touch pwned #`,
		`| touch pwned`, `&& touch pwned`, `${x:-$(touch pwned)}`, `\`, `\"; touch pwned; \"`, `a[$(touch pwned)]`,
		`) ; touch pwned ; (`, "EOF\ntouch pwned\n", `*`, `~`, `-n`, ` two  words `, ``, `'`, `"`, `%s%s`, "\t",
	}
	// %s is where the value stands; %q in what is printed is the value itself.
	lines := map[string]string{
		`printf %s @`:                                "%s",
		`printf '%s' @`:                              "%s",
		`printf %s "@"`:                              "%s",
		`printf %s "a @ b"`:                          "a %s b",
		`printf %s x@y`:                              "x%sy",
		`printf %s "x"@"y"`:                          "x%sy",
		`printf %s 'a '@' b'`:                        "a %s b",
		`printf %s "$(printf %s @; echo .)"`:         "%s.",
		`printf %s "$(printf '%s' "@"; echo .)"`:     "%s.",
		`X=@; printf %s "$X"`:                        "%s",
		`X="a@"; printf %s "$X"`:                     "a%s",
		`case @ in x) ;; *) printf %s @ ;; esac`:     "%s",
		`if [ @ = @ ]; then printf %s @; fi`:         "%s",
		`(printf %s @)`:                              "%s",
		`{ printf %s @; }`:                           "%s",
		`true && printf %s @ || false`:               "%s",
		`printf %s @ | cat`:                          "%s",
		"cat <<EOF\nx@y\nEOF":                        "x%sy\n",
		"cat <<-EOF\n\tx@y\n\tEOF\nprintf %s @":      "x%sy\n%s",
		"cat <<EOF\n$(printf %s \"@\"; echo .)\nEOF": "%s.\n",
		"# don't @\nprintf %s @":                     "%s",
		`printf %s @ # it's`:                         "%s",
		`echo \' >/dev/null; printf %s @`:            "%s",
		`sh -c 'printf %s "$1"' sh @`:                "%s",
		`printf %s "${HOME:+set}"@`:                  "set%s",
		`echo $((1+1)) >/dev/null; printf %s @`:      "%s",
	}
	for line, format := range lines {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			for _, v := range values {
				config := "command: |-\n" + indent(strings.ReplaceAll(line, "@", "${{ v }}"), "  ")
				out, dir, err := runExec(t, config, engine.Values{"v": v})
				require.NoError(t, err, config)
				want := strings.ReplaceAll(format, "%s", v)
				require.Equal(t, want, out["stdout"], "%s with %q: %v", line, v, out["stderr"])
				require.NoFileExists(t, filepath.Join(dir, "pwned"), "%s with %q", line, v)
			}
		})
	}
}

func TestAPlaceWhereAValueWouldBeReadAsAProgramIsRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`echo 'a @'`:            "inside single quotes",
		`sh -c 'echo @'`:        "inside single quotes",
		`awk '{print @}'`:       "inside single quotes",
		"echo `echo @`":         "inside backticks",
		"echo \"`echo @`\"":     "inside backticks",
		`echo $((1 + @))`:       "shell arithmetic",
		`((x = @))`:             "shell arithmetic",
		`echo ${X:-@}`:          "inside ${ }",
		`[[ @ -eq 1 ]] && ls`:   "[[ ]]",
		`a[@]=1`:                "inside name[ ]",
		`eval echo @`:           "eval reads its arguments as a program",
		`eval "echo @"`:         "eval reads its arguments as a program",
		`ssh host ls @`:         "ssh reads its arguments as a program",
		`trap @ EXIT`:           "trap reads",
		`sh -c "echo @"`:        "a part of the program that sh runs",
		`sudo bash -lc @`:       "a part of the program that bash runs",
		`python3 -c "print(@)"`: "a part of the program that python3 runs",
		"cat <<'EOF'\n@\nEOF":   "this here-document is not expanded",
		`echo \@`:               "a backslash in front",
		`echo $'x' @`:           "$'...'",
		"cat <<@\nx\n":          "the end of a here-document",
	} {
		g := "schema_version: 1\nchannels: {v: {}}\nnodes:\n  a:\n    type: exec\n    command: |-\n" +
			indent(strings.ReplaceAll(line, "@", "${{ v }}"), "      ") + "\nedges: [{from: __start__, to: a}]\n"
		got := mistakes(t, g)
		require.Len(t, got, 1, line)
		require.Contains(t, got[0].Message, want, line)
		at := strings.Index(line, "@")
		row := strings.Count(line[:at], "\n")
		require.Equal(t, 7+row, got[0].Line, line)
		require.Equal(t, 7+at-(strings.LastIndexByte(line[:at], '\n')+1), got[0].Column, line)
	}
}

func TestAFloodOfOutputIsCutAndNeverKeepsTheCommandWaiting(t *testing.T) {
	t.Parallel()
	out, _, err := runExec(t, `command: head -c 100000000 /dev/zero | tr '\0' 'é' | tr -d '\251'; echo; echo the end`, nil)
	require.NoError(t, err)
	text := out["stdout"].(string)
	require.Equal(t, true, out["truncated"])
	require.LessOrEqual(t, len(text), 3*defaultMaxOutput) // each byte is replaced by three
	require.True(t, strings.HasSuffix(text, "the end\n"))
	require.Contains(t, text, " bytes left out ...\n")
}

func TestOutputThatJSONWritesLongerStillFitsAValue(t *testing.T) {
	t.Parallel()
	out, _, err := runExec(t, "command: head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2\nmax_output: 524288", nil)
	require.NoError(t, err)
	require.Equal(t, true, out["truncated"])
	require.NotEmpty(t, out["stdout"])
	require.NotEmpty(t, out["stderr"])
}

func TestSomethingLeftInTheBackgroundDoesNotHoldTheNode(t *testing.T) {
	t.Parallel()
	out, dir, err := runExec(t, `command: sleep 1000 & echo $! > pid; echo started`, nil)
	require.NoError(t, err)
	require.Equal(t, "started\n", out["stdout"])
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	p, err := os.FindProcess(atoi(t, pid))
	require.NoError(t, err)
	require.NoError(t, p.Kill(), "what a command leaves behind on purpose lives on")
}

func atoi(t *testing.T, text []byte) int {
	t.Helper()
	var n int
	_, err := fmt.Sscan(string(text), &n)
	require.NoError(t, err)
	return n
}

// newProcess is a shell line with a clock of its own; lines gets its output
// line by line.
func newProcess(line string, dir string) (p *process, c *clock.Fake, lines chan string) {
	c = clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	lines = make(chan string, 100)
	return &process{
		argv: []string{"sh", "-c", line}, cwd: dir, clock: c, killAfter: killAfter, maxOutput: defaultMaxOutput,
		print: func(s string) {
			for _, line := range strings.SplitAfter(s, "\n") {
				if line != "" {
					lines <- line
				}
			}
		},
	}, c, lines
}

func TestATimeoutEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	p, c, lines := newProcess(`trap 'echo asked; exit 0' TERM; sleep 1000 & echo $!; while :; do sleep 0.01; done`, t.TempDir())
	p.timeout = time.Minute
	ended := make(chan *result)
	go func() {
		r, err := p.run(context.Background())
		if err != nil {
			panic(err)
		}
		ended <- r
	}()
	sleeper := atoi(t, []byte(<-lines))
	require.NoError(t, c.WaitForTimers(t.Context(), 1))
	c.Advance(time.Minute)
	require.Equal(t, "asked\n", <-lines)
	// The signal may have met the sleeper before it was one, when it was still
	// a copy of the shell: then it is killed when the grace time is over.
	c.Advance(killAfter)
	r := <-ended
	require.True(t, r.timedOut)
	requireDead(t, sleeper)
}

func TestACancelKillsAGroupThatDoesNotListen(t *testing.T) {
	t.Parallel()
	p, c, lines := newProcess(`trap '' TERM; echo $$; while :; do sleep 1000; done`, t.TempDir())
	ctx, cancel := context.WithCancelCause(context.Background())
	why := fmt.Errorf("nobody wants it any more")
	ended := make(chan error)
	go func() {
		_, err := p.run(ctx)
		ended <- err
	}()
	shell := atoi(t, []byte(<-lines))
	cancel(why)
	require.NoError(t, c.WaitForTimers(t.Context(), 1))
	c.Advance(killAfter)
	require.ErrorIs(t, <-ended, why)
	requireDead(t, shell)
}

// requireDead waits until a process is gone, or dead and not yet collected by
// whoever inherited it.
func requireDead(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 30*time.Second, 5*time.Millisecond)
}

func TestACommandThatKeepsTheOutputOpenAfterItsEndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	p, c, lines := newProcess(`sleep 1000 & echo $!`, t.TempDir())
	ended := make(chan *result)
	go func() {
		r, err := p.run(context.Background())
		if err != nil {
			panic(err)
		}
		ended <- r
	}()
	sleeper := atoi(t, []byte(<-lines))
	require.NoError(t, c.WaitForTimers(t.Context(), 1))
	c.Advance(drainFor)
	require.Equal(t, 0, (<-ended).exitCode)
	require.NoError(t, syscall.Kill(sleeper, syscall.SIGKILL))
}

func TestACommandWhoseNoteCannotBeStoredIsStopped(t *testing.T) {
	t.Parallel()
	p, _, _ := newProcess(`sleep 1000`, t.TempDir())
	lost := fmt.Errorf("another process has the thread")
	var pid int
	p.started = func(n int) error { pid = n; return lost }
	_, err := p.run(context.Background())
	require.ErrorIs(t, err, lost)
	requireDead(t, pid)
}

func TestATimeoutIsADoubtOnlyWhereAPersonIsAsked(t *testing.T) {
	t.Parallel()
	for policy, doubt := range map[string]bool{"ask": true, "retry": false, "fail": false} {
		_, _, err := runExec(t, "command: echo last words; exec sleep 1000\ntimeout: 100ms\non_crash: "+policy, nil)
		require.Error(t, err)
		if doubt {
			// Without a store nobody can be asked.
			require.ErrorIs(t, err, engine.ErrNoStore)
			continue
		}
		require.ErrorContains(t, err, "timeout: it was killed after 100ms")
	}
}

func TestTheDefaultAgentRunsThePromptAndRepliesWithItsOutput(t *testing.T) {
	t.Parallel()
	// Without its gate, which needs a store and a person.
	g := mustLoad(t, strings.Replace(defaultFile, "\ninterrupt_before:", "\nx-gates:", 1))
	for prompt, want := range map[string]string{
		"echo hello; echo note >&2":           "hello\n",
		"printf a; printf b >&2; exit 3":      "a\nb\nexit code 3",
		"echo a; echo b >&2; exit 3":          "a\nb\nexit code 3",
		"false":                               "exit code 1",
		`for i in 1 2; do echo "$i"'x'; done`: "1x\n2x\n",
	} {
		turn, err := engine.New(g, nil, engine.Options{}).Start(t.Context(), "t",
			engine.Input{Values: engine.Values{"prompt": prompt}, Cwd: t.TempDir()})
		require.NoError(t, err, prompt)
		require.Equal(t, want, turn.State["response"], prompt)
	}
}

// terminal is a host with a terminal, as a client offers one.
type terminal struct {
	engine.NoHost
	got  []engine.Command
	give engine.CommandResult
	err  error
}

func (h *terminal) Terminal(_ context.Context, _ *engine.Task, c engine.Command) (engine.CommandResult, error) {
	h.got = append(h.got, c)
	return h.give, h.err
}

func TestACommandRunsInTheClientsTerminalWhereItOffersOne(t *testing.T) {
	t.Parallel()
	g := mustLoad(t, "schema_version: 1\nchannels: {v: {}, out: {}}\nnodes: {a: {type: exec, command: 'echo ${{ v }}', output: out, on_crash: retry}}\nedges: [{from: __start__, to: a}]\n")
	dir := t.TempDir()
	start := func(h engine.Host) (any, error) {
		turn, err := engine.New(g, nil, engine.Options{Host: h}).Start(t.Context(), "t",
			engine.Input{Values: engine.Values{"v": "hi"}, Cwd: dir})
		if err != nil {
			return nil, err
		}
		return turn.State["out"], nil
	}
	h := &terminal{give: engine.CommandResult{Output: "there", ExitCode: 2, Truncated: true}}
	out, err := start(h)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"stdout": "there", "stderr": "", "exit_code": int64(2), "truncated": true}, out)
	require.Equal(t, []engine.Command{{
		Args: []string{"sh", "-c", `echo "${HF_1}"`}, Dir: dir, Env: map[string]string{"HF_1": "hi"}, Limit: defaultMaxOutput,
	}}, h.got)

	out, err = start(&terminal{err: engine.ErrNoTerminal})
	require.NoError(t, err)
	require.Equal(t, "hi\n", out.(map[string]any)["stdout"])

	_, err = start(&terminal{err: os.ErrClosed})
	require.ErrorContains(t, err, os.ErrClosed.Error())
}

func TestAListThatHandsValuesToAShellIsWarnedAbout(t *testing.T) {
	t.Parallel()
	for command, warned := range map[string]bool{
		`[sh, -c, "echo ${{ v }}"]`:             true,
		`[/bin/bash, -lc, "${{ v }}"]`:          true,
		`[cmd, /c, "${{ v }}"]`:                 true,
		`[sh, -c, 'echo "$1"', sh, "${{ v }}"]`: false,
		`[sh, -c, "echo $${{ v }}"]`:            false,
		`[echo, -c, "${{ v }}"]`:                false,
	} {
		g := mustLoad(t, "schema_version: 1\nchannels: {v: {}}\nnodes: {a: {type: exec, command: "+command+", cwd: '${{ v }}'}}\nedges: [{from: __start__, to: a}]\n")
		require.Equal(t, warned, len(g.Warnings()) == 1, command)
	}
}
