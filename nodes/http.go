package nodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// Bounds of an http node.
const (
	defaultMaxBody      = 256 << 10
	maxMaxBody          = 512 << 10
	defaultMaxRedirects = 5
	defaultHTTPTimeout  = time.Minute
	idempotencyHeader   = "Idempotency-Key"
)

var httpMethods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

func httpType() Type {
	texts := map[string]any{"type": []any{"string", "number", "boolean"}}
	parameters := map[string]any{"anyOf": []any{texts, map[string]any{"type": "array", "items": texts}}}
	return Type{
		Name: "http", Version: 1,
		Doc: "Makes an HTTP request and writes {status, headers, body, truncated} to output. A body that says it is JSON is read as JSON. A status that is not accepted fails the task; after 429, 503 and other passing troubles a retry_policy tries again, when the server says so. Everything but GET, HEAD and OPTIONS carries an idempotency key, and asks a person when nobody knows whether it was done. Secrets come from environment variables that the file names; they are never stored or shown.",
		Schema: schema([]any{"url"}, map[string]any{
			"method": enumSchema("absent: GET, with a body POST", anys(httpMethods)...),
			"url":    map[string]any{"type": "string", "minLength": 1, "description": "http or https; a value of ${{ }} that does not begin it is percent-encoded, so that it stays one part of a path or query"},
			"query":  map[string]any{"type": "object", "description": "parameters that are added to the url; a list gives one for each item, null none", "additionalProperties": parameters},
			"headers": map[string]any{"type": "object", "description": "header to text, or to {env: NAME}: the value of an environment variable", "additionalProperties": map[string]any{"anyOf": []any{
				texts, objectSchema("a secret", []any{"env"}, map[string]any{"env": envSchema()}),
			}}},
			"auth": objectSchema("who asks", []any{"type", "env"}, map[string]any{
				"type": enumSchema("bearer: the variable has a token; basic: it has the password of user", "bearer", "basic"),
				"user": textSchema("with type basic: the name"),
				"env":  envSchema(),
			}),
			"json":               map[string]any{"description": "the body as JSON; ${{ }} is replaced in its texts"},
			"form":               map[string]any{"type": "object", "description": "the body as a form, as in query", "additionalProperties": parameters},
			"body":               textSchema("the body as it is; give its Content-Type in headers"),
			"status":             map[string]any{"type": "array", "minItems": 1, "description": "the statuses that are accepted, such as 200, 2xx or 400-404; absent: 2xx", "items": map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 100, "maximum": 599}, map[string]any{"type": "string", "pattern": `^[1-5](xx|[0-9]{2}|[0-9]{2}-[1-5][0-9]{2})$`, "description": "a status, a class such as 2xx, or a range such as 400-404"}}}},
			"response":           enumSchema("how the body is read: as JSON if it says that it is, else as text, or base64 if it is none; or always one of these; absent: auto", "auto", "json", "text", "base64"),
			"max_body":           map[string]any{"type": "integer", "minimum": 0, "maximum": maxMaxBody, "description": "bytes of the body that are read; absent: 262144. Of a longer one the beginning is kept, and truncated is true"},
			"max_redirects":      map[string]any{"type": "integer", "minimum": 0, "maximum": 20, "description": "redirects that are followed; absent: 5. 0: the redirect itself is the result"},
			"timeout":            lengthSchema("how long the request may take, its body included, such as 30s, 5m or 1h30m; absent: 1m"),
			"idempotency_header": textSchema("the header that carries the idempotency key; absent: " + idempotencyHeader + " for all methods but GET, HEAD and OPTIONS; empty: none"),
			"output":             textSchema("the channel that the result is written to; absent: none"),
		}),
		New: newHTTP,
	}
}

func envSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^[A-Za-z_][A-Za-z0-9_]*$`, "description": "the name of an environment variable of the agent"}
}

// httpNode is what an http node does, before its expressions have values.
type httpNode struct {
	node, output string
	method       string
	url          *template
	query, form  *Template
	headers      map[string]*template
	secrets      map[string]string // header to environment variable
	auth         *httpAuth
	user         *template
	json, body   *Template
	accepts      []statusRange
	response     string
	maxBody      int
	maxRedirects int
	timeout      time.Duration
	idempotency  string
	inDoubt      bool // an attempt that broke off is asked about
}

type httpAuth struct {
	Type string `json:"type"`
	User string `json:"user,omitempty"`
	Env  string `json:"env"`
}

type statusRange struct{ from, to int }

func newHTTP(c *Config) engine.Node {
	h := &httpNode{node: c.name, method: "GET", response: "auto", maxBody: defaultMaxBody, maxRedirects: defaultMaxRedirects, timeout: defaultHTTPTimeout}
	h.readBody(c)
	c.Literal("method", &h.method)
	h.readURL(c)
	h.readHeaders(c)
	if c.Literal("auth", &h.auth) && h.auth != nil {
		switch t := c.get("auth"); {
		case h.auth.Type == "basic" && t.get("user") == nil:
			c.Wrong("auth", "add user", "auth of node %s with type basic needs user", c.name)
		case h.auth.Type != "basic" && t.get("user") != nil:
			c.Wrong("auth", "leave it out", "user in auth of node %s belongs to type basic", c.name)
		case h.auth.Type == "basic":
			h.user = c.d.template(t.get("user"), inCommand)
		}
		if h.headers["Authorization"] != nil || h.secrets["Authorization"] != "" {
			c.Wrong("auth", "leave out one of them", "node %s has auth and a header Authorization", c.name)
		}
	}
	h.readStatus(c)
	c.Literal("response", &h.response)
	c.Literal("max_body", &h.maxBody)
	c.Literal("max_redirects", &h.maxRedirects)
	if c.Has("timeout") {
		h.timeout = c.Duration("timeout")
	}
	safe := slices.Contains(httpMethods[:3], h.method)
	if !safe {
		h.idempotency = idempotencyHeader
	}
	if c.Literal("idempotency_header", &h.idempotency) && h.idempotency != "" && !validHeaderName(h.idempotency) {
		c.Wrong("idempotency_header", "", "%q is no name for a header", h.idempotency)
	}
	h.output = c.Output("output", takesObjects)
	crash := engine.CrashAsk
	if safe {
		crash = engine.CrashRetry
	}
	h.inDoubt = !safe && (c.get("on_crash") == nil || c.get("on_crash").raw == string(engine.CrashAsk))
	return engine.Node{OnCrash: crash, Resolve: h.resolve, Run: h.run, Settle: h.settle}
}

// takesObjects reports whether a channel can take an object.
func takesObjects(reducer string) bool {
	return reducer != engine.Sum && reducer != engine.Min && reducer != engine.Max
}

func (h *httpNode) readBody(c *Config) {
	var there []string
	for _, key := range []string{"json", "form", "body"} {
		if c.Has(key) {
			there = append(there, key)
		}
	}
	if len(there) > 1 {
		c.Wrong(there[1], "leave out all but one", "node %s has more than one body: %s", c.name, joinNames(there))
	}
	if len(there) > 0 {
		h.method = "POST"
	}
	h.json, h.form, h.body = c.Template("json"), c.Template("form"), c.Template("body")
}

func (h *httpNode) readURL(c *Config) {
	t := c.take("url")
	h.url = c.d.template(t, inCommand)
	h.query = c.Template("query")
	if h.url != nil && len(h.url.parts) > 0 && h.url.parts[0].code == nil {
		// As far as it is written out it can be checked now.
		begin := h.url.parts[0].text
		if !h.url.literal() {
			begin += "x"
		}
		if _, err := parseURL(begin); err != nil {
			c.Wrong("url", "write https://host/path", "url of node %s: %v", c.name, err)
		}
	}
}

// parseURL parses a URL that a request can be made to.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it is no URL: %w", innermost(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("it begins with http:// or https://, not with %q", shorten(text, 40))
	case u.Host == "":
		return nil, fmt.Errorf("it has no host")
	case u.User != nil:
		return nil, fmt.Errorf("it has a user: that belongs into auth, whose secret is in an environment variable")
	}
	return u, nil
}

func (h *httpNode) readHeaders(c *Config) {
	t := c.take("headers")
	if t == nil || !c.literally("headers") { // the name of a secret is as it is written
		return
	}
	h.headers, h.secrets = map[string]*template{}, map[string]string{}
	for _, k := range t.keys {
		if !validHeaderName(k.name) {
			c.d.mistake(k.at, k.value.pointer, "", "%q is no name for a header", k.name)
			continue
		}
		name := http.CanonicalHeaderKey(k.name)
		if h.headers[name] != nil || h.secrets[name] != "" {
			c.d.mistake(k.at, k.value.pointer, "", "the header %s is there twice", name)
			continue
		}
		if k.value.kind == objectKind {
			h.secrets[name] = k.value.get("env").raw
			continue
		}
		h.headers[name] = c.d.template(k.value, inCommand)
	}
}

func validHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (h *httpNode) readStatus(c *Config) {
	h.accepts = []statusRange{{200, 299}}
	var list []any
	if !c.Literal("status", &list) {
		return
	}
	h.accepts = nil
	for _, item := range list {
		text := fmt.Sprint(item)
		r := statusRange{}
		if class, ok := strings.CutSuffix(text, "xx"); ok {
			n, _ := strconv.Atoi(class)
			r = statusRange{n * 100, n*100 + 99}
		} else {
			from, to, isRange := strings.Cut(text, "-")
			r.from, _ = strconv.Atoi(from)
			if r.to = r.from; isRange {
				r.to, _ = strconv.Atoi(to)
			}
		}
		if r.from > r.to {
			c.Wrong("status", "", "status of node %s: %s is empty", c.name, text)
		}
		h.accepts = append(h.accepts, r)
	}
}

func (h *httpNode) accepted(status int) bool {
	return slices.ContainsFunc(h.accepts, func(r statusRange) bool { return r.from <= status && status <= r.to })
}

// request is what was resolved: what an approver is shown and what is sent.
// Of a secret it has the name.
type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"` // header to environment variable
	Auth    *httpAuth         `json:"auth,omitempty"`
	Body    string            `json:"body,omitempty"`
}

func (h *httpNode) resolve(t *engine.Task) (any, error) {
	s, names := t.State(), commandNames(t)
	r := request{Method: h.method, Secrets: h.secrets, Headers: map[string]string{}}
	text, err := h.url.urlText(s, names)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if h.query != nil {
		more, err := h.values(t, h.query)
		if err != nil {
			return nil, err
		}
		q := u.Query()
		for name, v := range more {
			q[name] = v
		}
		u.RawQuery = q.Encode()
	}
	u.Fragment, u.RawFragment = "", ""
	r.URL = u.String()
	for name, tm := range h.headers {
		v, err := tm.text(s, names)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("header %s: a header is one line without control characters", name)
		}
		r.Headers[name] = v
	}
	if h.auth != nil {
		auth := *h.auth
		if auth.User, err = h.user.maybe(s, names); err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
		r.Auth = &auth
	}
	if err := h.resolveBody(t, &r); err != nil {
		return nil, err
	}
	// As plain values, which is what an approver is shown.
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return value.Decode(raw)
}

// maybe is the text of a template that may be absent.
func (t *template) maybe(s engine.State, names map[string]any) (string, error) {
	if t == nil {
		return "", nil
	}
	return t.text(s, names)
}

func (h *httpNode) resolveBody(t *engine.Task, r *request) error {
	kind := ""
	switch {
	case h.json != nil:
		v, err := h.json.Value(t)
		if err != nil {
			return err
		}
		kind, r.Body = "application/json", string(value.Append(nil, v))
	case h.form != nil:
		v, err := h.values(t, h.form)
		if err != nil {
			return err
		}
		kind, r.Body = "application/x-www-form-urlencoded", v.Encode()
	case h.body != nil:
		v, err := h.body.Text(t)
		if err != nil {
			return err
		}
		kind, r.Body = "text/plain; charset=utf-8", v
	default:
		return nil
	}
	if _, said := r.Headers["Content-Type"]; !said {
		r.Headers["Content-Type"] = kind
	}
	return nil
}

// values are the parameters of a query or a form; a list is one for each item.
func (h *httpNode) values(t *engine.Task, m *Template) (url.Values, error) {
	v, err := m.Value(t)
	if err != nil {
		return nil, err
	}
	out := url.Values{}
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch v := object[name].(type) {
		case nil: // left out
		case []any:
			for _, item := range v {
				out.Add(name, asText(item))
			}
		default:
			out.Add(name, asText(v))
		}
	}
	return out, nil
}

// urlText is the text of a URL. A value at its beginning is taken as it is: it
// says where the request goes. Any other stays inside the part of the path or
// the query where it stands, whatever is in it.
func (t *template) urlText(s engine.State, names map[string]any) (string, error) {
	var b strings.Builder
	for i, p := range t.parts {
		if p.code == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.code.run(s, names)
		if err != nil {
			return "", err
		}
		text := asText(v)
		if i > 0 {
			if text == "." || text == ".." {
				return "", fmt.Errorf("the value of %s is %q, which would lead to another path", p.code.source, text)
			}
			text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
