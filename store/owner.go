package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-agent/holdfast/engine"
)

// owner is this open store as a holder of leases. That it is alive is said by
// an operating-system lock on a small file beside the database, which the
// kernel frees when the process dies, however it dies. The file is created
// with the first lease: a store that was opened for looking has none.
//
// Rules:
//
//   - An id is in the database only while its file exists and is locked: so no
//     file, or a file that can be locked, means dead.
//   - Who probes takes a shared lock. Two that probe a dead owner at once must
//     not take each other for its living self.
//   - Go opens files close-on-exec: a command that the agent started does not
//     keep its lock when the agent dies.
type owner struct {
	db      string // resolved path of the database
	id      string // 128 random bits, in hex
	program string
	since   time.Time

	mu   sync.Mutex
	lock *flock.Flock // nil until the first lease
}

// ownerFile is what a lock file holds, for messages and for nothing else.
type ownerFile struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Started time.Time `json:"started"`
}

func newOwner(db, program string, since time.Time) *owner {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &owner{db: db, id: hex.EncodeToString(id[:]), program: program, since: since.UTC().Truncate(time.Second)}
}

func ownerPath(db, id string) string { return db + "-owner-" + id }

// ensure creates and locks the file, once.
func (o *owner) ensure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lock != nil {
		return nil
	}
	path := ownerPath(o.db, o.id)
	text, err := json.Marshal(ownerFile{PID: os.Getpid(), Program: o.program, Started: o.since})
	if err != nil {
		return err
	}
	for range 10 {
		// If the process dies after this line, a file without a lock stays
		// behind; no thread names it, and doctor removes it.
		if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
			_ = os.Remove(path) // what was written of it helps nobody
			if errors.Is(err, syscall.ENOSPC) {
				return &FileError{Path: path, Kind: ErrFull, Cause: err, Advice: "nothing was stored; make room and try again"}
			}
			return &FileError{Path: path, Kind: ErrAccess, Cause: err,
				Advice: "a process that moves threads keeps a lock file beside the database, so the folder must be writable"}
		}
		lock := flock.New(path, flock.SetFlag(os.O_RDWR))
		ok, err := lock.TryLock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &FileError{Path: path, Kind: ErrAccess, Cause: err, Advice: "the file system must support file locks"}
		}
		// Somebody who tidies up may have found the file before it was locked
		// and have removed it: then it is made anew.
		if ok {
			if _, err := os.Stat(path); err == nil {
				o.lock = lock
				return nil
			}
			_ = lock.Close()
		}
	}
	return &FileError{Path: path, Kind: ErrAccess, Advice: "something removes this lock file as soon as it is created"}
}

// close removes the file and with it the lock.
func (o *owner) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lock == nil {
		return nil
	}
	// Removed while it is locked, so that nobody finds it unlocked and sees a
	// dead owner where one left in order.
	err := os.Remove(ownerPath(o.db, o.id))
	err = errors.Join(err, o.lock.Close())
	o.lock = nil
	return err
}

// look says who an owner is and whether it lives. A dead owner's file is
// removed: nobody will ever lock it again.
func (o *owner) look(id string) (engine.Owner, error) {
	if id == o.id {
		return engine.Owner{ID: id, Alive: true, Self: true, PID: os.Getpid(), Program: o.program, Since: o.since}, nil
	}
	return probeOwner(o.db, id, true)
}

func probeOwner(db, id string, remove bool) (engine.Owner, error) {
	out := engine.Owner{ID: id}
	path := ownerPath(db, id)
	if text, err := os.ReadFile(path); err == nil {
		var said ownerFile
		if json.Unmarshal(text, &said) == nil {
			out.PID, out.Program, out.Since = said.PID, said.Program, said.Started
		}
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, nil
	case err != nil:
		// Not to be taken for dead: its work would be done twice.
		return out, &FileError{Path: path, Kind: ErrAccess, Cause: err,
			Advice: "without it nobody can say whether the owner of a thread lives"}
	case !ok:
		out.Alive = true
		return out, nil
	}
	if remove {
		// Removing it is tidiness only; whoever may not do it sees a dead
		// owner all the same.
		_ = os.Remove(path)
	}
	if err := lock.Close(); err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// ownerFiles are the ids of the lock files beside a database.
func ownerFiles(db string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(db))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		if id, ok := strings.CutPrefix(entry.Name(), filepath.Base(db)+"-owner-"); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
