package store

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-agent/holdfast/migrations"
)

// Rule 6: before SQLite sees a file, its header is read here, by plain reads
// that create nothing and change nothing. Even a read-only connection of SQLite
// would leave a -wal and a -shm file beside a file in WAL mode.

const sqliteMagic = "SQLite format 3\x00"

// page1 is what the first page of a database says.
type page1 struct {
	application int
	version     int
	tables      bool // there is something in the schema
}

// parsePage1 reads the database header and the head of the schema's b-tree
// behind it.
func parsePage1(b []byte) (page1, bool) {
	if len(b) < 108 || string(b[:16]) != sqliteMagic {
		return page1{}, false
	}
	return page1{
		application: int(int32(binary.BigEndian.Uint32(b[68:]))),
		version:     int(int32(binary.BigEndian.Uint32(b[60:]))),
		// An interior page, or a leaf with cells.
		tables: b[100] != 13 || binary.BigEndian.Uint16(b[103:]) > 0,
	}, true
}

// resolve is the path with all symbolic links followed, so that every process
// finds the same -wal, -shm and lock files beside the same file. The file need
// not exist, nor the last folders of its path.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 40 {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		// The file does not exist, or is a link to one that does not.
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	if dir == path {
		return path, nil
	}
	dir, err = resolve(dir)
	return filepath.Join(dir, base), err
}

// check refuses a file that is not ours to open. missing: there is none yet.
func check(path string) (missing bool, err error) {
	refuse := func(kind error, cause error, advice string) error {
		return &FileError{Path: path, Kind: kind, Cause: cause, Advice: advice}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, refuse(ErrAccess, err, "")
	case !info.Mode().IsRegular():
		return false, refuse(ErrNotDatabase, nil, "it is no regular file; name a file")
	case info.Size() == 0:
		return false, nil
	}
	head := make([]byte, 108)
	f, err := os.Open(path)
	if err != nil {
		return false, refuse(ErrAccess, err, "")
	}
	_, err = io.ReadFull(f, head)
	f.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, refuse(ErrIO, err, "look at the disk")
	}
	first, ok := parsePage1(head)
	if err != nil || !ok {
		return false, refuse(ErrNotDatabase, nil, "it was left as it is; name another file")
	}
	// The newest first page may still be in the log beside the file.
	newer, found, err := page1InWAL(path + "-wal")
	if err != nil {
		return false, refuse(ErrAccess, err, "")
	}
	if found {
		first = newer
	} else if first.application != migrations.ApplicationID && hotJournal(path+"-journal") {
		return false, refuse(ErrForeign, nil, "another program was interrupted while it wrote to it; it was left as it is")
	}
	if err := migrations.Refuse(first.application, first.version, first.tables); err != nil {
		if errors.Is(err, ErrNewer) {
			return false, refuse(ErrNewer, err, "it was left as it is; use the newer program")
		}
		return false, refuse(ErrForeign, nil, "it was left as it is; name another file")
	}
	return false, nil
}

// page1InWAL finds the newest committed first page in a write-ahead log. Only
// the salts are compared, not the checksums: a torn last transaction could
// deceive this look, and SQLite's own, which follows under the write lock, not.
func page1InWAL(path string) (first page1, found bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return page1{}, false, nil
		}
		return page1{}, false, err
	}
	defer f.Close()
	var head [32]byte
	if n, err := f.ReadAt(head[:], 0); n < len(head) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return page1{}, false, err
	}
	magic, size := binary.BigEndian.Uint32(head[0:]), int64(binary.BigEndian.Uint32(head[8:]))
	if magic&^1 != 0x377f0682 || size < 512 || size > 65536 {
		return page1{}, false, nil // SQLite ignores it too
	}
	var (
		frame   [24]byte
		page    [108]byte
		pending page1
		waiting bool
	)
	for at := int64(len(head)); ; at += int64(len(frame)) + size {
		if n, err := f.ReadAt(frame[:], at); n < len(frame) {
			if !errors.Is(err, io.EOF) {
				return first, found, err
			}
			return first, found, nil
		}
		if string(frame[8:16]) != string(head[16:24]) {
			return first, found, nil // left over from before the log was begun anew
		}
		if binary.BigEndian.Uint32(frame[0:]) == 1 {
			if n, _ := f.ReadAt(page[:], at+int64(len(frame))); n < len(page) {
				return first, found, nil
			}
			pending, waiting = parsePage1(page[:])
		}
		if binary.BigEndian.Uint32(frame[4:]) != 0 && waiting { // a commit
			first, found, waiting = pending, true, false
		}
	}
}

// hotJournal reports whether SQLite would roll back a transaction from this
// rollback journal onto a file that had pages before it.
func hotJournal(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return false
	}
	return string(head[:8]) == "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" && binary.BigEndian.Uint32(head[16:]) > 0
}
