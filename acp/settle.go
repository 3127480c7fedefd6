package acp

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// settle goes on with a paused turn. The text of the prompt is the answer where
// the last prompt said that it waits for text, or where it names an option of the
// one open question; else the person is asked again. again says that somebody
// else was first.
func (p *prompt) settle(turn *engine.Turn, open []interrupt.Question) (_ *engine.Turn, again bool, err error) {
	if err := p.follow(turn.Number); err != nil {
		return turn, false, err
	}
	var answers []interrupt.Answer
	if a, ok := p.textAnswers(open); ok {
		answers = append(answers, p.by(a))
		p.taken = true
	}
	p.s.waits = ""
	turn, err = p.engine().Resume(p.ctx, p.s.id, answers...)
	if errors.Is(err, engine.ErrAnswered) || errors.Is(err, engine.ErrVoid) {
		p.taken = false
		return turn, true, nil
	}
	if err == nil && !p.taken && turn.Status.Over() {
		p.ended = 0
		if turn.Status != engine.Cancelled {
			err = p.s.story.conclude(turn.Head, turn.Status, turn.State)
		}
		if p.quit.Load() && err == nil {
			err = p.ctx.Err()
		}
		p.dialogs = 0
	}
	return turn, false, err
}

// textAnswers reads the text of the prompt as an answer.
func (p *prompt) textAnswers(open []interrupt.Question) (interrupt.Answer, bool) {
	for _, q := range open {
		if q.ID() == p.s.waits && len(q.Options()) == 0 {
			v, err := q.Read(p.text)
			return interrupt.Answer{Question: q.ID(), Value: v}, err == nil && strings.TrimSpace(p.text) != ""
		}
	}
	if len(open) != 1 || open[0].IsDoubt() {
		return interrupt.Answer{}, false
	}
	q := open[0]
	said := strings.TrimSpace(p.text)
	found := ""
	for _, o := range q.Options() {
		if !strings.EqualFold(said, o.ID) && !strings.EqualFold(said, o.Name) {
			continue
		}
		if found != "" {
			return interrupt.Answer{}, false // it means two
		}
		found = o.ID
	}
	return interrupt.Answer{Question: q.ID(), Choice: found}, found != "" && said != ""
}

// follow brings the story to where the log is: what this process did not see is
// taken in, and not told.
func (p *prompt) follow(turn int64) error {
	ctx, store, story := context.WithoutCancel(p.ctx), p.c.config.Store, p.s.story
	after, known := story.at(turn)
	if !known {
		var err error
		if after, err = turnBegan(ctx, store, p.s.id, turn); err != nil {
			return err
		}
	}
	return store.Entries(ctx, p.s.id, after, 0, story.absorb)
}

// turnBegan gives the seq before a turn's first entry. It looks from the end of
// the log, because a session may have many turns.
func turnBegan(ctx context.Context, store engine.Store, thread string, turn int64) (int64, error) {
	view, err := store.At(ctx, thread, 0)
	if err != nil {
		return 0, err
	}
	const chunk = 64
	for after := view.Thread.Head; after > 0; {
		after = max(0, after-chunk)
		last := int64(-1)
		err := store.Entries(ctx, thread, after, chunk, func(e engine.Entry) error {
			if e.Turn < turn {
				last = e.Seq
			}
			return nil
		})
		if err != nil || last >= 0 {
			return max(last, 0), err
		}
	}
	return 0, nil
}
