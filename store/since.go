package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// Numbered is an entry of some thread, with its place among those of all.
type Numbered struct {
	ID     int64 // counts up in the order of the commits; never used again
	Thread string
	engine.Entry
}

// EntriesSince gives the entries of all threads, payloads included, in the
// order in which they were committed: those behind the entry with that id (0:
// from the first), at most limit (0: all), to fn, until fn returns an error.
//
// So an outbox needs no table: who carries entries elsewhere keeps the ID of
// the last that arrived, and begins again behind it, in another process too.
// None is skipped: ids are given inside the one transaction that writes at a
// time, so no commit that is seen later has a lower one; and that of a deleted
// entry is not given to another. None of a deleted thread comes any more. An
// entry may be carried twice, if the process dies before the ID is kept: its
// name, THREAD@SEQ, tells.
//
// Each entry is verified against the one before it in its thread. Entries are
// read in batches, so that a slow fn holds nobody up.
func (s *Store) EntriesSince(ctx context.Context, id int64, limit int, fn func(Numbered) error) error {
	const batch = 128
	for {
		n := batch
		if limit > 0 {
			n = min(n, limit)
		}
		var read []Numbered
		err := s.inTx(ctx, func(tx *sqlx.Tx) (err error) {
			read, err = s.since(ctx, tx, id, n)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the entries behind number %d: %w", id, err)
		}
		for _, e := range read {
			if err := fn(e); err != nil {
				return err
			}
			id = e.ID
		}
		if limit > 0 {
			if limit -= len(read); limit <= 0 {
				return nil
			}
		}
		if len(read) < n {
			return nil
		}
	}
}

const selectSince = `SELECT c.*, t.thread_id, coalesce(b.hash, x'') AS before FROM checkpoints AS c
	JOIN threads AS t ON t.no = c.no LEFT JOIN checkpoints AS b ON b.no = c.no AND b.seq = c.seq - 1
	WHERE c.id > ? ORDER BY c.id LIMIT ?`

func (s *Store) since(ctx context.Context, tx *sqlx.Tx, id int64, n int) ([]Numbered, error) {
	var rows []struct {
		entryRow
		Thread string `db:"thread_id"`
		Before []byte `db:"before"`
	}
	if err := tx.SelectContext(context.WithoutCancel(ctx), &rows, selectSince, id, n); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]Numbered, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		if r.Seq == 1 {
			r.Before = genesis(r.Thread)
		}
		if err := r.fits(r.Before); err != nil {
			return nil, &CorruptError{Path: s.path, Thread: r.Thread, Seq: r.Seq, Table: "checkpoints", Reason: err.Error()}
		}
		e, err := s.decode(r.Thread, &r.entryRow)
		if err != nil {
			return nil, err
		}
		out = append(out, Numbered{ID: r.ID, Thread: r.Thread, Entry: e})
	}
	return out, nil
}

// SQLite gives a row the number behind the highest there is. If that one went
// with a deleted thread, it would be given again, and who reads on from there
// would never see the entry that got it. So until the next commit the highest
// number that is gone stands where SQLite keeps such numbers for other tables.
const (
	selectGone = `SELECT seq FROM sqlite_sequence WHERE name = 'checkpoints'`

	insertAfterGone = `INSERT INTO checkpoints (id, no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload)
		SELECT 1 + max((` + selectGone + `), (SELECT coalesce(max(id), 0) FROM checkpoints)), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM threads
		WHERE no = ? AND fence = ? AND (cancel_requested = '' OR ?) AND EXISTS (` + selectGone + `)
		ON CONFLICT DO NOTHING`

	forgetGone = `DELETE FROM sqlite_sequence WHERE name = 'checkpoints' AND seq <= (SELECT max(id) FROM checkpoints)`

	// rememberGone stands before the rows of a thread are deleted.
	rememberGone = `INSERT INTO sqlite_sequence (name, seq) SELECT 'checkpoints', max(id) FROM checkpoints
		HAVING max(id) IS NOT NULL AND NOT EXISTS (` + selectGone + `)`
)
