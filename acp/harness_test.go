package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// handlerFuncs is a Handler of functions. A nil one echoes a request, or ignores a
// notification.
type handlerFuncs struct {
	request      func(ctx context.Context, r *Request)
	notification func(ctx context.Context, method string, params json.RawMessage)
}

func (h handlerFuncs) HandleRequest(ctx context.Context, r *Request) {
	if h.request == nil {
		echo(ctx, r)
		return
	}
	h.request(ctx, r)
}

func (h handlerFuncs) HandleNotification(ctx context.Context, method string, params json.RawMessage) {
	if h.notification != nil {
		h.notification(ctx, method, params)
	}
}

// echo replies with the method, which shows which request was answered.
func echo(_ context.Context, r *Request) {
	_ = r.Reply(map[string]string{"did": r.Method})
}

// logged collects what is logged, for any goroutine.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func quiet(o Options) Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// exchange gives all of input to a connection and returns the lines that come out
// until it is closed.
func exchange(tb testing.TB, input io.Reader, h Handler, o Options) []string {
	tb.Helper()
	var out bytes.Buffer
	conn := NewConn(input, &out, quiet(o))
	conn.Start(context.Background(), h)
	<-conn.Done()
	conn.Wait()
	if err := conn.Close(); err != nil {
		tb.Errorf("close: %v", err)
	}
	if out.Len() == 0 {
		return nil
	}
	text, found := strings.CutSuffix(out.String(), "\n")
	if !found {
		tb.Errorf("the last line has no end: %q", out.String())
	}
	return strings.Split(text, "\n")
}

// peer is the other end of a connection.
type peer struct {
	tb   testing.TB
	conn *Conn
	in   *io.PipeWriter // what the peer writes
	from *io.PipeReader // what it reads
	out  *bufio.Reader
}

func connect(tb testing.TB, h Handler, o Options) *peer {
	tb.Helper()
	r, in := io.Pipe()
	out, w := io.Pipe()
	p := &peer{tb: tb, in: in, from: out, out: bufio.NewReader(out)}
	p.conn = NewConn(r, w, quiet(o))
	p.conn.Start(context.Background(), h)
	tb.Cleanup(func() {
		_ = in.Close()
		_ = out.Close() // before Close, which would wait for a reader
		_ = p.conn.Close()
		p.conn.Wait()
	})
	return p
}

func (p *peer) send(lines ...string) {
	p.tb.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			p.tb.Fatalf("send: %v", err)
		}
	}
}

func (p *peer) receive() string {
	p.tb.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.tb.Fatalf("receive: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) expect(want string) {
	p.tb.Helper()
	if got := p.receive(); got != want {
		p.tb.Fatalf("received %s\nwant     %s", got, want)
	}
}
