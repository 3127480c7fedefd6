//go:build unix

package nodes

import (
	"errors"
	"os"
	"syscall"
)

// exitOf gives the exit code, as a shell would: 128 and the signal's number
// for one that a signal ended.
func exitOf(state *os.ProcessState) (code int, signal string) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), status.Signal().String()
	}
	return state.ExitCode(), ""
}

func tooLong(err error) bool { return errors.Is(err, syscall.E2BIG) }
