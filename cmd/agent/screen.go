package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen is stderr: progress, questions and errors. Its methods may be called
// from several goroutines. Text is written through visible, but for styles,
// which are this program's own. Write errors are passed over: a turn goes on
// also when nobody watches it any more.
type screen struct {
	mu    sync.Mutex
	w     io.Writer
	fd    int
	tty   bool
	moves bool // the terminal can go back to a line that was written
	color bool

	tasks map[string]*taskLine
	last  string // task whose start is the last line on the screen
	made  string // id of a new thread, which was not shown yet
	asked string // id of the question that was shown last
}

func newScreen(f *os.File) *screen {
	tty := isTerminal(f)
	smart := tty && os.Getenv("TERM") != "dumb"
	return &screen{
		w: f, fd: int(f.Fd()), tty: tty,
		moves: smart, color: smart && os.Getenv("NO_COLOR") == "",
		tasks: map[string]*taskLine{},
	}
}

// width is how many columns a line has, less one: some terminals go to the
// next line as soon as the last column is written.
func (s *screen) width() int {
	if s.tty {
		if w, _, err := term.GetSize(s.fd); err == nil && w > 0 {
			return max(w, 20) - 1
		}
	}
	return 100
}

// The styles of a terminal.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

// style gives text in a style. The text must be visible already.
func (s *screen) style(code, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// raw writes text that is visible already. The caller holds s.mu.
func (s *screen) raw(text string) {
	s.last = ""
	_, _ = io.WriteString(s.w, text)
}

// line writes one line, or several.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw(visible(fmt.Sprintf(format, args...)) + "\n")
}

// problem writes an error.
func (s *screen) problem(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw(s.style(red, "error:") + " " + visible(text) + "\n")
}

// prompt writes the start of a line, behind which a person types.
func (s *screen) prompt(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw(s.style(bold, visible(text)) + " ")
}

// block writes text that somebody else wrote, behind a bar on every line: so it
// cannot look like what this program says. limit bounds the lines; 0 is none.
func (s *screen) block(text string, limit int) {
	lines := wrap(visible(strings.TrimRight(text, "\n")), s.width()-4)
	more := 0
	if limit > 0 && len(lines) > limit {
		more, lines = len(lines)-limit, lines[:limit]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range lines {
		s.raw("  " + s.style(dim, "|") + " " + line + "\n")
	}
	if more > 0 {
		s.raw(fmt.Sprintf("  (%d more lines: agent inbox --json has them)\n", more))
	}
}

// field writes a name and what stands behind it, wrapped below itself.
func (s *screen) field(name, text string) {
	const indent = 2 + 10
	lines := wrap(visible(text), s.width()-indent-2)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, line := range lines {
		label := ""
		if i == 0 {
			label = name
		}
		bar := " "
		if i > 0 {
			bar = "|"
		}
		s.raw(fmt.Sprintf("  %-9s %s %s\n", label, bar, s.style(bold, line)))
	}
}
