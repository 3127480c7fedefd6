package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// Filter chooses threads. The zero value is all of them.
type Filter struct {
	Status engine.Status // empty: all but deleted ones
	Cwd    string        // empty: wherever they work
	After  Cursor        // of the last thread that was listed; zero: from the newest on
	Limit  int           // 0: all
}

// Cursor is a place in the list of threads.
type Cursor struct {
	UpdatedAt int64 // ms since 1970
	No        int64
}

// Listed is a thread in a list, with its place.
type Listed struct {
	engine.Thread
	Cursor Cursor
}

// Threads lists threads, those first whose turn changed last. It reads rows of
// threads, and the number of each one's newest entry from an index; never an
// entry. Crashes is as of the last take.
func (s *Store) Threads(ctx context.Context, f Filter) ([]Listed, error) {
	query, args := threadsQuery(f)
	var rows []threadRow
	if err := s.read.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("list threads: %w", s.readError(err))
	}
	out := make([]Listed, len(rows))
	owners := make(map[string]*engine.Owner)
	for i := range rows {
		row := &rows[i]
		t, err := row.thread(s.path)
		if err != nil {
			return nil, err
		}
		if row.Owner != "" {
			if owners[row.Owner] == nil {
				o, err := s.owner.look(row.Owner)
				if err != nil {
					return nil, err
				}
				owners[row.Owner] = &o
			}
			t.Owner = owners[row.Owner]
		}
		out[i] = Listed{Thread: t, Cursor: Cursor{UpdatedAt: row.UpdatedAt, No: row.No}}
	}
	return out, nil
}

func threadsQuery(f Filter) (string, []any) {
	query, args := `SELECT `+threadColumns+` FROM threads WHERE `, []any(nil)
	if f.Status == "" {
		query += `status <> 'deleted'`
	} else {
		query += `status = ?`
		args = append(args, string(f.Status))
	}
	if f.Cwd != "" {
		query += ` AND cwd = ?`
		args = append(args, f.Cwd)
	}
	if f.After != (Cursor{}) {
		query += ` AND (updated_at, no) < (?, ?)`
		args = append(args, f.After.UpdatedAt, f.After.No)
	}
	query += ` ORDER BY updated_at DESC, no DESC`
	if f.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, f.Limit)
	}
	return query, args
}

// History gives the log from after+1 on without its payloads, at most limit
// entries (0: all). Every row is verified against the one before it.
func (s *Store) History(ctx context.Context, thread string, after int64, limit int) ([]engine.Entry, error) {
	var out []engine.Entry
	err := s.inTx(ctx, func(tx *sqlx.Tx) error {
		row, err := s.findThread(ctx, tx, thread)
		if err != nil {
			return err
		}
		after := max(after, 0)
		last := row.Head
		if limit > 0 {
			last = min(last, after+int64(limit))
		}
		if after >= last {
			return nil
		}
		walk := rowWalk{s: s, tx: tx, no: row.No, thread: thread}
		return walk.each(ctx, after+1, last, func(r *entryRow) error {
			e, err := r.entry()
			if err != nil {
				return walk.corrupt(r.Seq, "", err.Error())
			}
			out = append(out, e)
			return nil
		})
	})
	return out, err
}

// graphRow is a row of graphs.
type graphRow struct {
	Fingerprint string `db:"fingerprint"`
	Name        string `db:"name"`
	Definition  []byte `db:"definition"`
}

func (r *graphRow) fits() error {
	if sum := sha256.Sum256(r.Definition); hex.EncodeToString(sum[:]) != r.Fingerprint {
		return fmt.Errorf("the definition of graph %s does not fit its fingerprint", r.Fingerprint)
	}
	return nil
}
