//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// typedLines reads lines that a person types. A read ends with its context and
// leaves nobody behind who would take the line that is meant for the next
// question, or for the shell after this program: it waits until the terminal
// has a line, and reads only then.
type typedLines struct {
	fd   int
	rest []byte // read, and not given out yet
}

func newTypedLines(f *os.File) *typedLines { return &typedLines{fd: int(f.Fd())} }

// look is how long a wait lasts before it looks at its context again.
const look = 50 * time.Millisecond

// discard drops what was typed and not read yet.
func (t *typedLines) discard() {
	t.rest = nil
	flushInput(t.fd)
}

// read gives the next line without its end, or io.EOF.
func (t *typedLines) read(ctx context.Context) (string, error) {
	buf := make([]byte, 4096)
	for {
		if line, rest, found := bytes.Cut(t.rest, []byte("\n")); found {
			t.rest = rest
			return string(line), nil
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		ready, err := readable(t.fd)
		if err != nil {
			return "", err
		}
		if !ready {
			continue
		}
		n, err := unix.Read(t.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil:
			return "", err
		case n == 0:
			return "", io.EOF
		default:
			t.rest = append(t.rest, buf[:n]...)
		}
	}
}

// readable waits a moment for something to read. It is select, because poll
// does not know terminals on every system.
func readable(fd int) (bool, error) {
	var set unix.FdSet
	set.Set(fd)
	moment := unix.NsecToTimeval(look.Nanoseconds())
	n, err := unix.Select(fd+1, &set, nil, nil, &moment)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}
