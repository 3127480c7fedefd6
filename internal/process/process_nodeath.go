//go:build unix && !linux

package process

import "syscall"

// dieWithParent does nothing: this system has no parent-death signal.
func dieWithParent(*syscall.SysProcAttr) {}
