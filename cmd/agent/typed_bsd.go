//go:build unix && !linux

package main

import "golang.org/x/sys/unix"

// flushInput drops what was typed: here the lines that are complete.
func flushInput(fd int) {
	buf := make([]byte, 4096)
	for {
		if ready, err := readable(fd); err != nil || !ready {
			return
		}
		if n, err := unix.Read(fd, buf); err != nil || n == 0 {
			return
		}
	}
}
