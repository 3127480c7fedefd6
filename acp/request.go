package acp

import (
	"encoding/json"
	"errors"
	"sync"
)

// Request is a request of the peer.
type Request struct {
	Method string
	Params json.RawMessage // nil where absent or null
	ID     json.RawMessage // as it came: a string, an integer or null

	conn *Conn
	id   uint64 // the internal one

	mu        sync.Mutex
	onCancel  func()
	cancelled bool
	replied   bool
}

// OnCancel registers what is to happen when the peer takes the request back with
// $/cancel_request: cancel runs once, on the read loop, unless the request has its
// answer by then; at once, where it was taken back already. The request must still
// be answered. Without a registration nothing happens, which the protocol allows.
func (r *Request) OnCancel(cancel func()) {
	r.mu.Lock()
	late := r.cancelled && !r.replied
	if !late {
		r.onCancel = cancel
	}
	r.mu.Unlock()
	if late {
		cancel()
	}
}

func (r *Request) cancel() {
	r.mu.Lock()
	cancel := r.onCancel
	if r.replied || r.cancelled {
		cancel = nil
	}
	r.cancelled = true
	r.onCancel = nil
	r.mu.Unlock()
	if cancel != nil {
		defer r.conn.survive(MethodCancelRequest, nil)
		cancel()
	}
}

// Reply sends the result; nil stands for an empty one. It never waits for the
// peer. A result that cannot be sent (*LineTooLong, or no JSON form) reaches the
// peer as an error, and the cause is returned.
func (r *Request) Reply(result any) error {
	if result == nil {
		result = Empty{}
	}
	if !r.take() {
		return ErrReplied
	}
	return r.conn.stream.answer(r.id, result, nil)
}

// Fail sends an error: a *jsonrpc2.Error as it is, any other as Internal.
func (r *Request) Fail(err error) error {
	if !r.take() {
		return ErrReplied
	}
	return r.conn.stream.answer(r.id, nil, AsError(err))
}

// take makes the first reply the only one.
func (r *Request) take() bool {
	r.mu.Lock()
	first := !r.replied
	r.replied = true
	r.onCancel = nil
	r.mu.Unlock()
	if first {
		r.conn.mu.Lock()
		delete(r.conn.requests, r.id)
		r.conn.mu.Unlock()
	}
	return first
}

// Go runs the work of the request on a goroutine of its own, which Conn.Wait waits
// for. A panic, or work that ends without a reply, is answered with an error.
func (r *Request) Go(work func()) {
	r.conn.begin(func() {
		defer func() {
			// ErrReplied is the normal case here.
			_ = r.Fail(Internal(errors.New(r.Method + " ended without an answer because of a bug in the agent")))
		}()
		defer r.conn.survive(r.Method, r)
		work()
	})
}
