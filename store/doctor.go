package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/migrations"
)

// Health is what Doctor found out about a file.
type Health struct {
	Path     string    `json:"path"`
	SQLite   string    `json:"sqlite"` // version of the library
	Schema   int       `json:"schema"` // version of the file
	Latest   int       `json:"latest"` // version that this program writes
	Size     int64     `json:"size"`   // bytes of the file
	WAL      int64     `json:"wal"`    // bytes of the write-ahead log beside it
	Unused   int64     `json:"unused"` // bytes of the file that nothing is in
	Free     int64     `json:"free"`   // bytes that are free on the disk; 0: unknown
	Owners   int       `json:"owners"` // living processes that hold, or held, a thread
	Verified *Report   `json:"verified,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is something that is not as it should be, and what to do about it.
type Finding struct {
	Severity string `json:"severity"` // error or warning
	What     string `json:"what"`
	Advice   string `json:"advice"`
}

// OK reports whether there is no finding of severity error.
func (h *Health) OK() bool {
	for _, f := range h.Findings {
		if f.Severity == severityError {
			return false
		}
	}
	return true
}

const (
	severityError   = "error"
	severityWarning = "warning"

	largeWAL = 64 << 20
)

// Doctor examines the file of an open store.
func (s *Store) Doctor(ctx context.Context) (*Health, error) { return Doctor(ctx, s.path) }

// Doctor examines a file as far as it can be read, damaged or not. It writes
// nothing. What it finds is in the result; an error means that there is nothing
// to examine, or that ctx has ended.
func Doctor(ctx context.Context, path string) (*Health, error) {
	resolved, err := resolve(path)
	if err != nil {
		return nil, &FileError{Path: path, Kind: ErrAccess, Cause: err}
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return nil, &FileError{Path: resolved, Kind: ErrAccess, Cause: err}
	}
	opened.Lock()
	known := isOpened(info)
	if !known {
		// Not by SQLite, and not at all if this process has it open; see opened.
		_, err = check(resolved)
	}
	opened.Unlock()
	h := &Health{Path: resolved, Latest: migrations.Latest(), Size: info.Size()}
	if err != nil {
		// A newer file is healthy perhaps, but not for this program to say.
		h.add(severityError, err.Error(), "nothing else was looked at")
		return h, nil
	}
	if info.Size() == 0 {
		h.add(severityWarning, "the file is empty", "nothing to do: the first thread makes it a Holdfast file")
		return h, nil
	}
	if wal, err := os.Stat(resolved + "-wal"); err == nil {
		h.WAL = wal.Size()
	}
	db, err := sqlx.Open("sqlite", doctorDSN(resolved, !known && h.WAL == 0))
	if err != nil {
		return nil, fileError(resolved, err)
	}
	defer db.Close()
	d := doctor{h: h, db: db}
	d.surroundings(info)
	for _, look := range []func(context.Context) error{d.versions, d.pages, d.integrity, d.foreignKeys, d.verified, d.orphans, d.times, d.owners} {
		if err := look(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			h.add(severityError, fileError(resolved, err).Error(), "go back to a backup, or save what can be read with the recover command of the sqlite3 program")
		}
	}
	return h, nil
}

// doctorDSN opens a file for reading only. Without a write-ahead log nobody is
// at work on it, and immutable keeps SQLite from creating one.
func doctorDSN(path string, immutable bool) string {
	opts, _ := Options{}.withDefaults()
	uri := dsn(path, true, opts)
	if immutable {
		uri += "&immutable=1"
	}
	return uri
}

type doctor struct {
	h  *Health
	db *sqlx.DB
}

func (h *Health) add(severity, what, advice string) {
	h.Findings = append(h.Findings, Finding{Severity: severity, What: what, Advice: advice})
}

func (d *doctor) versions(ctx context.Context) error {
	if err := d.db.GetContext(ctx, &d.h.SQLite, `SELECT sqlite_version()`); err != nil {
		return err
	}
	if err := d.db.GetContext(ctx, &d.h.Schema, `PRAGMA user_version`); err != nil {
		return err
	}
	if d.h.Schema < d.h.Latest {
		d.h.add(severityWarning, fmt.Sprintf("the file is of version %d, this program writes %d", d.h.Schema, d.h.Latest),
			"nothing to do: it is brought up to date when it is opened next")
	}
	return nil
}

func (d *doctor) integrity(ctx context.Context) error {
	var lines []string
	if err := d.db.SelectContext(ctx, &lines, `PRAGMA integrity_check(20)`); err != nil {
		return err
	}
	for _, line := range lines {
		if line != "ok" {
			d.h.add(severityError, "SQLite's integrity check: "+line, "go back to a backup, or save what can be read with the recover command of the sqlite3 program")
		}
	}
	return nil
}

func (d *doctor) foreignKeys(ctx context.Context) error {
	rows, err := d.db.QueryxContext(ctx, `SELECT "table", count(*) AS n FROM pragma_foreign_key_check GROUP BY "table"`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var n int
		if err := rows.Scan(&table, &n); err != nil {
			return err
		}
		d.h.add(severityError, fmt.Sprintf("%d rows of %s belong to no thread", n, table), "somebody removed a thread by hand; go back to a backup, or delete these rows too")
	}
	return rows.Err()
}

func (d *doctor) verified(ctx context.Context) error {
	report, err := verify(ctx, d.db, "")
	if err != nil {
		return err
	}
	d.h.Verified = report
	for _, p := range report.Problems {
		severity, advice := severityError, "the file was changed by something else than this program, or damaged: go back to a backup"
		if p.Table == "snapshots" {
			severity, advice = severityWarning, "harmless by itself: snapshots are a cache and are written anew"
		}
		d.h.add(severity, p.String(), advice)
	}
	return nil
}

// owners looks at those who hold threads, and at lock files that nobody locks.
func (d *doctor) owners(ctx context.Context) error {
	var rows []threadRow
	if err := d.db.SelectContext(ctx, &rows, `SELECT `+threadColumns+` FROM threads WHERE owner <> '' ORDER BY no`); err != nil {
		return err
	}
	alive := make(map[string]bool)
	probe := func(id string) (bool, error) {
		if a, ok := alive[id]; ok {
			return a, nil
		}
		o, err := probeOwner(d.h.Path, id, false)
		if err == nil {
			alive[id] = o.Alive
			if o.Alive {
				d.h.Owners++
			}
		}
		return o.Alive, err
	}
	for i := range rows {
		row := &rows[i]
		a, err := probe(row.Owner)
		switch {
		case err != nil:
			return err
		case a:
		case diedMoving(row, engine.Owner{}):
			d.h.add(severityWarning, fmt.Sprintf("thread %s: the process that moved it died in the middle of a turn", row.ThreadID), "agent resume "+row.ThreadID)
		case row.CancelRequested != "":
			d.h.add(severityWarning, fmt.Sprintf("thread %s: a cancel was asked for, and its process died before it saw that", row.ThreadID), "agent cancel "+row.ThreadID)
		}
	}
	files, err := ownerFiles(d.h.Path)
	if err != nil {
		return err
	}
	for _, id := range files {
		a, err := probe(id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if path := ownerPath(d.h.Path, id); !a && older(path, time.Minute) {
			d.h.add(severityWarning, "lock file of a process that is dead: "+path, "it may be deleted; whoever next looks for that process deletes it too")
		}
	}
	return nil
}

// older keeps doctor from calling a lock file dead that is just being made.
func older(path string, d time.Duration) bool {
	info, err := os.Stat(path)
	return err == nil && clock.Real.Now().Sub(info.ModTime()) > d
}
