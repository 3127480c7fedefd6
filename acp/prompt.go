package acp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// prompt is one session/prompt, from its arrival to its response. It may finish
// one turn and start the next.
type prompt struct {
	s      *session
	c      *client
	blocks []ContentBlock
	ctx    context.Context
	stop   context.CancelCauseFunc
	trace  Meta // context of the client's trace

	quit     atomic.Bool   // session/cancel, or the like, came
	answered chan struct{} // closed when it has its response

	text   string
	values engine.Values
	taken  bool  // the text was stored, as an input or as an answer
	ended  int64 // turn that ended in this prompt and was not concluded

	// How the dialog was left.
	dialogs   int
	fault     error     // the prompt fails with this
	undecided string    // what the person is told
	waits     bool      // for the text of the next prompt
	always    *Standing // what the answer that was just given decides for always
}

// errLeft says that a dialog was left: the turn stays paused.
var errLeft = errors.New("the dialog was left")

// cancelled ends the prompt: open dialogs are withdrawn, and work that runs is
// killed, which ends its turn. The engine decides which of both it is.
func (p *prompt) cancelled(cause error) {
	p.quit.Store(true)
	p.stop(cause)
}

// prompt registers the prompt, so that a cancel in the next line finds it, and runs
// it.
func (c *client) prompt(ctx context.Context, r *Request) {
	params, err := ParsePrompt(r.Params)
	if err == nil {
		err = c.server.media().takes(params.Prompt, "this agent")
	}
	if err == nil {
		err = wellFormed(params.Prompt)
	}
	if err != nil {
		_ = r.Fail(err)
		return
	}
	s := c.lookup(params.SessionID)
	p := &prompt{s: s, c: c, blocks: params.Prompt, trace: traceOf(params.Meta), answered: make(chan struct{})}
	p.ctx, p.stop = context.WithCancelCause(context.WithValue(ctx, traceKey{}, p.trace))
	s.mu.Lock()
	if s.active != nil {
		s.mu.Unlock()
		p.stop(nil)
		_ = r.Fail(SessionBusy(s.id))
		return
	}
	s.active = p
	opening := s.opening
	s.mu.Unlock()
	r.OnCancel(func() { p.cancelled(engine.ErrCancelled) })
	r.Go(func() {
		defer close(p.answered)
		defer p.release()
		if opening != nil {
			<-opening
		}
		s.settled()
		reason, err := p.run()
		p.release() // before the response: the next prompt may follow at once
		if p.quit.Load() && p.known() {
			// Whatever the cancel came to, and whatever error it raised.
			reason, err = StopCancelled, nil
		}
		c.respond(r, PromptResponse{StopReason: reason, Meta: p.trace}, err)
	})
}

// known reports whether there is such a session.
func (p *prompt) known() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.opened
}

func (p *prompt) release() {
	p.stop(nil)
	p.s.mu.Lock()
	if p.s.active == p {
		p.s.active = nil
	}
	opened := p.s.opened
	p.s.mu.Unlock()
	if !opened {
		p.s.forget()
	}
}

// run does all of the prompt but its response.
func (p *prompt) run() (StopReason, error) {
	if err := p.prepare(); err != nil {
		return "", err
	}
	if done, err := p.slash(); done {
		p.remember()
		return StopEndTurn, err
	}
	reason, err := p.turns()
	why := "The question is still open."
	if p.quit.Load() {
		why = "Cancelled."
	}
	p.s.story.closeCalls(why)
	p.tellTroubles()
	p.remember()
	return reason, err
}

// prepare opens a stored session that was not loaded, and makes the input.
func (p *prompt) prepare() (err error) {
	s, ctx := p.s, context.WithoutCancel(p.ctx)
	t, err := p.c.config.Store.Thread(ctx, s.id)
	if err != nil {
		return storeError(s.id, err)
	}
	if !p.known() {
		s.use(t)
	}
	if g := p.c.server.choice(t); g != s.served {
		s.serve(g)
	}
	if err := s.served.media.takes(p.blocks, "graph "+s.served.graph.Name()); err != nil {
		return err
	}
	s.announce(ctx)
	if s.session.MCPTools, err = p.listTools(p.ctx); err != nil {
		return AsError(err)
	}
	p.tellTroubles()
	p.text, p.values, err = s.served.adapter.input(s.served.graph, p.blocks, s.session)
	if err != nil {
		return Internal(err)
	}
	return nil
}

// turns runs the turn of this prompt, and before it what an older turn still
// wants. Somebody else may be first at every step; then it looks again.
func (p *prompt) turns() (StopReason, error) {
	const attempts = 10
	for attempt := 1; ; attempt++ {
		turn, err := p.start()
		var paused *engine.PausedError
		if !errors.As(err, &paused) {
			return p.outcome(turn, err)
		}
		if p.dialogs > 0 || turn == nil {
			return p.leftOpen(turn)
		}
		turn, again, err := p.settle(turn, paused.Questions)
		switch {
		case again && attempt < attempts:
		case p.taken:
			return p.outcome(turn, err)
		case err != nil || !turn.Status.Over():
			return p.outcome(turn, err)
		}
		// The older turn is over; now the text.
	}
}

func (p *prompt) engine() *engine.Engine {
	return engine.New(p.s.served.graph, p.c.config.Store, engine.Options{
		Events: p.event, Ask: p.ask, Sleep: true, Load: p.c.config.Load, Host: host{p},
	})
}

// start begins the turn of the text. A turn that a crash cut short is finished
// first, by the engine.
func (p *prompt) start() (*engine.Turn, error) {
	_, client := p.c.able()
	return p.engine().Start(p.ctx, p.s.id, engine.Input{
		Values: p.values, Text: p.text, Via: "acp", Client: client, Title: oneLine(p.text, 80),
	})
}

// event takes the events of the engine, one after the other.
func (p *prompt) event(ev engine.Event) {
	err := func() error {
		switch ev.Type {
		case engine.EventTurnStarted:
			return p.began(ev)
		case engine.EventAnswer:
			p.keep(ev.Answer)
		case engine.EventNote:
			p.c.log.Info("note of a turn", "session", p.s.id, "note", ev.Text)
		}
		if err := p.s.story.event(ev); err != nil {
			return err
		}
		if ev.Type == engine.EventTurnEnded && ev.Status.Over() {
			p.ended = ev.Turn
		}
		return nil
	}()
	if err != nil {
		p.c.log.Error("an event of a turn could not be told", "session", p.s.id, "error", err)
	}
}

// began takes the start of a turn: a new one, or one that is gone on with.
func (p *prompt) began(ev engine.Event) error {
	if ev.Entry == nil {
		return p.follow(ev.Turn)
	}
	if p.ended > 0 {
		// The engine has finished the turn that a crash had cut short.
		view, err := p.c.config.Store.At(context.WithoutCancel(p.ctx), p.s.id, ev.Entry.Seq-1)
		if err != nil {
			return err
		}
		p.ended = 0
		if err := p.s.story.conclude(view.Head.Seq, view.Head.Status, view.State); err != nil {
			return err
		}
	}
	p.taken = true
	if p.s.thread.Title == "" {
		p.s.thread.Title = oneLine(p.text, 80)
		p.c.notify(p.s.id, SessionInfoUpdate{Title: p.s.thread.Title, UpdatedAt: timestamp(ev.At)})
	}
	return p.s.story.event(ev)
}

// outcome makes the response of how a call of the engine ended.
func (p *prompt) outcome(turn *engine.Turn, err error) (StopReason, error) {
	var failed *engine.TurnError
	switch {
	case errors.As(err, &failed):
		return p.failed(failed)
	case errors.Is(err, engine.ErrStopped), err != nil && p.ctx.Err() != nil:
		return "", NewError(CodeRequestCancelled, "the agent was stopped; the turn can be gone on with", map[string]string{"sessionId": p.s.id})
	case errors.Is(err, engine.ErrInvalid):
		return "", Internal(err)
	case err != nil:
		return "", storeError(p.s.id, err)
	}
	switch turn.Status {
	case engine.Done, engine.Rejected:
		p.ended = 0
		if err := p.s.story.conclude(turn.Head, turn.Status, turn.State); err != nil {
			return "", Internal(err)
		}
		if p.s.story.cutShort() {
			return StopMaxTokens, nil
		}
		return StopEndTurn, nil
	case engine.Cancelled:
		return StopCancelled, nil
	case engine.Paused, engine.Sleeping, engine.Running:
		return p.leftOpen(turn)
	}
	return "", Internal(fmt.Errorf("the turn is %s", turn.Status))
}

func (p *prompt) failed(failed *engine.TurnError) (StopReason, error) {
	if errors.Is(failed, engine.ErrStepLimit) && p.taken {
		return StopMaxTurnRequests, nil
	}
	if reason := modelStopped(failed); reason != "" && p.taken {
		p.say(failed.Cause.Error())
		return reason, nil
	}
	message := failed.Error()
	if !p.taken {
		message += " (this was an older turn: the text of the prompt was not used)"
	}
	return "", NewError(CodeInternalError, message, map[string]any{
		"code": failed.Code, "node": failed.Node, "task": failed.Task, "cause": failed.Cause.Error(), "sessionId": p.s.id,
	})
}

// modelStopped is the reason if a model, or what it may cost, ended the turn.
func modelStopped(failed *engine.TurnError) StopReason {
	switch {
	case errors.Is(failed, engine.ErrBudget):
		return StopMaxTokens
	case errors.Is(failed, engine.ErrRefusal):
		return StopRefusal
	}
	return ""
}

// leftOpen ends a prompt whose turn stays paused: with the reason, and with what
// became of the text.
func (p *prompt) leftOpen(turn *engine.Turn) (StopReason, error) {
	if p.fault != nil {
		return "", p.fault
	}
	if p.quit.Load() {
		return StopCancelled, nil
	}
	text := p.undecided
	switch {
	case p.waits:
	case turn != nil && turn.Status == engine.Sleeping:
		text = "The turn sleeps; it goes on when its time or its signal has come."
	case turn != nil && turn.Elsewhere && p.taken:
		text = "The answer is stored; another process, which waits for it, goes on with the turn."
	case turn != nil && turn.Elsewhere:
		text = "The question is open in another process, which waits for its answer. Answer it there, or with agent answer."
	case text == "":
		text = "The turn is paused."
	}
	if !p.taken {
		text += " The text of this prompt was not used."
	}
	if text != "" {
		p.say(text)
	}
	return StopEndTurn, nil
}

// say tells a sentence of the agent itself, a message of its own.
func (p *prompt) say(text string) {
	var random [6]byte
	_, _ = rand.Read(random[:])
	p.c.notify(p.s.id, AgentMessageChunk{Content: TextBlock(text), MessageID: "note-" + hex.EncodeToString(random[:])})
}

// remember stores, at the end of the prompt, what the next one must know.
func (p *prompt) remember() {
	s := p.s
	ctx := context.WithoutCancel(p.ctx)
	if s.waits != s.stored {
		var v any
		if s.waits != "" {
			v = s.waits
		}
		// If the process dies before this, the next prompt asks again instead of
		// taking its text for the answer.
		_, err := p.c.change(ctx, s.id, func(t *engine.Thread) error { setOption(t, waitsOption, v); return nil })
		if err != nil {
			p.c.log.Warn("the session could not be stored", "session", s.id, "error", err)
			s.waits = ""
		}
		s.stored = s.waits
	}
}

// by completes an answer that came from this client.
func (p *prompt) by(a interrupt.Answer) interrupt.Answer {
	_, client := p.c.able()
	a.Via, a.Client = "acp", client
	return a
}
