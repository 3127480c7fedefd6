package nodes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// maxResponseHeader bounds the headers of an answer.
const maxResponseHeader = 64 << 10

var httpTransport = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxResponseHeader
	return t
})

// errRedirects says that a redirect would be one too many.
var errRedirects = errors.New("too many redirects")

// run sends what was resolved, and nothing else.
func (h *httpNode) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	r, err := engine.Resolved[request](t)
	if err != nil {
		return engine.Output{}, err
	}
	secrets, err := r.secrets()
	if err != nil {
		return engine.Output{}, &engine.RetryError{Err: err, Never: true}
	}
	result, err := h.send(ctx, t, &r, secrets)
	if err != nil {
		// The library's errors may hold what a server or a proxy said.
		return engine.Output{}, secrets.hideIn(fmt.Errorf("%s %s: %w", r.Method, r.URL, err))
	}
	if h.output == "" {
		return engine.Output{}, nil
	}
	return engine.Set(h.output, result), nil
}

func (h *httpNode) send(ctx context.Context, t *engine.Task, r *request, secrets secretValues) (any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, fmt.Errorf("no whole answer within %s", h.timeout))
	defer cancel()
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, &engine.RetryError{Err: innermost(err), Never: true}
	}
	h.headersOf(t, req, r, secrets)
	client := &http.Client{Transport: httpTransport(), CheckRedirect: h.redirect(r)}
	resp, err := client.Do(req)
	if err != nil {
		return nil, h.broke(ctx, err, sent.Load())
	}
	defer func() { _ = resp.Body.Close() }() // what is wanted of it is read
	body, truncated, err := h.read(t, resp)
	if err != nil {
		return nil, h.broke(ctx, fmt.Errorf("status %d, and then the answer broke off: %w", resp.StatusCode, err), true)
	}
	body = secrets.hide(body)
	if !h.accepted(resp.StatusCode) {
		return nil, h.refused(resp, body)
	}
	return h.result(resp, body, truncated, secrets)
}

func (h *httpNode) headersOf(t *engine.Task, req *http.Request, r *request, secrets secretValues) {
	req.Header.Set("User-Agent", "holdfast")
	for name, v := range r.Headers {
		req.Header.Set(name, v)
		if name == "Host" {
			req.Host = v
		}
	}
	for name, env := range r.Secrets {
		req.Header.Set(name, secrets[env])
	}
	if h.idempotency != "" && req.Header.Get(h.idempotency) == "" {
		req.Header.Set(h.idempotency, t.IdempotencyKey("http"))
	}
	switch a := r.Auth; {
	case a == nil:
	case a.Type == "basic":
		req.SetBasicAuth(a.User, secrets[a.Env])
	default:
		req.Header.Set("Authorization", "Bearer "+secrets[a.Env])
	}
}

// redirect follows a bounded number of redirects. Secrets go to the host that
// the file names and to no other, and never from https to http.
func (h *httpNode) redirect(r *request) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if h.maxRedirects == 0 {
			return http.ErrUseLastResponse
		}
		if len(via) > h.maxRedirects {
			return fmt.Errorf("%w: after %d it would go on to %s", errRedirects, h.maxRedirects, shorten(req.URL.Redacted(), 200))
		}
		first := via[0].URL
		if req.URL.Host != first.Host || first.Scheme == "https" && req.URL.Scheme != "https" {
			req.Header.Del("Authorization")
			for name := range r.Secrets {
				req.Header.Del(name)
			}
		}
		return nil
	}
}

// broke words an attempt without an answer. Once a request that changes
// something was on its way, nobody knows what came of it.
func (h *httpNode) broke(ctx context.Context, err error, sent bool) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if errors.Is(err, errRedirects) {
		return &engine.RetryError{Err: innermost(err), Never: true}
	}
	err = innermost(err)
	if sent && h.inDoubt {
		return fmt.Errorf("%w; %w", err, engine.ErrInDoubt)
	}
	return err
}

// innermost drops what the library wraps around an error: method and URL are
// said already.
func innermost(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// read reads the body up to its bound. Reading on would not end where a server
// sends without end.
func (h *httpNode) read(t *engine.Task, resp *http.Response) (body []byte, truncated bool, err error) {
	body, err = io.ReadAll(io.LimitReader(living{resp.Body, t}, int64(h.maxBody)+1))
	if len(body) > h.maxBody {
		return body[:h.maxBody], true, nil
	}
	return body, false, err
}

// living is a reader whose every read is a sign of life.
type living struct {
	io.Reader
	t *engine.Task
}

func (l living) Read(p []byte) (int, error) {
	l.t.Alive()
	return l.Reader.Read(p)
}

// refused is the failure of a status that is not accepted. One that passes is
// worth another attempt, when the server says.
func (h *httpNode) refused(resp *http.Response, body []byte) error {
	said := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), 500)]), "\uFFFD"))
	err := fmt.Errorf("status %d is not accepted", resp.StatusCode)
	if said != "" {
		err = fmt.Errorf("%w; the server says: %s", err, shorten(strings.Join(strings.Fields(said), " "), 300))
	}
	out := &engine.RetryError{Err: err}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500, resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode == http.StatusTooEarly:
		out.After = retryAfter(resp)
	default:
		out.Never = true
	}
	return out
}

// maxRetryAfter is as long as a task waits in its attempt because a server says
// so; longer is a matter for a wait node.
const maxRetryAfter = time.Hour

// retryAfter is how long the server asks to wait: in seconds, or until a date by
// its own clock.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	var d time.Duration
	if n, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(max(n, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		if now, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			d = at.Sub(now)
		}
	}
	return min(max(d, 0), maxRetryAfter)
}

// result is what is written. The request was made and cannot be unmade, so this
// must not be refused for its size.
func (h *httpNode) result(resp *http.Response, body []byte, truncated bool, secrets secretValues) (any, error) {
	headers := map[string]any{}
	for name, values := range resp.Header {
		headers[strings.ToLower(name)] = string(secrets.hide([]byte(strings.Join(values, ", "))))
	}
	out := map[string]any{"status": int64(resp.StatusCode), "headers": headers, "truncated": truncated}
	how := h.response
	if how == "auto" {
		switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
		case !truncated && (kind == "application/json" || strings.HasSuffix(kind, "+json")):
			how = "json"
		default:
			if truncated {
				body = cutEnd(body)
			}
			if how = "text"; !utf8.Valid(body) {
				how = "base64"
			}
		}
	}
	switch how {
	case "json":
		v, err := value.Decode(body)
		switch {
		case err == nil:
			out["body"] = v
		case h.response == "json" && truncated:
			return nil, &engine.RetryError{Err: fmt.Errorf("the body is longer than max_body, %d bytes, so it cannot be read as JSON", h.maxBody), Never: true}
		case h.response == "json":
			return nil, &engine.RetryError{Err: fmt.Errorf("the body is no JSON: %w", err), Never: true}
		default:
			out["body"] = validText(body)
		}
	case "base64":
		out["body"] = base64.StdEncoding.EncodeToString(body)
	default:
		out["body"] = validText(body)
	}
	v, _, err := value.Normalize(out)
	if err == nil && value.Size(v) > engine.MaxValue && how != "base64" {
		// Characters that JSON writes longer than they are.
		out["body"], out["truncated"] = validText(cutEnd(body[:min(len(body), engine.MaxValue/8)])), true
		v, _, err = value.Normalize(out)
	}
	return v, err
}

func validText(body []byte) string { return strings.ToValidUTF8(string(body), "\uFFFD") }

// settle makes the output of a request that a person says is done.
func (h *httpNode) settle(v any) (engine.Output, error) {
	if h.output == "" {
		return engine.Output{}, nil
	}
	if v == nil {
		v = map[string]any{"status": int64(0), "headers": map[string]any{}, "body": nil, "truncated": false}
	}
	return engine.Set(h.output, v), nil
}

// secretValues are the values of environment variables, by name. They go into
// headers of the request and nowhere else.
type secretValues map[string]string

func (r *request) secrets() (secretValues, error) {
	out := secretValues{}
	names := []string{}
	for _, env := range r.Secrets {
		names = append(names, env)
	}
	if r.Auth != nil {
		names = append(names, r.Auth.Env)
	}
	for _, name := range names {
		v := strings.TrimRight(os.Getenv(name), "\r\n")
		if v == "" {
			return nil, fmt.Errorf("the environment variable %s, which has a secret of this request, is not set", name)
		}
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("the environment variable %s has a control character, which no header can hold", name)
		}
		out[name] = v
	}
	if a := r.Auth; a != nil && a.Type == "basic" {
		out["basic "+a.Env] = base64.StdEncoding.EncodeToString([]byte(a.User + ":" + out[a.Env]))
	}
	return out, nil
}

// hide replaces secrets that a server repeats. A very short one is no secret,
// and would be found everywhere.
func (s secretValues) hide(b []byte) []byte {
	text := string(b)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		secret := s[name]
		if len(secret) < 4 {
			continue
		}
		quoted, _ := json.Marshal(secret) // of a text it cannot fail
		for _, form := range []string{secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
			text = strings.ReplaceAll(text, form, "["+name+"]")
		}
	}
	return []byte(text)
}

// hideIn hides secrets in the text of an error, and keeps what it is.
func (s secretValues) hideIn(err error) error {
	if text := string(s.hide([]byte(err.Error()))); text != err.Error() {
		return hidden{text, err}
	}
	return err
}

type hidden struct {
	text string
	err  error
}

func (h hidden) Error() string { return h.text }
func (h hidden) Unwrap() error { return h.err }
