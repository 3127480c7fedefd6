// Package migrations holds the tables of a Holdfast file as numbered SQL files,
// and brings a file up to the newest number.
//
// Rules that hold here:
//
//   - Forward only, one number after the other, all of it in one transaction:
//     a file is of one version or of another, never between two.
//   - A file says whose it is (application_id) and which version (user_version)
//     in its header; both are set in that same transaction.
//   - Who runs them has looked at the file before (package store). Apply looks
//     again under the write lock, since another process may have been first.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ApplicationID is in the header of every file of ours: "Hldf".
const ApplicationID = 0x486c6466

// The reasons not to touch a file.
var (
	ErrForeign = errors.New("not a Holdfast file")
	ErrNewer   = errors.New("written by a newer version of Holdfast")
)

//go:embed *.sql
var files embed.FS

// scripts are the SQL files in order; number n is at n-1.
var scripts = mustRead(files)

// mustRead panics on a numbering mistake, which no built program can have: the
// files are part of it and every test runs this.
func mustRead(dir fs.FS) []string {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		panic(err)
	}
	var out []string
	for i, entry := range entries {
		number, _, _ := strings.Cut(path.Base(entry.Name()), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			panic(fmt.Sprintf("migrations: file %s is not number %04d", entry.Name(), i+1))
		}
		text, err := fs.ReadFile(dir, entry.Name())
		if err != nil {
			panic(err)
		}
		out = append(out, string(text))
	}
	return out
}

// Latest is the version that this program writes.
func Latest() int { return len(scripts) }

// Applied reports whether the file behind conn is ours and of the latest
// version, so that Apply would do nothing. Once true it stays true, so that
// the two reads need not be of one moment.
func Applied(ctx context.Context, conn *sql.Conn) (bool, error) {
	var now state
	err := conn.QueryRowContext(ctx, "PRAGMA application_id").Scan(&now.application)
	if err == nil {
		err = conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&now.version)
	}
	return err == nil && now.application == ApplicationID && now.version == Latest(), err
}

// Apply brings the file behind conn to the latest version. A foreign or newer
// file is refused and not changed. beforeCommit, if not nil, is called when all
// is written and nothing is committed.
func Apply(ctx context.Context, conn *sql.Conn, beforeCommit func() error) (err error) {
	now, err := read(ctx, conn)
	if err != nil {
		return err
	}
	if err := now.refuse(); err != nil || now.version == Latest() {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		if err != nil {
			// An error of the rollback says nothing new: closing the
			// connection, which follows, rolls back too.
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	// Somebody else may have migrated the file while this waited for the lock.
	if now, err = read(ctx, conn); err != nil {
		return err
	}
	if err := now.refuse(); err != nil {
		return err
	}
	for version := now.version; version < Latest(); version++ {
		if _, err := conn.ExecContext(ctx, scripts[version]); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version+1, err)
		}
	}
	header := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", ApplicationID, Latest())
	if _, err := conn.ExecContext(ctx, header); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if beforeCommit != nil {
		if err := beforeCommit(); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	// If the process dies before the next line, the file is still of the old
	// version (a new one: empty), and whoever opens it next starts over.
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

type state struct {
	application, version, tables int
}

// read is one statement, and so of one moment: between two, another process may
// migrate the file, and a header of before with tables of after looks foreign.
func read(ctx context.Context, conn *sql.Conn) (s state, err error) {
	const query = `SELECT (SELECT count(*) FROM sqlite_schema),
		(SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)`
	if err := conn.QueryRowContext(ctx, query).Scan(&s.tables, &s.application, &s.version); err != nil {
		return s, fmt.Errorf("read the header: %w", err)
	}
	return s, nil
}

func (s state) refuse() error {
	return Refuse(s.application, s.version, s.tables > 0)
}

// Refuse says why a file with this header must not be touched: nil for one of
// ours, of this version or an older one, and for a new, empty one.
func Refuse(application, version int, tables bool) error {
	switch {
	case application == 0 && version == 0 && !tables:
		return nil
	case application != ApplicationID:
		return ErrForeign
	case version > Latest():
		return fmt.Errorf("%w: it is of version %d, this program knows up to %d", ErrNewer, version, Latest())
	case version < 1:
		// No version of ours ever set the one without the other.
		return ErrForeign
	}
	return nil
}
