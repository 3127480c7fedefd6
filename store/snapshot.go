package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// A snapshot is a thread's whole state at an entry, in parts. It is a cache: a
// missing, torn or changed one costs time and nothing else, since the state is
// a fold of the log. Its hash binds it to the chain at that entry.
//
// Part 0 is written last, and removed first: without it there is no snapshot,
// only what a crash left of one.
const (
	snapshotPart  = 256 << 10
	snapshotFloor = 32 << 10 // payload bytes below which none is due ...
	snapshotRows  = 64       // ... nor below so many entries: to read an entry costs as much as half a kilobyte
	snapshotsKept = 2        // the newest, and one more in case it is damaged
)

type snapshot struct {
	seq   int64
	state map[string]any
	turn  turnFacts
	size  int64
}

func encodeSnapshot(state map[string]any, turn turnFacts) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%w: snapshot: %v", engine.ErrInvalid, r)
		}
	}()
	if state == nil {
		state = map[string]any{}
	}
	return value.Append(nil, map[string]any{
		"input_seq": turn.inputSeq, "max_steps": int64(turn.maxSteps), "outside_step": turn.outsideStep, "state": state,
	}), nil
}

func decodeSnapshot(data []byte) (*snapshot, error) {
	v, err := value.Decode(data)
	if err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	state, ok := object["state"].(map[string]any)
	if !ok {
		return nil, errors.New("no state in it")
	}
	maxSteps, _ := object["max_steps"].(int64)
	outside, _ := object["outside_step"].(int64)
	input, _ := object["input_seq"].(int64)
	return &snapshot{
		state: state, size: int64(len(data)),
		turn: turnFacts{outsideStep: outside, maxSteps: int(maxSteps), inputSeq: input},
	}, nil
}

// newestSnapshot gives the newest good snapshot up to seq, nil if there is none.
func (s *Store) newestSnapshot(ctx context.Context, tx sqlx.QueryerContext, row *threadRow, seq int64) (*snapshot, error) {
	for {
		snap, at, err := readSnapshotUpTo(ctx, tx, row.No, seq)
		switch {
		case err == nil && at == 0:
			return nil, nil
		case err == nil:
			return snap, nil
		}
		if err := s.ignore(ctx, row.ThreadID, at, err); err != nil || at == 0 {
			return nil, err
		}
		seq = at - 1
	}
}

// ignore notes a snapshot that cannot be used. Only the end of the caller's
// context is an error.
func (s *Store) ignore(ctx context.Context, thread string, seq int64, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("read thread %s: %w", thread, ctx.Err())
	}
	s.opts.Logger.WarnContext(ctx, "snapshot ignored, state is folded from the log", "thread", thread, "seq", seq, "reason", err)
	return nil
}

type snapshotRow struct {
	Seq, Part, Parts int64
	Hash, Data       []byte
}

// readSnapshot reads the snapshot of an entry.
func readSnapshot(ctx context.Context, tx sqlx.QueryerContext, no, seq int64) (*snapshot, error) {
	snap, at, err := readSnapshotUpTo(ctx, tx, no, seq)
	if err == nil && at != seq {
		return nil, errors.New("it has no parts")
	}
	return snap, err
}

// readSnapshotUpTo reads the newest snapshot up to seq. at is the entry that it
// is of, 0 if there is none.
func readSnapshotUpTo(ctx context.Context, tx sqlx.QueryerContext, no, seq int64) (snap *snapshot, at int64, err error) {
	ctx = context.WithoutCancel(ctx) // as in load
	parts, err := readParts(ctx, tx, no, seq)
	if err != nil || len(parts) == 0 {
		return nil, 0, err
	}
	first := &parts[0]
	var chain []byte
	if err := sqlx.GetContext(ctx, tx, &chain, `SELECT hash FROM checkpoints WHERE no = `+once+`? AND seq = ?`, no, first.Seq); err != nil {
		return nil, first.Seq, fmt.Errorf("its entry: %w", err)
	}
	data := first.Data
	for i, p := range parts {
		if p.Part != int64(i) || p.Parts != int64(len(parts)) || !bytes.Equal(p.Hash, first.Hash) {
			return nil, first.Seq, fmt.Errorf("part %d does not fit the others", p.Part)
		}
		if i > 0 {
			data = append(data, p.Data...)
		}
	}
	h := snapshotHash(chain, first.Seq)
	h.Write(data)
	if !bytes.Equal(h.Sum(nil), first.Hash) {
		return nil, first.Seq, errors.New("it does not fit its hash")
	}
	if snap, err = decodeSnapshot(data); err != nil {
		return nil, first.Seq, err
	}
	snap.seq = first.Seq
	return snap, first.Seq, nil
}

// readParts reads the parts of the newest snapshot up to seq that has a part 0.
func readParts(ctx context.Context, tx sqlx.QueryerContext, no, seq int64) ([]snapshotRow, error) {
	// The newest comes first, and reading ends with it: to name it in the query
	// would take longer.
	rows, err := tx.QueryxContext(ctx, `SELECT seq, part, parts, hash, data FROM snapshots
		WHERE no = `+once+`? AND seq <= ? ORDER BY seq DESC, part`, no, seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var parts []snapshotRow
	for rows.Next() {
		var p snapshotRow
		if err := rows.Scan(&p.Seq, &p.Part, &p.Parts, &p.Hash, &p.Data); err != nil {
			return nil, err
		}
		if len(parts) > 0 && p.Seq != parts[0].Seq {
			break
		}
		if len(parts) > 0 || p.Part == 0 {
			parts = append(parts, p)
		}
	}
	return parts, rows.Err()
}

// SnapshotDue reports whether the payloads since the newest snapshot have
// outgrown it: so a load reads about twice the state at most, and the snapshots
// of a list that grows cost no more than the list.
func (l *Log) SnapshotDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since > l.size && (l.since > snapshotFloor || l.entries >= snapshotRows)
}

// Snapshot writes the state at the head. A large one is many small
// transactions: whoever commits meanwhile waits for one of them at most.
func (l *Log) Snapshot(ctx context.Context, state map[string]any) error {
	l.order.Lock()
	defer l.order.Unlock()
	head, no := l.view.Head, l.row.No
	if head.Seq == 0 {
		return nil
	}
	data, err := encodeSnapshot(state, l.turn)
	if err != nil {
		return err
	}
	h := snapshotHash(head.Hash, head.Seq)
	h.Write(data)
	w := snapshotWrite{no: no, seq: head.Seq, chain: head.Hash, data: data, hash: h.Sum(nil)}
	if err := w.run(ctx, l.s.write); err != nil {
		return fmt.Errorf("snapshot of %s: %w", engine.CheckpointID(l.row.ThreadID, head.Seq), err)
	}
	l.mu.Lock()
	l.since, l.entries, l.size = 0, 0, int64(len(data))
	l.mu.Unlock()
	return nil
}

// snapshotWrite is a snapshot on its way into the file.
type snapshotWrite struct {
	no, seq int64
	chain   []byte // the hash of its entry
	data    []byte
	hash    []byte
}

func (w *snapshotWrite) run(ctx context.Context, to *writer) error {
	const atOnce = 4 // parts of older ones that one transaction removes
	removed := int64(atOnce)
	parts := max(1, (len(w.data)+snapshotPart-1)/snapshotPart)
	for i := parts - 1; i >= 0; i-- {
		// If the process dies before part 0 is committed there is no new
		// snapshot, and the next load folds a little more.
		err := to.do(ctx, &job{apply: func(ctx context.Context, c *conn) (err error) {
			if i == parts-1 {
				if _, err := c.exec(ctx, `DELETE FROM snapshots WHERE no = ? AND seq = ?`, w.no, w.seq); err != nil {
					return err
				}
			}
			if err := w.part(ctx, c, i, parts); err != nil || parts > 1 {
				return err
			}
			removed, err = w.tidy(ctx, c, atOnce) // with a small one it is done in one transaction
			return err
		}})
		if err != nil {
			return err
		}
	}
	// If the process dies here, older snapshots stay until the next is written.
	for removed == atOnce {
		err := to.do(ctx, &job{apply: func(ctx context.Context, c *conn) (err error) {
			removed, err = w.tidy(ctx, c, atOnce)
			return err
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// part writes one part. An entry that is not there any more, or not with this
// hash, gets none; nor gets a snapshot its part 0 if another handle has removed
// the rest of it.
func (w *snapshotWrite) part(ctx context.Context, c *conn, i, parts int) error {
	_, err := c.exec(ctx, `INSERT INTO snapshots (no, seq, part, parts, hash, data)
		SELECT no, seq, ?1, ?2, ?3, ?4 FROM checkpoints WHERE no = ?5 AND seq = ?6 AND hash = ?7
		AND (SELECT count(*) FROM snapshots WHERE no = ?5 AND seq = ?6) = ?2 - 1 - ?1`,
		i, parts, w.hash, w.data[i*snapshotPart:min((i+1)*snapshotPart, len(w.data))], w.no, w.seq, w.chain)
	return err
}

// tidy removes up to limit parts of older snapshots, and what crashes left of
// such, and says how many it removed.
func (w *snapshotWrite) tidy(ctx context.Context, c *conn, limit int) (int64, error) {
	return c.exec(ctx, `DELETE FROM snapshots WHERE rowid IN (SELECT rowid FROM snapshots WHERE no = ?1 AND seq < ?2 AND seq NOT IN
		(SELECT seq FROM snapshots WHERE no = ?1 AND part = 0 ORDER BY seq DESC LIMIT ?3) ORDER BY seq, part LIMIT ?4)`,
		w.no, w.seq, snapshotsKept, limit)
}
