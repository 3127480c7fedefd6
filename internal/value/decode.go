package value

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// SyntaxError says what is wrong with a JSON text, and where.
type SyntaxError struct {
	Offset int // in bytes, from 0
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("JSON, byte %d: %s", e.Offset, e.Reason)
}

// Decode reads one JSON value and gives it normalized. It is as strict as
// encoding/json: one value, nothing but space around it. Of a key that occurs
// twice, the last one counts. Beyond encoding/json it refuses numbers too
// large for a float64 and nesting deeper than twice [MaxDepth]. An error is a
// *[SyntaxError]. The result keeps no part of data.
func Decode(data []byte) (any, error) {
	v, _, err := DecodeReplaced(data)
	return v, err
}

// DecodeReplaced is [Decode], and reports whether invalid UTF-8 or a lone
// surrogate was replaced by U+FFFD.
func DecodeReplaced(data []byte) (v any, replaced bool, err error) {
	d := decoder{data: data, limit: maxDecodeDepth}
	v, err = d.document()
	if err != nil {
		return nil, false, err
	}
	return v, d.replaced, nil
}

type decoder struct {
	data  []byte
	pos   int
	depth int
	limit int

	replaced           bool // invalid UTF-8 or a lone surrogate was met
	escapedReplacement bool // the escape \ufffd was met

	// Recent keys by a cheap hash: a list of a thousand messages then has one
	// copy of each of its keys, not a thousand.
	keys [32]string
}

func (d *decoder) fail(offset int, reason string) error {
	return &SyntaxError{Offset: offset, Reason: reason}
}

// unexpected is the error for a byte (or the end) where something else must be.
func (d *decoder) unexpected(wanted string) error {
	if d.pos >= len(d.data) {
		return d.fail(len(d.data), "the text ends where "+wanted+" must be")
	}
	return d.fail(d.pos, fmt.Sprintf("%q where %s must be", d.data[d.pos], wanted))
}

func (d *decoder) document() (any, error) {
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	d.space()
	if d.pos < len(d.data) {
		return nil, d.fail(d.pos, fmt.Sprintf("%q behind the value, where nothing may be", d.data[d.pos]))
	}
	return v, nil
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek skips space and gives the next byte, 0 at the end (a zero byte in the
// text is an error wherever it stands, so the two need no telling apart).
func (d *decoder) peek() byte {
	d.space()
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) value() (any, error) {
	switch c := d.peek(); c {
	case '{':
		return d.object()
	case '[':
		return d.list()
	case '"':
		return d.boxedText()
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return d.number()
		}
		return nil, d.unexpected("a value")
	}
}

func (d *decoder) boxedText() (any, error) {
	s, err := d.text(false)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) word(word string) error {
	if len(d.data)-d.pos < len(word) || string(d.data[d.pos:d.pos+len(word)]) != word {
		return d.fail(d.pos, "a value starts like "+word+" but is not")
	}
	d.pos += len(word)
	return nil
}

func (d *decoder) enter() error {
	if d.depth >= d.limit {
		return d.fail(d.pos, fmt.Sprintf("nested deeper than %d levels", d.limit))
	}
	d.depth++
	d.pos++ // the opening bracket
	return nil
}

func (d *decoder) list() (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	if d.peek() == ']' {
		d.pos++
		d.depth--
		return []any{}, nil
	}
	out := make([]any, 0, 4)
	for {
		element, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, element)
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			d.depth--
			return out, nil
		default:
			return nil, d.unexpected("a comma or ]")
		}
	}
}

func (d *decoder) object() (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	if d.peek() == '}' {
		d.pos++
		d.depth--
		return out, nil
	}
	for {
		if d.peek() != '"' {
			return nil, d.unexpected("a key")
		}
		key, err := d.text(true)
		if err != nil {
			return nil, err
		}
		if d.peek() != ':' {
			return nil, d.unexpected("a colon")
		}
		d.pos++
		member, err := d.value()
		if err != nil {
			return nil, err
		}
		out[key] = member
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			d.depth--
			return out, nil
		default:
			return nil, d.unexpected("a comma or }")
		}
	}
}

// number reads the number at pos.
func (d *decoder) number() (any, error) {
	start := d.pos
	negative := false
	if d.at(d.pos) == '-' {
		negative = true
		d.pos++
	}
	first := d.pos
	digits, magnitude := d.digits()
	switch {
	case digits == 0:
		return nil, d.unexpected("a digit")
	case digits > 1 && d.data[first] == '0':
		return nil, d.fail(first, "a number starts with 0")
	}
	integer := true
	if d.at(d.pos) == '.' {
		integer = false
		d.pos++
		if n, _ := d.digits(); n == 0 {
			return nil, d.unexpected("a digit")
		}
	}
	if c := d.at(d.pos); c == 'e' || c == 'E' {
		integer = false
		d.pos++
		if c := d.at(d.pos); c == '+' || c == '-' {
			d.pos++
		}
		if n, _ := d.digits(); n == 0 {
			return nil, d.unexpected("a digit")
		}
	}
	if integer {
		if digits <= 18 { // cannot overflow
			if negative {
				magnitude = -magnitude
			}
			return magnitude, nil
		}
		if n, err := strconv.ParseInt(string(d.data[start:d.pos]), 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(string(d.data[start:d.pos]), 64)
	if err == nil {
		if number, ok := fromFloat(f); ok {
			return number, nil
		}
	}
	return nil, d.fail(start, "a number too large for a float64")
}

// digits skips decimal digits, counts them and gives their value, which is
// meaningless for more than 18.
func (d *decoder) digits() (count int, magnitude int64) {
	start := d.pos
	for d.pos < len(d.data) && '0' <= d.data[d.pos] && d.data[d.pos] <= '9' {
		magnitude = magnitude*10 + int64(d.data[d.pos]-'0')
		d.pos++
	}
	return d.pos - start, magnitude
}

// at gives the byte at a position, 0 behind the end.
func (d *decoder) at(pos int) byte {
	if pos < len(d.data) {
		return d.data[pos]
	}
	return 0
}

// text reads the string whose opening quote is at pos.
func (d *decoder) text(key bool) (string, error) {
	start := d.pos + 1
	ascii := true
	for i := start; i < len(d.data); i++ {
		switch b := d.data[i]; {
		case b == '"':
			s := d.data[start:i]
			if !ascii && !utf8.Valid(s) {
				return d.escapedText(i)
			}
			d.pos = i + 1
			if key {
				return d.key(s), nil
			}
			return string(s), nil
		case b >= utf8.RuneSelf:
			ascii = false
		case b == '\\' || b < 0x20:
			return d.escapedText(i)
		}
	}
	return "", d.fail(len(d.data), "the text ends inside a string")
}

// escapedText reads a string that is not just the bytes between its quotes.
// Up to clean it has no escapes; the length so far is a guess at the whole.
func (d *decoder) escapedText(clean int) (string, error) {
	i := d.pos + 1
	out := make([]byte, 0, clean-i+64)
	for i < len(d.data) {
		b := d.data[i]
		switch {
		case b == '"':
			d.pos = i + 1
			return string(out), nil
		case b < 0x20:
			return "", d.fail(i, fmt.Sprintf("the control character %#02x in a string; write it as an escape", b))
		case b == '\\':
			switch c := d.at(i + 1); c {
			case '"', '\\', '/':
				out = append(out, c)
			case 'b':
				out = append(out, '\b')
			case 'f':
				out = append(out, '\f')
			case 'n':
				out = append(out, '\n')
			case 'r':
				out = append(out, '\r')
			case 't':
				out = append(out, '\t')
			case 'u':
				r, ok := d.hex4(i)
				if !ok {
					return "", d.fail(i, "\\u without four hexadecimal digits")
				}
				i += 6
				if utf16.IsSurrogate(r) {
					// The other half may follow. If what follows is no such
					// half, it is left for the next round.
					low, ok := d.hex4(i)
					if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
						r = pair
						i += 6
					} else {
						r = utf8.RuneError
						d.replaced = true
					}
				} else if r == utf8.RuneError {
					d.escapedReplacement = true
				}
				out = utf8.AppendRune(out, r)
				continue
			default:
				return "", d.fail(i, "an unknown escape in a string")
			}
			i += 2
		case b < utf8.RuneSelf:
			out = append(out, b)
			i++
		default:
			r, size := utf8.DecodeRune(d.data[i:])
			if r == utf8.RuneError && size == 1 {
				d.replaced = true
			}
			out = utf8.AppendRune(out, r)
			i += size
		}
	}
	return "", d.fail(len(d.data), "the text ends inside a string")
}

// hex4 reads the escape \uXXXX at i.
func (d *decoder) hex4(i int) (r rune, ok bool) {
	if i+6 > len(d.data) || d.data[i] != '\\' || d.data[i+1] != 'u' {
		return 0, false
	}
	for _, c := range d.data[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// key gives a key as a string, the one that was made for it before if it was
// met a short while ago.
func (d *decoder) key(s []byte) string {
	if len(s) == 0 || len(s) > 32 {
		return string(s)
	}
	slot := &d.keys[(len(s)+7*int(s[0])+13*int(s[len(s)-1]))%len(d.keys)]
	if *slot != string(s) {
		*slot = string(s)
	}
	return *slot
}
