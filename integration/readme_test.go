//go:build unix

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line of a README's shell block. The convention:
//
//		```sh
//		$ go run ./cmd/agent run examples/release.yaml   runs; one shell for the file
//		# exit 3                                         its exit code; absent: 0
//		anything else                                    what it prints: not compared
//		```
//
//	  - Only blocks that are fenced as sh are run, and only those that have a line
//	    which begins with "$ ". All of them run in order, in one folder that holds
//	    a copy of the repository's files, with HOLDFAST_DB set, so that variables
//	    and files of an earlier line are there in a later one.
//	  - "go run ./cmd/agent" and "go run github.com/.../cmd/agent@..." are the
//	    built program, and so is "agent".
//	  - "go test" is not run: this is it. Nor are "git clone" and "cd", which
//	    bring a reader to where the test is already.
//	  - A line that ends with a backslash goes on in the next one, which then
//	    needs no "$ ".
//	  - "&" puts a command into the background as in any shell, and kill -9 and
//	    wait find it there; so a line such as "wait" may have the exit code 137.
//	  - A block after the line <!-- not run: REASON --> is not run.
type readmeLine struct {
	number  int
	command string
	code    int
}

var (
	fence   = regexp.MustCompile("^\\s*```\\s*(\\S*)")
	exits   = regexp.MustCompile(`^# exit (\d+)`)
	builtIn = regexp.MustCompile(`go run (\./cmd/agent|github\.com/holdfast-agent/holdfast/cmd/agent@\S+)`)
	skipped = regexp.MustCompile(`^(go test|go build|git clone|cd)\b`)
)

func readmeLines(text string) (lines []readmeLine) {
	in, sh, off := false, false, false
	goesOn := false
	for i, line := range strings.Split(text, "\n") {
		if m := fence.FindStringSubmatch(line); m != nil {
			in = !in
			sh = in && m[1] == "sh" && !off
			if !in {
				off = false
			}
			goesOn = false
			continue
		}
		switch {
		case !in:
			off = off && strings.TrimSpace(line) == "" || strings.HasPrefix(line, "<!-- not run:")
		case !sh:
		case goesOn || strings.HasPrefix(line, "$ "):
			line = strings.TrimPrefix(line, "$ ")
			if goesOn {
				lines[len(lines)-1].command += "\n" + line
			} else {
				lines = append(lines, readmeLine{number: i + 1, command: line})
			}
			goesOn = strings.HasSuffix(line, `\`)
		default:
			if m := exits.FindStringSubmatch(line); m != nil && len(lines) > 0 {
				lines[len(lines)-1].code, _ = strconv.Atoi(m[1])
			}
		}
	}
	return lines
}

// script runs all lines in one shell and ends at the first with another exit
// code than the README says.
func script(lines []readmeLine) string {
	var b strings.Builder
	b.WriteString("agent() { \"$AGENT\" \"$@\"; }\n")
	for _, l := range lines {
		if skipped.MatchString(l.command) {
			continue
		}
		command := builtIn.ReplaceAllString(l.command, "agent")
		if strings.HasSuffix(strings.TrimSpace(command), "&") {
			// A function in the background is a shell around the program, which
			// a kill -9 would hit instead of it.
			command = strings.Replace(command, "agent ", `"$AGENT" `, 1)
		}
		fmt.Fprintf(&b, "echo '+ line %d' >&2\n%s\n", l.number, command)
		fmt.Fprintf(&b, "code=$?; if [ $code -ne %d ]; then echo \"README.md:%d: exit code $code, and not %d\" >&2; exit 99; fi\n", l.code, l.number, l.code)
	}
	return b.String()
}

// TestTheCommandsOfTheReadmeWork runs them as a reader would.
func TestTheCommandsOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	require.NoError(t, err)
	lines := readmeLines(string(text))
	require.NotEmpty(t, lines, "README.md has no line that begins with $ in a block fenced as sh")

	h := newHarness(t)
	for _, name := range []string{"examples", "docs"} {
		if _, err := os.Stat(filepath.Join(moduleRoot, name)); err == nil {
			require.NoError(t, os.CopyFS(filepath.Join(h.dir, name), os.DirFS(filepath.Join(moduleRoot, name))))
		}
	}
	c := h.command()
	c.argv, c.args = []string{"sh", "-c", script(lines)}, []string{"(the commands of README.md)"}
	c.env = []string{"AGENT=" + program}
	c.run().exits(0)
}

// TestTheReadmeTestNotices is a README for the test itself.
func TestTheReadmeTestNotices(t *testing.T) {
	t.Parallel()
	readme := strings.ReplaceAll(`
'''sh
$ cd holdfast
$ go test ./...
$ x=three; echo \
    $x > said
output that is not compared
'''
'''sh
$ go run ./cmd/agent show nobody
# exit 1
$ sleep 60 &
$ kill -9 $!
$ wait $!
# exit 137
'''
'''yaml
$ exit 5
'''
<!-- not run: needs a robot -->
'''sh
$ exit 6
'''
'''sh
$ test "$(cat said)" = three
'''
`, "'''", "```")
	run := func(text string) int {
		cmd := exec.Command("sh", "-c", script(readmeLines(text)))
		cmd.Dir = t.TempDir()
		cmd.Env = append(cleanEnv(), "AGENT="+program, "HOLDFAST_DB="+filepath.Join(cmd.Dir, "agent.db"))
		out, _ := cmd.CombinedOutput()
		t.Logf("%s", out)
		return cmd.ProcessState.ExitCode()
	}
	require.Equal(t, 0, run(readme))
	require.Equal(t, 99, run(strings.Replace(readme, "# exit 1\n", "# exit 2\n", 1)))
	require.Equal(t, 99, run(strings.Replace(readme, "= three", "= four", 1)))
}
