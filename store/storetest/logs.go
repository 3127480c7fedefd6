package storetest

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

var logCases = []testCase{
	{"what was committed is there after reopening", func(b *bundle) {
		l := b.begin("deploy-42", set("x", int64(1)))
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1, push("log", "one"))}})
		b.ok(l.Put(b.Context(), engine.Result{Task: "b", Kind: engine.ResultTask, Value: []byte(`{"x":1}`)}))
		b.ok(l.Put(b.Context(), engine.Result{Task: "a", N: 1, Kind: engine.ResultIntent, Key: "k"}))
		live := l.View()
		slices.SortFunc(live.Results, func(a, b engine.Result) int { return cmp.Compare(a.Task, b.Task) })
		b.ok(l.Close())
		b.reopen()
		v := b.load(b.s, "deploy-42").View()
		slices.SortFunc(v.Results, func(a, b engine.Result) int { return cmp.Compare(a.Task, b.Task) })
		if v.Thread.Status != engine.Running || v.Thread.Head != 2 || v.Thread.Owner != nil || v.Thread.Fence != 1 || v.Thread.Title != "title" {
			b.Errorf("thread: %+v", v.Thread)
		}
		if !reflect.DeepEqual(v.State, map[string]any{"x": int64(1), "log": []any{"one"}}) {
			b.Errorf("state: %v", v.State)
		}
		if len(v.Tail) != 1 || v.Tail[0].Seq != 2 || v.Base().Base != 2 || v.MaxSteps != 100 || v.InputSeq != 1 {
			b.Errorf("tail: %+v", v.Tail)
		}
		if !reflect.DeepEqual(v.Results, live.Results) || !reflect.DeepEqual(v.Head, live.Head) {
			b.Errorf("stored %+v, %+v\nlive   %+v, %+v", v.Head, v.Results, live.Head, live.Results)
		}
		def, err := b.s.Graph(b.Context(), graph().Fingerprint)
		if err != nil || string(def) != string(graph().Definition) {
			b.Errorf("graph: %s, %v", def, err)
		}
		_, err = b.s.Graph(b.Context(), "none")
		b.want(err, engine.ErrNotFound)
	}},
	{"every checkpoint is read exactly", func(b *bundle) {
		l := b.begin("x", set("n", int64(0)))
		for n := int64(1); n <= 20; n++ {
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, set("n", n), push("log", n))}})
		}
		for seq := int64(1); seq <= 21; seq++ {
			v := b.at("x", seq)
			log, _ := v.State["log"].([]any)
			if v.Head.Seq != seq || v.State["n"] != seq-1 || int64(len(log)) != seq-1 || v.Head.Step != seq-1 {
				b.Errorf("at %d: %+v", seq, v.Head)
			}
		}
		_, err := b.s.At(b.Context(), "x", 22)
		b.want(err, engine.ErrNotFound)
		var seqs []int64
		b.ok(b.s.Entries(b.Context(), "x", 5, 3, func(e engine.Entry) error {
			seqs = append(seqs, e.Seq)
			return nil
		}))
		if !slices.Equal(seqs, []int64{6, 7, 8}) {
			b.Errorf("entries: %v", seqs)
		}
		stop := errors.New("stop")
		b.want(b.s.Entries(b.Context(), "x", 0, 0, func(engine.Entry) error { return stop }), stop)
	}},
	{"a result is stored once", func(b *bundle) {
		l := b.begin("x")
		r := engine.Result{Task: "a", Kind: engine.ResultTask, Value: []byte(`1`)}
		b.ok(l.Put(b.Context(), r))
		b.want(l.Put(b.Context(), r), engine.ErrConflict)
		r.N = 1
		b.ok(l.Put(b.Context(), r))
		b.ok(l.Close())
		b.reopen()
		l = b.load(b.s, "x")
		if n := len(l.View().Results); n != 2 {
			b.Errorf("%d results", n)
		}
		b.want(l.Put(b.Context(), engine.Result{Task: "b"}), engine.ErrConflict) // without the lease
		b.commit(l, &engine.Commit{Take: engine.TakeFree})
		// An entry that moves the base settles them.
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
		if n := len(b.at("x", 0).Results); n != 0 {
			b.Errorf("%d results are left", n)
		}
		b.ok(l.Put(b.Context(), engine.Result{Task: "a", Kind: engine.ResultTask, Value: []byte(`1`)})) // of the new base
		b.verify()
	}},
	{"rule 1: a commit is all or nothing", func(b *bundle) {
		l := b.begin("x")
		// The answer is to a question that nobody asked.
		b.want(l.Commit(b.Context(), &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{
			step(1, 1, set("x", int64(1))), pause(1, 1, "a"), answer("x@1", 1, 1, engine.Paused, "approve"),
		}}), engine.ErrConflict)
		if v := b.at("x", 0); v.Thread.Head != 1 || v.Thread.Owner == nil || len(v.State) != 0 {
			b.Errorf("something of it was stored: %+v", v.Thread)
		}
		b.verify()
	}},
	{"a question is answered once", func(b *bundle) {
		l := b.begin("q")
		p := pause(1, 0, "a")
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{p, pause(1, 0, "b")}})
		inbox, err := b.backend.Inbox(b.Context(), b.s)
		if err != nil || len(inbox) != 2 || inbox[0].ID() != "q@2" || inbox[1].ID() != "q@3" {
			b.Fatalf("inbox: %v, %v", inbox, err)
		}
		first, second := b.load(b.s, "q"), b.load(b.open(), "q")
		b.commit(first, &engine.Commit{Entries: []*engine.Entry{answer("q@2", 1, 0, engine.Paused, false)}})
		late := answer("q@3", 1, 0, engine.Paused, "approve")
		b.want(second.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{late}}), engine.ErrConflict)
		b.ok(second.Reload(b.Context()))
		b.commit(second, &engine.Commit{Entries: []*engine.Entry{late}}) // another question
		b.want(second.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{answer("q@2", 1, 0, engine.Running, "reject")}}), engine.ErrConflict)
		rec, err := b.s.Question(b.Context(), "q", 2)
		if err != nil || rec.State != engine.QuestionAnswered || rec.Answer == nil || rec.Answer.Value != false || rec.AnswerSeq != 4 {
			b.Errorf("question: %+v, %v", rec, err)
		}
		_, err = b.s.Question(b.Context(), "q", 1)
		b.want(err, engine.ErrNotFound)
		if inbox, err := b.backend.Inbox(b.Context(), b.s); err != nil || len(inbox) != 0 {
			b.Errorf("inbox: %v, %v", inbox, err)
		}
		b.verify()
	}},
	{"questions end with their base and with the turn", func(b *bundle) {
		state := func(seq int64) engine.QuestionState {
			rec, err := b.s.Question(b.Context(), "q", seq)
			b.ok(err)
			return rec.State
		}
		l := b.begin("q")
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a"), pause(1, 0, "b")}})
		up := step(1, 0, set("x", int64(2)))
		up.Kind, up.Status = engine.KindUpdate, engine.Paused
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{up, pause(1, 0, "c")}})
		if state(2) != engine.QuestionVoid || state(3) != engine.QuestionVoid || state(5) != engine.QuestionPending {
			b.Error("the old base's questions are not void")
		}
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{answer("q@5", 1, 0, engine.Paused, "x")}})
		anew := pause(1, 0, "c")
		anew.Payload.Question.Voids = "q@5"
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{anew}})
		if rec, err := b.s.Question(b.Context(), "q", 5); err != nil || rec.State != engine.QuestionVoid || rec.Answer == nil {
			b.Errorf("question made void: %+v, %v", rec, err)
		}
		end := ended(step(1, 0), engine.Cancelled)
		end.Kind = engine.KindEnd
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{end}})
		if state(7) != engine.QuestionCancelled {
			b.Errorf("after the cancel it is %s", state(7))
		}
		b.verify()
	}},
	{"a signal is used once and ends with the turn", func(b *bundle) {
		l := b.begin("x")
		b.ok(b.s.Signal(b.Context(), "x", engine.Signal{Name: "a", Value: map[string]any{"v": nil}}))
		b.ok(b.s.Signal(b.Context(), "x", engine.Signal{Name: "b"}))
		b.ok(l.Reload(b.Context()))
		signals := l.View().Signals
		if len(signals) != 2 || signals[0].Name != "a" || signals[0].ID >= signals[1].ID {
			b.Fatalf("signals: %+v", signals)
		}
		used := &engine.Commit{Entries: []*engine.Entry{step(1, 1)}, Consume: []int64{signals[0].ID}}
		b.commit(l, used)
		b.want(l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 2)}, Consume: []int64{signals[0].ID}}), engine.ErrConflict)
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{ended(step(1, 2), engine.Done)}})
		if n := len(b.at("x", 0).Signals); n != 0 {
			b.Errorf("%d signals outlived the turn", n)
		}
		b.want(b.s.Signal(b.Context(), "x", engine.Signal{Name: "c"}), engine.ErrInvalid)
		b.want(b.s.Signal(b.Context(), "none", engine.Signal{Name: "c"}), engine.ErrNotFound)
	}},
	{"a fork goes on without its source", func(b *bundle) {
		for n := int64(1); n <= 3; n++ {
			b.ok(b.turn(b.s, "x", n))
		}
		view := b.at("x", 3)
		fork := step(1, 0)
		fork.Kind, fork.Payload = engine.KindFork, engine.Payload{State: view.State, From: "x@3", Input: input(1).Payload.Input}
		l, err := b.s.New(b.Context(), engine.Thread{ID: "y"})
		b.ok(err)
		b.commit(l, &engine.Commit{Take: engine.TakeFree, Leave: engine.LeaseFree, Entries: []*engine.Entry{fork}, Graph: graph()})
		back := *fork
		back.Parent, back.Turn, back.Seq = 3, 4, 0
		b.commit(b.load(b.s, "x"), &engine.Commit{Entries: []*engine.Entry{&back}})
		for thread, seq := range map[string]int64{"x": 10, "y": 1} {
			v := b.at(thread, 0)
			if !reflect.DeepEqual(v.State, view.State) || v.Head.Seq != seq || v.InputSeq != seq || v.MaxSteps != 100 {
				b.Errorf("%s: %+v", thread, v)
			}
		}
		if v := b.at("x", 10); v.Head.Parent != 3 {
			b.Errorf("it follows %d", v.Head.Parent)
		}
		if v := b.at("x", 9); v.State["turn"] != int64(3) {
			b.Errorf("what came after the place is not readable any more: %v", v.State)
		}
		b.ok(b.s.Delete(b.Context(), "x"))
		if v := b.at("y", 0); !reflect.DeepEqual(v.State, view.State) {
			b.Errorf("y without its source: %v", v.State)
		}
		b.verify()
	}},
	{"order is the number and not the clock", func(b *bundle) {
		l := b.begin("x")
		for n := int64(1); n <= 10; n++ {
			if n%2 == 0 { // the others have equal times
				b.clock.Advance(-time.Hour)
			}
			e := step(1, n, push("log", n))
			e.At = b.clock.Now()
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{e}})
		}
		if v := b.at("x", 0); v.Head.Seq != 11 || v.Head.Step != 10 || len(v.State["log"].([]any)) != 10 {
			b.Errorf("head: %+v", v.Head)
		}
		last := int64(0)
		b.ok(b.s.Entries(b.Context(), "x", 0, 0, func(e engine.Entry) error {
			if e.Seq != last+1 {
				b.Errorf("entry %d after %d", e.Seq, last)
			}
			last = e.Seq
			return nil
		}))
		b.verify()
	}},
}
