package interrupt

import (
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// Types are the types that a question may declare for its answer.
func Types() []string { return []string{"string", "integer", "number", "boolean", "list", "object"} }

// Formats are those that an answer of type string may have to have.
func Formats() []string { return []string{"email", "uri", "date", "date-time"} }

// Multi reports whether the answer is a list of the question's choices.
func (q Question) Multi() bool { return q.Type == "list" && len(q.Choices) > 0 }

// Mistake says what is wrong with what the question declares of its answer: the
// field and the problem. Both are empty if nothing is.
func (q Question) Mistake() (field, problem string) {
	bounds := q.Minimum != nil || q.Maximum != nil
	switch {
	case q.Type != "" && !slices.Contains(Types(), q.Type):
		return "type", fmt.Sprintf("unknown answer type %q: use %s", q.Type, strings.Join(Types(), ", "))
	case len(q.Choices) > 0 && q.Type != "" && q.Type != "string" && q.Type != "list":
		return "type", fmt.Sprintf("a question with choices has the type string (one of them) or list (several), not %s", q.Type)
	case q.Format != "" && !slices.Contains(Formats(), q.Format):
		return "format", fmt.Sprintf("unknown format %q: use %s", q.Format, strings.Join(Formats(), ", "))
	case q.Format != "" && (q.Type != "string" || len(q.Choices) > 0):
		return "format", "only an answer of type string without choices has a format"
	case bounds && q.Type != "integer" && q.Type != "number" && !q.Multi():
		return "minimum", "only an integer, a number or a list of choices has a minimum or a maximum"
	case q.Minimum != nil && q.Maximum != nil && *q.Minimum > *q.Maximum:
		return "maximum", fmt.Sprintf("the maximum %s is below the minimum %s", number(*q.Maximum), number(*q.Minimum))
	case (q.Type == "integer" || q.Multi()) && !(whole(q.Minimum) && whole(q.Maximum)):
		return "minimum", "a minimum and a maximum of integers are integers"
	case q.Multi() && (q.Minimum != nil && (*q.Minimum < 0 || *q.Minimum > float64(len(q.Choices))) || q.Maximum != nil && *q.Maximum < 1):
		return "minimum", "the minimum and the maximum of a list of choices say how many of them: they lie between 0 and the number of choices"
	}
	return "", ""
}

func whole(n *float64) bool { return n == nil || *n == math.Trunc(*n) && math.Abs(*n) < 1<<53 }

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// typeFits says what is wrong with the value of an answer to a question that takes
// no single choice; nil if nothing is.
func (q Question) typeFits(v any) error {
	wrong := func() error { return fmt.Errorf("question %s takes %s, not %s", q.ID(), q.Wants(), short(v)) }
	kind := value.Kind(v)
	if q.Type != "" && kind != q.Type && (q.Type != "number" || kind != "integer") {
		return fmt.Errorf("question %s takes %s, not %s", q.ID(), q.Wants(), kind)
	}
	switch v := v.(type) {
	case int64:
		if !q.within(float64(v)) {
			return wrong()
		}
	case float64:
		if !q.within(v) {
			return wrong()
		}
	case string:
		if !formatFits(q.Format, v) {
			return wrong()
		}
	case []any:
		if !q.Multi() {
			break
		}
		seen := map[any]bool{}
		for _, item := range v {
			id, _ := item.(string)
			if seen[id] || !slices.ContainsFunc(q.Choices, func(c Choice) bool { return c.ID == id }) {
				return wrong()
			}
			seen[id] = true
		}
		if !q.within(float64(len(v))) {
			return wrong()
		}
	}
	return nil
}

func (q Question) within(n float64) bool {
	return (q.Minimum == nil || n >= *q.Minimum) && (q.Maximum == nil || n <= *q.Maximum)
}

func formatFits(format, text string) bool {
	switch format {
	case "email":
		a, err := mail.ParseAddress(text)
		return err == nil && a.Address == text
	case "uri":
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		return err == nil
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	}
	return true
}

// Wants says in words what answers the question: "an integer from 1 to 5".
func (q Question) Wants() string {
	if options := q.Options(); len(options) > 0 {
		return "one of " + ids(options)
	}
	bounds := ""
	switch {
	case q.Minimum != nil && q.Maximum != nil:
		bounds = " from " + number(*q.Minimum) + " to " + number(*q.Maximum)
	case q.Minimum != nil:
		bounds = " of at least " + number(*q.Minimum)
	case q.Maximum != nil:
		bounds = " of at most " + number(*q.Maximum)
	}
	switch {
	case q.Multi():
		return "a list" + bounds + " of " + ids(q.Choices)
	case q.Type == "":
		return "any JSON value"
	case q.Format == "email":
		return "an e-mail address"
	case q.Format == "uri":
		return "a URI, such as https://example.org"
	case q.Format == "date":
		return "a date, such as 2026-12-31"
	case q.Format == "date-time":
		return "a date and time, such as 2026-12-31T18:00:00Z"
	case q.Type == "integer", q.Type == "object":
		return "an " + q.Type + bounds
	}
	return "a " + q.Type + bounds
}

// Read makes the value of a text that a person typed for a question without
// options: the text itself where a string is wanted, choices with commas between
// them where several are, else the JSON that it is. The value is one that Check
// takes.
func (q Question) Read(text string) (any, error) {
	if len(q.Options()) > 0 {
		return nil, errors.New("a question with options is answered by one of them")
	}
	var v any = text
	trimmed := strings.TrimSpace(text)
	switch {
	case q.Format != "":
		v = trimmed
	case q.FreeText():
	case q.Multi() && !strings.HasPrefix(trimmed, "["):
		v = q.several(trimmed)
	default:
		var err error
		if v, err = value.Decode([]byte(trimmed)); err != nil {
			asJSON := ""
			if q.Type == "list" || q.Type == "object" {
				asJSON = ", as JSON"
			}
			return nil, fmt.Errorf("question %s takes %s%s", q.ID(), q.Wants(), asJSON)
		}
	}
	if _, err := q.Check(Answer{Value: v}); err != nil {
		return nil, err
	}
	return v, nil
}

// several reads choices with commas between them, each by its id or its name. What
// is none stays as it is, for Check to refuse.
func (q Question) several(text string) []any {
	list := []any{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		at := slices.IndexFunc(q.Choices, func(c Choice) bool { return c.ID == word })
		if at < 0 {
			at = slices.IndexFunc(q.Choices, func(c Choice) bool { return strings.EqualFold(c.ID, word) || strings.EqualFold(c.Name, word) })
		}
		if at >= 0 {
			word = q.Choices[at].ID
		}
		list = append(list, word)
	}
	return list
}
