//go:build unix && !linux

package nodes

import "syscall"

// dieWithParent does nothing: this system has no parent-death signal.
func dieWithParent(*syscall.SysProcAttr) {}
