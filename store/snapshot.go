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
const (
	snapshotPart  = 256 << 10
	snapshotFloor = 32 << 10 // payload bytes below which none is due
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
	var seqs []int64
	err := sqlx.SelectContext(ctx, tx, &seqs, `SELECT DISTINCT seq FROM snapshots WHERE no = ? AND seq <= ? ORDER BY seq DESC`, row.No, seq)
	if err != nil {
		return nil, s.ignore(ctx, row.ThreadID, 0, err)
	}
	for _, at := range seqs {
		snap, err := readSnapshot(ctx, tx, row.No, at)
		if err == nil {
			return snap, nil
		}
		if err := s.ignore(ctx, row.ThreadID, at, err); err != nil {
			return nil, err
		}
	}
	return nil, nil
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
	Part  int64  `db:"part"`
	Parts int64  `db:"parts"`
	Hash  []byte `db:"hash"`
	Data  []byte `db:"data"`
}

func readSnapshot(ctx context.Context, tx sqlx.QueryerContext, no, seq int64) (*snapshot, error) {
	var chain []byte
	if err := sqlx.GetContext(ctx, tx, &chain, `SELECT hash FROM checkpoints WHERE no = ? AND seq = ?`, no, seq); err != nil {
		return nil, fmt.Errorf("its entry: %w", err)
	}
	var parts []snapshotRow
	if err := sqlx.SelectContext(ctx, tx, &parts, `SELECT part, parts, hash, data FROM snapshots WHERE no = ? AND seq = ? ORDER BY part`, no, seq); err != nil {
		return nil, err
	}
	var data []byte
	for i, p := range parts {
		if p.Part != int64(i) || p.Parts != int64(len(parts)) || !bytes.Equal(p.Hash, parts[0].Hash) {
			return nil, fmt.Errorf("part %d does not fit the others", p.Part)
		}
		data = append(data, p.Data...)
	}
	if len(parts) == 0 {
		return nil, errors.New("it has no parts")
	}
	h := snapshotHash(chain, seq)
	h.Write(data)
	if !bytes.Equal(h.Sum(nil), parts[0].Hash) {
		return nil, errors.New("it does not fit its hash")
	}
	snap, err := decodeSnapshot(data)
	if err != nil {
		return nil, err
	}
	snap.seq = seq
	return snap, nil
}

// SnapshotDue reports whether the payloads since the newest snapshot have
// outgrown it: so a load reads about twice the state at most, and the snapshots
// of a list that grows cost no more than the list.
func (l *Log) SnapshotDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since > max(l.size, snapshotFloor)
}

// Snapshot writes the state at the head.
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
	sum := h.Sum(nil)
	// If the process dies before this is committed there is no new snapshot,
	// and the next load folds a little more.
	err = l.s.write.do(ctx, &job{apply: func(ctx context.Context, c *conn) error {
		if _, err := c.exec(ctx, `DELETE FROM snapshots WHERE no = ? AND seq = ?`, no, head.Seq); err != nil {
			return err
		}
		parts := max(1, (len(data)+snapshotPart-1)/snapshotPart)
		for i := range parts {
			part := data[i*snapshotPart : min((i+1)*snapshotPart, len(data))]
			// An entry that is not there any more, or not with this hash,
			// gets none.
			_, err := c.exec(ctx, `INSERT INTO snapshots (no, seq, part, parts, hash, data)
				SELECT no, seq, ?, ?, ?, ? FROM checkpoints WHERE no = ? AND seq = ? AND hash = ?`,
				i, parts, sum, part, no, head.Seq, head.Hash)
			if err != nil {
				return err
			}
		}
		_, err := c.exec(ctx, `DELETE FROM snapshots WHERE no = ?1 AND seq NOT IN
			(SELECT DISTINCT seq FROM snapshots WHERE no = ?1 ORDER BY seq DESC LIMIT ?2)`, no, snapshotsKept)
		return err
	}})
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", engine.CheckpointID(l.row.ThreadID, head.Seq), err)
	}
	l.mu.Lock()
	l.since, l.size = 0, int64(len(data))
	l.mu.Unlock()
	return nil
}
