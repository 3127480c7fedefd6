// Package process starts programs that end with this one: each in a process
// group of its own, which is ended as a whole, and with a parent-death signal
// where the system has one.
package process

import (
	"os/exec"
	"runtime"
)

// Start starts a command that Prepare has prepared, and gives a channel that is
// closed when it has ended; its ProcessState says how.
//
// On Linux the parent-death signal comes when the thread that started the
// command ends, not only with the process. So one goroutine keeps its thread
// from the start to the end of the command.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	done := make(chan struct{})
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // its ProcessState says everything
		}
	}()
	if err := <-begun; err != nil {
		<-done
		return nil, err
	}
	return done, nil
}
