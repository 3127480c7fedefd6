package acp

import (
	"strings"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/engine"
)

// What a running task prints is shown as it comes: the newest bytes of it, and
// not more often than a person can read.
const (
	maxLive   = 8 << 10
	liveEvery = 250 // ms
)

// event takes a live event of the turn.
func (s *story) event(ev engine.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Type {
	case engine.EventTaskStarted:
		s.started(ev)
	case engine.EventOutput:
		s.printed(ev)
	case engine.EventShown:
		s.shownLive(ev)
	case engine.EventUsage:
		s.used(ev.Usage)
	case engine.EventTaskFinished:
		s.endShown(ev.Base, ev.Task, "")
		if c := s.callOf(ev.Base, ev.Task); c != nil {
			s.completed(c, nil, written(ev.Writes))
		}
	case engine.EventTaskFailed:
		if ev.Err != nil {
			s.endShown(ev.Base, ev.Task, ev.Err.Error())
		}
		if c := s.callOf(ev.Base, ev.Task); c != nil && ev.Err != nil {
			s.failed(c, nil, ev.Err.Error())
		}
	}
	if ev.Entry == nil {
		return nil
	}
	err := s.add(ev.Entry)
	if ev.Type == engine.EventTurnStarted || ev.Type == engine.EventStep {
		s.showPlan()
	}
	return err
}

// started tells a task that runs. A task without anything to show has no call,
// unless a person was asked about it.
func (s *story) started(ev engine.Event) {
	s.bases[ev.Namespace] = ev.Base
	s.plan.started(ev)
	s.showPlan()
	id := taskCallID(ev.Base, ev.Task)
	c := s.calls[id]
	if c == nil {
		if ev.Resolved == nil {
			return
		}
		c = s.call(id, ev.Task)
	}
	c.output, c.terminal = "", ""
	c.runs(ev.Node, ev.Resolved)
	c.Content = c.showing()
	s.update(c, ToolInProgress)
}

// used tells what the turn has used. A client shows how full the model's window is:
// where nobody knows that, there is nothing to tell.
func (s *story) used(u *engine.Usage) {
	if u == nil || u.Window <= 0 {
		return
	}
	update := UsageUpdate{Used: uint64(max(0, u.Context)), Size: uint64(u.Window)}
	if u.Cost > 0 && u.Currency != "" {
		update.Cost = &Cost{Amount: u.Cost, Currency: u.Currency}
	}
	s.say(update)
}

func (s *story) printed(ev engine.Event) {
	c := s.callOf(ev.Base, ev.Task)
	if c == nil || c.over() {
		return
	}
	c.output += ev.Text
	if n := len(c.output) - maxLive; n > 0 {
		for n < len(c.output) && !utf8.RuneStart(c.output[n]) {
			n++
		}
		c.output = strings.Clone(c.output[n:])
	}
	now := ev.At.UnixMilli()
	if now-c.told < liveEvery {
		return
	}
	c.told = now
	s.say(ToolCallUpdate{ToolCallID: c.ToolCallID, Content: c.showing(fenced("", c.output))})
}

// inTerminal shows the client's terminal in the call of a task.
func (s *story) inTerminal(base int64, task, terminal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[taskCallID(base, task)]
	if c == nil {
		return
	}
	c.terminal = terminal
	s.say(ToolCallUpdate{ToolCallID: c.ToolCallID, Content: c.showing()})
}

// closeCalls makes every call of the prompt terminal, because its response comes
// next: a question that stays open is offered again by a later prompt.
func (s *story) closeCalls(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeOpen(why)
}

// offer shows a question's call as pending and gives it as it is asked.
func (s *story) offer(id string) (ask *asked, call ToolCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask = s.questions[id]
	if ask == nil || ask.call == nil || ask.err != nil {
		return ask, ToolCall{}
	}
	if c := ask.call; !c.announced || c.status != ToolPending {
		c.Content = c.showing()
		s.update(c, ToolPending)
	}
	call = ask.call.ToolCall
	call.Status = ToolPending
	return ask, call
}

// offered gives the options of a question, and the namespace that it is of.
func (s *story) offered(id string) (options []PermissionOption, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := s.questions[id]
	if ask == nil {
		return nil, ""
	}
	return ask.options, ask.namespace
}

// at gives the seq that the story has come to, if it is at this turn.
func (s *story) at(turn int64) (seq int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.turn == turn && turn > 0
}

// absorb takes an entry that this process did not see happen, and tells nothing of
// it.
func (s *story) absorb(e engine.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = true
	defer func() { s.quiet = false }()
	return s.add(&e)
}

// conclude tells what the agent says at the end of a turn.
func (s *story) conclude(seq int64, status engine.Status, state map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finish(seq, status, state)
}

func (s *story) showPlan() {
	if u, changed := s.plan.update(); changed {
		s.say(u)
	}
}

// cutShort reports whether the turn ended with an answer that was cut.
func (s *story) cutShort() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote.cutShort()
}
