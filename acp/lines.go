package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLineTooLong says that a line was longer than allowed and has been skipped,
// up to and with its end. The next line can be read.
var errLineTooLong = errors.New("line too long")

// maxBeginning is how much of a line that is too long is told of it.
const maxBeginning = 512

// lineReader reads lines of a bounded length.
//
// bufio.Scanner is not used: its bound ends the reading, and here the connection
// must go on behind a line that is too long.
type lineReader struct {
	r     *bufio.Reader
	max   int
	begun bool
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns the next line without its end, in memory of its own, so that it
// may be kept. A last line without an end counts. errLineTooLong is the only
// error after which reading can go on; it comes with the beginning of the line.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.max+len("\r\n") {
			beginning := append(line[:min(len(line), maxBeginning)], part[:min(len(part), maxBeginning)]...)
			return bytes.Clone(beginning[:min(len(beginning), maxBeginning)]), l.skip(err)
		}
		line = append(line, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			if line = l.trim(line); len(line) > l.max {
				return bytes.Clone(line[:min(len(line), maxBeginning)]), errLineTooLong
			}
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}

// skip drops the rest of a line. err is what reading its last part gave.
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	// At the end of the input the line is over too; the next read finds the end.
	if err == nil || errors.Is(err, io.EOF) {
		return errLineTooLong
	}
	return err
}

// trim removes the end of the line, and a byte order mark that some shells write
// in front of everything.
func (l *lineReader) trim(line []byte) []byte {
	if !l.begun {
		l.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimRight(line, "\r\n")
}
