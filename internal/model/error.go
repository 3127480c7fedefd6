package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// Error is why a call failed.
type Error struct {
	Status  int    // of HTTP; 0: there was no such answer
	Message string // what, and where
	Retry   bool   // another attempt may help
	After   time.Duration
}

func (e *Error) Error() string { return e.Message }

// failure makes an *Error of what a library returned.
func (c *Client) failure(err error) error {
	var ours *Error
	if errors.As(err, &ours) {
		return c.hidden(ours)
	}
	var inStream *ssestream.StreamError
	if errors.As(err, &inStream) {
		return c.hidden(reported(inStream.Event.Data))
	}
	var api *anthropic.Error
	if errors.As(err, &api) {
		return c.hidden(reported([]byte(api.RawJSON())))
	}
	return c.hidden(&Error{Message: "the answer of the server cannot be read: " + plain(err.Error()), Retry: true})
}

// hidden takes the key out of a message: some servers repeat it.
func (c *Client) hidden(e *Error) *Error {
	if c.Key != "" {
		e.Message = strings.ReplaceAll(e.Message, c.Key, "[the key]")
	}
	e.Message = Hide(e.Message)
	return e
}

// reported is an error that came inside of a stream.
func reported(raw []byte) *Error {
	kind, message := described(raw)
	e := &Error{Message: "the server reported an error in the middle of its answer: " + message, Retry: true}
	switch kind {
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large", "billing_error":
		e.Retry = false
	}
	return e
}

// refused is an answer that is none.
func refused(res *http.Response, page []byte, now time.Time) *Error {
	kind, message := described(page)
	e := &Error{
		Status:  res.StatusCode,
		Message: fmt.Sprintf("%s answered %s: %s", res.Request.URL, status(res.StatusCode), message),
	}
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		// A quota that is used up does not come back by waiting.
		e.Retry = kind != "insufficient_quota"
	default:
		e.Retry = res.StatusCode >= 500
	}
	if res.StatusCode/100 == 3 {
		e.Message = fmt.Sprintf("%s leads to %s: give that as base_url if it is right", res.Request.URL, plain(res.Header.Get("Location")))
	}
	if e.After = retryAfter(res.Header, now); e.Retry && e.After > longestWait {
		e.Message += fmt.Sprintf(" (it asks to wait %s, which is longer than %s)", e.After, longestWait)
		e.Retry = false
	}
	return e
}

func status(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// described finds what a body says: the JSON that both providers use, what
// others do, or a page for people.
func described(body []byte) (kind, message string) {
	var doc struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &doc) == nil {
		var inner struct {
			Type    string `json:"type"`
			Code    any    `json:"code"`
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(doc.Error, &inner) == nil && (inner.Message != "" || inner.Type != ""):
			kind = inner.Type
			if code, ok := inner.Code.(string); ok && code != "" {
				kind = code
			}
			message = inner.Message
		case json.Unmarshal(doc.Error, &text) == nil && text != "":
			message = text
		case doc.Message != "":
			message = doc.Message
		case len(doc.Detail) > 0:
			message = string(doc.Detail)
		}
	}
	if message == "" {
		message = page(string(body))
	}
	if message = plain(message); message == "" {
		message = kind
	}
	if message == "" {
		message = "nothing"
	}
	return kind, message
}

// page is what a page for people says, in short.
func page(text string) string {
	lower := strings.ToLower(text)
	if !strings.Contains(lower, "<html") && !strings.Contains(lower, "<!doctype") {
		return text
	}
	if _, rest, found := strings.Cut(lower, "<title>"); found {
		if title, _, closed := strings.Cut(rest, "</title>"); closed {
			at := strings.Index(lower, "<title>") + len("<title>")
			if at+len(title) <= len(text) { // lower case may have another length
				return "a page for people: " + strings.TrimSpace(text[at:at+len(title)])
			}
		}
	}
	return "a page for people, not an answer of a model: is the URL right?"
}

// plain is a text of a server on one line, cut short.
func plain(text string) string {
	const most = 500
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return text
}

// retryAfter is how long a server asks to wait.
func retryAfter(h http.Header, now time.Time) time.Duration {
	seconds := func(text string, unit time.Duration) (time.Duration, bool) {
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(f >= 0) {
			return 0, false
		}
		return time.Duration(min(f*float64(unit), float64(1000*time.Hour))), true
	}
	if d, ok := seconds(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	text := h.Get("Retry-After")
	if d, ok := seconds(text, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
