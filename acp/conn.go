package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Handler gets what the peer sends, one message after the other, on the read
// loop. While it runs nothing else is read, no cancel and no answer to a call
// either, so it registers its work and returns; it must not call Conn.Call,
// Conn.Notify or anything that waits. Request.Go starts the work.
//
// ctx ends when the peer is gone. A panic becomes an error for the request and a
// line in the log.
type Handler interface {
	// HandleRequest must lead to exactly one Reply or Fail, now or later.
	HandleRequest(ctx context.Context, request *Request)

	// HandleNotification must ignore what it does not know. params may be nil.
	HandleNotification(ctx context.Context, method string, params json.RawMessage)
}

// Options are the limits of a connection. The zero value has the defaults.
type Options struct {
	MaxLine     int           // bytes of a line that is read; 32 MiB
	MaxInFlight int           // requests that wait for their answers; 1,024
	Patience    time.Duration // how long Close waits for a peer that does not read; 2 s
	Log         *slog.Logger  // default: text on standard error

	// LateAnswer is told about an answer that came after its call was given up,
	// and has been dropped otherwise. It runs on a goroutine of its own.
	LateAnswer func(method string, result json.RawMessage, err error)
}

// Conn is a connection to one client. Its methods may be called by several
// goroutines.
type Conn struct {
	rpc     *jsonrpc2.Conn
	stream  *stream
	out     *outbox
	handler Handler
	options Options

	ctx     context.Context // of handlers
	cancel  context.CancelCauseFunc
	started chan struct{}
	done    chan struct{}

	mu       sync.Mutex
	idle     sync.Cond
	work     int // goroutines
	requests map[uint64]*Request
	calls    map[uint64]*call
	lastCall uint64
	gone     bool
	err      error
}

// NewConn makes a connection that reads from r and writes to w. It does not close
// them. Nothing is read before Start.
func NewConn(r io.Reader, w io.Writer, options Options) *Conn {
	options.MaxLine = cmp.Or(options.MaxLine, 32<<20)
	options.MaxInFlight = cmp.Or(options.MaxInFlight, 1024)
	options.Patience = cmp.Or(options.Patience, 2*time.Second)
	if options.Log == nil {
		options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	c := &Conn{
		options:  options,
		started:  make(chan struct{}),
		done:     make(chan struct{}),
		requests: map[uint64]*Request{},
		calls:    map[uint64]*call{},
	}
	c.idle.L = &c.mu
	c.out = newOutbox(w, c.disconnect)
	c.stream = newStream(r, c.out, options, c.disconnect)
	return c
}

// Start begins to handle what the peer sends, until its input ends, it cannot be
// written to, ctx ends or Close is called. Start is called once, before anything
// is sent.
func (c *Conn) Start(ctx context.Context, handler Handler) {
	c.handler = handler
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	// The library must not close by itself while answers can still be sent, so it
	// does not see that ctx ends.
	c.rpc = jsonrpc2.NewConn(context.WithoutCancel(ctx), gate{c.stream, c.started}, dispatcher{c},
		jsonrpc2.SetLogger(logger{c.stream}), jsonrpc2.OnSend(c.callSent), jsonrpc2.OnRecv(c.callAnswered))
	context.AfterFunc(ctx, func() { c.disconnect(context.Cause(ctx)) })
	close(c.started)
}

// gate keeps the library, which reads at once, from calling into a Conn that does
// not know the library yet.
type gate struct {
	*stream
	open <-chan struct{}
}

// ReadObject implements jsonrpc2.ObjectStream.
func (g gate) ReadObject(v any) error {
	<-g.open
	return g.stream.ReadObject(v)
}

// Done is closed when the peer is gone: its input ended, it cannot be written to,
// the context of the connection ended, or Close was called. From then on calls
// fail and no message is handled. Open requests can still be answered until Close,
// with notifications before the answers, because a peer that has closed its end
// may read on.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says, after Done, why the peer is gone: nil where its input ended or Close
// was called.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Wait returns when no goroutine that Request.Go started runs any more.
func (c *Conn) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.work > 0 {
		c.idle.Wait()
	}
}

// Close ends the connection after what was sent is written. It does not wait for
// the work of requests: after Done, end that, Wait, then Close. An error means
// that something that was sent did not reach the peer.
func (c *Conn) Close() error {
	c.disconnect(nil)
	if c.rpc != nil {
		// It has nothing to say here: it is closed already, or closes now.
		_ = c.rpc.Close()
	}
	return c.out.close(c.options.Patience)
}

// Notify sends a notification. It waits while more than 1 MiB is unread, and so
// makes the work as slow as its reader. nil params are left out.
func (c *Conn) Notify(method string, params any) error {
	c.out.waitForRoom(context.Background())
	return sent(method, c.rpc.Notify(context.Background(), method, params))
}

// sent turns the library's word for a closed connection into ours.
func sent(method string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonrpc2.ErrClosed):
		err = ErrDisconnected
	}
	return fmt.Errorf("send %s: %w", method, err)
}

// disconnect is the one place where a peer is found to be gone.
func (c *Conn) disconnect(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone, c.err = true, err
	if c.cancel != nil {
		c.cancel(ErrDisconnected)
	}
	close(c.done)
	c.stream.deafen()
	c.out.lastWords()
}

// begin counts a goroutine that Wait waits for.
func (c *Conn) begin(work func()) {
	c.mu.Lock()
	c.work++
	c.mu.Unlock()
	go func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.work--
			c.idle.Broadcast()
		}()
		work()
	}()
}

// dispatcher hides Handle, which is not for users of Conn.
type dispatcher struct{ c *Conn }

// Handle implements jsonrpc2.Handler. It runs on the read loop.
func (d dispatcher) Handle(_ context.Context, _ *jsonrpc2.Conn, envelope *jsonrpc2.Request) {
	c, m := d.c, d.c.stream.current
	if m.kind == isNotification {
		defer c.survive(m.method, nil)
		if m.method == MethodCancelRequest {
			c.cancelRequest(m.params)
			return
		}
		c.handler.HandleNotification(c.ctx, m.method, m.params)
		return
	}
	request := &Request{Method: m.method, Params: m.params, ID: m.id, conn: c, id: envelope.ID.Num}
	if m.method == MethodCancelRequest {
		_ = request.Fail(NewError(CodeMethodNotFound, m.method+" is a notification: send it without an id", nil))
		return
	}
	c.mu.Lock()
	c.requests[request.id] = request
	c.mu.Unlock()
	defer c.survive(m.method, request)
	c.handler.HandleRequest(c.ctx, request)
}

// survive turns a panic into an error of the request that it belongs to. One bad
// message must not take the other sessions of the process with it.
func (c *Conn) survive(method string, request *Request) {
	cause := recover()
	if cause == nil {
		return
	}
	c.options.Log.Error("panic while handling a message of the ACP client",
		"method", method, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if request == nil {
		return
	}
	err := request.Fail(Internal(fmt.Errorf("%s failed because of a bug in the agent: %v", method, cause)))
	if err != nil && !errors.Is(err, ErrReplied) && !errors.Is(err, ErrDisconnected) {
		c.options.Log.Error("the panic could not be told to the ACP client", "error", err)
	}
}

// cancelRequest runs the cancel functions of the requests with the given id.
// There may be several, because nothing keeps a peer from using an id twice.
func (c *Conn) cancelRequest(params json.RawMessage) {
	p, err := ParseCancelRequest(params)
	if err != nil {
		c.stream.warn("bad " + MethodCancelRequest + " from the ACP client: " + AsError(err).Message)
		return
	}
	c.mu.Lock()
	var hit []*Request
	for _, request := range c.requests {
		if sameID(request.ID, p.RequestID) {
			hit = append(hit, request)
		}
	}
	c.mu.Unlock()
	for _, request := range hit {
		request.cancel()
	}
}

// logger passes on what the library has to say, which it does on the read loop.
type logger struct{ stream *stream }

func (l logger) Printf(format string, v ...any) {
	l.stream.warn(strings.TrimSpace(fmt.Sprintf(format, v...)))
}
