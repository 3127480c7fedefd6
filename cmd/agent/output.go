package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// output is stdout. After the first error it takes no more: whoever reads a
// listing may close the pipe in the middle, and that is no failure.
type output struct {
	buf      *bufio.Writer
	terminal bool
	err      error
}

func newOutput(f *os.File) *output {
	return &output{buf: bufio.NewWriter(f), terminal: isTerminal(f)}
}

func (o *output) Write(p []byte) (int, error) {
	if o.err == nil {
		_, o.err = o.buf.Write(p)
	}
	return len(p), o.err
}

// Close writes what is left. A pipe that its reader closed is no error.
func (o *output) Close() error {
	if o.err == nil {
		o.err = o.buf.Flush()
	}
	if errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return o.err
}

// json writes one JSON value and ends the line.
func (o *output) json(v any) error {
	enc := json.NewEncoder(o)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// text writes something that a graph or a command wrote: as it is, but for a
// terminal.
func (o *output) text(s string) {
	if o.terminal {
		s = visible(s)
	}
	_, _ = io.WriteString(o, s) // the error is kept, and Close gives it
	if !strings.HasSuffix(s, "\n") {
		_, _ = io.WriteString(o, "\n")
	}
}

// table aligns rows under a head.
type table struct {
	w *tabwriter.Writer
}

func (o *output) table(head ...string) *table {
	t := &table{w: tabwriter.NewWriter(o, 0, 4, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		// A cell is one line, and a tab in it would begin the next.
		cells[i] = strings.ReplaceAll(oneLine(c), "\t", " ")
	}
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// localTime is a time for a person, with its zone.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// jsonTime is a time for a program.
func jsonTime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
