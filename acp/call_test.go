package acp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"
)

// result is what Call returned.
type result struct {
	text string
	err  error
}

// call calls on a goroutine of its own and returns where the result will be.
func (p *peer) call(ctx context.Context, method string, params any) <-chan result {
	results := make(chan result, 1)
	go func() {
		text, err := p.conn.Call(ctx, method, params)
		results <- result{string(text), err}
	}()
	return results
}

func TestACallReturnsWhatThePeerAnswered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer string
		want   string // the result
		code   int64  // or the code of the error
		echo   string // what the peer is told about its answer
	}{
		{"an object", `{"jsonrpc":"2.0","id":1,"result":{"b":1.50,"a":12345678901234567890}}`, `{"b":1.50,"a":12345678901234567890}`, 0, ""},
		{"null", `{"jsonrpc":"2.0","id":1,"result":null}`, `null`, 0, ""},
		{"false", `{"jsonrpc":"2.0","id":1,"result":false}`, `false`, 0, ""},
		{"an id of floating point", `{"jsonrpc":"2.0","id":1.0,"result":{}}`, `{}`, 0, ""},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":{"a":[1]}}}`, "", -32601, ""},
		{"an error of a type of its own", `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no"}}`, "", 7, ""},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{"outcome":{}},"error":null}`, "", -32600, failure("null", -32600)},
		{"neither", `{"jsonrpc":"2.0","id":1}`, "", -32600, failure("null", -32600)},
		{"an error that is null", `{"jsonrpc":"2.0","id":1,"error":null}`, "", -32600, failure("null", -32600)},
		{"a result twice", `{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, "", -32600, failure("null", -32600)},
		{"no version", `{"id":1,"result":1}`, "", -32600, failure("null", -32600)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := connect(t, handlerFuncs{}, Options{})
			results := p.call(context.Background(), "ask", map[string]int{"x": 1})
			p.expect(`{"id":1,"jsonrpc":"2.0","method":"ask","params":{"x":1}}`)
			// An answer to something else does not count.
			p.send(`{"jsonrpc":"2.0","id":2,"result":"wrong"}`, `{"jsonrpc":"2.0","id":"1","result":"wrong"}`, test.answer)
			if test.echo != "" {
				if got := blank(p.receive()); got != test.echo {
					t.Errorf("the peer was told %s", got)
				}
			}
			// A second answer finds nothing.
			p.send(`{"jsonrpc":"2.0","id":1,"result":"again"}`)
			got := <-results
			e, _ := errors.AsType[*jsonrpc2.Error](got.err)
			switch {
			case test.code == 0 && (got.err != nil || got.text != test.want):
				t.Errorf("result %s, error %v", got.text, got.err)
			case test.code != 0 && (e == nil || e.Code != test.code):
				t.Errorf("error %v, want the code %d", got.err, test.code)
			}
			if e != nil && test.name == "an error" && string(*e.Data) != `{"a":[1]}` {
				t.Errorf("data %s", *e.Data)
			}
		})
	}
}

func TestCallsHaveIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	open := make(chan *Request, 1)
	p := connect(t, handlerFuncs{request: func(_ context.Context, r *Request) { open <- r }}, Options{})
	results := p.call(context.Background(), "ask", nil)
	p.expect(`{"id":1,"jsonrpc":"2.0","method":"ask"}`)
	// The peer may use the same id for a request of its own at the same time.
	p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"result":"for ask"}`)
	if got := <-results; got.text != `"for ask"` {
		t.Errorf("result %v", got)
	}
	echo(context.Background(), <-open)
	p.expect(done("1", "m"))
}

func TestACallThatIsGivenUpIsCancelledAndItsAnswerDropped(t *testing.T) {
	t.Parallel()
	late := make(chan string, 1)
	p := connect(t, handlerFuncs{}, Options{LateAnswer: func(method string, result json.RawMessage, err error) {
		if err != nil {
			t.Error(err)
		}
		late <- method + " " + string(result)
	}})
	ctx, cancel := context.WithCancelCause(context.Background())
	results := p.call(ctx, "ask", map[string]string{"large": "params"})
	p.expect(`{"id":1,"jsonrpc":"2.0","method":"ask","params":{"large":"params"}}`)
	cause := errors.New("the user left")
	cancel(cause)
	p.expect(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	if got := <-results; !errors.Is(got.err, cause) {
		t.Errorf("error %v", got.err)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"outcome":"selected"}}`)
	if got := <-late; got != `ask {"outcome":"selected"}` {
		t.Errorf("late answer %s", got)
	}
	if _, err := p.conn.Call(ctx, "ask", nil); !errors.Is(err, cause) {
		t.Errorf("a call with a context that has ended: %v", err)
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if len(p.conn.calls) != 0 {
		t.Error("calls are left")
	}
}

func TestAnAnswerInTheSameMomentAsTheCancelIsNotLost(t *testing.T) {
	t.Parallel()
	for range 200 {
		late := make(chan struct{}, 1)
		p := connect(t, handlerFuncs{}, Options{LateAnswer: func(string, json.RawMessage, error) { late <- struct{}{} }})
		ctx, cancel := context.WithCancel(context.Background())
		results := p.call(ctx, "ask", nil)
		p.receive()
		go func() { _, _ = p.out.ReadString('\n') }() // the cancel, if there is one
		go cancel()
		p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
		// Either Call has it or the hook.
		if got := <-results; got.err != nil {
			<-late
		}
	}
}

func TestOpenCallsFailWhenThePeerLeaves(t *testing.T) {
	t.Parallel()
	p := connect(t, handlerFuncs{}, Options{})
	results := p.call(context.Background(), "ask", nil)
	p.receive()
	_ = p.in.Close()
	got := <-results
	if !errors.Is(got.err, ErrDisconnected) || !strings.Contains(got.err.Error(), "ask") {
		t.Errorf("error %v", got.err)
	}
	if _, err := p.conn.Call(context.Background(), "ask", nil); !errors.Is(err, ErrDisconnected) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestTheLastAnswerBeforeThePeerLeavesCounts(t *testing.T) {
	t.Parallel()
	for range 200 {
		p := connect(t, handlerFuncs{}, Options{})
		results := p.call(context.Background(), "ask", nil)
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
		_ = p.in.Close()
		if got := <-results; got.err != nil {
			t.Fatal(got.err)
		}
	}
}

func TestAnAnswerToACallThatIsNotSentYetIsIgnored(t *testing.T) {
	t.Parallel()
	p := connect(t, handlerFuncs{}, Options{})
	p.send(`{"jsonrpc":"2.0","id":1,"result":"guessed"}`, `{"jsonrpc":"2.0","id":1,"method":"m"}`)
	p.expect(done("1", "m")) // so the guess has been read
	results := p.call(context.Background(), "ask", nil)
	p.receive()
	p.send(`{"jsonrpc":"2.0","id":1,"result":"real"}`)
	if got := <-results; got.text != `"real"` {
		t.Errorf("result %v", got)
	}
}
