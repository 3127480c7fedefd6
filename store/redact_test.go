package store

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

func (b *bundle) redact(checkpoint string) Pruned {
	b.t.Helper()
	p, err := b.s.Redact(b.t.Context(), checkpoint, engine.By{Actor: "ada", Via: "cli", Reason: "a password"})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func TestARedactedPayloadIsGoneAndEveryStateBehindItIsRight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const secret = "correct-horse-battery-staple"
	l := b.begin("x", set("x", int64(1)))
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, set("secret", secret), push("log", int64(1)))}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 2, set("secret", "gone"))}})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 3, push("log", int64(2))), engine.Done)}})
	if err := l.Snapshot(t.Context(), map[string]any{"x": int64(1), "secret": "gone", "log": []any{int64(1), int64(2)}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := b.stateAt("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	if p := b.redact("x@2"); p.Entries != 1 || p.Bytes == 0 {
		t.Errorf("redacted: %+v", p)
	}
	for _, seq := range []int64{0, 5, 4} {
		if got, err := b.stateAt("x", seq); err != nil || !value.Equal(got, before) {
			t.Errorf("state at %d: %v, %v", seq, got, err)
		}
	}
	for _, seq := range []int64{2, 3} {
		_, err := b.stateAt("x", seq)
		want(t, err, ErrRemoved)
	}
	if s, err := b.stateAt("x", 1); err != nil || len(s) != 1 {
		t.Errorf("the state before it: %v, %v", s, err)
	}
	var said engine.Entry
	err = b.s.Entries(t.Context(), "x", 4, 1, func(e engine.Entry) error {
		said = e
		return nil
	})
	if err != nil || said.Kind != engine.KindPrune || said.Actor != "ada" || said.Payload.Edit.Reason != "a password" || said.Payload.Redacts[0] != "x@2" {
		t.Errorf("the log says %+v, %v", said, err)
	}
	if r := b.verify(); r.Removed != 1 || r.Entries != 5 {
		t.Errorf("verified: %+v", r)
	}
	if p := b.redact("x@2"); p.Entries != 0 {
		t.Errorf("again: %+v", p)
	}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(b.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("it is still in the file%s", suffix)
		}
	}
	// The thread goes on, is pruned, and the entries of both can be redacted.
	turns(b, "x", 2, 6)
	b.prune("x", Retention{Turns: 2})
	b.verify()
	now, err := b.stateAt("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	head := b.load(b.s, "x").View().Thread.Head
	b.redact(engine.CheckpointID("x", head)) // the prune, which keeps a state
	b.redact("x@5")                          // the first redaction
	b.redact("x@19")
	if got, err := b.stateAt("x", 0); err != nil || !value.Equal(got, now) {
		t.Errorf("state: %v, %v", got, err)
	}
	b.verify()
	turns(b, "x", 7, 12)
	b.prune("x", Retention{Turns: 1})
	if got, err := b.stateAt("x", 0); err != nil || got["turn"] != int64(12) || len(got["log"].([]any)) != 13 {
		t.Errorf("state: %v, %v", got, err)
	}
	b.verify()
}

func TestTheTitleThatWasMadeOfARedactedInputGoesWithIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x") // its title is "title"
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{last(step(1, 1, set("x", int64(1))), engine.Done)}})
	second := input(2)
	second.Payload.Input.Text = "the title\nand more"
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{second}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{last(step(2, 1), engine.Done)}})
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{input(3)}})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(3, 1), engine.Done)}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ redact, title, left string }{
		{"x@2", "title", "title"},       // a step
		{"x@1", "any words", ""},        // the first input, of whatever they are made
		{"x@5", "title", "title"},       // an input of a later turn without these words
		{"x@3", "the title and...", ""}, // and one with them
	} {
		if _, err := b.s.ChangeFacts(t.Context(), "x", func(t *engine.Thread) error { t.Title = c.title; return nil }); err != nil {
			t.Fatal(err)
		}
		b.redact(c.redact)
		if got, err := b.s.Thread(t.Context(), "x"); err != nil || got.Title != c.left {
			t.Errorf("after %s: %q, %v", c.redact, got.Title, err)
		}
	}
	b.verify()
}

func TestARedactedQuestionAndAnswerLeaveNoCopy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	end := last(step(1, 1), engine.Cancelled)
	end.Kind = engine.KindEnd
	b.commit(b.load(b.s, "main"), &engine.Commit{Entries: []*engine.Entry{end}})
	b.redact("main@5") // the answer to main@3
	rec, err := b.s.Question(t.Context(), "main", 3)
	if err != nil || rec.State != engine.QuestionAnswered && rec.State != engine.QuestionVoid || rec.Answer != nil || rec.AnswerSeq != 5 {
		t.Errorf("question: %+v, %v", rec, err)
	}
	b.verify()
	b.redact("main@3")
	_, err = b.s.Question(t.Context(), "main", 3)
	want(t, err, ErrRemoved)
	b.redact("main@4") // a question that was never answered
	if r := b.verify(); r.Removed != 3 {
		t.Errorf("verified: %+v", r)
	}
	for seq := range int64(14) {
		p, err := b.s.Redact(t.Context(), engine.CheckpointID("main", seq+1), engine.By{Actor: "ada"})
		if err != nil {
			t.Errorf("redact %d: %+v, %v", seq+1, p, err)
		}
		if s, err := b.stateAt("main", 0); err != nil || s["x"] != int64(3) {
			t.Errorf("after %d: %v, %v", seq+1, s, err)
		}
		b.verify()
	}
}

func TestWhatTheTurnUnderWayNeedsIsNotRedacted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x", set("x", int64(1)))
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, set("y", int64(1)))}})
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{step(1, 2), pause(1, 2, "a")}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"x@1", "x@3", "x@4"} {
		_, err := b.s.Redact(t.Context(), id, engine.By{})
		want(t, err, engine.ErrInvalid)
		if err == nil || !strings.Contains(err.Error(), "turn under way") {
			t.Errorf("%s: %v", id, err)
		}
	}
	before := b.load(b.s, "x").View()
	b.redact("x@2")
	v := b.load(b.s, "x").View()
	if !value.Equal(v.State, before.State) || v.MaxSteps != before.MaxSteps || v.InputSeq != 1 || v.OutsideStep != before.OutsideStep || len(v.Open()) != 1 {
		t.Errorf("view: %+v", v)
	}
	for id, target := range map[string]error{"x@99": engine.ErrNotFound, "none@1": engine.ErrNotFound, "x": engine.ErrInvalid, "x@0": engine.ErrInvalid} {
		_, err := b.s.Redact(t.Context(), id, engine.By{})
		want(t, err, target)
	}
	b.verify()
}
