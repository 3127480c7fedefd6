package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/internal/seen"
)

// visible gives text as it may be sent to a terminal: every character is one
// that can be seen, or a line break. All others (control characters and with
// them escape sequences, characters that are invisible, that turn the
// direction of the text or that look like a space) are written as an escape:
// the person at the terminal sees what is there, and nothing in the text can
// move the cursor over what was shown before.
func visible(s string) string {
	clean := true
	for i, r := range s {
		if seen.Hidden(r) && r != '\n' || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString("    ")
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"): // the end of a line elsewhere
		case r == '\n' || !seen.Hidden(r):
			b.WriteString(s[i : i+size])
		default:
			b.WriteString(seen.Escape(r))
		}
		i += size
	}
	return b.String()
}

// oneLine is visible for a place that has one line.
func oneLine(s string) string {
	return strings.ReplaceAll(visible(s), "\n", `\n`)
}

// columns is how wide a line is at most: a character that some terminal may
// draw over two columns counts as two. A line that is wrapped too early does no
// harm; one that the terminal wraps begins at the left edge, where only this
// program writes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

// wrap breaks text into lines of at most width columns, at a space where there
// is one in the second half of the line.
func wrap(text string, width int) []string {
	width = max(width, 10)
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		for columns(line) > width {
			end, space, n := 0, 0, 0
			for i, r := range line {
				if n += runeColumns(r); n > width {
					end = i
					break
				}
				if r == ' ' && n > width/2 {
					space = i + 1
				}
			}
			if space > 0 {
				end = space
			}
			lines = append(lines, line[:end])
			line = line[end:]
		}
		lines = append(lines, line)
	}
	return lines
}

// shorten cuts text to n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-3]) + "..."
}

// quote writes a word for a POSIX shell, so that it can be copied. A word with
// characters that cannot be seen becomes $'...', which bash, zsh and ksh read.
func quote(s string) string {
	plain := s != ""
	for _, r := range s {
		switch {
		case seen.Hidden(r) || r == utf8.RuneError:
			return ansiQuote(s)
		case r >= 0x80, !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=@,+%", r):
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func ansiQuote(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case seen.Hidden(r):
			b.WriteString(seen.Escape(r))
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String() + "'"
}

// commandLine writes words as one line for a shell.
func commandLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}
