// Package store keeps durable threads in one SQLite file. It is the one place
// with SQL, beside package migrations, and it knows nothing of graphs: to it a
// thread is a log of entries, and what is derived from that.
//
// # Rules
//
// These must never break. Tests carry their numbers.
//
//  1. One commit, one truth. An entry and whatever it consumes or asks are one
//     transaction; so are an answer and its entry.
//  2. Accepted means stored. Commit and Put return nil when what they were
//     given is in the file, and not before.
//  3. The key is the compare-and-set. An entry is inserted at head + 1 under
//     the fence, by one statement; 0 rows is a lost race, ErrConflict, and
//     changes nothing.
//  4. A failed COMMIT is unknown, not failed. The connection is dropped and the
//     place read back: ours if the hash is ours, lost if it is another's, else
//     tried again.
//  5. A finished task is never run again. A take sees every result that was
//     ever stored for the base, or is refused.
//  6. An unreadable file is not an empty file. A file is looked at before SQLite
//     sees it; one that is foreign, newer or damaged stays as it is.
//  7. Only data comes back: JSON, by package internal/value.
//  8. A commit cannot be cancelled by its caller. It has a time limit of its own.
//
// # Who may write
//
// A thread that moves is appended to by the holder of its lease alone. The
// lease is alive as long as the operating system holds its owner's lock (see
// owner.go); there is no clock in it. A thread at rest (lease.go says when) is
// appended to by anybody, at head + 1.
//
// An owner that died while it moved a running turn leaves the thread moving:
// it has to be taken first, by Take, which counts the crash. An append without
// a take gives ErrBusy there.
//
// # What the chain shows, and what not
//
// Every row of a log carries a hash over its columns and the row before it
// (chain.go). A load verifies every row that it reads; Verify all of them, and
// the other tables against them. It cannot see that rows at the end of a log
// were cut off where nothing else points at them (no question, no snapshot, no
// result, the same status and turn) and no later row of another thread shows a
// gap in the numbers; nor that somebody rewrote everything. Heads, kept
// elsewhere, and VerifyAgainst show both. Of threads only thread_id, status,
// turn and graph follow from the log; the session facts, times, lease and
// counters do not, and nothing vouches for them.
//
// # Errors
//
// Of a thread, from package engine:
//
//	ErrNotFound         no such thread, entry, question or graph
//	ErrExists           the id of a new thread is taken
//	ErrDeleted          it belonged to a thread that was deleted
//	ErrConflict         somebody else was first: read again and decide anew
//	ErrBusy             a *engine.BusyError: a process moves or holds the thread
//	ErrCancelRequested  the holder must end the turn as cancelled
//	ErrInvalid          the commit cannot be stored as it is: a mistake of the caller
//
// Of the file, from this package, as a *FileError that says what to do:
//
//	ErrForeign          not a Holdfast file; it was left as it is
//	ErrNewer            written by a newer version; it was left as it is
//	ErrOlder            written by an older one, and opened for a look only
//	ErrEmpty            nothing was put into it yet, and it was opened for a look only
//	ErrNotDatabase      not a database; it was left as it is
//	ErrAccess           it, its folder or a lock file cannot be read or written
//	ErrLocked           another process held the write lock for too long; nothing was stored
//	ErrFull             no space left; nothing was stored
//	ErrIO               the disk failed; nothing was stored
//	ErrUnknown          the disk failed and the file cannot be read: nobody knows
//
// And:
//
//	ErrCorrupt          a *CorruptError (a row does not fit) or a *FileError (SQLite says so)
//	ErrRemoved          a state needs a payload that was pruned or redacted
//	ErrClosed           the store or the handle is closed
//
// After any of them the store remains usable: what failed may be tried again.
//
// # Goroutines and locks
//
// The store has two goroutines of its own: the watcher's, which lives while
// somebody is in Wait, and that which empties the write-ahead log, which lives
// from a commit until that is done (wal.go). Commits run on the goroutine of a
// caller (writer.go).
// Lock order: Log.order, Log.mu; Store.mu is taken last and held briefly.
package store
