package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// The modes of a session, stored as the mode of its thread. Empty is ModeAsk.
const (
	ModeAsk         = "ask"          // a person decides at every gate
	ModeAutoApprove = "auto-approve" // gates are approved; every other question is asked
)

// modeByOption says who set the mode, among the facts of a thread.
const modeByOption = "acp.mode_by"

var sessionModes = []Mode{
	{ID: ModeAsk, Name: "Ask", Description: "You decide at every gate"},
	{ID: ModeAutoApprove, Name: "Auto-approve", Description: "Gates are approved by themselves, on your word; choices, questions and doubts are still asked"},
}

// modeOf is the mode of a thread. What is not known is not obeyed.
func modeOf(t engine.Thread) string {
	if t.Mode == ModeAutoApprove {
		return ModeAutoApprove
	}
	return ModeAsk
}

func isMode(id string) bool {
	for _, m := range sessionModes {
		if m.ID == id {
			return true
		}
	}
	return false
}

// author says who decided something, and when.
type author struct {
	Actor  string    `json:"actor"`
	Client string    `json:"client"`
	At     time.Time `json:"at"`
}

func (c *client) author() author {
	_, name := c.able()
	return author{Actor: engine.OSUser(), Client: name, At: time.Now().UTC().Truncate(time.Millisecond)}
}

// setMode makes the change of a thread's mode.
func (c *client) setMode(id string) func(*engine.Thread) error {
	by := c.author()
	return func(t *engine.Thread) error {
		if modeOf(*t) == id {
			return nil // who set it stays who set it
		}
		t.Mode = id
		setOption(t, modeByOption, map[string]any{"actor": by.Actor, "client": by.Client, "at": by.At.Format(time.RFC3339Nano)})
		return nil
	}
}

// ModeBy says who set the mode of a session, through which client and when. Empty:
// nobody did, or it is not known.
func ModeBy(t engine.Thread) (actor, client string, at time.Time) {
	m, _ := t.Options[modeByOption].(map[string]any)
	actor, _ = m["actor"].(string)
	client, _ = m["client"].(string)
	text, _ := m["at"].(string)
	at, _ = time.Parse(time.RFC3339Nano, text)
	return actor, client, at
}

// handleSetMode handles session/set_mode.
func (c *client) handleSetMode(ctx context.Context, s *session, params json.RawMessage) (any, error) {
	p, err := ParseSetMode(params)
	if err != nil {
		return nil, err
	}
	// Who does not know the session hears of that first.
	if _, err := c.config.Store.Thread(ctx, p.SessionID); err != nil {
		return nil, storeError(p.SessionID, err)
	}
	if !isMode(p.ModeID) {
		return nil, InvalidParams("params.modeId", fmt.Sprintf("must be %q or %q, not %q", ModeAsk, ModeAutoApprove, shorten(p.ModeID)))
	}
	if _, err := c.change(ctx, p.SessionID, c.setMode(p.ModeID)); err != nil {
		return nil, err
	}
	s.announce(ctx)
	return nil, nil
}

// decided gives the answer of a question that needs no dialog: by what a person
// chose for always, which counts first, or by the mode. It is looked up when the
// dialog would open, so that a change counts for every dialog that opens later;
// one that is open stays with the person.
//
// A doubt is decided by neither, nor is what no choice answers; and the mode
// approves gates and nothing else. If the thread cannot be read, a person is asked.
func (p *prompt) decided(ctx context.Context, q interrupt.Question) (a interrupt.Answer, ok bool) {
	if q.IsDoubt() || len(q.Options()) == 0 {
		return a, false
	}
	p.s.settled()
	t, err := p.c.config.Store.Thread(ctx, p.s.id)
	if err != nil {
		p.c.log.Warn("the mode of a session could not be read, so a person is asked", "session", p.s.id, "error", err)
		return a, false
	}
	p.s.announce(ctx) // another process may have changed it
	if a, ok = p.byStanding(t, q); ok {
		return a, true
	}
	if !q.IsGate() || modeOf(t) != ModeAutoApprove {
		return a, false
	}
	actor, client, at := ModeBy(t)
	a = interrupt.Answer{
		Choice: interrupt.Approve, Actor: actor, Client: client, Via: "mode",
		Reason: fmt.Sprintf("mode %s, set %s", ModeAutoApprove, at.Format(time.RFC3339)),
	}
	a, err = q.Check(a)
	return a, err == nil
}

// byStanding answers by what was chosen for always, if that is still offered.
func (p *prompt) byStanding(t engine.Thread, q interrupt.Question) (a interrupt.Answer, ok bool) {
	options, namespace := p.s.story.offered(q.ID())
	here := place(t, namespace, q)
	for _, s := range Standings(t) {
		if !s.same(here) || s.Graph != here.Graph {
			continue
		}
		for _, o := range options {
			if o.OptionID != s.Option || o.Kind != s.Kind || !o.forAlways() {
				continue
			}
			v, err := p.value(q, o)
			if err == nil {
				a, err = q.Check(interrupt.Answer{Value: v})
			}
			if err != nil {
				p.c.log.Warn("what was decided for always is no answer any more, so a person is asked", "session", p.s.id, "question", q.ID(), "error", err)
				return a, false
			}
			a.Actor, a.Client, a.Via, a.Origin = s.Actor, s.Client, "always", s.Origin
			a.Reason = fmt.Sprintf("%q was chosen at %s", s.Label, s.Origin)
			return a, true
		}
	}
	return a, false
}

// value is the answer that an option stands for.
func (p *prompt) value(q interrupt.Question, o PermissionOption) (any, error) {
	return guarded("InterruptAnswer", func() (any, error) {
		return p.s.served.adapter.InterruptAnswer(q, decision(o.OptionID))
	})
}

// standing is what an option decides for always.
func (p *prompt) standing(ctx context.Context, q interrupt.Question, o PermissionOption) (*Standing, error) {
	t, err := p.c.config.Store.Thread(ctx, p.s.id)
	if err != nil {
		return nil, err
	}
	_, namespace := p.s.story.offered(q.ID())
	s, by := place(t, namespace, q), p.c.author()
	s.Option, s.Kind, s.Label = o.OptionID, o.Kind, o.Name
	s.Actor, s.Client, s.At, s.Origin = by.Actor, by.Client, by.At, q.ID()
	return &s, nil
}

// keep stores what was decided for always, once the answer itself is stored. If
// the process dies before this, the person is asked again.
func (p *prompt) keep(a *interrupt.Answer) {
	s := p.always
	if s == nil || a == nil || a.Question != s.Origin {
		return
	}
	p.always = nil
	if a.Origin != s.Origin {
		return // somebody else was first
	}
	ctx := context.WithoutCancel(p.ctx)
	if _, err := p.c.change(ctx, p.s.id, remember(*s)); err != nil {
		p.c.log.Error("what was decided for always could not be stored", "session", p.s.id, "error", err)
		p.say("The decision holds this once: it could not be stored for later questions.")
		return
	}
	p.s.announce(ctx)
}
