package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// verifier goes through one thread and keeps what must follow from its log.
type verifier struct {
	tx     *sqlx.Tx
	report *Report
	thread threadRow

	prev   []byte
	before *entryRow // the row before this one, nil at the first
	lastID int64
	bases  map[string]int64

	state map[string]any // nil once a removed payload makes it unknown
	turn  turnFacts
	graph *engine.InputRecord // of the last input; nil if a fork came after it

	asked map[int64]*interruptRow
	order []int64 // of asked

	snapshots map[int64]bool // true until their entry came by
	removed   int64          // payloads
	redacted  map[int64]bool // answers whose payload was removed
	prunes    []prune        // they say which payloads are gone, and keep states
}

var errFound = errors.New("a row of the log does not fit")

func (v *verifier) found(p Problem) { v.report.Problems = append(v.report.Problems, p) }

func (v *verifier) run(ctx context.Context, no int64) error {
	if err := v.tx.GetContext(ctx, &v.thread, selectThreadByNo, no); err != nil {
		return err
	}
	v.report.Threads++
	v.prev, v.bases = genesis(v.thread.ThreadID), make(map[string]int64)
	v.state, v.asked, v.snapshots = make(map[string]any), make(map[int64]*interruptRow), make(map[int64]bool)
	v.redacted = make(map[int64]bool)
	if err := v.readPrunes(ctx); err != nil {
		return err
	}
	var seqs []int64
	if err := v.tx.SelectContext(ctx, &seqs, `SELECT seq FROM snapshots WHERE no = ? AND part = 0`, no); err != nil {
		return err
	}
	for _, seq := range seqs {
		v.snapshots[seq] = true
	}
	switch err := v.log(ctx); {
	case errors.Is(err, errFound):
		return nil // what follows from a wrong log is not worth comparing
	case err != nil:
		return err
	}
	v.compareThread()
	if err := v.compareQuestions(ctx); err != nil {
		return err
	}
	if err := v.compareResults(ctx); err != nil {
		return err
	}
	for _, seq := range seqs {
		if v.snapshots[seq] { // its entry did not come by
			v.found(Problem{Thread: v.thread.ThreadID, Seq: seq, Table: "snapshots", Column: "seq", Reason: "there is no such entry: a row of the log was removed, or the snapshot is made up"})
			break
		}
	}
	return nil
}

// readPrunes reads the prune entries first, which come behind what they are
// about. One that does not fit is found when its own turn comes.
func (v *verifier) readPrunes(ctx context.Context) error {
	var rows []entryRow
	err := v.tx.SelectContext(ctx, &rows, `SELECT `+entryColumns+wholeRows+` AND kind = 'prune' AND payload IS NOT NULL ORDER BY seq`, v.thread.No)
	if err != nil {
		return err
	}
	for i := range rows {
		e, err := rows[i].entry()
		if err != nil || rows[i].payloadFits() != nil {
			continue
		}
		if e.Payload, err = decodePayload(rows[i].Payload[saltSize:]); err == nil {
			v.prunes = append(v.prunes, newPrune(e))
		}
	}
	return nil
}

// kept compares the states that prunes kept of an entry with what the log gives
// there, and goes on from them where the log alone gives none any more.
func (v *verifier) kept(seq int64) error {
	for i := range v.prunes {
		p := &v.prunes[i]
		if p.state == nil || p.cut != seq {
			continue
		}
		if v.state == nil {
			v.state = maps.Clone(p.state)
		} else if !value.Equal(v.state, p.state) {
			return fmt.Errorf("the state that entry %d keeps is not what the log gives here", p.entry.Seq)
		}
	}
	return nil
}

func (v *verifier) log(ctx context.Context) error {
	rows, err := v.tx.QueryxContext(ctx, `SELECT `+entryColumns+` FROM checkpoints WHERE no = ? ORDER BY seq`, v.thread.No)
	if err != nil {
		return err
	}
	defer rows.Close()
	want := int64(1)
	for rows.Next() {
		r := new(entryRow)
		if err := rows.StructScan(r); err != nil {
			return err
		}
		v.report.Entries++
		if p := v.row(ctx, r, want); p != nil {
			p.Thread, p.Table = v.thread.ThreadID, "checkpoints"
			v.found(*p)
			return errFound
		}
		want++
	}
	return rows.Err()
}

// row checks one row and takes it in.
func (v *verifier) row(ctx context.Context, r *entryRow, want int64) *Problem {
	if r.Seq != want {
		return &Problem{Seq: want, Reason: fmt.Sprintf("the row is missing; the next one is %d", r.Seq)}
	}
	at := func(column, reason string) *Problem {
		return &Problem{Seq: r.Seq, ID: r.ID, Column: column, Reason: reason}
	}
	if r.fits(v.prev) != nil {
		column, reason := v.whichColumn(ctx, r)
		return at(column, reason)
	}
	if r.ID <= v.lastID {
		return at("id", fmt.Sprintf("its number does not come after %d, that of the row before it", v.lastID))
	}
	// The hash says that the row is as it was written. What follows is for a
	// writer that was wrong.
	e, err := r.entry()
	if err != nil {
		return at("", err.Error())
	}
	if r.Payload == nil {
		v.report.Removed++
		v.removed++
		e.Removed = true
		if !explains(v.prunes, v.thread.ThreadID, &e) {
			return at("payload", "it was removed, and no entry of the log says so")
		}
	} else if e.Payload, err = decodePayload(r.Payload[saltSize:]); err != nil {
		return at("payload", err.Error())
	}
	if base := v.expectBase(r); r.Base != base {
		return at("base", fmt.Sprintf("it is %d and should be %d", r.Base, base))
	}
	if err := v.fold(ctx, &e); err != nil {
		return at("payload", err.Error())
	}
	if reason := v.question(r, &e); reason != "" {
		return at("payload", reason)
	}
	v.prev, v.before, v.lastID = r.Hash, r, r.ID
	return nil
}

func (v *verifier) expectBase(r *entryRow) int64 {
	if engine.Kind(r.Kind).MovesBase() {
		if r.NS == "" {
			clear(v.bases)
		}
		v.bases[r.NS] = r.Seq
	}
	if base, ok := v.bases[r.NS]; ok {
		return base
	}
	return v.bases[""]
}

// fold keeps state and turn, and compares a snapshot at this entry.
func (v *verifier) fold(ctx context.Context, e *engine.Entry) error {
	v.turn.note(e, e.Seq)
	if e.Namespace == "" {
		if e.Kind == engine.KindFork && !e.Removed {
			v.state = make(map[string]any)
		}
		if e.Removed && e.Kind.ChangesState() {
			v.state = nil
		}
		if v.state != nil {
			if err := engine.Fold(v.state, &e.Payload, e.Kind); err != nil {
				return err
			}
		}
		if err := v.kept(e.Seq); err != nil {
			return err
		}
		switch e.Kind {
		case engine.KindInput, engine.KindFork, engine.KindGraph:
			v.graph = e.Payload.Input
		}
	}
	if !v.snapshots[e.Seq] {
		return nil
	}
	v.snapshots[e.Seq] = false
	snap, err := readSnapshot(ctx, v.tx, v.thread.No, e.Seq)
	reason := ""
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		reason = err.Error()
	case v.state != nil && (!value.Equal(snap.state, v.state) || snap.turn != v.turn):
		reason = "it is not what the log gives"
	}
	if reason != "" {
		v.found(Problem{Thread: v.thread.ThreadID, Seq: e.Seq, Table: "snapshots",
			Reason: reason + "; it is a cache and is ignored when a thread is loaded, but somebody changed it or the disk did"})
	}
	return nil
}

// question keeps what must be in interrupts.
func (v *verifier) question(r *entryRow, e *engine.Entry) string {
	settle := func(state engine.QuestionState, of func(*interruptRow) bool) {
		for _, q := range v.asked {
			if q.State == string(engine.QuestionPending) && of(q) {
				q.State = string(state)
			}
		}
	}
	if e.Kind.MovesBase() {
		settle(engine.QuestionVoid, func(q *interruptRow) bool { return r.NS == "" || q.Base < r.Base })
	}
	switch {
	case e.Removed:
		v.redacted[r.Seq] = e.Kind == engine.KindAnswer
	case e.Kind == engine.KindPause:
		q, err := newInterruptRow(r.No, r.Seq, r.Base, v.thread.ThreadID, e)
		if err != nil {
			return err.Error()
		}
		v.asked[r.Seq] = q
		v.order = append(v.order, r.Seq)
		if _, seq, err := engine.ParseCheckpointID(e.Payload.Question.Voids); err == nil && v.asked[seq] != nil {
			v.asked[seq].State = string(engine.QuestionVoid)
		}
	case e.Kind == engine.KindAnswer && e.Payload.Answer != nil:
		a := e.Payload.Answer
		thread, seq, err := engine.ParseCheckpointID(a.Question)
		q := v.asked[seq]
		if err != nil || thread != v.thread.ThreadID || (q == nil && seq >= r.Seq) {
			return fmt.Sprintf("it answers %q, which was not asked before it", a.Question)
		}
		if q == nil {
			break // its payload was removed
		}
		text, err := answerJSON(a)
		if err != nil {
			return err.Error()
		}
		q.State = string(engine.QuestionAnswered)
		q.AnswerSeq.Int64, q.AnswerSeq.Valid = r.Seq, true
		q.Answer.String, q.Answer.Valid = text, true
		q.Actor.String, q.Actor.Valid = a.Actor, true
		q.Via.String, q.Via.Valid = a.Via, true
		q.AnsweredAt.Int64, q.AnsweredAt.Valid = toMS(a.At), true
	}
	if e.Status.Over() {
		settle(engine.QuestionCancelled, func(*interruptRow) bool { return true })
	}
	return ""
}

// compareThread compares the row of threads with the last row of the log.
func (v *verifier) compareThread() {
	status, turn := engine.Done, int64(0)
	if v.before != nil {
		status, turn = engine.Status(v.before.Status), v.before.Turn
	}
	column, is, should := "", "", ""
	switch t := v.thread; {
	case v.before == nil && t.Turn == 0 && t.Status != string(engine.Done), v.before != nil && t.Status != string(status) &&
		// A failed turn that is resumed is running again before its next entry.
		!(status == engine.Failed && t.Status == string(engine.Running)):
		column, is, should = "status", t.Status, string(status)
	case t.Turn != turn:
		column, is, should = "turn", fmt.Sprint(t.Turn), fmt.Sprint(turn)
	case v.graph != nil && t.Graph != v.graph.Graph:
		column, is, should = "graph", t.Graph, v.graph.Graph
	case v.graph != nil && t.GraphName != v.graph.Name:
		column, is, should = "graph_name", t.GraphName, v.graph.Name
	default:
		return
	}
	v.found(Problem{Thread: v.thread.ThreadID, Table: "threads", Column: column,
		Reason: fmt.Sprintf("it is %q, and the log says %q: the row was changed, or rows at the end of the log were removed", is, should)})
}

func (v *verifier) compareQuestions(ctx context.Context) error {
	var rows []interruptRow
	if err := v.tx.SelectContext(ctx, &rows, `SELECT `+interruptColumns+` FROM interrupts WHERE no = ? ORDER BY seq`, v.thread.No); err != nil {
		return err
	}
	report := func(seq int64, column, reason string) {
		v.found(Problem{Thread: v.thread.ThreadID, Seq: seq, Table: "interrupts", Column: column, Reason: reason})
	}
	seen := make(map[int64]bool)
	for i := range rows {
		seq := rows[i].Seq
		seen[seq] = true
		want := v.asked[seq]
		if want == nil {
			if v.removed == 0 {
				report(seq, "", "the log asks no such question: a row of the log was removed, or the question is made up")
				return nil
			}
			continue
		}
		if rows[i].AnswerSeq.Valid && v.redacted[rows[i].AnswerSeq.Int64] {
			// The log does not say any more which question that answered.
			answered := *want
			answered.State, answered.AnswerSeq = rows[i].State, rows[i].AnswerSeq
			answered.Actor, answered.Via, answered.AnsweredAt = rows[i].Actor, rows[i].Via, rows[i].AnsweredAt
			want = &answered
		}
		if column := firstDifference(&rows[i], want); column != "" {
			report(seq, column, "it is not what the log says")
			return nil
		}
	}
	for _, seq := range v.order {
		if !seen[seq] {
			report(seq, "", "the row of this question is missing")
			return nil
		}
	}
	return nil
}

// firstDifference names the first column in which two rows differ.
func firstDifference(a, b *interruptRow) string {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if !x.Field(i).Equal(y.Field(i)) {
			return x.Type().Field(i).Tag.Get("db")
		}
	}
	return ""
}

func (v *verifier) compareResults(ctx context.Context) error {
	var row struct {
		Task string `db:"task"`
		Base int64  `db:"base"`
	}
	rows, err := v.tx.QueryxContext(ctx, `SELECT task, base FROM results WHERE no = ? AND base NOT BETWEEN ? AND ? LIMIT 1`, v.thread.No, v.bases[""], v.thread.Head)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.StructScan(&row); err != nil {
			return err
		}
		v.found(Problem{Thread: v.thread.ThreadID, Table: "results", Column: "base",
			Reason: fmt.Sprintf("a result of task %s is of base %d, and the base of the thread is %d: rows at the end of the log were removed, or the result was moved", row.Task, row.Base, v.bases[""])})
	}
	return rows.Err()
}

// whichColumn tells what was changed in a row that does not fit. It tries what
// each column can have been: where the hash fits then, that was it.
func (v *verifier) whichColumn(ctx context.Context, r *entryRow) (column, reason string) {
	if bytes.Equal(r.Hash, rowHash(v.prev, r)) {
		return "payload", r.payloadFits().Error()
	}
	if original, column := v.original(r); column != "" {
		return column, fmt.Sprintf("it was changed; it was %s", original)
	}
	// The next row was made from the hash that this one had.
	var next entryRow
	err := v.tx.GetContext(ctx, &next, `SELECT `+smallColumns+` FROM checkpoints WHERE no = ? AND seq = ?`, r.No, r.Seq+1)
	if err == nil && bytes.Equal(next.Hash, rowHash(rowHash(v.prev, r), &next)) {
		return "hash", "the hash was changed: the rest of the row fits the row before and the row after it"
	}
	if r.Seq == 1 {
		return "", "the row does not fit its hash: a column of it, or the id of the thread, was changed"
	}
	if err == nil && bytes.Equal(next.Hash, rowHash(r.Hash, &next)) {
		return "", "a column of the row was changed: its hash is the one that the next row was made from"
	}
	return "", "the row does not fit its hash and the row before it: it was changed, or put in the place of another"
}

func (v *verifier) original(r *entryRow) (was, column string) {
	try := func(name string, set func(*entryRow), show any) {
		c := *r
		set(&c)
		if column == "" && bytes.Equal(r.Hash, rowHash(v.prev, &c)) {
			column, was = name, fmt.Sprintf("%v", show)
		}
	}
	for _, kind := range []engine.Kind{engine.KindInput, engine.KindStep, engine.KindPause, engine.KindAnswer, engine.KindUpdate, engine.KindFork, engine.KindGraph, engine.KindEnd, engine.KindPrune} {
		try("kind", func(c *entryRow) { c.Kind = string(kind) }, kind)
	}
	for _, status := range []engine.Status{engine.Running, engine.Paused, engine.Sleeping, engine.Done, engine.Rejected, engine.Failed, engine.Cancelled} {
		try("status", func(c *entryRow) { c.Status = string(status) }, status)
	}
	near := []int64{0, 1, r.Seq, r.Seq - 1}
	if b := v.before; b != nil {
		near = append(near, b.Turn, b.Turn+1, b.Step, b.Step+1, b.Base, b.Parent, b.Parent+1)
	}
	for _, n := range near {
		try("base", func(c *entryRow) { c.Base = n }, n)
		try("turn", func(c *entryRow) { c.Turn = n }, n)
		try("step", func(c *entryRow) { c.Step = n }, n)
		try("parent", func(c *entryRow) { c.Parent = n }, n)
	}
	try("ns", func(c *entryRow) { c.NS = "" }, "empty")
	try("actor", func(c *entryRow) { c.Actor = "" }, "empty")
	if r.Payload != nil {
		try("payload_hash", func(c *entryRow) { c.PayloadHash = payloadHash(r.Payload) }, "that of the payload")
	}
	return was, column
}
