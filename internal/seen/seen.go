// Package seen says which characters a person can see for what they are. What
// an approver is shown, in a terminal or in an editor, must be what will run:
// so both write every other character as an escape, by this one rule.
package seen

import (
	"fmt"
	"unicode"
)

// Hidden reports whether a character cannot be seen, or seen for what it is.
// Line breaks and tabs are hidden too: whoever shows text decides about them.
func Hidden(r rune) bool {
	if r < 0x7F {
		return r < ' '
	}
	switch {
	case !unicode.IsGraphic(r), unicode.In(r, unicode.Zs):
		return true // control, format (bidirectional ones too), unassigned; other spaces
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true // joiners and fillers that count as marks and letters
	case r == 0x2800 || r == 0x1D159:
		return true // an empty Braille cell and an empty note head
	}
	return false
}

// Escape writes a character as Go and most shells would.
func Escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xFFFF:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
