package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/migrations"
)

// What a look finds that it cannot read and does not change.
var (
	// ErrOlder: the file has to be brought up to date first.
	ErrOlder = errors.New("written by an older version of Holdfast")
	// ErrEmpty: nothing was ever put into it, as when the process that made it
	// died at once.
	ErrEmpty = errors.New("empty")
)

// Look opens the file at path for reading only: nothing in it is changed, it is
// not brought up to date, and none is made. What writes gives ErrAccess. It
// works on a file, and in a folder, that this user may only read.
func Look(ctx context.Context, path string, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	resolved, err := resolve(path)
	if err != nil {
		return nil, &FileError{Path: path, Kind: ErrAccess, Cause: err}
	}
	opened.Lock()
	defer opened.Unlock()
	info, err := os.Stat(resolved)
	if err != nil {
		return nil, &FileError{Path: resolved, Kind: ErrAccess, Cause: err}
	}
	if !isOpened(info) {
		if _, err := check(resolved); err != nil {
			return nil, err
		}
	}
	if info.Size() == 0 {
		return nil, empty(resolved)
	}
	s := &Store{
		path: resolved, opts: opts, held: make(map[int64]*Log), info: info,
		owner: newOwner(resolved, opts.Program, opts.Clock.Now()),
		write: &writer{path: resolved, idle: make(chan struct{})},
	}
	s.watch = newWatcher(s)
	s.tidy = &walTidier{s: s} // with nothing to do
	if err := s.connectReading(ctx); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	opened.files = append(opened.files, s.info)
	return s, nil
}

func (s *Store) connectReading(ctx context.Context) error {
	// As the readers of a store that writes: the last one to close the file
	// leaves no write-ahead log behind, where it may take it away.
	version, tables, err := s.openReaders(ctx, readersDSN(s.path, s.opts))
	uri := dsn(s.path, true, s.opts)
	if errors.Is(err, ErrAccess) {
		_ = s.read.Close()
		version, tables, err = s.openReaders(ctx, uri)
	}
	if wal, statErr := os.Stat(s.path + "-wal"); errors.Is(err, ErrAccess) && (statErr != nil || wal.Size() == 0) {
		// Nobody is at work on it, and SQLite may not make the files that it
		// wants beside it: so none is needed.
		_ = s.read.Close()
		version, tables, err = s.openReaders(ctx, uri+"&immutable=1")
	}
	if err != nil {
		return err
	}
	if version == 0 && tables == 0 {
		return empty(s.path)
	}
	return current(s.path, version, migrations.Latest())
}

func empty(path string) error {
	return &FileError{Path: path, Kind: ErrEmpty, Advice: "the first thread makes it a Holdfast file"}
}

func (s *Store) openReaders(ctx context.Context, uri string) (version, tables int, err error) {
	if s.read, err = sqlx.Open("sqlite", uri); err != nil {
		return 0, 0, fileError(s.path, err)
	}
	s.read.SetMaxOpenConns(8)
	s.read.SetMaxIdleConns(4)
	// Of the schema too, which is the first page that is read.
	err = s.read.QueryRowContext(ctx, `SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version`).Scan(&version, &tables)
	return version, tables, fileError(s.path, err)
}

// current says why a file of this version cannot be read as it is.
func current(path string, version, latest int) error {
	if version >= latest {
		return nil // check has refused newer ones
	}
	return &FileError{Path: path, Kind: ErrOlder, Cause: fmt.Errorf("it is of version %d, this program reads %d", version, latest),
		Advice: "it was left as it is; the next command that writes brings it up to date, so make a copy first"}
}
