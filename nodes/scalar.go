package nodes

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// Plain scalars are read by the core schema of YAML 1.2, and JSON numbers are
// part of it: yes, no, on, off, dates and 1_000 are text.
var (
	integerText = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatText   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	octalText   = regexp.MustCompile(`^0o[0-7]+$`)
	hexText     = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	notFinite   = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// plainScalar sets kind and value of a scalar without quotes.
func (t *tree) plainScalar() {
	s := t.raw
	switch s {
	case "", "~", "null", "Null", "NULL":
		t.kind = nullKind
		return
	case "true", "True", "TRUE":
		t.kind, t.value = boolKind, true
		return
	case "false", "False", "FALSE":
		t.kind, t.value = boolKind, false
		return
	}
	switch {
	case integerText.MatchString(s):
		t.kind = numberKind
		digits := strings.TrimLeft(s, "+-")
		if len(digits) > 1 && digits[0] == '0' {
			t.broken = fmt.Sprintf("%s is read as octal by some and as decimal by others: write it without the leading 0, or in quotes if it is text", s)
			return
		}
		t.number(strings.TrimPrefix(s, "+"))
	case floatText.MatchString(s):
		t.kind = numberKind
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			t.broken = s + " is too large for a number"
			return
		}
		t.normalize(f)
	case octalText.MatchString(s), hexText.MatchString(s):
		t.kind = numberKind
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			t.broken = s + " is too large for an integer"
			return
		}
		t.value = n
	case notFinite.MatchString(s):
		t.kind = numberKind
		t.broken = s + " cannot be stored: JSON has no such number; write null or a text instead"
	default:
		t.kind, t.value = textKind, s
	}
}

func (t *tree) number(text string) { t.normalize(json.Number(text)) }

func (t *tree) normalize(v any) {
	out, _, err := value.Normalize(v)
	if err != nil {
		t.broken = err.Error()
		return
	}
	t.value = out
}

func (t *tree) text(s string) {
	t.kind, t.raw, t.value, t.quoted = textKind, s, s, true
}
