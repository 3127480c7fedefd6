package failpoint

import (
	"fmt"
	"syscall"
)

// kill is the nearest that Windows has to kill -9; 137 is what a shell reports
// for that elsewhere.
func kill() error {
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.TerminateProcess(self, 137)
	}
	if err != nil {
		return fmt.Errorf("fail point: cannot terminate this process: %w", err)
	}
	select {}
}
