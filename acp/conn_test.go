package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestMessagesAreHandledInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	var seen []string // on the read loop only
	var input strings.Builder
	var want []string
	for i := range 500 {
		method := fmt.Sprint("m", i)
		want = append(want, method)
		if i%3 == 0 {
			fmt.Fprintf(&input, `{"jsonrpc":"2.0","method":%q}`+"\n", method)
		} else {
			fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"method":%q}`+"\n", i, method)
		}
	}
	exchange(t, strings.NewReader(input.String()), handlerFuncs{
		request: func(_ context.Context, r *Request) {
			seen = append(seen, r.Method)
			r.Go(func() { echo(context.Background(), r) })
		},
		notification: func(_ context.Context, method string, _ json.RawMessage) { seen = append(seen, method) },
	}, Options{})
	if !slices.Equal(seen, want) {
		t.Errorf("handled in the order %v", seen)
	}
}

func TestUpdatesArriveBeforeTheReplyThatFollowsThem(t *testing.T) {
	t.Parallel()
	const requests, updates = 8, 200
	var conn *Conn
	h := handlerFuncs{request: func(_ context.Context, r *Request) {
		r.Go(func() {
			for i := range updates {
				if err := conn.Notify("u", map[string]any{"of": r.Method, "n": i}); err != nil {
					t.Error(err)
				}
			}
			echo(context.Background(), r)
		})
	}}
	r, in := io.Pipe()
	out, w := io.Pipe()
	p := &peer{tb: t, conn: NewConn(r, w, quiet(Options{})), in: in, from: out}
	conn = p.conn
	conn.Start(context.Background(), h)
	go func() {
		for i := range requests {
			_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"m%d"}`+"\n", i, i)
		}
	}()
	next := map[string]int{}
	decoder := json.NewDecoder(out)
	for answered := 0; answered < requests; {
		var m struct {
			Result *struct{ Did string }
			Params struct {
				Of string
				N  int
			}
		}
		if err := decoder.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Result != nil {
			answered++
			if next[m.Result.Did] != updates {
				t.Errorf("%s was answered after %d of its %d updates", m.Result.Did, next[m.Result.Did], updates)
			}
		} else if next[m.Params.Of]++; m.Params.N != next[m.Params.Of]-1 {
			t.Fatalf("update %d of %s came as number %d", m.Params.N, m.Params.Of, next[m.Params.Of])
		}
	}
	_, _ = in.Close(), out.Close()
	conn.Wait()
	_ = conn.Close()
}

func TestCancelRequestReachesTheRequestWithThatID(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, id, cancel string
		want             bool
	}{
		{"a number", `7`, `7`, true},
		{"a string", `"a"`, `"a"`, true},
		{"a string, written otherwise", `"a"`, `"\u0061"`, true},
		{"null", `null`, `null`, true},
		{"a number and a string", `7`, `"7"`, false},
		{"null and a string", `null`, `"null"`, false},
		{"another number", `7`, `8`, false},
		{"no id", `7`, `{}`, false},
		{"a fraction", `7`, `7.5`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cancelled := false // on the read loop only
			var open *Request
			h := handlerFuncs{request: func(ctx context.Context, r *Request) {
				if r.Method == "end" {
					_ = open.Reply(map[string]bool{"cancelled": cancelled})
					echo(ctx, r)
					return
				}
				open = r
				r.OnCancel(func() { cancelled = true })
			}}
			got := exchange(t, strings.NewReader(`{"jsonrpc":"2.0","id":`+test.id+`,"method":"m"}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":`+test.cancel+`}}
{"jsonrpc":"2.0","id":"end","method":"end"}
`), h, Options{})
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"cancelled":%t}}`, test.id, test.want); got[0] != want {
				t.Errorf("answer %s, want %s", got[0], want)
			}
		})
	}
}

func TestARequestIsCancelledOnceAndNotAfterItsAnswer(t *testing.T) {
	t.Parallel()
	count := 0
	h := handlerFuncs{request: func(ctx context.Context, r *Request) {
		switch r.Method {
		case "answered":
			r.OnCancel(func() { t.Error("a request that has its answer was cancelled") })
			echo(ctx, r)
		case "open":
			r.OnCancel(func() {
				count++
				r.OnCancel(func() { count++ }) // late, so at once
				if err := r.Fail(RequestCancelled()); err != nil {
					t.Error(err)
				}
			})
		}
	}}
	got := exchange(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"answered"}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}
{"jsonrpc":"2.0","id":2,"method":"open"}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}
`), h, Options{})
	if count != 2 {
		t.Errorf("cancel functions ran %d times, want 2", count)
	}
	if want := `{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"the request was cancelled"}}`; got[1] != want {
		t.Errorf("answer %s, want %s", got[1], want)
	}
}

func TestARequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := handlerFuncs{request: func(_ context.Context, r *Request) {
		if err := r.Reply(nil); err != nil {
			t.Error(err)
		}
		if err := r.Reply(nil); err != ErrReplied {
			t.Errorf("second reply: %v", err)
		}
		if err := r.Fail(errors.New("x")); err != ErrReplied {
			t.Errorf("failure after a reply: %v", err)
		}
	}}
	got := exchange(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"m"}`), h, Options{})
	if want := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}; !slices.Equal(got, want) {
		t.Errorf("answers %q", got)
	}
}

func TestAnyErrorOfGoBecomesAnErrorWithACode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("disk full"), `{"code":-32603,"message":"disk full"}`},
		{fmt.Errorf("load: %w", SessionNotFound("s")), `{"code":-32002,"message":"session \"s\" is not known","data":{"sessionId":"s"}}`},
		{SessionBusy("s"), `{"code":-32010,"message":"session \"s\" is busy with another prompt; wait for it or cancel it","data":{"reason":"session_busy","sessionId":"s"}}`},
		{MethodNotFound("m"), `{"code":-32601,"message":"method \"m\" is not known","data":{"method":"m"}}`},
		{InvalidParams("params.cwd", "is missing"), `{"code":-32602,"message":"params.cwd is missing","data":{"field":"params.cwd"}}`},
		{NewError(-32603, "m", func() {}), `{"code":-32603,"message":"m"}`},
		{nil, `{"code":-32603,"message":"failed without a cause"}`},
	} {
		h := handlerFuncs{request: func(_ context.Context, r *Request) { _ = r.Fail(test.err) }}
		got := exchange(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"m"}`), h, Options{})
		if want := []string{`{"jsonrpc":"2.0","id":1,"error":` + test.want + `}`}; !slices.Equal(got, want) {
			t.Errorf("answers %q, want %q", got, want)
		}
	}
}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	var log logged
	h := handlerFuncs{
		request: func(ctx context.Context, r *Request) {
			switch r.Method {
			case "handler":
				panic("boom")
			case "work":
				r.Go(func() { panic(errors.New("boom")) })
			case "silent":
				r.Go(func() {})
			case "replied":
				echo(ctx, r)
				panic("boom")
			default:
				echo(ctx, r)
			}
		},
		notification: func(context.Context, string, json.RawMessage) { panic("boom") },
	}
	p := connect(t, h, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"handler"}`)
	p.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"handler failed because of a bug in the agent: boom"}}`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"work"}`)
	p.expect(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"work failed because of a bug in the agent: boom"}}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"silent"}`)
	p.expect(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"silent ended without an answer because of a bug in the agent"}}`)
	p.send(`{"jsonrpc":"2.0","id":4,"method":"replied"}`)
	p.expect(done("4", "replied"))
	p.send(`{"jsonrpc":"2.0","method":"note"}`, `{"jsonrpc":"2.0","id":5,"method":"m"}`)
	p.expect(done("5", "m"))
	if n := strings.Count(log.String(), "panic while handling"); n != 4 {
		t.Errorf("%d panics in the log, want 4:\n%s", n, log.String())
	}
}

func TestAWriteErrorEndsTheConnectionAndIsRemembered(t *testing.T) {
	t.Parallel()
	p := connect(t, handlerFuncs{}, Options{})
	cause := errors.New("broken pipe")
	_ = p.from.CloseWithError(cause)
	if err := p.conn.Notify("n", nil); err != nil {
		t.Errorf("the first notification was put before the error: %v", err)
	}
	<-p.conn.Done()
	if err := p.conn.Err(); !errors.Is(err, cause) {
		t.Errorf("Err is %v", err)
	}
	for _, err := range []error{p.conn.Notify("n", nil), p.conn.Close()} {
		if !errors.Is(err, cause) || !errors.Is(err, ErrDisconnected) {
			t.Errorf("error %v", err)
		}
	}
}

func TestRequestsThatAreOpenAtTheEndOfTheInputAreAnswered(t *testing.T) {
	t.Parallel()
	var conn *Conn
	h := handlerFuncs{request: func(ctx context.Context, r *Request) {
		r.Go(func() {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrDisconnected) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			if err := conn.Notify("last", nil); err != nil {
				t.Error(err)
			}
			if _, err := conn.Call(context.Background(), "ask", nil); !errors.Is(err, ErrDisconnected) {
				t.Errorf("call: %v", err)
			}
			echo(context.Background(), r)
		})
	}}
	var out strings.Builder
	conn = NewConn(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"), &out, quiet(Options{}))
	conn.Start(context.Background(), h)
	<-conn.Done()
	conn.Wait()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if want := `{"jsonrpc":"2.0","method":"last"}` + "\n" + done("1", "m") + "\n"; out.String() != want {
		t.Errorf("output %q", out.String())
	}
	if conn.Err() != nil {
		t.Errorf("Err is %v", conn.Err())
	}
}

func TestTheEndOfTheContextIsTheEndOfTheConnection(t *testing.T) {
	t.Parallel()
	r, in := io.Pipe()
	ctx, stop := context.WithCancelCause(context.Background())
	open := make(chan *Request, 1)
	var out strings.Builder
	conn := NewConn(r, &out, quiet(Options{}))
	conn.Start(ctx, handlerFuncs{request: func(_ context.Context, r *Request) { open <- r }})
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n")
	request := <-open
	cause := errors.New("SIGTERM")
	stop(cause)
	<-conn.Done()
	if conn.Err() != cause {
		t.Errorf("Err is %v", conn.Err())
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":2,"method":"too late"}`+"\n")
	echo(ctx, request)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if want := done("1", "m") + "\n"; out.String() != want {
		t.Errorf("output %q", out.String())
	}
	_ = in.Close()
}

func TestACloseBeforeAnythingIsQuiet(t *testing.T) {
	t.Parallel()
	for _, start := range []bool{false, true} {
		conn := NewConn(strings.NewReader(""), io.Discard, quiet(Options{}))
		if start {
			conn.Start(context.Background(), handlerFuncs{})
		}
		for range 2 {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
		if start {
			if err := conn.Notify("n", nil); !errors.Is(err, ErrDisconnected) {
				t.Errorf("notify: %v", err)
			}
		}
	}
}
