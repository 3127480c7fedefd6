package main

import "golang.org/x/sys/unix"

// flushInput makes the terminal forget what was typed, half a line too.
func flushInput(fd int) {
	_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) // no terminal: nothing was typed
}
