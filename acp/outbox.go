package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// outboxLimits are set once, before anything is put in.
type outboxLimits struct {
	line    int // maxOutgoing
	room    int // roomy
	answers int // maxAnswers
}

const (
	// maxOutgoing is the longest line that is sent. Some clients die of more.
	maxOutgoing = 10 << 20

	// roomy is how many bytes may wait before Notify and Call wait.
	roomy = 1 << 20

	// maxAnswers is how many bytes of answers may wait before no further line is
	// read.
	maxAnswers = 16 << 20
)

// outbox writes lines to the peer, in the order in which they were put in. It is
// the only writer. Putting never waits, so a goroutine of its own does the
// writing; who can wait asks for room first.
//
// The first error of the writer is kept and given to everyone from then on.
type outbox struct {
	w       io.Writer
	failed  func(error) // told about the first error, once
	limits  outboxLimits
	stopped chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // lines to be written next
	writing int    // bytes that are being written
	answers int    // bytes of answers among waiting and writing
	fresh   int    // bytes of answers among waiting
	leaving bool   // nobody waits for room any more
	closed  bool
	err     error
}

func newOutbox(w io.Writer, failed func(error)) *outbox {
	o := &outbox{w: w, failed: failed, stopped: make(chan struct{}), limits: outboxLimits{maxOutgoing, roomy, maxAnswers}}
	o.changed.L = &o.mu
	go o.run()
	return o
}

// put adds a line, without its end. It never waits.
func (o *outbox) put(line []byte, isAnswer bool) error {
	if len(line) >= o.limits.line {
		return &LineTooLong{Bytes: len(line), Limit: o.limits.line}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.closed || o.leaving && !isAnswer && !o.hasRoom() {
		return ErrDisconnected
	}
	o.waiting = append(append(o.waiting, line...), '\n')
	if isAnswer {
		o.answers += len(line) + 1
		o.fresh += len(line) + 1
	}
	o.changed.Broadcast()
	return nil
}

// waitForRoom returns when little waits to be written, or nothing will ever be, or
// ctx ends.
func (o *outbox) waitForRoom(ctx context.Context) {
	stop := context.AfterFunc(ctx, o.wake)
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.hasRoom() && !o.leaving && !o.closed && o.err == nil && ctx.Err() == nil {
		o.changed.Wait()
	}
}

func (o *outbox) hasRoom() bool { return len(o.waiting)+o.writing <= o.limits.room }

// waitForAnswers returns when the peer has read its answers, but for so many
// bytes, or when it never will.
func (o *outbox) waitForAnswers() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.answers > o.limits.answers && !o.closed && o.err == nil {
		o.changed.Wait()
	}
}

// lastWords makes waitForRoom return at once from now on, and refuses what there is
// no room for. The peer has left, so its work is being ended, and must not be held
// up by a peer that does not read.
func (o *outbox) lastWords() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaving = true
	o.changed.Broadcast()
}

func (o *outbox) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// close takes no further lines and waits until those inside are written, at most
// for the given time: a peer that does not read must not keep the process from
// ending. A writer that hangs in the operating system is left there.
func (o *outbox) close(patience time.Duration) error {
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-o.stopped:
	case <-timer.C:
		o.mu.Lock()
		defer o.mu.Unlock()
		return fmt.Errorf("the ACP peer does not read: %d bytes were not written", len(o.waiting)+o.writing)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outbox) run() {
	defer close(o.stopped)
	var spare []byte
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && !o.closed {
			o.changed.Wait()
		}
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			return
		}
		batch, fresh := o.waiting, o.fresh
		o.waiting, o.fresh, o.writing = spare[:0], 0, len(batch)
		o.mu.Unlock()

		n, err := o.w.Write(batch)
		if err == nil && n < len(batch) {
			err = io.ErrShortWrite
		}

		o.mu.Lock()
		o.writing = 0
		o.answers -= fresh
		if err != nil {
			o.err = errors.Join(ErrDisconnected, fmt.Errorf("write to the ACP peer: %w", err))
			o.waiting = nil
		}
		if spare = batch; cap(spare) > roomy {
			spare = nil // one long line must not hold its memory for ever
		}
		o.changed.Broadcast()
		o.mu.Unlock()
		if err != nil {
			o.failed(err)
			return
		}
	}
}
