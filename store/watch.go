package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// lookEvery is how often a store that waits looks whether the file changed.
const lookEvery = 100 * time.Millisecond

// watcher tells those who wait that something in the file has changed: one
// goroutine for an open store, which lives while somebody waits. It asks for
// data_version on a connection of its own, which costs no read of the file;
// only when that has changed does each waiter look at its thread.
type watcher struct {
	s *Store

	mu      sync.Mutex
	waiters map[chan struct{}]struct{}
	stop    context.CancelFunc // of the goroutine; nil if there is none
	done    chan struct{}      // closed when it has ended
	closed  bool
}

func newWatcher(s *Store) *watcher {
	return &watcher{s: s, waiters: make(map[chan struct{}]struct{})}
}

// join adds a waiter. What it gets is told of every change that comes after.
func (w *watcher) join() (changed chan struct{}, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, ErrClosed
	}
	changed = make(chan struct{}, 1)
	w.waiters[changed] = struct{}{}
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		w.stop, w.done = stop, make(chan struct{})
		go w.look(ctx, w.done)
	}
	return changed, func() { w.leave(changed) }, nil
}

func (w *watcher) leave(changed chan struct{}) {
	w.mu.Lock()
	delete(w.waiters, changed)
	if len(w.waiters) > 0 || w.stop == nil {
		w.mu.Unlock()
		return
	}
	w.stop()
	w.stop = nil
	done := w.done
	w.mu.Unlock()
	<-done // no goroutine without somebody who waits for it
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	stop, done := w.stop, w.done
	w.stop = nil
	for changed := range w.waiters {
		tell(changed) // each looks, and finds the store closed
	}
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

func tell(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default: // it was told already and has not looked yet
	}
}

func (w *watcher) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed := range w.waiters {
		tell(changed)
	}
}

// look runs until it is stopped. If the file cannot be asked it tells the
// waiters every time: each then meets the error by itself.
func (w *watcher) look(ctx context.Context, done chan struct{}) {
	defer close(done)
	var c *sqlx.Conn
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	last := int64(-1)
	for {
		version, err := int64(-1), error(nil)
		if c == nil {
			// data_version compares with what this one connection saw before.
			c, err = w.s.read.Connx(ctx)
		}
		if err == nil {
			err = c.GetContext(ctx, &version, `PRAGMA data_version`)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil || version != last {
			w.tellAll()
		}
		if err != nil && c != nil {
			_ = c.Close()
			c = nil
		}
		last = version
		fired, stop := w.s.opts.Clock.After(lookEvery)
		select {
		case <-fired:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// Wait returns when the thread in the store differs from what this handle knows.
func (l *Log) Wait(ctx context.Context) (engine.Thread, error) {
	changed, leave, err := l.s.watch.join()
	if err != nil {
		return engine.Thread{}, fmt.Errorf("wait for thread %s: %w", l.id(), err)
	}
	defer leave()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return engine.Thread{}, context.Cause(ctx)
		}
		if l.s.isClosed() {
			return engine.Thread{}, fmt.Errorf("wait for thread %s: %w", l.id(), ErrClosed)
		}
		now, differs, err := l.differs(ctx)
		if err == nil && differs {
			// Its own commit is in the file before the handle knows that it
			// is. So a difference counts only if it is there when no commit of
			// this handle is under way.
			l.order.RLock()
			now, differs, err = l.differs(ctx)
			l.order.RUnlock()
		}
		switch {
		case ctx.Err() != nil:
			return engine.Thread{}, context.Cause(ctx)
		case err != nil:
			return engine.Thread{}, fmt.Errorf("wait for thread %s: %w", l.id(), l.s.readError(err))
		case differs:
			_, base := l.knows()
			return l.s.thread(&now, base)
		}
	}
}

// differs reads the thread's row and compares it with what this handle knows.
func (l *Log) differs(ctx context.Context) (now threadRow, differs bool, err error) {
	if err := l.s.read.GetContext(ctx, &now, selectThreadByID, l.id()); err != nil {
		return now, false, err
	}
	known, _ := l.knows()
	return now, now.Head != known.Head || now.Fence != known.Fence || now.Owner != known.Owner ||
		now.Status != known.Status || now.CancelRequested != known.CancelRequested || now.Signals > known.Signals, nil
}

func (l *Log) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row.ThreadID
}

func (l *Log) knows() (threadRow, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row, l.bases[""]
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
