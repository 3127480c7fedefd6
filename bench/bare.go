package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"

	_ "modernc.org/sqlite"
)

// bare is a Holdfast file with one thread, whose newest step is inserted again
// and again: the same bytes into the same layout, without anything around it.
type bare struct {
	db     *sql.DB
	insert *sql.Stmt
	row    []any // of checkpoints, without id; its seq is at 1
	seq    int64
}

const columns = `no, seq, base, ns, kind, status, turn, step, parent, tasks, next, actor, at, payload_hash, hash, payload`

func openBare(ctx context.Context, r room) (*bare, error) {
	s, err := openStore(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := turn(ctx, steps(3, engine.Overwrite), s, "t", 3); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	b := &bare{row: make([]any, 16)}
	if b.db, err = openRaw(r); err != nil {
		return nil, err
	}
	b.db.SetMaxOpenConns(1)
	into := make([]any, len(b.row))
	for i := range b.row {
		into[i] = &b.row[i]
	}
	// Not the last step, which is also the end of the turn.
	err = b.db.QueryRowContext(ctx, `SELECT `+columns+` FROM checkpoints WHERE no = 1 AND kind = 'step' AND status = 'running' ORDER BY seq DESC LIMIT 1`).Scan(into...)
	if err != nil {
		return nil, err
	}
	if err := b.db.QueryRowContext(ctx, `SELECT max(seq) FROM checkpoints`).Scan(&b.seq); err != nil {
		return nil, err
	}
	b.insert, err = b.db.PrepareContext(ctx, `INSERT INTO checkpoints (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	return b, err
}

func openRaw(r room) (*sql.DB, error) {
	return sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(%s)", r.file(), r.sync))
}

func (b *bare) step(ctx context.Context, insert *sql.Stmt) error {
	b.seq++
	row := append([]any(nil), b.row...)
	row[1] = b.seq
	_, err := insert.ExecContext(ctx, row...)
	return err
}

func bareSteps(ctx context.Context, r room) (float64, error) {
	b, err := openBare(ctx, r)
	if err != nil {
		return 0, err
	}
	defer b.db.Close()
	began := time.Now()
	for range r.n {
		if err := b.step(ctx, b.insert); err != nil {
			return 0, err
		}
	}
	return each(began, r.n), nil
}

func bareSize(ctx context.Context, r room) (float64, error) {
	if _, err := bareSteps(ctx, r); err != nil {
		return 0, err
	}
	size, err := fileSize(r.file())
	return size / float64(r.n*len(text)), err
}

// bareThreads commits as well as one can: what 64 threads have to write goes
// into one transaction, again and again.
func bareThreads(ctx context.Context, r room) (float64, error) {
	b, err := openBare(ctx, r)
	if err != nil {
		return 0, err
	}
	defer b.db.Close()
	for i := range threads - 1 {
		_, err := b.db.ExecContext(ctx, `INSERT INTO threads (no, thread_id, status, created_at, updated_at) VALUES (?, ?, 'running', 0, 0)`, i+2, fmt.Sprint("b", i))
		if err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for range r.n {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		insert := tx.StmtContext(ctx, b.insert)
		b.seq++
		for i := range threads {
			row := append([]any(nil), b.row...)
			row[0], row[1] = i+1, b.seq
			if _, err := insert.ExecContext(ctx, row...); err != nil {
				return 0, err
			}
		}
		if err := tx.Commit(); err != nil {
			return 0, err
		}
	}
	return each(began, r.n*threads), nil
}

func bareOpen(ctx context.Context, r room) (float64, error) {
	b, err := openBare(ctx, r)
	if err != nil {
		return 0, err
	}
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	insert := tx.StmtContext(ctx, b.insert)
	for range checkpoints {
		if err := b.step(ctx, insert); err != nil {
			return 0, err
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	if err := b.db.Close(); err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.n {
		db, err := openRaw(r)
		if err != nil {
			return 0, err
		}
		var payload []byte
		if err := db.QueryRowContext(ctx, `SELECT payload FROM checkpoints WHERE no = 1 AND seq = ?`, b.seq).Scan(&payload); err != nil {
			return 0, err
		}
		if err := db.Close(); err != nil {
			return 0, err
		}
	}
	return each(began, r.n), nil
}

func bareTurns(ctx context.Context, r room) (float64, error) {
	four := r
	four.n = 4 * r.n
	us, err := bareSteps(ctx, four)
	return 4 * us, err
}
