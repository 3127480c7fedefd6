//go:build !unix

package main

// ignoreClosedPipes does nothing: here such a write is an error and no signal.
func ignoreClosedPipes() {}
