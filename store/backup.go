package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

// Saved is what a backup holds.
type Saved struct {
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Threads int    `json:"threads"`
	Entries int64  `json:"entries"`
}

// Backup writes a copy of the whole file, as of one moment, while others go on
// writing, and verifies it: SQLite's own check, every chain, and that each
// thread's newest entry is that of this file. The copy appears under its name
// when it is whole and on the disk, readable for this user only; a file that is
// there already is left alone, and is an error.
//
// Nobody holds a thread in the copy: a turn that was under way is there as one
// that was stopped, and can be resumed.
func (s *Store) Backup(ctx context.Context, path string) (Saved, error) {
	saved, err := s.backup(ctx, path)
	if err != nil {
		return saved, fmt.Errorf("back up to %s: %w", path, err)
	}
	return saved, nil
}

func (s *Store) backup(ctx context.Context, path string) (saved Saved, err error) {
	if path == "" {
		return saved, errors.New("the path is empty")
	}
	if path, err = resolve(path); err != nil {
		return saved, err
	}
	saved.Path = path
	if _, err := os.Lstat(path); err == nil {
		return saved, fmt.Errorf("%w; it was left as it is: name another file, or remove it", fs.ErrExist)
	}
	// The name says who writes it, so that a later backup knows whether
	// somebody still does.
	if err := s.owner.ensure(); err != nil {
		return saved, err
	}
	s.tidyPartial(path)
	part := path + partialSuffix + s.owner.id
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return saved, errors.New("another backup to this file is under way")
	}
	if err != nil {
		return saved, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part) // the error before says more
		}
	}()
	if err := f.Close(); err != nil {
		return saved, err
	}
	// If the process dies here or below, a partial file stays behind. Nobody
	// takes it for a backup, and the next backup to this name removes it.
	if err := failpoint.HitIn("store.backup.begin", s.path); err != nil {
		return saved, err
	}
	before, err := s.Heads(ctx)
	if err != nil {
		return saved, err
	}
	if err := copyInto(ctx, s.path, part); err != nil {
		return saved, fileError(s.path, err)
	}
	report, err := s.verifyCopy(ctx, part, before)
	if err != nil {
		return saved, err
	}
	saved.Threads, saved.Entries = report.Threads, report.Entries
	if saved.Bytes, err = syncFile(part); err != nil {
		return saved, err
	}
	// If the process dies here, the partial file is whole, and nobody was told
	// so: as above.
	if err := failpoint.HitIn("store.backup.rename", s.path); err != nil {
		return saved, err
	}
	if err := renameNew(part, path); err != nil {
		return saved, err
	}
	return saved, syncFolder(filepath.Dir(path))
}

const partialSuffix = ".partial-"

// tidyPartial removes what backups to this name left that died.
func (s *Store) tidyPartial(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // the backup itself will say so
	}
	for _, entry := range entries {
		id, ok := strings.CutPrefix(entry.Name(), filepath.Base(path)+partialSuffix)
		if !ok || len(id) != len(s.owner.id) || id == s.owner.id {
			continue
		}
		if o, err := probeOwner(s.path, id, false); err == nil && !o.Alive {
			_ = os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}

// copyInto is VACUUM INTO: one reading transaction, which keeps nobody from
// writing, and a copy without the free pages and what is left in them.
func copyInto(ctx context.Context, from, to string) (err error) {
	db, err := sqlx.Open("sqlite", bareDSN(from, "ro"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return err
	}
	copied, err := sqlx.Open("sqlite", bareDSN(to, "rw"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	// Who holds a thread of this file holds none of the copy. Left in it, the
	// lease would look alive to whoever puts the copy in this file's place.
	_, err = copied.ExecContext(ctx, `UPDATE threads SET owner = '', lease = 'free' WHERE owner <> '' OR lease <> 'free'`)
	return err
}

// bareDSN opens a file with nothing set but how long to wait.
func bareDSN(path, mode string) string {
	opts, _ := Options{}.withDefaults()
	uri, _, _ := strings.Cut(dsn(path, true, opts), "?")
	q := url.Values{"mode": {mode}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", opts.BusyTimeout.Milliseconds())}}
	return uri + "?" + q.Encode()
}

// verifyCopy says why a copy cannot be relied on.
func (s *Store) verifyCopy(ctx context.Context, path string, before []Head) (*Report, error) {
	db, err := sqlx.Open("sqlite", doctorDSN(path, true))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	h := &Health{Path: path}
	d := doctor{h: h, db: db}
	for _, look := range []func(context.Context) error{d.integrity, d.foreignKeys, d.verified} {
		if err := look(ctx); err != nil {
			return nil, fileError(path, err)
		}
	}
	if !h.OK() {
		return nil, &FileError{Path: s.path, Kind: ErrCorrupt, Cause: errors.New(h.Findings[0].What),
			Advice: "the copy was removed; run agent doctor on this file"}
	}
	// What was there before is in it, and what is in it is there.
	if err := sameHeads(ctx, db, before, "the copy"); err != nil {
		return nil, err
	}
	copied, err := heads(ctx, db)
	if err != nil {
		return nil, err
	}
	return h.Verified, sameHeads(ctx, s.read, copied, "this file")
}

func sameHeads(ctx context.Context, db *sqlx.DB, heads []Head, where string) error {
	for _, head := range heads {
		p, err := lookFor(ctx, db, head)
		if err != nil {
			return err
		}
		if p != nil {
			return fmt.Errorf("%s has not what it should: %s", where, p)
		}
	}
	return nil
}

// lookFor says what is wrong with the row of a head; nil if it is there, or its
// thread was deleted.
func lookFor(ctx context.Context, db *sqlx.DB, head Head) (*Problem, error) {
	var row struct {
		Status string         `db:"status"`
		Hash   sql.NullString `db:"hash"`
	}
	err := db.GetContext(ctx, &row, `SELECT status, (SELECT lower(hex(hash)) FROM checkpoints AS c WHERE c.no = t.no AND c.seq = ?) AS hash
		FROM threads AS t WHERE thread_id = ?`, head.Seq, head.Thread)
	p := &Problem{Thread: head.Thread, Seq: head.Seq, Table: "checkpoints"}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		p.Table, p.Reason = "threads", "the thread is gone"
	case err != nil:
		return nil, err
	case row.Status == string(engine.Deleted):
		return nil, nil
	case !row.Hash.Valid:
		p.Reason = "the row is missing: the log was cut off before it"
	case row.Hash.String != strings.ToLower(head.Hash):
		p.Column, p.Reason = "hash", "the row has another hash than the one that was kept: the log up to it was written anew"
	default:
		return nil, nil
	}
	return p, nil
}

// syncFile brings a file to the disk, and gives its size.
func syncFile(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// renameNew renames a file to a name that nobody has, where a rename alone
// would overwrite.
func renameNew(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w; it was left as it is: name another file, or remove it", fs.ErrExist)
	}
	// A file system without hard links.
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%w; it was left as it is: name another file, or remove it", fs.ErrExist)
	}
	return os.Rename(from, to)
}

// syncFolder brings the name of a new file to the disk.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be opened there
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
