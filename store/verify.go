package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// Report is what Verify found.
type Report struct {
	Threads  int       `json:"threads"`
	Entries  int64     `json:"entries"`
	Removed  int64     `json:"removed"` // entries whose payload was pruned or redacted; the rest of the row was verified
	Problems []Problem `json:"problems,omitempty"`
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Problem is something that does not fit: in each thread the first row of its
// log, else the first row of each table that does not follow from the log.
type Problem struct {
	Thread string `json:"thread,omitempty"`
	Seq    int64  `json:"seq,omitempty"`
	Table  string `json:"table"`
	ID     int64  `json:"id,omitempty"`     // of a row of checkpoints
	Column string `json:"column,omitempty"` // if it can be told
	Reason string `json:"reason"`
}

func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Seq > 0 && p.Thread != "":
		b.WriteString(engine.CheckpointID(p.Thread, p.Seq) + ": ")
	case p.Thread != "":
		b.WriteString("thread " + p.Thread + ": ")
	}
	b.WriteString("table " + p.Table)
	if p.ID > 0 {
		b.WriteString(", row " + strconv.FormatInt(p.ID, 10))
	}
	if p.Column != "" {
		b.WriteString(", column " + p.Column)
	}
	return b.String() + ": " + p.Reason
}

// Verify recomputes the chain of one thread, or of all if thread is empty, and
// compares the working tables with it. What it finds is in the report; an error
// means that the file could not be read.
//
// It cannot see that the newest rows of a thread were cut off at a step, if
// nothing else points at them and they were the newest of the file, nor that
// somebody rewrote the whole of it: for that keep Heads elsewhere, and use
// VerifyAgainst.
func (s *Store) Verify(ctx context.Context, thread string) (*Report, error) {
	return verify(ctx, s.read, thread)
}

// verify works on any connection, so that doctor can use it on a file that
// cannot be opened.
func verify(ctx context.Context, db *sqlx.DB, thread string) (*Report, error) {
	report := new(Report)
	query, args := `SELECT no FROM threads WHERE status <> 'deleted' ORDER BY no`, []any(nil)
	if thread != "" {
		query, args = `SELECT no FROM threads WHERE thread_id = ?`, []any{thread}
	}
	var nos []int64
	if err := db.SelectContext(ctx, &nos, query, args...); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if thread != "" && len(nos) == 0 {
		return nil, fmt.Errorf("verify thread %s: %w", thread, engine.ErrNotFound)
	}
	for _, no := range nos {
		// One transaction a thread: its log and what is compared with it are of
		// one moment, and the write-ahead log is not held up for all of them.
		tx, err := db.BeginTxx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		v := &verifier{tx: tx, report: report}
		err = v.run(ctx, no)
		_ = tx.Rollback()
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	if thread == "" {
		if err := verifyAll(ctx, db, report); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	return report, nil
}

// verifyAll looks at what belongs to no thread, or to all of them.
func verifyAll(ctx context.Context, db *sqlx.DB, report *Report) error {
	var ids struct {
		Count int64         `db:"n"`
		Max   sql.NullInt64 `db:"last"`
		Gone  int64         `db:"gone"`
	}
	err := db.GetContext(ctx, &ids, `SELECT (SELECT count(*) FROM checkpoints) AS n, (SELECT max(id) FROM checkpoints) AS last,
		(SELECT count(*) FROM threads WHERE status = 'deleted') AS gone`)
	if err != nil {
		return err
	}
	// Rows get the ids 1, 2, 3 ...; only deleting a thread takes any away.
	if ids.Gone == 0 && ids.Count != ids.Max.Int64 {
		var before int64
		err := db.GetContext(ctx, &before, `SELECT coalesce(min(id), 0) FROM (SELECT 0 AS id UNION ALL SELECT id FROM checkpoints) AS a
			WHERE NOT EXISTS (SELECT 1 FROM checkpoints AS b WHERE b.id = a.id + 1)`)
		if err != nil {
			return err
		}
		report.Problems = append(report.Problems, Problem{Table: "checkpoints", ID: before + 1, Column: "id",
			Reason: "there is no row with this number, though there are later ones: a row was removed or renumbered"})
	}
	for _, table := range []string{"checkpoints", "snapshots", "results", "interrupts"} {
		var no int64
		err := db.GetContext(ctx, &no, `SELECT no FROM `+table+` WHERE no NOT IN (SELECT no FROM threads) LIMIT 1`)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		report.Problems = append(report.Problems, Problem{Table: table, Column: "no", Reason: fmt.Sprintf("there is no thread number %d", no)})
	}
	rows, err := db.QueryxContext(ctx, `SELECT fingerprint, name, definition FROM graphs ORDER BY fingerprint`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var g graphRow
		if err := rows.StructScan(&g); err != nil {
			return err
		}
		if err := g.fits(); err != nil {
			report.Problems = append(report.Problems, Problem{Table: "graphs", Reason: err.Error()})
		}
	}
	return rows.Err()
}

// Head is where a thread's log ended, to be kept outside of the file.
type Head struct {
	Thread string `json:"thread"`
	Seq    int64  `json:"seq"`
	Hash   string `json:"hash"` // hex
}

// Heads gives the head of every thread that has entries, in the order in which
// the threads were created.
func (s *Store) Heads(ctx context.Context) ([]Head, error) {
	list, err := heads(ctx, s.read)
	if err != nil {
		return nil, s.readError(err)
	}
	return list, nil
}

func heads(ctx context.Context, db *sqlx.DB) (list []Head, err error) {
	err = db.SelectContext(ctx, &list, `SELECT t.thread_id AS thread, c.seq AS seq, lower(hex(c.hash)) AS hash
		FROM threads AS t JOIN checkpoints AS c ON c.no = t.no
		WHERE t.status <> 'deleted' AND c.seq = (SELECT max(seq) FROM checkpoints WHERE no = t.no) ORDER BY t.no`)
	if err != nil {
		return nil, fmt.Errorf("read heads: %w", err)
	}
	return list, nil
}

// VerifyAgainst is Verify of all threads, and looks for every head that was
// kept: its row must be there with its hash. So it finds what the chain alone
// cannot show, that rows were cut off or that all of it was written anew.
func (s *Store) VerifyAgainst(ctx context.Context, heads []Head) (*Report, error) {
	report, err := s.Verify(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		p, err := lookFor(ctx, s.read, head)
		if err != nil {
			return nil, fmt.Errorf("verify: %w", s.readError(err))
		}
		if p != nil {
			report.Problems = append(report.Problems, *p)
		}
	}
	return report, nil
}
