package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// turnJSON is a turn of a thread.
type turnJSON struct {
	Turn    int64         `json:"turn"`
	Began   engine.Kind   `json:"began"` // input or fork
	Text    string        `json:"text"`
	From    string        `json:"from,omitempty"` // of a fork
	Graph   string        `json:"graph"`
	Status  engine.Status `json:"status"`
	Steps   int64         `json:"steps"`
	First   int64         `json:"first"`
	Last    int64         `json:"last"`
	BegunAt string        `json:"begun_at"`
	EndedAt *string       `json:"ended_at"`
	Actor   string        `json:"actor"`
}

// turnOf is a turn as its entries tell.
type turnOf struct {
	first, last engine.Entry
	steps       int64
}

// turns lists the turns of a thread. It reads the small columns of the log, and
// the payload of what began each turn only.
func (a *app) turns(ctx context.Context, s *store.Store, thread string, asJSON bool) error {
	var all []turnOf
	err := eachEntry(ctx, s, thread, func(e engine.Entry) error {
		if n := len(all); n == 0 || all[n-1].first.Turn != e.Turn {
			all = append(all, turnOf{first: e})
		}
		t := &all[len(all)-1]
		t.last = e
		if e.Kind == engine.KindStep && e.Namespace == "" {
			t.steps++
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := a.out.table("TURN", "STATUS", "STEPS", "ENTRIES", "BEGUN", "ENDED", "WHO", "BEGAN WITH")
	for _, t := range all {
		line, err := newTurnJSON(ctx, s, thread, t)
		if err != nil {
			return err
		}
		if !asJSON {
			table.row(fmt.Sprint(line.Turn), string(line.Status), fmt.Sprint(line.Steps), fmt.Sprintf("%d-%d", line.First, line.Last),
				localTime(t.first.At), localTime(t.ended()), line.Actor, line.beginning())
		} else if err := a.out.json(line); err != nil {
			return nil // kept by out, and said at the end
		}
	}
	if asJSON {
		return nil
	}
	return table.flush()
}

// ended is when the turn was over; zero if it is not.
func (t turnOf) ended() time.Time {
	if t.last.Status.Over() {
		return t.last.At
	}
	return time.Time{}
}

func newTurnJSON(ctx context.Context, s *store.Store, thread string, t turnOf) (turnJSON, error) {
	out := turnJSON{
		Turn: t.first.Turn, Began: t.first.Kind, Status: t.last.Status, Steps: t.steps,
		First: t.first.Seq, Last: t.last.Seq, BegunAt: jsonTime(t.first.At), Actor: t.first.Actor,
	}
	if at := t.ended(); !at.IsZero() {
		text := jsonTime(at)
		out.EndedAt = &text
	}
	err := s.Entries(ctx, thread, t.first.Seq-1, 1, func(e engine.Entry) error {
		if in := e.Payload.Input; in != nil { // nil if it was removed
			out.Text, out.Graph = in.Text, in.Name
		}
		out.From = e.Payload.From
		return nil
	})
	return out, err
}

// beginning says what a turn began with.
func (t turnJSON) beginning() string {
	text := shorten(oneLine(t.Text), 60)
	switch {
	case t.From != "":
		return "fork of " + t.From
	case text == "":
		return "graph " + t.Graph
	}
	return text
}
