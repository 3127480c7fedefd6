package storetest

import (
	"context"
	"errors"

	"github.com/holdfast-agent/holdfast/engine"
)

var leaseCases = []testCase{
	{"one handle moves a thread", func(b *bundle) {
		l := b.begin("x")
		for _, s := range []Store{b.s, b.open()} {
			err := b.load(s, "x").Commit(b.Context(), &engine.Commit{Take: engine.TakeFree})
			var busy *engine.BusyError
			if !errors.As(err, &busy) || !busy.Owner.Alive || busy.Owner.Self != (s == b.s) {
				b.Errorf("got %v", err)
			}
			b.want(b.load(s, "x").Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrBusy)
		}
		b.ok(l.Close())
		b.commit(b.load(b.s, "x"), &engine.Commit{Take: engine.TakeFree})
		if v := b.at("x", 0); v.Thread.Fence != 2 || v.Thread.Crashes != 0 {
			b.Errorf("thread: %+v", v.Thread)
		}
	}},
	{"the fence refuses who was taken over", func(b *bundle) {
		l, other := b.begin("x"), b.load(b.open(), "x")
		b.commit(other, &engine.Commit{Take: engine.TakeOver})
		b.want(l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrConflict)
		b.want(l.Put(b.Context(), engine.Result{Task: "late"}), engine.ErrConflict)
		b.ok(l.Close()) // which gives away nothing that is not its own
		b.commit(other, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
		if v := b.at("x", 0); v.Thread.Head != 2 || len(v.Results) != 0 {
			b.Errorf("thread: %+v", v.Thread)
		}
		b.verify()
	}},
	{"who waits keeps the lease while others answer", func(b *bundle) {
		l := b.begin("x")
		b.commit(l, &engine.Commit{Leave: engine.LeaseWaiting, Entries: []*engine.Entry{pause(1, 0, "a")}})
		other := b.load(b.open(), "x")
		b.want(other.Commit(b.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrBusy)
		b.commit(other, &engine.Commit{Entries: []*engine.Entry{answer("x@2", 1, 0, engine.Running, "approve")}})
		b.want(l.Commit(b.Context(), &engine.Commit{}), engine.ErrConflict)
		b.ok(l.Reload(b.Context()))
		b.commit(l, &engine.Commit{})
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
		b.verify()
	}},
	{"a cancel request stops every entry but the cancel", func(b *bundle) {
		l, other := b.begin("x"), b.load(b.open(), "x")
		b.commit(other, &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}})
		b.want(l.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}), engine.ErrCancelRequested)
		b.ok(l.Put(b.Context(), engine.Result{Task: "a", Value: []byte("1")}))
		end := ended(step(1, 1), engine.Cancelled)
		end.Kind = engine.KindEnd
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{end}})
		if v := b.at("x", 0); v.Thread.CancelRequested || v.Thread.Status != engine.Cancelled {
			b.Errorf("thread: %+v", v.Thread)
		}
		b.want(other.Commit(b.Context(), &engine.Commit{RequestCancel: &engine.By{Actor: "ada"}}), engine.ErrConflict)
	}},
	{"rule 5: a take sees every result", func(b *bundle) {
		l, late := b.begin("x"), b.load(b.s, "x")
		b.ok(l.Put(b.Context(), engine.Result{Task: "a", Value: []byte("1")}))
		b.ok(l.Close())
		b.want(late.Commit(b.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrConflict)
		b.ok(late.Reload(b.Context()))
		b.commit(late, &engine.Commit{Take: engine.TakeFree})
		b.want(late.Put(b.Context(), engine.Result{Task: "a", Value: []byte("2")}), engine.ErrConflict)
	}},
	{"rule 8: a caller that is gone does not cancel its commit", func(b *bundle) {
		l := b.begin("x")
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		b.ok(l.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}}))
		if v := b.at("x", 0); v.Thread.Head != 2 {
			b.Errorf("head %d", v.Thread.Head)
		}
	}},
	{"rule 4: a failed commit is read back", func(b *bundle) {
		// Applied or not, it is stored once, and its caller hears that it is.
		for _, applied := range []bool{true, false} {
			l := b.begin(map[bool]string{true: "applied", false: "not"}[applied])
			for _, c := range []*engine.Commit{
				{Entries: []*engine.Entry{step(1, 1, push("log", "a"))}},
				{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 1, "a")}},
				{Entries: []*engine.Entry{answer(l.View().Thread.ID+"@3", 1, 1, engine.Running, "approve")}},
				{Take: engine.TakeFree},
				{Leave: engine.LeaseFree, Entries: []*engine.Entry{ended(step(1, 2, push("log", "b")), engine.Done)}},
			} {
				b.backend.Fail(b.T, b.place, applied)
				b.commit(l, c)
			}
			v := b.at(l.View().Thread.ID, 0)
			if v.Thread.Head != 5 || len(v.State["log"].([]any)) != 2 || v.Thread.Fence != 2 || v.Thread.Status != engine.Done {
				b.Errorf("applied %v: %+v, %v", applied, v.Thread, v.State)
			}
		}
		b.verify()
	}},
}
