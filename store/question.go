package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// interruptRow is a row of interrupts: what the log says of a question, where
// an inbox finds it without reading a log.
type interruptRow struct {
	No         int64          `db:"no"`
	Seq        int64          `db:"seq"`
	Base       int64          `db:"base"`
	Kind       string         `db:"kind"`
	Node       string         `db:"node"`
	AskingNode string         `db:"asking_node"`
	Task       string         `db:"task"`
	Message    string         `db:"message"`
	Data       string         `db:"data"`
	Question   string         `db:"question"`
	Choices    string         `db:"choices"`
	Digest     string         `db:"digest"`
	Deadline   sql.NullInt64  `db:"deadline"`
	AskedAt    int64          `db:"asked_at"`
	State      string         `db:"state"`
	AnswerSeq  sql.NullInt64  `db:"answer_seq"`
	Answer     sql.NullString `db:"answer"`
	Actor      sql.NullString `db:"actor"`
	Via        sql.NullString `db:"via"`
	AnsweredAt sql.NullInt64  `db:"answered_at"`
}

const interruptColumns = `no, seq, base, kind, node, asking_node, task, message, data, question, choices, digest, deadline, asked_at,
	state, answer_seq, answer, actor, via, answered_at`

// newInterruptRow is the row of a question as it is asked. Verify makes it anew
// from the log and compares.
func newInterruptRow(no, seq, base int64, thread string, e *engine.Entry) (*interruptRow, error) {
	at := *e
	at.Seq = seq
	q, ok := at.Question(thread)
	if !ok {
		return nil, errors.New("the entry asks no question")
	}
	data, err := value.Marshal(q.Payload.Data)
	if err != nil {
		return nil, err
	}
	question, err := value.Marshal(q)
	if err != nil {
		return nil, err
	}
	choices, err := value.Marshal(q.Options())
	if err != nil {
		return nil, err
	}
	row := &interruptRow{
		No: no, Seq: seq, Base: base, Kind: string(q.Payload.Kind), Node: q.Payload.Node, AskingNode: q.AskingNode,
		Task: q.Task, Message: q.Payload.Message, Data: string(data), Question: string(question), Choices: string(choices),
		Digest: q.Digest, AskedAt: toMS(q.AskedAt), State: string(engine.QuestionPending),
	}
	if at := q.Wakes(); at != nil {
		row.Deadline = sql.NullInt64{Int64: toMS(*at), Valid: true}
	}
	return row, nil
}

func (r *interruptRow) insert(ctx context.Context, c *conn) error {
	_, err := c.exec(ctx, `INSERT INTO interrupts (no, seq, base, kind, node, asking_node, task, message, data, question, choices, digest, deadline, asked_at, state)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.No, r.Seq, r.Base, r.Kind, r.Node, r.AskingNode, r.Task, r.Message, r.Data, r.Question, r.Choices, r.Digest, r.Deadline, r.AskedAt, r.State)
	return err
}

// question is the row as the engine sees it, without a look at the log.
func (r *interruptRow) question(thread string) (interrupt.Question, error) {
	v, err := value.Decode([]byte(r.Question))
	if err != nil {
		return interrupt.Question{}, err
	}
	q, err := decodeQuestion(v)
	if err != nil {
		return interrupt.Question{}, err
	}
	data, err := value.Decode([]byte(r.Data))
	if err != nil {
		return interrupt.Question{}, err
	}
	q.Payload = interrupt.New(interrupt.Interrupt{
		Kind: interrupt.Kind(r.Kind), Node: r.Node, Message: r.Message, Data: data,
	}, thread, engine.CheckpointID(thread, r.Seq))
	return *q, nil
}

func answerJSON(a *interrupt.Answer) (string, error) {
	b, err := value.Marshal(a)
	return string(b), err
}

// Question is one question with what became of it. Question and answer come
// from the log, verified; only the state comes from the index.
func (s *Store) Question(ctx context.Context, thread string, seq int64) (engine.QuestionRecord, error) {
	var rec engine.QuestionRecord
	err := s.inTx(ctx, func(tx *sqlx.Tx) error {
		row, err := s.findThread(ctx, tx, thread)
		if err != nil {
			return err
		}
		none := fmt.Errorf("question %s: %w: no question was asked there", engine.CheckpointID(thread, seq), engine.ErrNotFound)
		if seq < 1 || seq > row.Head {
			return none
		}
		asked, err := s.oneEntry(ctx, tx, &row, seq)
		if err != nil {
			return err
		}
		if asked.Removed && asked.Kind == engine.KindPause {
			return fmt.Errorf("question %s: %w", engine.CheckpointID(thread, seq), ErrRemoved)
		}
		q, ok := asked.Question(thread)
		if !ok {
			return none
		}
		rec.Question = q
		var index interruptRow
		err = tx.GetContext(ctx, &index, `SELECT `+interruptColumns+` FROM interrupts WHERE no = ? AND seq = ?`, row.No, seq)
		if errors.Is(err, sql.ErrNoRows) {
			return &CorruptError{Path: s.path, Thread: thread, Seq: seq, Table: "interrupts", Reason: "the row of this question is missing"}
		}
		if err != nil {
			return err
		}
		rec.State = engine.QuestionState(index.State)
		if !index.AnswerSeq.Valid {
			return nil
		}
		given, err := s.oneEntry(ctx, tx, &row, index.AnswerSeq.Int64)
		if err != nil {
			return err
		}
		a := given.Payload.Answer
		if given.Removed {
			rec.AnswerSeq = given.Seq
			return nil // who gave it and when is in its row
		}
		if a == nil || a.Question != q.ID() {
			return &CorruptError{Path: s.path, Thread: thread, Seq: seq, Table: "interrupts", Column: "answer_seq",
				Reason: fmt.Sprintf("entry %d does not answer this question", index.AnswerSeq.Int64)}
		}
		rec.Answer, rec.AnswerSeq = a, given.Seq
		return nil
	})
	return rec, err
}

// oneEntry reads one verified entry.
func (s *Store) oneEntry(ctx context.Context, tx *sqlx.Tx, row *threadRow, seq int64) (engine.Entry, error) {
	var e engine.Entry
	walk := rowWalk{s: s, tx: tx, no: row.No, thread: row.ThreadID, payloads: true}
	err := walk.each(ctx, seq, seq, func(r *entryRow) (err error) {
		e, err = s.decode(row.ThreadID, r)
		return err
	})
	return e, err
}

// InboxItem is an open question.
type InboxItem struct {
	Question interrupt.Question
	AskedAt  time.Time
}

// Inbox gives the open questions, oldest first, at most limit (0: all). It
// reads the index of questions and no log.
func (s *Store) Inbox(ctx context.Context, limit int) ([]InboxItem, error) {
	if limit <= 0 {
		limit = -1
	}
	var rows []struct {
		interruptRow
		ThreadID string `db:"thread_id"`
	}
	err := s.read.SelectContext(ctx, &rows, inboxQuery, limit)
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", s.readError(err))
	}
	items := make([]InboxItem, 0, len(rows))
	for i := range rows {
		q, err := rows[i].question(rows[i].ThreadID)
		if err != nil {
			return nil, &CorruptError{Path: s.path, Thread: rows[i].ThreadID, Seq: rows[i].Seq, Table: "interrupts", Reason: err.Error()}
		}
		items = append(items, InboxItem{Question: q, AskedAt: fromMS(rows[i].AskedAt)})
	}
	return items, nil
}

const inboxQuery = `SELECT interrupts.no, seq, base, kind, node, asking_node, task, message, data, question, choices, digest, deadline, asked_at,
	state, answer_seq, answer, actor, via, answered_at, thread_id
	FROM interrupts JOIN threads ON threads.no = interrupts.no
	WHERE state = 'pending' AND kind IN ('before', 'after', 'dynamic') AND threads.status <> 'deleted'
	ORDER BY asked_at, interrupts.no, seq LIMIT ?`

// Graph is the stored definition of a fingerprint.
func (s *Store) Graph(ctx context.Context, fingerprint string) ([]byte, error) {
	var row graphRow
	err := s.read.GetContext(ctx, &row, `SELECT fingerprint, name, definition FROM graphs WHERE fingerprint = ?`, fingerprint)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("graph %s: %w", fingerprint, engine.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read graph %s: %w", fingerprint, s.readError(err))
	}
	if err := row.fits(); err != nil {
		return nil, &CorruptError{Path: s.path, Table: "graphs", Column: "definition", Reason: err.Error()}
	}
	return row.Definition, nil
}
