package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

// everyKind makes a thread that has a row of every kind, and open and answered
// questions; and a second thread.
func everyKind(b *bundle) {
	l := b.begin("main", set("x", int64(1)))
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, push("log", "a"))}})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 1, "a"), pause(1, 1, "b")}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{answer("main@3", 1, 1, engine.Paused, "approve")}})
	up := step(1, 1, set("x", int64(2)))
	up.Kind, up.Status = engine.KindUpdate, engine.Paused
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{up}})
	end := last(step(1, 1), engine.Cancelled)
	end.Kind, end.Payload = engine.KindEnd, engine.Payload{End: &engine.EndRecord{Cause: "no", Code: "cancelled"}}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{end}})
	fork := step(1, 0)
	fork.Kind, fork.Status, fork.Parent = engine.KindFork, engine.Paused, 2
	fork.Payload = engine.Payload{State: map[string]any{"x": int64(3)}, From: "main@2"}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{fork, pause(1, 0, "c")}})
	prune := step(1, 0)
	prune.Kind, prune.Status = engine.KindPrune, engine.Paused
	prune.Payload = engine.Payload{State: map[string]any{"x": int64(3)}, From: "main@9", Pruned: 9}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{prune}})
	other := b.begin("other")
	b.commit(other, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 1), engine.Done)}})
}

// tampered runs statements behind the store's back, verifies, and undoes them.
func (b *bundle) tampered(t *testing.T, db *sql.DB, load int64, statements ...string) (*Report, error) {
	t.Helper()
	image := b.path + ".image"
	if _, err := db.Exec(`VACUUM INTO ?`, image); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(image)
	changed := raw(t, image, append([]string{`PRAGMA foreign_keys = OFF`, `PRAGMA ignore_check_constraints = ON`}, statements...)...)
	if err := changed.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), image, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := s.Verify(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.At(t.Context(), "main", load)
	return r, err
}

// Case 25 of the seeds, and the second half of 76.
func TestEveryColumnOfEveryKindOfRowIsVerified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	b.verify()
	db := raw(t, b.path)
	defer db.Close()
	columns := strings.Split(strings.ReplaceAll(entryColumns, " ", ""), ",")
	kinds := make(map[engine.Kind]bool)
	err := b.s.Entries(t.Context(), "main", 0, 0, func(e engine.Entry) error {
		kinds[e.Kind] = true
		for _, column := range columns {
			var change string
			switch column {
			case "id", "no", "seq":
				change = column + " + 1000"
			case "base", "turn", "step", "parent", "at":
				change = column + " + 1"
			case "payload_hash", "hash", "payload":
				// The last byte of a payload is its closing brace.
				change = fmt.Sprintf(`CAST(substr(%[1]s, 1, length(%[1]s) - 2) || CASE substr(%[1]s, -2, 1) WHEN X'00' THEN X'01' ELSE X'00' END || substr(%[1]s, -1) AS BLOB)`, column)
			default:
				change = fmt.Sprintf(`substr(%[1]s, 1, max(0, length(%[1]s) - 1)) || 'Z'`, column)
			}
			r, err := b.tampered(t, db, e.Seq, fmt.Sprintf(`UPDATE checkpoints SET %s = %s WHERE no = 1 AND seq = %d`, column, change, e.Seq))
			if r.OK() {
				t.Errorf("entry %d (%s): column %s was changed and nothing was found", e.Seq, e.Kind, column)
				continue
			}
			p := r.Problems[0]
			moved := column == "id" || (e.Seq == 10 && column == "no") // no row of the thread itself shows it
			if p.Table != "checkpoints" || (!moved && (p.Thread != "main" || (p.Seq != e.Seq && column != "hash"))) {
				t.Errorf("entry %d (%s): column %s was changed and this was found: %s", e.Seq, e.Kind, column, p)
			}
			if p.Column != "" && p.Column != column {
				t.Errorf("entry %d (%s): column %s was changed and column %s was blamed", e.Seq, e.Kind, column, p.Column)
			}
			// A load verifies what it reads, and without a snapshot that is all.
			if e.Seq == 10 && column == "no" {
				want(t, err, engine.ErrNotFound)
			} else if column != "id" {
				want(t, err, ErrCorrupt)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) != 8 {
		t.Errorf("kinds: %v", kinds)
	}
}

func TestRemovedSwappedAndMovedRowsAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	db := raw(t, b.path)
	defer db.Close()
	for name, c := range map[string]struct {
		do    []string
		table string
		seq   int64
	}{
		"the first row":          {[]string{`DELETE FROM checkpoints WHERE no = 1 AND seq = 1`}, "checkpoints", 1},
		"a middle row":           {[]string{`DELETE FROM checkpoints WHERE no = 1 AND seq = 6`}, "checkpoints", 6},
		"the last row":           {[]string{`DELETE FROM checkpoints WHERE no = 1 AND seq = 10`}, "checkpoints", 0},
		"a question":             {[]string{`DELETE FROM checkpoints WHERE no = 1 AND seq >= 9`}, "interrupts", 9},
		"the last turn":          {[]string{`DELETE FROM checkpoints WHERE no = 2 AND seq = 2`}, "threads", 0},
		"a swapped pair":         {[]string{`UPDATE checkpoints SET seq = -1 WHERE no = 1 AND seq = 3`, `UPDATE checkpoints SET seq = 3 WHERE no = 1 AND seq = 4`, `UPDATE checkpoints SET seq = 4 WHERE no = 1 AND seq = -1`}, "checkpoints", 3},
		"another thread's row":   {[]string{`DELETE FROM checkpoints WHERE no = 1 AND seq = 1`, `UPDATE checkpoints SET no = 1 WHERE no = 2 AND seq = 1`}, "checkpoints", 1},
		"two threads' ids":       {[]string{`UPDATE threads SET thread_id = 'tmp' WHERE no = 1`, `UPDATE threads SET thread_id = 'main' WHERE no = 2`, `UPDATE threads SET thread_id = 'other' WHERE no = 1`}, "checkpoints", 1},
		"a thread's id":          {[]string{`UPDATE threads SET thread_id = 'other2' WHERE no = 1`}, "checkpoints", 1},
		"a thread":               {[]string{`DELETE FROM threads WHERE no = 2`}, "checkpoints", 0},
		"status":                 {[]string{`UPDATE threads SET status = 'done' WHERE no = 1`}, "threads", 0},
		"turn":                   {[]string{`UPDATE threads SET turn = 9 WHERE no = 1`}, "threads", 0},
		"graph":                  {[]string{`UPDATE threads SET graph = 'x' WHERE no = 2`}, "threads", 0},
		"graph name":             {[]string{`UPDATE threads SET graph_name = 'x' WHERE no = 2`}, "threads", 0},
		"definition":             {[]string{`UPDATE graphs SET definition = CAST('{}' AS BLOB)`}, "graphs", 0},
		"result of another base": {[]string{`INSERT INTO results VALUES (1, 2, 't', 0, 'task', '', X'31', 0)`}, "results", 0},
		"an answer":              {[]string{`UPDATE interrupts SET answer = replace(answer, 'approve', 'reject') WHERE no = 1 AND seq = 3`}, "interrupts", 3},
		"an actor":               {[]string{`UPDATE interrupts SET actor = 'bob' WHERE no = 1 AND seq = 3`}, "interrupts", 3},
		"a state":                {[]string{`UPDATE interrupts SET state = 'pending' WHERE no = 1 AND seq = 4`}, "interrupts", 4},
		"choices":                {[]string{`UPDATE interrupts SET choices = '[]' WHERE no = 1 AND seq = 9`}, "interrupts", 9},
		"made up":                {[]string{`INSERT INTO interrupts SELECT no, 5, base, kind, node, asking_node, task, message, data, question, choices, digest, deadline, asked_at, 'pending', NULL, NULL, NULL, NULL, NULL FROM interrupts WHERE seq = 9`}, "interrupts", 5},
		"gone":                   {[]string{`DELETE FROM interrupts WHERE no = 1 AND seq = 9`}, "interrupts", 9},
	} {
		r, _ := b.tampered(t, db, 0, c.do...)
		if r.OK() {
			t.Errorf("%s: nothing was found", name)
			continue
		}
		p := r.Problems[0]
		if p.Table != c.table || (c.seq > 0 && p.Seq != c.seq) {
			t.Errorf("%s: found %s", name, p)
		}
	}
	columns := strings.Split(strings.Join(strings.Fields(interruptColumns), ""), ",")
	for _, column := range columns[2:] {
		change := `'x'`
		switch column {
		case "base", "asked_at", "answer_seq", "answered_at":
			change = column + " + 1"
		case "deadline":
			change = "7"
		}
		r, _ := b.tampered(t, db, 0, fmt.Sprintf(`UPDATE interrupts SET %s = %s WHERE no = 1 AND seq = 3`, column, change))
		if len(r.Problems) != 1 || r.Problems[0].Table != "interrupts" || r.Problems[0].Column != column {
			t.Errorf("column %s of interrupts: %v", column, r.Problems)
		}
	}
}

func TestHeadsThatWereKeptShowACutAndARewrittenLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 2)}})
	heads, err := b.s.Heads(t.Context())
	if err != nil || len(heads) != 1 || heads[0].Seq != 3 || len(heads[0].Hash) != 64 {
		t.Fatalf("heads: %+v, %v", heads, err)
	}
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 3)}})
	if r, err := b.s.VerifyAgainst(t.Context(), heads); err != nil || !r.OK() {
		t.Errorf("a log that grew: %+v, %v", r, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The chain alone does not show that the newest rows of the file are gone.
	db := raw(t, b.path, `DELETE FROM checkpoints WHERE seq > 2`)
	defer db.Close()
	b.verify()
	if r, err := b.s.VerifyAgainst(t.Context(), heads); err != nil || len(r.Problems) != 1 || r.Problems[0].Seq != 3 {
		t.Errorf("cut: %+v, %v", r, err)
	}
	heads[0].Seq, heads[0].Hash = 2, strings.Repeat("0", 64)
	if r, err := b.s.VerifyAgainst(t.Context(), append(heads, Head{Thread: "y", Seq: 1})); err != nil || len(r.Problems) != 2 || r.Problems[0].Column != "hash" {
		t.Errorf("rewritten: %+v, %v", r, err)
	}
}

func TestARemovedPayloadVerifiesOnlyWhereTheLogSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	// The log says that inputs, steps and edits up to 9 may be gone.
	db := raw(t, b.path, `UPDATE checkpoints SET payload = NULL WHERE no = 1 AND seq IN (1, 2, 6)`)
	defer db.Close()
	if r := b.verify(); r.Removed != 3 {
		t.Errorf("removed: %d", r.Removed)
	}
	if _, err := b.s.State(t.Context(), "main", 6); !errors.Is(err, ErrRemoved) {
		t.Errorf("state without payloads: %v", err)
	}
	// A fork, as a prune, holds the whole state.
	for _, seq := range []int64{0, 8} {
		if v, err := b.s.At(t.Context(), "main", seq); err != nil || v.State["x"] != int64(3) {
			t.Errorf("state at %d: %v", seq, err)
		}
	}
	for _, seq := range []int64{3, 5, 7, 10} {
		r, _ := b.tampered(t, db, 0, fmt.Sprintf(`UPDATE checkpoints SET payload = NULL WHERE no = 1 AND seq = %d`, seq))
		if len(r.Problems) == 0 || r.Problems[0].Column != "payload" || (seq != 10 && r.Problems[0].Seq != seq) {
			t.Errorf("the payload of %d was removed behind the program's back: %v", seq, r.Problems)
		}
	}
	r, _ := b.tampered(t, db, 0, `UPDATE checkpoints SET payload = NULL WHERE no = 2 AND seq = 1`)
	if len(r.Problems) != 1 || r.Problems[0].Thread != "other" || r.Problems[0].Column != "payload" {
		t.Errorf("a thread that was never pruned: %v", r.Problems)
	}
}
