package nodes

import (
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// shellLine is a line for the system's shell. Where the file has ${{ }} it has
// a reference to an environment variable: the shell puts the value in after it
// has read the line, so that no value can become a part of the program.
type shellLine struct {
	line   string
	values []*program // of the variables, in order
}

// variablePrefix begins the names of the variables.
const variablePrefix = "HF_"

func variable(i int) string { return variablePrefix + strconv.Itoa(i+1) }

// shellLine reads a shell line; nil if it is wrong.
func (d *decoder) shellLine(t *tree) *shellLine {
	out := &shellLine{}
	tm := d.template(t, inCommand)
	if tm == nil {
		return nil
	}
	var offsets []int
	for _, s := range cut(t.raw) {
		if s.code {
			offsets = append(offsets, s.offset-len("${{"))
		}
	}
	if strings.ContainsRune(t.raw, hole) {
		d.wrong(t, "", "a shell line has no zero bytes")
		return nil
	}
	var text strings.Builder
	for _, p := range tm.parts {
		if p.code != nil {
			out.values = append(out.values, p.code)
			text.WriteRune(hole)
			continue
		}
		text.WriteString(p.text)
	}
	if len(out.values) == 0 {
		out.line = text.String()
		return out
	}
	if runtime.GOOS == "windows" {
		// cmd replaces %NAME% before it reads the line: there a variable is text.
		d.mistake(d.inside(t, offsets[0]), t.pointer, "write command as a list", "on Windows a shell line cannot take values: cmd would read them as a part of the line")
		return nil
	}
	s := &shellReader{text: text.String(), refuse: func(hole int, suggestion, message string) {
		d.mistake(d.inside(t, offsets[hole]), t.pointer, suggestion, "%s", message)
	}}
	s.read()
	if s.refused {
		return nil
	}
	out.line = s.out.String()
	return out
}

// hole stands for a value while a line is read.
const hole = '\x00'

// mode is what a place in a shell line is read as.
type mode int

const (
	commands   mode = iota // words and operators
	double                 // "..."
	single                 // '...'
	backtick               // `...`
	braces                 // ${...}
	computing              // $((...)) or ((...))
	here                   // a here-document that is expanded
	hereAsIs               // a here-document that is not
	commenting             // # to the end of the line
)

type frame struct {
	mode      mode
	words     []string // of commands: the words of this command so far
	word      strings.Builder
	parens    int    // of computing: open ones
	end       string // of here: the line that ends it
	strip     bool   // of here: tabs before that line do not count
	brackets  bool   // of commands: inside [[ ]]
	subscript bool   // of commands: inside name[ ]
}

// shellReader follows a POSIX shell through a line, as far as it must to know
// what stands around a value. If it is wrong about that, a value may be split
// into words, or its variable be taken for text; it still is never read as a
// part of the program. The places where a shell does read the value of a
// variable again are refused: arithmetic, subscripts, [[ ]], eval and its like.
type shellReader struct {
	text    string
	pos     int
	out     strings.Builder
	stack   []*frame
	holes   int
	pending []*frame // here-documents that begin on the next line
	refuse  func(hole int, suggestion, message string)
	refused bool
	said    int // the values before this one are reported, or fine
}

func (s *shellReader) top() *frame { return s.stack[len(s.stack)-1] }

func (s *shellReader) push(m mode) *frame {
	f := &frame{mode: m}
	s.stack = append(s.stack, f)
	return f
}

func (s *shellReader) pop() {
	if len(s.stack) > 1 {
		s.stack = s.stack[:len(s.stack)-1]
	}
}

// command is the frame of the command that a place belongs to.
func (s *shellReader) command() *frame {
	for i := len(s.stack) - 1; i > 0; i-- {
		if s.stack[i].mode == commands {
			return s.stack[i]
		}
	}
	return s.stack[0]
}

// take writes n bytes and goes on behind them.
func (s *shellReader) take(n int) {
	n = min(n, len(s.text)-s.pos)
	s.out.WriteString(s.text[s.pos : s.pos+n])
	s.pos += n
}

func (s *shellReader) at(prefix string) bool { return strings.HasPrefix(s.text[s.pos:], prefix) }

func (s *shellReader) read() {
	s.push(commands)
	for s.pos < len(s.text) {
		if s.text[s.pos] == byte(hole) {
			s.value()
			continue
		}
		switch f := s.top(); f.mode {
		case commands:
			s.inCommands(f)
		case single:
			s.quoted('\'')
		case commenting:
			if s.at("\n") {
				s.pop()
				continue
			}
			s.take(1)
		case here, hereAsIs:
			s.inHere(f)
		default:
			s.inOthers(f)
		}
	}
}

func (s *shellReader) quoted(end byte) {
	if s.text[s.pos] == end {
		s.pop()
	} else {
		s.command().word.WriteByte(s.text[s.pos])
	}
	s.take(1)
}

// escape passes a backslash and what it stands in front of.
func (s *shellReader) escape() {
	if s.pos+1 < len(s.text) && s.text[s.pos+1] == byte(hole) {
		s.no("write $${{ for the text itself", "a backslash in front of ${{ }} does not keep it from being replaced")
	}
	s.take(1)
	if s.pos < len(s.text) && s.text[s.pos] != byte(hole) {
		s.command().word.WriteByte(s.text[s.pos])
		s.take(1)
	}
}

// expansion passes the beginning of $(, ${, $(( and `, which are read alike
// nearly everywhere.
func (s *shellReader) expansion() bool {
	switch {
	case s.at("$(("):
		s.push(computing).parens = 2
		s.take(3)
	case s.at("$("):
		s.push(commands)
		s.take(2)
	case s.at("${"):
		s.push(braces)
		s.take(2)
	case s.at("`"):
		if s.top().mode == backtick {
			s.pop()
		} else {
			s.push(backtick)
		}
		s.take(1)
	default:
		return false
	}
	return true
}

func (s *shellReader) inCommands(f *frame) {
	c := s.text[s.pos]
	switch {
	case c == '\\':
		s.escape()
	case s.at("$'"):
		s.no("", "a line with $'...' cannot take values: shells read it differently")
		s.push(single)
		s.take(2)
	case c == '\'':
		s.push(single)
		s.take(1)
	case c == '"':
		s.push(double)
		s.take(1)
	case s.expansion():
	case s.at("(("):
		s.push(computing).parens = 2
		s.take(2)
	case c == '(':
		s.push(commands)
		s.take(1)
	case c == ')':
		f.endCommand()
		s.pop()
		s.take(1)
	case c == '#' && f.word.Len() == 0 && s.startsWord():
		s.push(commenting)
		s.take(1)
	case s.at("<<<"):
		f.endWord()
		s.take(3)
	case s.at("<<"):
		f.endWord()
		s.hereDocument()
	case c == '\n':
		f.endCommand()
		s.take(1)
		s.stack = append(s.stack, reversed(s.pending)...)
		s.pending = nil
	case strings.IndexByte(";&|", c) >= 0:
		f.endCommand()
		s.take(1)
	case strings.IndexByte(" \t<>", c) >= 0:
		f.endWord()
		s.take(1)
	default:
		switch {
		case c == '[' && f.word.Len() > 0 && f.word.String() != "[":
			f.subscript = true
		case c == ']':
			f.subscript = false
		}
		f.word.WriteByte(c)
		s.take(1)
	}
}

func (s *shellReader) startsWord() bool {
	return s.pos == 0 || strings.IndexByte(" \t\n;&|()", s.text[s.pos-1]) >= 0
}

func (f *frame) endWord() {
	if f.word.Len() == 0 {
		return
	}
	w := f.word.String()
	f.words = append(f.words, w)
	f.word.Reset()
	f.subscript = false
	switch w {
	case "[[":
		f.brackets = true
	case "]]":
		f.brackets = false
	}
}

func (f *frame) endCommand() {
	f.endWord()
	f.words = nil
}

// inOthers reads what is inside quotes, braces, backticks and arithmetic.
func (s *shellReader) inOthers(f *frame) {
	c := s.text[s.pos]
	switch {
	case c == '\\':
		s.escape()
	case s.expansion():
	case c == '"':
		if f.mode == double {
			s.pop()
		} else if f.mode == braces {
			s.push(double)
		}
		s.take(1)
	case c == '\'' && f.mode == braces && !s.inDouble():
		s.push(single)
		s.take(1)
	case c == '}' && f.mode == braces:
		s.pop()
		s.take(1)
	case c == '(' && f.mode == computing:
		f.parens++
		s.take(1)
	case c == ')' && f.mode == computing:
		if f.parens--; f.parens == 0 {
			s.pop()
		}
		s.take(1)
	default:
		s.command().word.WriteByte(c)
		s.take(1)
	}
}

func (s *shellReader) inDouble() bool {
	for i := len(s.stack) - 2; i >= 0; i-- {
		if m := s.stack[i].mode; m != braces {
			return m == double
		}
	}
	return false
}

// hereDocument reads << and the word that ends it; the text itself begins on
// the next line.
func (s *shellReader) hereDocument() {
	s.take(2)
	f := &frame{mode: here}
	if s.at("-") {
		f.strip = true
		s.take(1)
	}
	for s.at(" ") || s.at("\t") {
		s.take(1)
	}
	var end strings.Builder
	for s.pos < len(s.text) && strings.IndexByte(" \t\n;&|()<>", s.text[s.pos]) < 0 {
		switch c := s.text[s.pos]; c {
		case byte(hole):
			s.no("", "the end of a here-document cannot be a value")
			return
		case '\'', '"', '\\':
			f.mode = hereAsIs
		default:
			end.WriteByte(c)
		}
		s.take(1)
	}
	f.end = end.String()
	s.pending = append(s.pending, f)
}

func reversed(list []*frame) []*frame {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

func (s *shellReader) inHere(f *frame) {
	if s.pos > 0 && s.text[s.pos-1] == '\n' {
		line, _, _ := strings.Cut(s.text[s.pos:], "\n")
		if f.strip {
			line = strings.TrimLeft(line, "\t")
		}
		if line == f.end {
			s.take(strings.IndexByte(s.text[s.pos:]+"\n", '\n') + 1)
			s.pop()
			return
		}
	}
	switch {
	case f.mode == hereAsIs:
		s.take(1)
	case s.text[s.pos] == '\\':
		s.escape()
	case s.expansion():
	default:
		s.take(1)
	}
}

// value puts a variable where the value is.
func (s *shellReader) value() {
	reference := "${" + variable(s.holes) + "}"
	f := s.command()
	switch s.top().mode {
	case commands:
		reference = `"` + reference + `"`
		switch {
		case f.brackets:
			s.no("use [ ] instead", "a value inside [[ ]] may be computed as a program")
		case f.subscript:
			s.no("use case, or give it to a program of its own", "a value inside name[ ] is computed as a program")
		}
	case double, commenting, here:
	case single:
		s.no(`end the single quotes before it: 'a '${{ x }}' b', or use double quotes`, "inside single quotes a shell puts no values in, and a value in the text of another program would be a part of it")
	case backtick:
		s.no("write $( ) instead of backticks", "a value inside backticks cannot be quoted safely")
	case braces:
		s.no("write it to a variable first: NAME=${{ x }}", "a value inside ${ } cannot be quoted safely")
	case computing:
		s.no("check it with case or [ ] first, or compute in the expression", "a value in shell arithmetic is computed as a program")
	case hereAsIs:
		s.no("give it by stdin, or write the end word without quotes", "this here-document is not expanded, so no value gets into it")
	}
	s.rereads(f)
	f.word.WriteByte(byte(hole))
	s.out.WriteString(reference)
	s.holes++
	s.pos++
}

var (
	evaluators   = []string{"eval", "let", "trap", "ssh", "source"}
	interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "su", "runuser", "python", "python3", "perl", "ruby", "node", "php", "pwsh", "powershell"}
)

// rereads refuses a value that the command would read as a program.
func (s *shellReader) rereads(f *frame) {
	interpreter := ""
	for _, w := range f.words {
		name := path.Base(w)
		if slices.Contains(evaluators, name) {
			s.no("give it by stdin or as an argument of a script", name+" reads its arguments as a program, so a value would be a part of it")
			return
		}
		if slices.Contains(interpreters, name) {
			interpreter = name
		}
	}
	if interpreter == "" || len(f.words) == 0 {
		return
	}
	flag := f.words[len(f.words)-1]
	if len(flag) > 1 && flag[0] == '-' && (strings.HasSuffix(flag, "c") || strings.HasSuffix(flag, "e")) || strings.EqualFold(flag, "-command") {
		s.no(`give it as an argument behind the program: sh -c 'echo "$1"' sh ${{ x }}`, "the value would be a part of the program that "+interpreter+" runs")
	}
}

// no refuses the value at hand, or the next one, once.
func (s *shellReader) no(suggestion, message string) {
	n := min(s.holes, strings.Count(s.text, string(hole))-1)
	if n < s.said {
		return
	}
	s.refused, s.said = true, n+1
	s.refuse(n, suggestion, message)
}
