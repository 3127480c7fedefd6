package process

import "syscall"

// dieWithParent lets the kernel kill the command when the agent dies. That is
// the command itself; what it started in turn only ends if it notices.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
