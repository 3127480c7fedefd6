package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// maxWaitingLines bounds the memory of requests that wait for their answers, as
// a multiple of the longest line.
const maxWaitingLines = 8

// stream is what jsonrpc2 reads from and writes to. It exists because the library
// closes the connection on a line that it does not understand, takes a request
// with the id null for a notification, changes negative ids, and decodes params
// and results into Go values that are many times as large.
//
// So the library sees only the envelope of a message, under an id of ours. The
// message itself is in current: the library handles what it has read before it
// reads on, on the same goroutine, so whoever it calls finds the message there.
//
// Answers do not go through the library, because its ids cannot be null; answer
// writes them, with the id as it came.
type stream struct {
	in     *lineReader
	out    *outbox
	log    *slog.Logger
	limits Options
	ended  func(error) // told when nothing more can be read; nil for the end of the input

	current *message // belongs to the read loop
	bad     int      // so do the lines that were complained about

	mu      sync.Mutex
	changed sync.Cond
	last    uint64
	open    map[uint64]*message // requests without an answer
	bytes   int                 // of them
	deaf    bool                // handle nothing more
	stopped bool                // wait for nothing more
}

var _ jsonrpc2.ObjectStream = (*stream)(nil)

func newStream(r io.Reader, out *outbox, limits Options, ended func(error)) *stream {
	s := &stream{
		in:     newLineReader(r, limits.MaxLine),
		out:    out,
		log:    limits.Log,
		limits: limits,
		ended:  ended,
		open:   map[uint64]*message{},
	}
	s.changed.L = &s.mu
	return s
}

// ReadObject implements jsonrpc2.ObjectStream. It returns the envelope of the next
// message that concerns the library, and answers everything else itself.
//
// At the end of the input it returns only when every request has its answer, or
// when the stream is closed: the library closes on return, and then nothing could
// be sent any more. A peer that closed its end may still read.
func (s *stream) ReadObject(v any) error {
	for {
		s.out.waitForAnswers()
		line, err := s.in.next()
		if err == nil && s.isDeaf() {
			err = io.EOF
		}
		if errors.Is(err, errLineTooLong) {
			if call := answeredCall(line); call != 0 {
				// Nobody is to wait for an answer that has come.
				s.current = &message{kind: isResponse, call: call,
					err: InvalidRequest(fmt.Sprintf("the answer of the client is longer than %d bytes", s.limits.MaxLine))}
				return json.Unmarshal(envelope(map[string]any{"id": call, "result": nil}), v)
			}
			s.refuse(jsonNull, InvalidRequest(fmt.Sprintf("the line is longer than %d bytes", s.limits.MaxLine)))
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			s.ended(err)
			s.waitForHandlers()
			return io.EOF
		}
		if skipSpace(line, 0) == len(line) {
			continue
		}
		envelope := s.accept(line)
		if envelope == nil {
			continue
		}
		return json.Unmarshal(envelope, v)
	}
}

// accept takes a line and returns the envelope for the library, or nil where the
// line is dealt with.
func (s *stream) accept(line []byte) []byte {
	m, f := parseLine(line)
	if f != nil {
		s.warn("bad line from the ACP client: " + f.err.Message)
		if f.id != nil {
			s.refuse(f.id, f.err)
		}
		if f.call == 0 {
			return nil
		}
		m = &message{kind: isResponse, call: f.call, err: InvalidRequest("the answer of the client is malformed: " + f.err.Message)}
	}
	if m == nil {
		s.warn("the ACP client answered something that was not asked")
		return nil
	}
	s.current = m
	switch m.kind {
	case isRequest:
		id, ok := s.register(m)
		if !ok {
			return nil
		}
		return envelope(map[string]any{"id": id, "method": m.method})
	case isNotification:
		return envelope(map[string]any{"method": m.method})
	}
	return envelope(map[string]any{"id": m.call, "result": nil})
}

// warn complains about the peer, on the read loop, but not for ever: nobody may
// read the log, and then the read loop would hang in it.
func (s *stream) warn(problem string) {
	const enough = 100
	switch s.bad++; {
	case s.bad < enough:
		s.log.Warn(problem)
	case s.bad == enough:
		s.log.Warn(problem + "; further problems of this connection are not logged")
	}
}

func envelope(members map[string]any) []byte {
	text, err := json.Marshal(members)
	if err != nil {
		panic("acp: an envelope of strings and numbers has no JSON form: " + err.Error())
	}
	return text
}

// register gives a request its internal id, or refuses it where too many wait.
func (s *stream) register(m *message) (id uint64, ok bool) {
	s.mu.Lock()
	waiting := len(s.open)
	if waiting >= s.limits.MaxInFlight || waiting > 0 && s.bytes+m.bytes > maxWaitingLines*s.limits.MaxLine {
		s.mu.Unlock()
		s.refuse(m.id, TooManyRequests(waiting))
		return 0, false
	}
	defer s.mu.Unlock()
	s.last++
	s.open[s.last] = m
	s.bytes += m.bytes
	return s.last, true
}

// answer sends the one answer of a request. Where that is too long or has no JSON
// form, an error that says so is sent in its place and returned.
func (s *stream) answer(id uint64, result any, failure *jsonrpc2.Error) error {
	s.mu.Lock()
	m := s.open[id]
	if m != nil {
		delete(s.open, id)
		s.bytes -= m.bytes
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	if m == nil {
		return ErrReplied
	}
	line, err := responseLine(m.id, result, failure)
	if err == nil {
		err = s.out.put(line, true)
	}
	if err == nil || errors.Is(err, ErrDisconnected) {
		return err
	}
	s.refuse(m.id, Internal(fmt.Errorf("the answer to %s cannot be sent: %w", shorten(m.method), err)))
	return err
}

// refuse answers a line with an error. That the peer is gone shows elsewhere.
func (s *stream) refuse(id json.RawMessage, failure *jsonrpc2.Error) {
	line, err := responseLine(id, nil, failure)
	if err == nil {
		err = s.out.put(line, true)
	}
	if _, tooLong := errors.AsType[*LineTooLong](err); tooLong {
		// Only an id of megabytes does that, and an answer without it is one.
		if line, err = responseLine(jsonNull, nil, failure); err == nil {
			err = s.out.put(line, true)
		}
	}
	if err != nil && !errors.Is(err, ErrDisconnected) {
		s.log.Error("an error could not be sent to the ACP client", "error", err)
	}
}

func responseLine(id json.RawMessage, result any, failure *jsonrpc2.Error) ([]byte, error) {
	name, value := "result", result
	if failure != nil {
		name, value = "error", failure
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("make JSON of a %s: %w", name, err)
	}
	line := make([]byte, 0, len(id)+len(text)+40)
	line = append(line, `{"jsonrpc":"2.0","id":`...)
	line = append(line, id...)
	line = append(line, `,"`+name+`":`...)
	line = append(line, text...)
	return toUTF8(append(line, '}')), nil
}

// WriteObject implements jsonrpc2.ObjectStream, for notifications and calls.
func (s *stream) WriteObject(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.out.put(toUTF8(line), false)
}

// waitForHandlers returns when every request has its answer, or after Close.
func (s *stream) waitForHandlers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) > 0 && !s.stopped {
		s.changed.Wait()
	}
}

func (s *stream) isDeaf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf
}

// deafen makes the stream deliver nothing more. A read that hangs in the operating
// system is left there until its input ends.
func (s *stream) deafen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// Close implements jsonrpc2.ObjectStream. What was put into the outbox is still
// written: closing that is for the connection.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf, s.stopped = true, true
	s.changed.Broadcast()
	return nil
}
