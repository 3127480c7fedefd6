package model

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// transport makes one request. What is no stream of events is an *Error here,
// for both libraries alike, and a stream is bounded before they read it: they
// keep an event of any size, and an error page as a whole.
type transport struct {
	next http.RoundTripper
	now  func() time.Time
}

func (c *Client) httpClient() *http.Client {
	next, now := c.HTTP, time.Now
	if next == nil {
		next = http.DefaultTransport
	}
	if c.Clock != nil {
		now = c.Clock.Now
	}
	return &http.Client{
		Transport: transport{next, now},
		// A redirect would take the key, or the question, to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, &Error{Message: fmt.Sprintf("%s cannot be reached: %s", r.URL, plain(err.Error())), Retry: true}
	}
	if res.Request == nil {
		res.Request = r
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode/100 == 2 && (kind == "text/event-stream" || kind == "") {
		res.Body = &eventBody{ReadCloser: res.Body}
		return res, nil
	}
	page, _ := io.ReadAll(io.LimitReader(res.Body, maxPage))
	_ = res.Body.Close()
	if res.StatusCode/100 != 2 {
		return nil, refused(res, page, t.now())
	}
	if _, message := described(page); strings.HasSuffix(kind, "json") && strings.Contains(string(page), `"error"`) {
		return nil, &Error{Status: res.StatusCode, Message: fmt.Sprintf("%s: %s", r.URL, message), Retry: true}
	}
	_, message := described(page)
	return nil, &Error{Status: res.StatusCode, Message: fmt.Sprintf("%s does not stream its answer (Content-Type %q): %s", r.URL, kind, message)}
}

// eventBody is a stream whose events have a bound. An event ends with an empty
// line.
type eventBody struct {
	io.ReadCloser
	size  int  // of the event so far
	empty bool // the line so far
}

func (b *eventBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		switch c {
		case '\r':
		case '\n':
			if b.empty {
				b.size = 0
			}
			b.empty = true
		default:
			b.empty = false
			b.size++
		}
		if b.size > maxEvent {
			return 0, &Error{Message: fmt.Sprintf("the server sent an event of more than %d bytes", maxEvent)}
		}
	}
	return n, err
}
