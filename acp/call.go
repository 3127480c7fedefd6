package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sourcegraph/jsonrpc2"
)

// call is a request of ours that has no answer yet. It stays in Conn.calls until
// the answer comes, also when nobody waits for it any more.
type call struct {
	method    string
	abandoned bool
	answer    chan answer // room for one, so the read loop never waits
	sent      *jsonrpc2.Request
}

type answer struct {
	result json.RawMessage
	err    error
}

// Call asks the peer and waits for its answer. A *jsonrpc2.Error is what the peer
// answered, or says that its answer was malformed; ErrDisconnected that no answer
// will come.
//
// When ctx ends, the peer is told with $/cancel_request and Call returns at once
// with the cause. An answer that comes later goes to Options.LateAnswer.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("call %s: %w", method, context.Cause(ctx))
	}
	c.out.waitForRoom(ctx)

	// Written down before it is sent: the answer can be here before DispatchCall
	// returns.
	open := &call{method: method, answer: make(chan answer, 1)}
	c.mu.Lock()
	c.lastCall++ // from 1: the library takes 0 for "no id given"
	id, gone := c.lastCall, c.gone
	c.calls[id] = open
	c.mu.Unlock()
	err := ErrDisconnected
	if !gone {
		_, err = c.rpc.DispatchCall(context.Background(), method, params, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	}
	if err != nil {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		return nil, sent(method, err)
	}
	// The library keeps the request until it is answered, which may be never. Its
	// params may be large, and it does not need them any more.
	open.sent.Params = nil

	var cause error
	select {
	case a := <-open.answer:
		return a.of(method)
	case <-c.done:
		cause = ErrDisconnected
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	// An answer that has come in the same moment counts: it may be an approval.
	c.mu.Lock()
	select {
	case a := <-open.answer:
		c.mu.Unlock()
		return a.of(method)
	default:
		open.abandoned = true
	}
	c.mu.Unlock()
	if !errors.Is(cause, ErrDisconnected) {
		// If this cannot be sent the peer is gone, and nothing is left to cancel.
		_ = c.rpc.Notify(context.Background(), MethodCancelRequest, CancelRequestParams{RequestID: json.RawMessage(fmt.Sprint(id))})
	}
	return nil, fmt.Errorf("call %s: %w", method, cause)
}

func (a answer) of(method string) (json.RawMessage, error) {
	if a.err != nil {
		return nil, fmt.Errorf("call %s: %w", method, a.err)
	}
	return a.result, nil
}

// callSent gets what the library is about to send, on the goroutine that sends.
func (c *Conn) callSent(request *jsonrpc2.Request, _ *jsonrpc2.Response) {
	if request == nil || request.Notif {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[request.ID.Num].sent = request
}

// callAnswered gets a response that the library has read, on the read loop. The
// library has only its envelope; the content is with the stream.
func (c *Conn) callAnswered(request *jsonrpc2.Request, response *jsonrpc2.Response) {
	if request == nil || response == nil {
		return // not asked, or answered already; the library says so in the log
	}
	m := c.stream.current
	a := answer{result: m.result}
	if m.err != nil {
		a.err = m.err
	}
	c.mu.Lock()
	open := c.calls[m.call]
	delete(c.calls, m.call)
	late := open.abandoned
	if !late {
		open.answer <- a
	}
	c.mu.Unlock()
	if late && c.options.LateAnswer != nil {
		c.begin(func() { c.options.LateAnswer(open.method, a.result, a.err) })
	}
}
