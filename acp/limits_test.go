package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestAResultThatCannotBeSentBecomesAnError(t *testing.T) {
	t.Parallel()
	const longest = 10_000
	h := handlerFuncs{request: func(ctx context.Context, r *Request) {
		switch r.Method {
		case "long":
			if _, ok := errors.AsType[*LineTooLong](r.Reply(strings.Repeat("x", longest))); !ok {
				t.Error("a result that is too long was sent")
			}
		case "func":
			if err := r.Reply(func() {}); err == nil {
				t.Error("a function was sent")
			}
		}
	}}
	p := connect(t, h, Options{})
	p.conn.out.limits.line = longest
	p.send(`{"jsonrpc":"2.0","id":1,"method":"long"}`)
	p.send(`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", longest) + `","method":"func"}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"func"}`)
	for _, want := range []string{"1", "null", "3"} {
		if got := blank(p.receive()); got != failure(want, -32603) {
			t.Errorf("answer %s", got)
		}
	}
}

func TestAMessageThatIsTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	const longest = 10_000
	p := connect(t, handlerFuncs{}, Options{})
	p.conn.out.limits.line = longest
	long := map[string]string{"x": strings.Repeat("x", longest)}
	if _, tooLong := errors.AsType[*LineTooLong](p.conn.Notify("n", long)); !tooLong {
		t.Error("a notification that is too long was sent")
	}
	_, err := p.conn.Call(context.Background(), "c", long)
	if _, tooLong := errors.AsType[*LineTooLong](err); !tooLong {
		t.Errorf("call: %v", err)
	}
	if len(p.conn.calls) != 0 {
		t.Error("a call that was not sent is still open")
	}
}

func TestAPartOfASplitTextFitsIntoALineHoweverItIsEscaped(t *testing.T) {
	t.Parallel()
	part := SplitText(strings.Repeat("\x01", maxText+1))[0]
	text, err := json.Marshal(part)
	if err != nil || len(text) != 6*maxText+2 || len(text) > maxOutgoing/3*2 {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
}

func TestTextIsSplitBetweenRunes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", strings.Repeat("é", maxText), "x" + strings.Repeat("😀", maxText/3), strings.Repeat("\x80", 2*maxText)} {
		parts := SplitText(text)
		if strings.Join(parts, "") != text {
			t.Errorf("the parts of %.20q are not the text", text)
		}
		for _, part := range parts {
			if len(part) > maxText || strings.HasPrefix(part, "\xa9") || strings.HasPrefix(part, "\x9f") {
				t.Errorf("a part of %.20q has %d bytes and starts with %.4q", text, len(part), part)
			}
		}
	}
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	t.Parallel()
	waiting := make(chan *Request, 10)
	p := connect(t, handlerFuncs{request: func(_ context.Context, r *Request) { waiting <- r }}, Options{MaxInFlight: 3})
	for i := range 3 {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m"}`, i))
	}
	refused := `{"jsonrpc":"2.0","id":"x","error":{"code":-32010,"message":"too many requests in flight: 3 wait for their answers","data":{"inFlight":3,"reason":"too_many_requests"}}}`
	for range 2 {
		p.send(`{"jsonrpc":"2.0","id":"x","method":"m"}`)
		p.expect(refused)
	}
	// Notifications and cancels still come through.
	cancelled := make(chan struct{})
	first := <-waiting
	first.OnCancel(func() { close(cancelled) })
	p.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}`)
	<-cancelled
	_ = first.Reply(nil)
	p.expect(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"m"}`, `{"jsonrpc":"2.0","id":"x","method":"m"}`)
	p.expect(refused)
}

func TestLongRequestsThatWaitAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	p := connect(t, handlerFuncs{request: func(context.Context, *Request) {}}, Options{MaxLine: 1000})
	line := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m","params":{"x":%q}}`, id, strings.Repeat("x", 900))
	}
	for i := range maxWaitingLines {
		p.send(line(i))
	}
	p.send(line(99))
	if got := p.receive(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":99,"error":{"code":-32010`) {
		t.Errorf("answer %s", got)
	}
}

func TestASlowReaderDoesNotKeepCancelFromBeingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		cancelled, over := make(chan struct{}), make(chan error, 1)
		h := handlerFuncs{request: func(_ context.Context, r *Request) {
			r.OnCancel(func() { close(cancelled) })
			r.Go(func() {
				var err error
				for err == nil {
					err = conn.Notify("u", map[string]string{"x": strings.Repeat("x", 1_000)})
				}
				over <- err
				_ = r.Reply(nil)
			})
		}}
		r, in := io.Pipe()
		out, w := io.Pipe()
		conn = NewConn(r, w, quiet(Options{}))
		conn.out.limits.room = 10_000
		conn.Start(context.Background(), h)
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n")
		synctest.Wait() // the work waits for room, the outbox for a reader
		conn.out.mu.Lock()
		if n := len(conn.out.waiting) + conn.out.writing; n < 10_000 || n > 12_000 {
			t.Errorf("%d bytes wait for the reader", n)
		}
		conn.out.mu.Unlock()
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`+"\n")
		<-cancelled

		// The peer leaves, but its end of our output stays open and unread.
		// Neither the work nor Close is held up by that.
		_ = in.Close()
		<-conn.Done()
		if err := <-over; !errors.Is(err, ErrDisconnected) {
			t.Errorf("notify: %v", err)
		}
		conn.Wait()
		if err := conn.Close(); err == nil || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("close: %v", err)
		}
		_ = out.Close()
	})
}

func TestAPeerThatNeverReadsStopsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, in := io.Pipe()
		out, w := io.Pipe()
		conn := NewConn(r, w, quiet(Options{}))
		conn.out.limits.answers = 100_000
		conn.Start(context.Background(), handlerFuncs{})
		const lines = 10_000
		sent := 0
		flood := make(chan struct{})
		go func() {
			defer close(flood)
			for range lines {
				if _, err := io.WriteString(in, "bad\n"); err != nil {
					return
				}
				sent++
			}
		}()
		synctest.Wait()
		conn.out.mu.Lock()
		if n := len(conn.out.waiting) + conn.out.writing; n > 110_000 {
			t.Errorf("%d bytes wait for the reader", n)
		}
		conn.out.mu.Unlock()
		if sent == lines {
			t.Error("everything was read although no answer was")
		}
		// As soon as it reads, all goes on, and nothing was lost.
		answers := make(chan int)
		go func() {
			text, _ := io.ReadAll(out)
			answers <- strings.Count(string(text), "\n")
		}()
		<-flood
		_ = in.Close()
		<-conn.Done()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		_ = w.Close()
		if n := <-answers; n != lines {
			t.Errorf("%d answers, want %d", n, lines)
		}
	})
}
