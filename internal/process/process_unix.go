//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// Prepare makes the command one that ends with this process, and its group one
// that SignalGroup ends. It comes before Start.
func Prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// SignalGroup ends the command's process group, politely or not. A group that
// is gone is fine.
func SignalGroup(pid int, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, signal)
}
