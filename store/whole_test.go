package store

import (
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestATurnThatChangedItsGraphIsPrunedAndRedactedLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	change := func(n int) {
		l := b.load(b.s, "x")
		in := input(int64(n), set("added", int64(n)))
		in.Kind, in.Payload.Input.MaxSteps, in.Step = engine.KindGraph, 7, 1
		b.commit(l, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(int64(n), set("turn", int64(n)))}})
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(int64(n), 1, set("secret", "x")), in, step(int64(n), 2, set("secret", nil))}})
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(int64(n), 3), engine.Done)}})
	}
	turn(b, "x", 1)
	change(2) // 4 to 8
	turn(b, "x", 3)
	change(4) // 12 to 16
	b.redact("x@13")
	v, err := b.s.At(t.Context(), "x", 0)
	if err != nil || v.InputSeq != 14 || v.MaxSteps != 7 || v.OutsideStep != 1 || v.State["added"] != int64(4) {
		t.Errorf("view: %+v, %v", v, err)
	}
	b.verify()
	if p := b.prune("x", Retention{Turns: 2}); p.UpTo != 8 || p.Entries != 8 {
		t.Errorf("pruned: %+v", p)
	}
	if s, err := b.stateAt("x", 8); err != nil || s["added"] != int64(2) {
		t.Errorf("state: %v, %v", s, err)
	}
	b.verify()
}
