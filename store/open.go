package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/migrations"
)

// Options of a store. The zero value is what the program uses.
type Options struct {
	// Synchronous is FULL (the default: what was stored survives a power
	// failure) or NORMAL (it survives a crash of the process; the last commits
	// before a power failure may be gone, and nothing else).
	Synchronous string
	// BusyTimeout is how long a commit waits for the write lock of another
	// process; 0 is 10 seconds.
	BusyTimeout time.Duration
	// CommitTimeout bounds a commit as a whole, which the caller's context
	// does not (rule 8); 0 is 30 seconds.
	CommitTimeout time.Duration
	// Program is the name in the messages that other processes give about this
	// one; empty is the name of the executable.
	Program string
	// Clock gives the times that are stored; nil is the system's.
	Clock clock.Clock
	// Logger is told what cost time and nothing else, such as a snapshot that
	// was ignored; nil is nobody.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	switch o.Synchronous = strings.ToUpper(o.Synchronous); o.Synchronous {
	case "":
		o.Synchronous = "FULL"
	case "FULL", "NORMAL":
	default:
		return o, fmt.Errorf("synchronous %q is not possible: FULL or NORMAL", o.Synchronous)
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.CommitTimeout <= 0 {
		o.CommitTimeout = 30 * time.Second
	}
	o.BusyTimeout = min(o.BusyTimeout, o.CommitTimeout)
	if o.Program == "" {
		o.Program = filepath.Base(os.Args[0])
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Store is one open file of threads. Its methods may be called from several
// goroutines at once.
type Store struct {
	path  string // resolved
	opts  Options
	owner *owner
	write *writer
	read  *sqlx.DB
	watch *watcher
	tidy  *walTidier
	info  fs.FileInfo // of the file, see opened

	mu     sync.Mutex
	closed bool
	held   map[int64]*Log // the handle that holds a thread's lease, by the thread's number
}

var _ engine.Store = (*Store)(nil)

// opened are the files that this process has open. One at a time is opened, and
// a file that is open already is not looked at again: closing any descriptor of
// a file drops all POSIX locks that the process has on it, those of SQLite's
// other connections too.
var opened struct {
	sync.Mutex
	files []fs.FileInfo
}

// Open opens the file at path and brings it up to date; one that is missing or
// empty becomes a new one, readable for this user only. A file that is not
// ours, or newer, or cannot be read, is an error and stays as it is, byte for
// byte (rule 6).
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, errors.New("open store: the path is empty")
	}
	resolved, err := resolve(path)
	if err != nil {
		return nil, &FileError{Path: path, Kind: ErrAccess, Cause: err}
	}
	opened.Lock()
	defer opened.Unlock()
	if err := prepare(resolved); err != nil {
		return nil, err
	}
	s := &Store{
		path: resolved, opts: opts, held: make(map[int64]*Log),
		owner: newOwner(resolved, opts.Program, opts.Clock.Now()),
	}
	s.watch = newWatcher(s)
	s.tidy = &walTidier{s: s, clock: clock.Real}
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return nil, fileError(resolved, err)
	}
	if s.info, err = os.Stat(resolved); err != nil {
		s.disconnect()
		return nil, &FileError{Path: resolved, Kind: ErrAccess, Cause: err}
	}
	opened.files = append(opened.files, s.info)
	return s, nil
}

func isOpened(info fs.FileInfo) bool {
	for _, other := range opened.files {
		if os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// prepare checks a file that exists and creates one that does not.
func prepare(path string) error {
	if info, err := os.Stat(path); err == nil && isOpened(info) {
		return nil // it was checked when it was opened
	}
	missing, err := check(path)
	if err != nil {
		return err
	}
	if !missing {
		return writable(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return &FileError{Path: path, Kind: ErrAccess, Cause: err, Advice: "its folder cannot be created"}
	}
	// Created here and not by SQLite, which would let everybody read it. If
	// the process dies after this, a file of 0 bytes is left, which is new.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process was first
		if _, err := check(path); err != nil {
			return err
		}
		return writable(path)
	}
	if err != nil {
		return &FileError{Path: path, Kind: ErrAccess, Cause: err, Advice: "the file cannot be created"}
	}
	return f.Close()
}

// writable says so where SQLite would quietly open the file for reading only,
// and fail at the first commit.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return &FileError{Path: path, Kind: ErrAccess, Cause: err,
			Advice: "the file and its folder must be writable for this user, since SQLite keeps a -wal and a -shm file beside it"}
	}
	return f.Close()
}

// connect opens the readers and brings the file up to date. A file that is
// needs no more than one connection to be read: the writing one comes with the
// first commit.
func (s *Store) connect(ctx context.Context) error {
	db, err := sqlx.Open("sqlite", dsn(s.path, false, s.opts))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	s.write = &writer{path: s.path, db: db, timeout: s.opts.CommitTimeout, idle: make(chan struct{}), wrote: s.tidy.wrote}
	if s.read, err = sqlx.Open("sqlite", readersDSN(s.path, s.opts)); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(8)
	s.read.SetMaxIdleConns(4)
	if s.migrated(ctx) {
		return nil
	}
	return s.migrate(ctx)
}

// migrated reports whether the file is known to be up to date. Of whatever
// keeps this look from knowing it, migrate gives the error.
func (s *Store) migrated(ctx context.Context) bool {
	c, err := s.read.DB.Conn(ctx)
	if err != nil {
		return false
	}
	ok, err := migrations.Applied(context.WithoutCancel(ctx), c)
	return errors.Join(err, c.Close()) == nil && ok
}

func (s *Store) migrate(ctx context.Context) error {
	var c *conn
	var err error
	for deadline := clock.Real.Now().Add(s.opts.BusyTimeout); ; {
		// Two processes that create the file at once both want WAL mode, and
		// for that switch SQLite does not wait, whatever the busy timeout.
		c, err = s.write.connect(ctx)
		if err == nil || !errors.Is(fileError(s.path, err), ErrLocked) || clock.Real.Now().After(deadline) {
			break
		}
		if err := clock.Sleep(ctx, clock.Real, 5*time.Millisecond); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	err = migrations.Apply(context.WithoutCancel(ctx), c.sql, func() error {
		return failpoint.HitIn("store.open.migrate", s.path)
	})
	switch {
	case errors.Is(err, migrations.ErrNewer):
		return &FileError{Path: s.path, Kind: ErrNewer, Cause: err, Advice: "use the newer program"}
	case errors.Is(err, migrations.ErrForeign):
		return &FileError{Path: s.path, Kind: ErrForeign, Advice: "name another file"}
	}
	return err
}

// dsn is a file: URI, so that any character may stand in the path. What a
// connection needs is in it, because a PRAGMA that is sent to a pool reaches
// one of its connections only.
func dsn(path string, readOnly bool, opts Options) string {
	if readOnly {
		return fileURI(path, "ro", opts, "query_only(1)")
	}
	return fileURI(path, "rw", opts, "foreign_keys(1)", "journal_mode(WAL)", fmt.Sprintf("journal_size_limit(%d)", walLimit),
		"synchronous("+opts.Synchronous+")") + "&_txlock=immediate"
}

// readersDSN is dsn for the readers of a store that also writes. Not mode=ro:
// such a connection, if it is the last one, leaves the write-ahead log behind.
func readersDSN(path string, opts Options) string {
	return fileURI(path, "rw", opts, "query_only(1)")
}

// fileURI never has a file created: prepare does that, with the right mode.
func fileURI(path, mode string, opts Options, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	wait := fmt.Sprintf("busy_timeout(%d)", opts.BusyTimeout.Milliseconds())
	q := url.Values{"mode": {mode}, "_pragma": append([]string{wait}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// Path is the file, with symbolic links resolved.
func (s *Store) Path() string { return s.path }

// Close gives back the leases that are still held, removes the lock file and
// closes the file. The last one to close it also empties the write-ahead log.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	held := make([]*Log, 0, len(s.held))
	for _, l := range s.held {
		held = append(held, l)
	}
	s.mu.Unlock()

	// Those who wait first: that their lease is given back is no news to them.
	s.watch.close()
	var errs []error
	for _, l := range held {
		errs = append(errs, l.Close())
	}
	opened.Lock()
	defer opened.Unlock()
	errs = append(errs, s.disconnect())
	for i, info := range opened.files {
		if info == s.info {
			opened.files = append(opened.files[:i:i], opened.files[i+1:]...)
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Store) disconnect() error {
	s.watch.close()
	s.tidy.close()
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.close())
	}
	// The lock last: what was written above was written by a living owner.
	errs = append(errs, s.owner.close())
	return errors.Join(errs...)
}

// inTx runs f in one read transaction: all that it reads is of one moment.
func (s *Store) inTx(ctx context.Context, f func(tx *sqlx.Tx) error) error {
	c, err := s.read.Connx(ctx)
	if err != nil {
		return s.readError(err)
	}
	defer c.Close() // back to the others
	// Not the caller's context, which would cost a goroutine to watch it.
	tx, err := c.BeginTxx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.readError(err)
	}
	err = f(tx)
	// Nothing was written; an error of the rollback drops the connection.
	_ = tx.Rollback()
	return s.readError(err)
}

func (s *Store) readError(err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return fileError(s.path, err)
}
