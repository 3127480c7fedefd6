//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreClosedPipes makes a write to a pipe that nobody reads any more an error
// of that write. Otherwise it would kill the program, perhaps in the middle of
// a turn. The signal is caught, not ignored: commands would inherit the latter.
func ignoreClosedPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
