package storetest

import (
	"fmt"
	"os"
	"reflect"

	"github.com/holdfast-agent/holdfast/engine"
)

var careCases = []testCase{
	{"a late write after a delete brings nothing back", func(b *bundle) {
		l := b.begin("x")
		b.ok(b.s.Signal(b.Context(), "x", engine.Signal{Name: "go"}))
		b.want(b.open().Delete(b.Context(), "x"), engine.ErrBusy)
		b.ok(l.Close())
		late := b.load(b.s, "x")
		b.ok(b.s.Delete(b.Context(), "x"))
		b.want(b.s.Delete(b.Context(), "nobody"), engine.ErrNotFound)
		b.want(late.Commit(b.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{step(1, 1)}}), engine.ErrDeleted)
		b.want(b.s.Signal(b.Context(), "x", engine.Signal{Name: "go"}), engine.ErrDeleted)
		b.want(b.s.Create(b.Context(), engine.Thread{ID: "x"}), engine.ErrDeleted)
		for _, s := range []Store{b.s, b.open()} {
			_, err := s.Open(b.Context(), "x")
			b.want(err, engine.ErrDeleted)
			_, err = s.New(b.Context(), engine.Thread{ID: "x"})
			b.want(err, engine.ErrDeleted)
		}
		b.verify()
	}},
	{"a prune keeps what is needed", func(b *bundle) {
		for n := int64(1); n <= 6; n++ {
			b.ok(b.turn(b.s, "x", n))
		}
		// The newest turn is paused: a question is open.
		l := b.load(b.s, "x")
		b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(7, set("turn", int64(7)))}})
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{step(7, 1), pause(7, 1, "a")}})
		b.ok(l.Close())
		before := map[int64]*engine.View{}
		for seq := int64(16); seq <= 21; seq++ {
			before[seq] = b.at("x", seq)
		}
		n, err := b.backend.Prune(b.Context(), b.s, "x", 2)
		if err != nil || n != 15 {
			b.Fatalf("%d were pruned, %v", n, err)
		}
		for seq, was := range before {
			v := b.at("x", seq)
			if !reflect.DeepEqual(v.State, was.State) || v.MaxSteps != was.MaxSteps || v.InputSeq != was.InputSeq || v.OutsideStep != was.OutsideStep ||
				!reflect.DeepEqual(v.Tail, was.Tail) {
				b.Errorf("at %d: %+v, it was %+v", seq, v, was)
			}
		}
		if _, err := b.s.At(b.Context(), "x", 7); err == nil {
			b.Error("a state that was removed could be read")
		}
		if n, err = b.backend.Prune(b.Context(), b.s, "x", 2); err != nil || n != 0 {
			b.Errorf("again: %d, %v", n, err)
		}
		removed := 0
		b.ok(b.s.Entries(b.Context(), "x", 0, 0, func(e engine.Entry) error {
			if e.Removed {
				removed++
			}
			return nil
		}))
		if removed != 15 {
			b.Errorf("%d entries are without their payload", removed)
		}
		b.commit(b.load(b.s, "x"), &engine.Commit{Entries: []*engine.Entry{answer("x@21", 7, 1, engine.Running, "approve")}})
		b.reopen()
		if v := b.at("x", 0); v.State["turn"] != int64(7) || v.Thread.Status != engine.Running {
			b.Errorf("thread: %+v", v)
		}
		b.verify()
	}},
	{"a prune waits for nobody and is refused by a holder", func(b *bundle) {
		for n := int64(1); n <= 4; n++ {
			b.ok(b.turn(b.s, "x", n))
		}
		l := b.load(b.open(), "x")
		b.commit(l, &engine.Commit{Take: engine.TakeFree})
		_, err := b.backend.Prune(b.Context(), b.s, "x", 1)
		b.want(err, engine.ErrBusy)
	}},
	{"a reader that stays open sees the log in order", func(b *bundle) {
		l := b.begin("x")
		for n := int64(1); n < 300; n++ {
			b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", n))}})
		}
		n, last := int64(300), int64(0)
		b.ok(b.s.Entries(b.Context(), "x", 0, 0, func(e engine.Entry) error {
			if e.Seq != last+1 {
				return fmt.Errorf("entry %d after %d", e.Seq, last)
			}
			last = e.Seq
			if e.Seq%10 == 0 && n < 400 { // it writes while it reads
				b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", n))}})
				n++
			}
			return nil
		}))
		if last < 300 {
			b.Errorf("it ended at %d", last)
		}
		b.verify()
	}},
	{"a place that nobody may change can be read", func(b *bundle) {
		b.ok(b.turn(b.s, "x", 1))
		b.ok(b.s.Close())
		b.ok(os.Chmod(b.place, 0o400))
		look := b.backend.Look(b.T, b.place)
		defer func() { b.ok(look.Close()) }()
		v, err := look.At(b.Context(), "x", 0)
		if err != nil || v.State["turn"] != int64(1) {
			b.Errorf("state: %v", err)
		}
		if err := look.Create(b.Context(), engine.Thread{ID: "y"}); err == nil {
			b.Error("a thread was made")
		}
		if err := look.Delete(b.Context(), "x"); err == nil {
			b.Error("a thread was deleted")
		}
	}},
}
