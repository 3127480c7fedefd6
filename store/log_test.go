package store

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestWhatWasCommittedIsThereAfterReopening(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("deploy-42", set("x", int64(1)))
	b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, push("log", "one"))}})
	if err := l.Put(t.Context(), engine.Result{Task: "b", Kind: engine.ResultTask, Value: []byte(`{"x":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Put(t.Context(), engine.Result{Task: "a", N: 1, Kind: engine.ResultIntent, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	live := l.View()
	// A living handle has them in the order in which they were stored.
	slices.SortFunc(live.Results, func(a, b engine.Result) int { return cmp.Compare(a.Task, b.Task) })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	v := b.load(b.s, "deploy-42").View()
	if v.Thread.Status != engine.Running || v.Thread.Head != 2 || v.Thread.Owner != nil || v.Thread.Fence != 1 || v.Thread.Title != "title" {
		t.Errorf("thread: %+v", v.Thread)
	}
	if !reflect.DeepEqual(v.State, map[string]any{"x": int64(1), "log": []any{"one"}}) {
		t.Errorf("state: %v", v.State)
	}
	if len(v.Tail) != 1 || v.Tail[0].Seq != 2 || v.Base().Base != 2 || v.MaxSteps != 100 || v.OutsideStep != 0 {
		t.Errorf("tail: %+v", v.Tail)
	}
	if len(v.Results) != 2 || v.Results[0].Task != "a" || v.Results[1].Task != "b" || !reflect.DeepEqual(v.Results, live.Results) {
		t.Errorf("results: %+v, live: %+v", v.Results, live.Results)
	}
	if !reflect.DeepEqual(v.Head, live.Head) {
		t.Errorf("head: %+v, live: %+v", v.Head, live.Head)
	}
}

func TestQuestionIsAskedAnsweredAndFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("q")
	p1, p2 := pause(1, 0, "a"), pause(1, 0, "b")
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{p1, p2}})
	if p2.Seq != 3 || p2.Base != 1 {
		t.Errorf("pause: %+v", p2)
	}
	items, err := b.s.Inbox(t.Context(), 0)
	if err != nil || len(items) != 2 {
		t.Fatalf("inbox: %v %v", items, err)
	}
	q, ok := p1.Question("q")
	if !ok || !reflect.DeepEqual(items[0].Question, q) {
		t.Errorf("inbox: %+v, want %+v", items[0].Question, q)
	}
	other := b.load(b.open(), "q")
	b.commit(other, &engine.Commit{Entries: []*engine.Entry{answer("q@2", 1, 0, engine.Paused, "approve")}})
	rec, err := b.s.Question(t.Context(), "q", 2)
	if err != nil || rec.State != engine.QuestionAnswered || rec.AnswerSeq != 4 || rec.Answer.Value != "approve" {
		t.Errorf("question: %+v, %v", rec, err)
	}
	if rec, err = b.s.Question(t.Context(), "q", 3); err != nil || rec.State != engine.QuestionPending || rec.Answer != nil {
		t.Errorf("question: %+v, %v", rec, err)
	}
	_, err = b.s.Question(t.Context(), "q", 1)
	want(t, err, engine.ErrNotFound)
	g := graph("g")
	if def, err := b.s.Graph(t.Context(), g.Fingerprint); err != nil || string(def) != string(g.Definition) {
		t.Errorf("graph: %s, %v", def, err)
	}
}
