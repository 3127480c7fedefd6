package store

import (
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/migrations"
)

// The errors of a file; test with errors.Is. Those of a thread are in package
// engine: ErrNotFound, ErrExists, ErrDeleted, ErrConflict, ErrBusy,
// ErrCancelRequested. The package comment has the table of all of them.
var (
	ErrForeign     = migrations.ErrForeign
	ErrNewer       = migrations.ErrNewer
	ErrNotDatabase = errors.New("not a database")
	ErrAccess      = errors.New("cannot be read or written")
	ErrLocked      = errors.New("locked by another process")
	ErrFull        = errors.New("no space left")
	ErrIO          = errors.New("input/output error")
	ErrCorrupt     = errors.New("damaged or changed by somebody else")
	ErrUnknown     = errors.New("outcome unknown")
	ErrClosed      = errors.New("store is closed")
)

// CorruptError says which row does not fit.
type CorruptError struct {
	Path   string
	Thread string // empty if the damage is not in one thread
	Seq    int64  // 0 if it is not in one entry
	Table  string
	Column string // empty if it cannot be told, or the whole row
	Reason string
}

func (e *CorruptError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Thread != "" {
		b.WriteString(": thread " + e.Thread)
		if e.Seq > 0 {
			b.Reset()
			b.WriteString(e.Path + ": " + engine.CheckpointID(e.Thread, e.Seq))
		}
	}
	if e.Table != "" {
		b.WriteString(": table " + e.Table)
		if e.Column != "" {
			b.WriteString(", column " + e.Column)
		}
	}
	b.WriteString(": " + e.Reason + "; run agent audit verify to see what else does not fit, and go back to a backup")
	return b.String()
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// FileError is an error of the file as a whole.
type FileError struct {
	Path   string
	Kind   error // one of the errors above
	Advice string
	Cause  error // what the system said; may be nil
}

func (e *FileError) Error() string {
	text := e.Path + ": " + e.Kind.Error()
	if e.Cause != nil {
		text += " (" + e.Cause.Error() + ")"
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Is makes errors.Is(err, e.Kind) true.
func (e *FileError) Is(target error) bool { return errors.Is(e.Kind, target) }

// Unwrap gives what the system said.
func (e *FileError) Unwrap() error { return e.Cause }

// sqliteCode is the primary result code of an error, 0 if SQLite did not make it.
func sqliteCode(err error) int {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code() & 0xff
	}
	return 0
}

// fileError names an error of SQLite and says what to do about it. Other
// errors come back as they are.
func fileError(path string, err error) error {
	if err == nil {
		return nil
	}
	var already *FileError
	if errors.As(err, &already) {
		return err
	}
	kind, advice := error(nil), ""
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		kind, advice = ErrLocked, "another process has held the write lock for longer than the busy timeout; try again when it is done"
	case sqlite3.SQLITE_FULL:
		kind, advice = ErrFull, "nothing of it was stored; make room and try again"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		kind, advice = ErrAccess, "the file and its folder must be writable for this user, since SQLite keeps a -wal and a -shm file beside it"
	case sqlite3.SQLITE_NOTADB:
		kind, advice = ErrNotDatabase, "it was left as it is"
	case sqlite3.SQLITE_CORRUPT:
		kind, advice = ErrCorrupt, "run agent doctor, and go back to a backup"
	case sqlite3.SQLITE_IOERR:
		kind, advice = ErrIO, "look at the disk"
	}
	if kind == nil {
		return err
	}
	return &FileError{Path: path, Kind: kind, Advice: advice, Cause: err}
}

// refusal is an answer of the store and not a failure of it: a guard did not
// hold. The transaction is rolled back and nothing has to be read back.
func refusal(err error) bool {
	for _, target := range []error{
		engine.ErrConflict, engine.ErrBusy, engine.ErrCancelRequested, engine.ErrExists,
		engine.ErrDeleted, engine.ErrNotFound, engine.ErrInvalid, ErrCorrupt,
	} {
		// A *FileError comes from SQLite, also one that says ErrCorrupt.
		var file *FileError
		if errors.Is(err, target) && !errors.As(err, &file) && sqliteCode(err) == 0 {
			return true
		}
	}
	return false
}

func conflict(thread, format string, args ...any) error {
	return fmt.Errorf("thread %s: %w: %s", thread, engine.ErrConflict, fmt.Sprintf(format, args...))
}
