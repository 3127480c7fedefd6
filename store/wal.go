package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

// The write-ahead log is written back into the file by SQLite itself, when a
// commit makes it longer than a thousand pages (4 MB): by the one writer, so
// that no stream of commits can outrun it, and without waiting for readers. The
// next commit then begins the log anew, unless a reader still looks at it. No
// read of this package stays open for long; one of another program, such as an
// open transaction in a shell, lets the log grow until it ends.
//
// What is left is for when nobody writes: the log is written back as a whole and
// cut to nothing, so that a file that was busy once does not keep it.
const (
	walIdle  = 2 * time.Second // without a commit
	walLimit = 8 << 20         // that the log is cut to when it begins anew after a reader let it grow
)

// walTidier empties the log of a store that is idle. Its goroutine lives from a
// commit until the log is empty.
type walTidier struct {
	s     *Store
	clock clock.Clock // not the store's, which gives the times that are stored

	mu     sync.Mutex
	writes int64              // so far
	stop   context.CancelFunc // of the goroutine; nil if there is none
	done   chan struct{}      // closed when it has ended
	closed bool
}

// wrote notes that something was committed.
func (t *walTidier) wrote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	if t.stop == nil && !t.closed {
		ctx, stop := context.WithCancel(context.Background())
		t.stop, t.done = stop, make(chan struct{})
		go t.run(ctx, t.done)
	}
}

func (t *walTidier) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for {
		t.mu.Lock()
		seen := t.writes
		t.mu.Unlock()
		fired, stop := t.clock.After(walIdle)
		select {
		case <-fired:
		case <-ctx.Done():
			stop()
			return
		}
		if t.wroteSince(seen) {
			continue
		}
		empty, err := t.s.emptyWAL(ctx)
		if err != nil {
			// The next commit meets what is wrong, and says so to somebody.
			t.s.opts.Logger.Warn("write-ahead log not emptied", "reason", err)
		}
		if (empty || err != nil) && t.ends(seen) {
			return
		}
	}
}

func (t *walTidier) wroteSince(seen int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes != seen
}

// ends lets the goroutine end if nothing was written meanwhile.
func (t *walTidier) ends(seen int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writes != seen || t.stop == nil {
		return t.stop == nil
	}
	t.stop()
	t.stop = nil
	return true
}

func (t *walTidier) close() {
	t.mu.Lock()
	t.closed = true
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	done := t.done
	t.mu.Unlock()
	if done != nil {
		<-done
	}
}

// emptyWAL writes the log back and cuts it to nothing; false if somebody reads
// or writes just now. It waits for nobody, on a connection of its own: who waits
// for a reader here would hold the write lock all the while.
func (s *Store) emptyWAL(ctx context.Context) (bool, error) {
	opts := s.opts
	opts.BusyTimeout = 0
	db, err := sqlx.Open("sqlite", dsn(s.path, false, opts))
	if err != nil {
		return false, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	// PASSIVE does the work beside whoever commits; TRUNCATE, which keeps them
	// out, then finds nothing left to do but to cut the file.
	for _, mode := range []string{"PASSIVE", "TRUNCATE"} {
		var busy, frames, done int
		err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &frames, &done)
		if err != nil {
			if errors.Is(fileError(s.path, err), ErrLocked) || ctx.Err() != nil {
				return false, nil
			}
			return false, err
		}
		if busy != 0 || done < frames {
			return false, nil
		}
	}
	return true, nil
}
