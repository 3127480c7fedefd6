package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "uri": r.RequestURI, "body": string(body), "type": r.Header.Get("Content-Type"),
		"key": r.Header.Get("Idempotency-Key"), "x": r.Header.Get("X-Note"), "n": 9007199254740993,
	})
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func httpGraph(config string) string {
	return "channels: {base: , v: , out: }\nedges: [{from: __start__, to: h}]\nnodes: {h: {type: http, output: out, " + config + "}}\n"
}

// request runs an http node once and gives what it wrote.
func requestOf(t *testing.T, base, config string, v any) (map[string]any, error) {
	t.Helper()
	turn, err := runGraph(t, httpGraph(config), engine.Values{"base": base, "v": v})
	if err != nil {
		return nil, err
	}
	return turn.State["out"].(map[string]any), nil
}

func TestARequestIsMadeOfItsConfiguration(t *testing.T) {
	t.Parallel()
	base := serve(t, echo)
	for config, want := range map[string]map[string]any{
		"url: '${{ base }}/a'":                     {"method": "GET", "uri": "/a", "body": "", "key": ""},
		"url: '${{ base }}/a/${{ v }}?q=${{ v }}'": {"uri": "/a/x%20%2F%3F%26%23..?q=x%20%2F%3F%26%23.."},
		"url: '${{ base }}?a=1', query: {b: '${{ v }}', c: [1, two], d: '${{ nil }}'}":              {"uri": "/?a=1&b=x+%2F%3F%26%23..&c=1&c=two"},
		"url: '${{ base }}?a=1', query: {c: {d: 1}}":                                                nil,
		"url: '${{ base }}?a=1', query: {b: '${{ v }}', c: '${{ [1, \"two\"] }}', d: '${{ nil }}'}": {"uri": "/?a=1&b=x+%2F%3F%26%23..&c=1&c=two"},
		"url: '${{ base }}', json: {a: ['${{ v }}', 1, null], b: '${{ {\"k\": 1} }}'}": {
			"method": "POST", "body": `{"a":["x /?&#..",1,null],"b":{"k":1}}`, "type": "application/json"},
		"url: '${{ base }}', method: PUT, form: {a: 1, b: '${{ v }}'}":                                {"method": "PUT", "body": "a=1&b=x+%2F%3F%26%23..", "type": "application/x-www-form-urlencoded"},
		"url: '${{ base }}', body: 'v=${{ v }}', headers: {content-type: text/x, x-note: '${{ v }}'}": {"body": "v=x /?&#..", "type": "text/x", "x": "x /?&#.."},
		"url: '${{ base }}', method: DELETE, idempotency_header: ''":                                  {"method": "DELETE", "key": ""},
		"url: '${{ base }}', method: DELETE, idempotency_header: X-Note":                              {"key": ""},
	} {
		if want == nil {
			require.Contains(t, mistakes(t, httpGraph(config))[0].Message, "query/c of node h is", config)
			continue
		}
		got, err := requestOf(t, base, config, "x /?&#..")
		require.NoError(t, err, config)
		require.EqualValues(t, 200, got["status"])
		require.Equal(t, false, got["truncated"])
		require.Equal(t, "application/json", got["headers"].(map[string]any)["content-type"])
		body := got["body"].(map[string]any)
		require.EqualValues(t, 9007199254740993, body["n"], "digits are kept")
		for k, v := range want {
			require.Equal(t, v, body[k], "%s: %s", config, k)
		}
		if body["method"] != "GET" && want["key"] == nil {
			require.Len(t, body["key"], 32, config)
		}
	}
}

func TestAValueDoesNotLeadARequestElsewhere(t *testing.T) {
	t.Parallel()
	base := serve(t, echo)
	_, err := requestOf(t, base, "url: '${{ base }}/users/${{ v }}/x'", "..")
	require.ErrorContains(t, err, `url: the value of v is "..", which would lead to another path`)
	_, err = requestOf(t, base, "url: '${{ v }}/x'", "file:///etc")
	require.ErrorContains(t, err, "it begins with http:// or https://")
	_, err = requestOf(t, base, "url: '${{ v }}/x'", "http://me:secret@host")
	require.ErrorContains(t, err, "it has a user: that belongs into auth")
	require.NotContains(t, err.Error(), "me:secret@host:", "nor is it told")
	_, err = requestOf(t, base, "url: '${{ base }}', headers: {x-note: '${{ v }}'}", "a\r\nX-Evil: 1")
	require.ErrorContains(t, err, "header X-Note: a header is one line")
}

func TestMistakesOfAnHTTPNodeAreFoundWhenItIsLoaded(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"url: ftp://x":                                                               "url of node h: it begins with http:// or https://",
		"url: 'https:///x'":                                                          "url of node h: it has no host",
		"url: 'https://u:p@h/x'":                                                     "belongs into auth",
		"url: 'http://x', method: get":                                               "method of node h is one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE, not get; did you mean GET?",
		"url: 'http://x', json: 1, body: x":                                          "node h has more than one body: json, body",
		"url: 'http://x', status: [2x]":                                              "it is a status, a class such as 2xx",
		"url: 'http://x', status: [299-200]":                                         "299-200 is empty",
		"url: 'http://x', status: [999]":                                             "is at most 599",
		"url: 'http://x', headers: {'a b': c}":                                       `"a b" is no name for a header`,
		"url: 'http://x', headers: {a: b, A: c}":                                     "the header A is there twice",
		"url: 'http://x', headers: {a: {evn: X}}":                                    "unknown key evn in headers/a of node h; did you mean env?",
		"url: 'http://x', headers: {a: {env: 'A-B'}}":                                "it is the name of an environment variable",
		"url: 'http://x', auth: {type: basic, env: P}":                               "with type basic needs user",
		"url: 'http://x', auth: {type: bearer, env: P, user: u}":                     "belongs to type basic",
		"url: 'http://x', auth: {type: bearer, env: P}, headers: {authorization: x}": "auth and a header Authorization",
		"url: 'http://x', timeout: 5":                                                "timeout of node h is a text, not a number",
		"url: 'http://x', timeout: soon":                                             "such as 30s, 5m or 1h30m",
		"url: 'http://x', max_body: 1000000":                                         "max_body of node h is at most 524288",
		"url: 'http://x', idempotency_header: 'a b'":                                 "no name for a header",
		"url: 'http://x', method: '${{ v }}'":                                        "method of node h is one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE, not ${{ v }}; no ${{ }} is replaced here",
		"url: 'http://x', max_body: '${{ v }}'":                                      "max_body of node h is an integer, not a text; no ${{ }} is replaced here",
		"url: 'http://x', timeout: '${{ v }}'":                                       "timeout of node h cannot be",
		"url: 'http://x', headers: {a: {env: '${{ v }}'}}":                           "headers/a/env of node h cannot be",
		"url: 'http://x', auth: {type: '${{ v }}', env: A}":                          "auth/type of node h is one of bearer, basic",
		"url: '${{ bass }}'":                                                         "did you mean base?",
	} {
		got := mistakes(t, httpGraph(config))
		require.Len(t, got, 1, "%s: %v", config, got)
		require.Contains(t, got[0].String(), want, config)
	}
}

func TestTheStatusDecidesWhetherARequestFailed(t *testing.T) {
	t.Parallel()
	status := 404
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, "there is\nno such page")
	})
	_, err := requestOf(t, base, "url: '${{ base }}/x'", nil)
	require.ErrorContains(t, err, "GET "+base+"/x: status 404 is not accepted; the server says: there is no such page")
	got, err := requestOf(t, base, "url: '${{ base }}/x', status: [2xx, 404]", nil)
	require.NoError(t, err)
	require.Equal(t, "there is\nno such page", got["body"])
	_, err = requestOf(t, base, "url: '${{ base }}/x', status: [400-403, 5xx]", nil)
	require.Error(t, err)
}

func TestABodyIsReadAsWhatItIs(t *testing.T) {
	t.Parallel()
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = w.Write([]byte(r.URL.Query().Get("body")))
	})
	for _, c := range []struct {
		kind, body, config string
		want               any
		err                string
	}{
		{"application/json", `{"a": 1.5}`, "", map[string]any{"a": 1.5}, ""},
		{"application/problem+json; charset=utf-8", `[1]`, "", []any{int64(1)}, ""},
		{"application/json", `{`, "", "{", ""},
		{"application/json", `{`, ", response: json", nil, "the body is no JSON"},
		{"text/plain", `{"a": 1}`, ", response: json", map[string]any{"a": int64(1)}, ""},
		{"text/html", "h\u00fc", "", "h\u00fc", ""},
		{"image/png", "\x89PNG\xff", "", "iVBOR/8=", ""},
		{"image/png", "\x89PNG", ", response: text", "\uFFFDPNG", ""},
		{"text/plain", "abc", ", response: base64", "YWJj", ""},
	} {
		got, err := requestOf(t, base, "url: '${{ base }}', query: {type: '"+c.kind+"', body: '${{ v }}'}"+c.config, c.body)
		if c.kind == "image/png" {
			// Channels hold no such bytes: the server gives them by itself.
			raw := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.body)) })
			got, err = requestOf(t, raw, "url: '${{ base }}'"+c.config, nil)
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got["body"], "%v", c)
	}
}

func TestALongOrEndlessBodyIsCutAndTakesNoMemory(t *testing.T) {
	t.Parallel()
	var once sync.Once
	gone := make(chan struct{})
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("\u00fc", 32<<10))
		for {
			if _, err := w.Write(chunk); err != nil {
				once.Do(func() { close(gone) })
				return
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := requestOf(t, base, "url: '${{ base }}', max_body: 1001", nil)
	require.NoError(t, err)
	require.Equal(t, true, got["truncated"])
	require.Equal(t, strings.Repeat("\u00fc", 500), got["body"], "cut between characters")
	<-gone // it is not read on
	_, err = requestOf(t, base, "url: '${{ base }}', max_body: 1000, response: json", nil)
	require.ErrorContains(t, err, "the body is longer than max_body, 1000 bytes")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
}

func TestAnAnswerThatNeverComesEndsAtTheTimeout(t *testing.T) {
	t.Parallel()
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("some"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, err := requestOf(t, base, "url: '${{ base }}', timeout: 50ms", nil)
	require.ErrorContains(t, err, "no whole answer within 50ms")
}

func TestARedirectLoopEnds(t *testing.T) {
	t.Parallel()
	n := 0
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(w, r, fmt.Sprint("/", n), http.StatusFound)
	})
	_, err := requestOf(t, base, "url: '${{ base }}', max_redirects: 3", nil)
	require.ErrorContains(t, err, "too many redirects: after 3 it would go on to "+base+"/4")
	require.Equal(t, 4, n)
	got, err := requestOf(t, base, "url: '${{ base }}', max_redirects: 0, status: [302]", nil)
	require.NoError(t, err)
	require.Equal(t, "/5", got["headers"].(map[string]any)["location"])
}

func TestASecretGoesToItsHostAndNowhereElse(t *testing.T) {
	const secret = "s3cr3t-value/with+signs"
	t.Setenv("HOLDFAST_TEST_SECRET", secret)
	var mu sync.Mutex
	seen := map[string][]string{}
	note := func(where string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[where] = []string{r.Header.Get("Authorization"), r.Header.Get("X-Key")}
	}
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { note("other", r) })
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note("base", r)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, strings.Replace(other, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/fail":
			w.WriteHeader(http.StatusForbidden)
			fallthrough
		default:
			w.Header().Set("X-Echo", r.Header.Get("X-Key"))
			_ = json.NewEncoder(w).Encode(r.Header)
		}
	})
	const config = "headers: {x-key: {env: HOLDFAST_TEST_SECRET}}, auth: {type: AUTH, env: HOLDFAST_TEST_SECRET}"
	bearer, basic := fill(config, "AUTH", "bearer"), fill(config, "AUTH", "basic, user: me")
	for path, auth := range map[string]string{"/bearer": bearer, "/basic": basic, "/redirect": bearer, "/fail": bearer} {
		s := openStore(t)
		g := mustLoad(t, httpGraph("url: '${{ base }}"+path+"', "+auth))
		var events []string
		e := engine.New(g, s, engine.Options{Events: func(e engine.Event) { events = append(events, fmt.Sprintf("%+v", e)) }})
		turn, err := e.Start(t.Context(), "t", engine.Input{Values: engine.Values{"base": base}})
		require.Equal(t, path == "/fail", err != nil, "%s: %v", path, err)
		require.NotContains(t, fmt.Sprint(turn, err, events), secret, path)
		require.NotContains(t, fmt.Sprint(turn, err, events), "bWU6czNjcjN0", path) // me:s3cr3t in base64
		if path == "/bearer" {
			require.Contains(t, fmt.Sprint(turn.State), "[HOLDFAST_TEST_SECRET]")
			require.Equal(t, []string{"Bearer " + secret, secret}, seen["base"])
		}
		require.NoError(t, s.Close())
		requireNotInFile(t, s.Path(), secret)
	}
	require.Equal(t, []string{"", ""}, seen["other"])
	_, err := requestOf(t, base, "url: '${{ base }}', auth: {type: bearer, env: HOLDFAST_TEST_NOTHING}", nil)
	require.ErrorContains(t, err, "the environment variable HOLDFAST_TEST_NOTHING, which has a secret of this request, is not set")
}

// requireNotInFile looks for a text in the bytes of a database and its log.
func requireNotInFile(t *testing.T, path, text string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.False(t, bytes.Contains(data, []byte(text)), "%s is in %s", text, file)
	}
}

func TestAPassingTroubleIsTriedAgainWhenTheServerSays(t *testing.T) {
	t.Parallel()
	var times []time.Time
	fake := clock.NewFake(time.Unix(1000, 0))
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		times = append(times, fake.Now())
		switch len(times) {
		case 1:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Retry-After", "Mon, 02 Jan 2006 15:05:05 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	g := mustLoad(t, httpGraph("url: '${{ base }}', retry_policy: {max_retries: 9, initial_delay_ms: 1000, backoff_multiplier: 1}"))
	done := make(chan error)
	go func() {
		_, err := engine.New(g, nil, engine.Options{Clock: fake}).Start(t.Context(), "t", engine.Input{Values: engine.Values{"base": base}})
		done <- err
	}()
	for _, d := range []time.Duration{7 * time.Second, time.Minute} {
		require.NoError(t, fake.WaitForTimers(t.Context(), 1))
		fake.Advance(d)
	}
	require.ErrorContains(t, <-done, "status 404")
	require.Len(t, times, 3, "what can never help is not tried again")
	require.Equal(t, []time.Duration{7 * time.Second, time.Minute}, []time.Duration{times[1].Sub(times[0]), times[2].Sub(times[1])})
}

func TestARequestThatBrokeOffIsAskedAboutIfItChangesSomething(t *testing.T) {
	t.Parallel()
	n := 0
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			panic(http.ErrAbortHandler) // it was read, and no answer comes
		}
		echo(w, r)
	})
	ctx, s := t.Context(), openStore(t)
	g := mustLoad(t, httpGraph("url: '${{ base }}', json: {a: 1}"))
	e := engine.New(g, s, engine.Options{})
	turn, err := e.Start(ctx, "t", engine.Input{Values: engine.Values{"base": base}})
	require.NoError(t, err)
	require.Len(t, turn.Questions, 1)
	require.Contains(t, turn.Questions[0].Payload.Message, "It is not known whether node h did its work")
	turn, err = e.Resume(ctx, "t", interrupt.Answer{Question: turn.Questions[0].ID(), Choice: interrupt.RunAgain})
	require.NoError(t, err)
	require.Equal(t, engine.Done, turn.Status)

	// Where nothing listens nothing was done.
	_, err = e.Start(ctx, "t2", engine.Input{Values: engine.Values{"base": "http://127.0.0.1:1"}})
	require.ErrorContains(t, err, "POST http://127.0.0.1:1: ")
	require.NotErrorIs(t, err, engine.ErrInDoubt)
}
