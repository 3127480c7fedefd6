package store

import (
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

// The lease of a thread is the right to move it. Its owner is an open store,
// alive as long as its lock is held (see owner); its number, the fence, grows
// with every take and is in the guard of every later write.
//
// At rest, anybody may append. A thread is at rest when nobody owns it, when
// its owner waits, and when its owner died waiting or with nothing under way.
// An owner that died while it moved a running turn leaves it moving: it must be
// taken first, which is what counts the crash.

// thread is a row as the engine sees it, with what the system says of its owner.
func (s *Store) thread(row *threadRow, base int64) (engine.Thread, error) {
	t, err := row.thread(s.path)
	if err != nil {
		return t, err
	}
	t.Crashes = 0
	if row.CrashBase == base {
		t.Crashes = row.Crashes
	}
	if row.Owner == "" {
		return t, nil
	}
	o, err := s.owner.look(row.Owner)
	if err != nil {
		return t, err
	}
	t.Owner = &o
	if diedMoving(row, o) {
		t.Crashes++
	}
	return t, nil
}

// diedMoving reports whether the owner of a thread died in the middle of work.
func diedMoving(row *threadRow, o engine.Owner) bool {
	return !o.Alive && row.Lease == engine.LeaseMoving.String() && engine.Status(row.Status) == engine.Running
}

// holder gives the handle of this store that holds a thread's lease.
func (s *Store) holder(no int64) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[no]
}

// hold notes that l holds a thread's lease, or no longer does.
func (s *Store) hold(no int64, l *Log, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case holds:
		s.held[no] = l
	case s.held[no] == l:
		delete(s.held, no)
	}
}

// mayTake says why l may not take a thread that is not to be taken by force.
func (s *Store) mayTake(l *Log, row *threadRow) error {
	if row.Owner == "" {
		return nil
	}
	o, err := s.owner.look(row.Owner)
	if err != nil {
		return err
	}
	if !o.Alive {
		return nil
	}
	if o.Self {
		// Another handle of this process holds it; without one, the lease was
		// left behind by a handle that could not give it back.
		if h := s.holder(row.No); h == nil || h == l {
			return nil
		}
	}
	return &engine.BusyError{Thread: row.ThreadID, Owner: o}
}

// atRest says why nobody may append to a thread without its lease.
func (s *Store) atRest(row *threadRow) error {
	if row.Owner == "" || row.Lease == engine.LeaseWaiting.String() {
		return nil
	}
	o, err := s.owner.look(row.Owner)
	if err != nil {
		return err
	}
	busy := &engine.BusyError{Thread: row.ThreadID, Owner: o}
	switch {
	case o.Alive:
		return busy
	case diedMoving(row, o):
		return fmt.Errorf("%w (that process is dead, in the middle of the turn: resume the thread first)", busy)
	}
	return nil
}

// take changes row as a take does. base is the thread's current one.
func (s *Store) take(row *threadRow, base int64) error {
	crashes := 0
	if row.CrashBase == base {
		crashes = row.Crashes
	}
	if row.Owner != "" {
		o, err := s.owner.look(row.Owner)
		if err != nil {
			return err
		}
		if diedMoving(row, o) {
			crashes++
		}
	}
	row.Owner, row.Lease = s.owner.id, engine.LeaseMoving.String()
	row.Fence++
	row.Crashes, row.CrashBase = crashes, base
	return nil
}
