package nodes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

// agentVariable makes the test program an agent that runs one command.
const agentVariable = "HOLDFAST_TEST_AGENT_RUNS"

func TestMain(m *testing.M) {
	if line := os.Getenv(agentVariable); line != "" {
		p := &process{argv: []string{"sh", "-c", line}, clock: clock.Real, killAfter: killAfter, maxOutput: 1024,
			print: func(s string) { fmt.Print(s) }}
		_, err := p.run(context.Background())
		fmt.Println("ended", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestACommandDiesWithAKilledAgent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	agent := exec.Command(self)
	agent.Env = append(os.Environ(), agentVariable+"=echo $$; exec sleep 1000")
	out, err := agent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	command := atoi(t, []byte(line))
	require.NoError(t, syscall.Kill(command, 0))
	require.NoError(t, agent.Process.Kill())
	_ = agent.Wait()
	requireDead(t, command)
}

func TestACommandOutlivesThreadsThatEnd(t *testing.T) {
	t.Parallel()
	p, _, lines := newProcess(`echo started; read x; echo got $x`, t.TempDir())
	// The command waits on a named pipe, so that it runs until we say.
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	p.argv[2] = "echo started; read x <" + fifo + "; echo got $x"
	ended := make(chan *result)
	go func() {
		r, err := p.run(context.Background())
		if err != nil {
			panic(err)
		}
		ended <- r
	}()
	require.Equal(t, "started\n", <-lines)
	// A goroutine that ends while it is locked takes its thread with it. Were
	// the command tied to such a thread, it would be killed now.
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { runtime.LockOSThread() })
	}
	wg.Wait()
	require.NoError(t, os.WriteFile(fifo, []byte("it\n"), 0o600))
	result := <-ended
	require.Equal(t, 0, result.exitCode)
	require.Equal(t, "got it\n", <-lines)
}

func TestOnlyTheCommandItselfLives(t *testing.T) {
	t.Parallel()
	p, _, lines := newProcess(`sleep 1000 & echo $!; exec sleep 1000`, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	notes := make(chan map[string]any, 1)
	p.started = func(pid int) error { notes <- noteOf(pid); return nil }
	ended := make(chan error)
	go func() {
		_, err := p.run(ctx)
		ended <- err
	}()
	note := <-notes
	left := atoi(t, []byte(<-lines))
	pid := int(note["pid"].(int64))
	require.Equal(t, pid, lives(note))
	other := map[string]any{"pid": note["pid"], "start": "1", "boot": note["boot"]}
	require.Zero(t, lives(other), "a later process with the same number")
	require.Zero(t, lives(map[string]any{"pid": note["pid"], "start": note["start"], "boot": "another"}), "before the machine was started anew")
	require.Zero(t, lives(nil))
	require.Zero(t, lives("x"))

	// The command alone is killed, as the parent-death signal would do it.
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return lives(note) == left }, 30*time.Second, 5*time.Millisecond, "what it left behind is named")
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	<-ended
	cancel()
	require.Eventually(t, func() bool { return lives(note) == 0 }, 30*time.Second, 5*time.Millisecond)
}
