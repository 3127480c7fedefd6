package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
)

// whole is a whole state that the log itself holds: what a prune kept when it
// removed the payloads before it, or what a fork began with.
type whole struct {
	seq   int64 // of the entry that the state is of; before a fork there is none, and any will do
	state map[string]any
}

// wholeRows chooses by the index checkpoints_turns, whose condition has to
// be repeated word by word.
const wholeRows = ` FROM checkpoints WHERE no = ? AND ns = '' AND kind IN ('input', 'fork', 'graph', 'prune')`

// wholeState gives the newest whole state up to seq, nil if the log holds none.
func (s *Store) wholeState(ctx context.Context, tx *sqlx.Tx, row *threadRow, seq int64) (*whole, error) {
	var rows []struct {
		Seq  int64  `db:"seq"`
		Kind string `db:"kind"`
	}
	err := tx.SelectContext(ctx, &rows, `SELECT seq, kind`+wholeRows+` AND kind IN ('fork', 'prune') AND payload IS NOT NULL ORDER BY seq DESC`, row.No)
	if err != nil {
		return nil, fmt.Errorf("read thread %s: %w", row.ThreadID, err)
	}
	var best *whole
	for _, r := range rows {
		if engine.Kind(r.Kind) == engine.KindFork {
			if r.Seq > seq {
				continue
			}
			if best == nil || r.Seq-1 > best.seq {
				best = &whole{seq: r.Seq - 1, state: make(map[string]any)}
			}
			break // what is older is of an older state
		}
		// A prune keeps the state of an entry before it, and so may be of use
		// for a state that is older than itself.
		e, err := s.oneEntry(ctx, tx, row, r.Seq)
		if err != nil {
			return nil, err
		}
		if p := newPrune(e); p.state != nil && p.cut <= seq && (best == nil || p.cut > best.seq) {
			best = &whole{seq: p.cut, state: p.state}
		}
	}
	return best, nil
}

// prune is a prune entry whose payload is still there.
type prune struct {
	entry engine.Entry
	cut   int64          // the entry that the state is of
	state map[string]any // nil if it keeps none
}

// prunes gives the prune entries of a thread, oldest first, without those that
// a later one made superfluous.
func (s *Store) prunes(ctx context.Context, tx *sqlx.Tx, row *threadRow) ([]prune, error) {
	var seqs []int64
	err := tx.SelectContext(ctx, &seqs, `SELECT seq`+wholeRows+` AND kind = 'prune' AND payload IS NOT NULL ORDER BY seq`, row.No)
	if err != nil {
		return nil, fmt.Errorf("read thread %s: %w", row.ThreadID, err)
	}
	var out []prune
	for _, seq := range seqs {
		e, err := s.oneEntry(ctx, tx, row, seq)
		if err != nil {
			return nil, err
		}
		out = append(out, newPrune(e))
	}
	return out, nil
}

func newPrune(e engine.Entry) prune {
	p := prune{entry: e}
	if _, cut, err := engine.ParseCheckpointID(e.Payload.From); err == nil && e.Payload.State != nil {
		p.cut, p.state = cut, e.Payload.State
	}
	return p
}

// explains reports whether prunes say why the payload of an entry is gone.
func explains(prunes []prune, thread string, e *engine.Entry) bool {
	for i := range prunes {
		p := &prunes[i].entry
		switch {
		case slices.Contains(p.Payload.Redacts, engine.CheckpointID(thread, e.Seq)):
			return true
		case e.Kind.ChangesState() && e.Seq <= p.Payload.Pruned:
			return true
		case e.Kind == engine.KindPrune && e.Seq < p.Seq && p.Payload.Pruned > 0:
			return true // the later one took its place
		}
	}
	return false
}

// turnAt gives what the entries up to seq say of the turn as a whole.
func (s *Store) turnAt(ctx context.Context, tx *sqlx.Tx, row *threadRow, seq int64) (turnFacts, error) {
	var facts turnFacts
	note := func(query string) error {
		var at int64
		err := tx.GetContext(ctx, &at, query, row.No, seq)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read thread %s: %w", row.ThreadID, err)
		}
		e, err := s.oneEntry(ctx, tx, row, at)
		if err == nil {
			facts.note(&e, at)
		}
		return err
	}
	if err := note(`SELECT seq` + wholeRows + ` AND kind <> 'prune' AND seq <= ? ORDER BY seq DESC LIMIT 1`); err != nil {
		return facts, err
	}
	err := note(`SELECT seq FROM checkpoints WHERE no = ? AND seq <= ? AND ns = '' AND kind IN ('input', 'fork', 'graph', 'answer', 'update', 'end') ORDER BY seq DESC LIMIT 1`)
	return facts, err
}
