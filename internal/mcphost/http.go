package mcphost

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxBody is how much of one response is read. A stream that has given so much is
// cut off, and asked for again.
const maxBody = 64 << 20

// transport gives a new way to the server, and what ends it.
func (s *server) transport(queued *atomic.Bool) (mcp.Transport, func(error) error, error) {
	c := s.config
	if c.URL == "" {
		if c.Command == "" {
			return nil, nil, errors.New("it has neither a command nor a URL")
		}
		return s.stdio(queued)
	}
	target, err := url.Parse(c.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, nil, fmt.Errorf("%q is no URL of http or https", shorten(c.URL, 200))
	}
	inner, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		inner = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	inner = inner.Clone() // connections of its own, which end with it
	client := &http.Client{Transport: &courier{inner: inner, target: target, headers: c.Headers}}
	end := func(cause error) error {
		inner.CloseIdleConnections()
		return cause
	}
	if c.SSE {
		return &mcp.SSEClientTransport{Endpoint: c.URL, HTTPClient: client, MaxEventSize: maxLine}, end, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: c.URL, HTTPClient: client, MaxEventSize: maxLine}, end, nil
}

// courier adds the headers of a server to what is sent to that server.
type courier struct {
	inner   http.RoundTripper
	target  *url.URL
	headers []Header
}

// RoundTrip implements http.RoundTripper.
func (c *courier) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == c.target.Scheme && r.URL.Host == c.target.Host {
		r = r.Clone(r.Context())
		for _, h := range c.headers {
			r.Header.Set(h.Name, h.Value)
		}
	}
	response, err := c.inner.RoundTrip(r)
	if err == nil {
		response.Body = &limitedBody{ReadCloser: response.Body, left: maxBody}
	}
	return response, err
}

// limitedBody fails behind so many bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the response has more than %d MiB", maxBody>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// fileURI is a folder as servers are told of it.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
