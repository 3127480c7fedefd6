//go:build !unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"sync"
)

// typedLines reads lines that a person types. Where a read of the terminal
// cannot be ended, one goroutine reads for the whole life of the program, so
// that no line is lost to a question that was withdrawn.
type typedLines struct {
	f     *os.File
	once  sync.Once
	lines chan string // closed at the end of the input
}

func newTypedLines(f *os.File) *typedLines {
	return &typedLines{f: f, lines: make(chan string, 64)}
}

func (t *typedLines) start() {
	go func() {
		defer close(t.lines)
		in := bufio.NewReader(t.f)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			t.lines <- strings.TrimRight(line, "\r\n")
		}
	}()
}

// discard drops the lines that were typed and not read yet.
func (t *typedLines) discard() {
	for {
		select {
		case _, open := <-t.lines:
			if !open {
				return
			}
		default:
			return
		}
	}
}

// read gives the next line without its end, or io.EOF.
func (t *typedLines) read(ctx context.Context) (string, error) {
	t.once.Do(t.start)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case line, open := <-t.lines:
		if !open {
			return "", io.EOF
		}
		return line, nil
	}
}
