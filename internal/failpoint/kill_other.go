//go:build !windows

package failpoint

import (
	"fmt"
	"os"
	"syscall"
)

// kill dies as by kill -9: no deferred call, no flush, no exit handler.
func kill() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("fail point: cannot kill this process: %w", err)
	}
	select {} // the signal is on its way; nothing may run behind it
}
