package acp

import (
	"bytes"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// story tells the log of a thread as the updates of a session. A replay gives it
// all entries; a live turn gives it the same entries as they are stored, and its
// progress in between. So both tell the same, under the same ids.
//
// It keeps what belongs to the newest turn, and nothing of those before.
type story struct {
	thread  string
	adapter *Adapter
	tell    func(SessionUpdate)

	mu        sync.Mutex
	replaying bool           // what the client showed itself is told too
	quiet     bool           // nothing is told
	state     map[string]any // of a replay: folded from the log

	last      int64 // seq of the newest entry that was told
	turn      int64
	bases     map[string]int64 // by namespace
	calls     map[string]*toolCall
	order     []*toolCall
	questions map[string]*asked
	wrote     outputs
	texts     map[string][]byte // messages that tasks showed, by id
	said      string            // the newest of them
	end       *engine.EndRecord
	plan      *plan
}

func newStory(thread string, adapter *Adapter, plan *plan, tell func(SessionUpdate)) *story {
	s := &story{thread: thread, adapter: adapter, tell: tell, plan: plan}
	s.reset(0)
	return s
}

// serve makes it a story of another graph, from the next turn on.
func (s *story) serve(g *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adapter, s.plan = g.adapter, newPlan(g.graph)
}

func (s *story) reset(turn int64) {
	s.turn, s.end = turn, nil
	s.bases = map[string]int64{}
	s.calls, s.order = map[string]*toolCall{}, nil
	s.questions = map[string]*asked{}
	s.wrote = outputs{}
	s.texts, s.said = map[string][]byte{}, ""
	s.plan.reset()
}

// say tells an update, unless nothing is told.
func (s *story) say(u SessionUpdate) {
	if !s.quiet {
		s.tell(u)
	}
}

func (s *story) sayText(id, text string) {
	for _, part := range SplitText(text) {
		s.say(AgentMessageChunk{Content: TextBlock(part), MessageID: id})
	}
}

// sayUser tells a block of what the user said.
func (s *story) sayUser(id string, b ContentBlock) {
	if b.Type != ContentText {
		s.say(UserMessageChunk{Content: b, MessageID: id})
		return
	}
	for _, part := range SplitText(b.Text) {
		s.say(UserMessageChunk{Content: TextBlock(part), MessageID: id})
	}
}

// add takes an entry of the log. The caller holds the lock.
func (s *story) add(e *engine.Entry) error {
	if e.Seq <= s.last {
		return nil
	}
	s.last = e.Seq
	if s.state != nil {
		if err := engine.Fold(s.state, &e.Payload, e.Kind); err != nil && e.Namespace == "" {
			return err
		}
	}
	if e.Turn != s.turn && e.Kind != engine.KindInput {
		s.reset(e.Turn) // a fork
	}
	base, known := s.bases[e.Namespace]
	if !known {
		base = e.Base
	}
	switch e.Kind {
	case engine.KindInput:
		s.input(e)
	case engine.KindPause:
		s.pause(e)
	case engine.KindAnswer:
		s.answer(e)
	case engine.KindStep:
		s.step(e, base)
	case engine.KindEnd:
		s.ended(e, base)
	case engine.KindUpdate, engine.KindFork:
		// What was open is not any more; if it still matters it is asked anew.
		s.closeOpen("The state was changed; this does not count any more.")
	}
	s.bases[e.Namespace] = e.Base
	if e.Kind.MovesBase() {
		s.bases[e.Namespace] = e.Seq
	}
	// Of a turn whose payloads were removed there is no reply to tell.
	if s.replaying && !e.Removed && e.Namespace == "" && e.Status.Over() && (e.Kind == engine.KindStep || e.Kind == engine.KindEnd) {
		return s.finish(e.Seq, e.Status, s.state)
	}
	return nil
}

func (s *story) input(e *engine.Entry) {
	if e.Namespace != "" {
		return
	}
	s.reset(e.Turn)
	in := e.Payload.Input
	if !s.replaying || in == nil {
		return
	}
	if blocks := promptBlocks(e); blocks != nil {
		for _, b := range blocks {
			s.sayUser("user-"+strconv.FormatInt(e.Seq, 10), b)
		}
		return
	}
	if in.Text == "" {
		return
	}
	for _, part := range SplitText(in.Text) {
		s.say(UserMessageChunk{Content: TextBlock(part), MessageID: "user-" + strconv.FormatInt(e.Seq, 10)})
	}
}

// pause notes a question. A replay shows it; live that is done with its dialog.
func (s *story) pause(e *engine.Entry) {
	q, ok := e.Question(s.thread)
	if !ok {
		return
	}
	if q.Wait != nil {
		return // for the clock or a signal, not for a person
	}
	ask := &asked{question: q, namespace: e.Namespace}
	s.questions[q.ID()] = ask
	var permission *Permission
	if len(q.Options()) > 0 {
		permission, ask.err = guarded("InterruptPermission", func() (*Permission, error) { return s.adapter.InterruptPermission(q) })
	}
	if permission == nil {
		if s.replaying && len(q.Options()) == 0 {
			s.sayText("ask-"+strconv.FormatInt(e.Seq, 10), questionText(q))
		}
		return
	}
	id := questionCallID(q, e.Base, e.Seq)
	call := s.calls[id]
	if call == nil {
		call = s.call(id, q.Task)
	}
	announced := call.ToolCall
	call.ToolCall = permission.ToolCall
	call.ToolCallID, call.about = id, permission.ToolCall.Content
	if q.Payload.Kind == interrupt.Before {
		call.shown = q.Shows
	} else if q.IsDoubt() && q.Doubt.Effect != nil {
		call.shown = q.Doubt.Effect
	}
	if q.IsDoubt() && announced.Kind != "" {
		call.Kind = announced.Kind // it is the call of the task, which is known already
	}
	ask.call, ask.options = call, permission.Options
	if q.IsDoubt() {
		// Whether an effect happened is asked every time.
		ask.options = slices.Clone(ask.options)
		for i := range ask.options {
			switch o := &ask.options[i]; o.Kind {
			case AllowAlways:
				o.Kind = AllowOnce
			case RejectAlways:
				o.Kind = RejectOnce
			}
		}
	}
	call.Content = call.showing()
	if s.replaying {
		s.update(call, ToolPending)
	}
}

func (s *story) call(id, task string) *toolCall {
	c := &toolCall{ToolCall: ToolCall{ToolCallID: id}, task: task}
	s.calls[id] = c
	s.order = append(s.order, c)
	return c
}

// update tells the whole call with a status: announced once, changed later.
func (s *story) update(c *toolCall, status ToolStatus) {
	c.status = status
	if s.quiet {
		return
	}
	c.Status = status
	u, before := c.Update(), c.known
	c.known = c.ToolCall
	if !c.announced {
		c.announced = true
		s.say(c.ToolCall)
		return
	}
	// What has not changed is left out.
	if u.Title == before.Title {
		u.Title = ""
	}
	if u.Kind == before.Kind {
		u.Kind = ""
	}
	if bytes.Equal(u.RawInput, before.RawInput) {
		u.RawInput = nil
	}
	if status != ToolPending {
		u.Meta = nil // it is about the question
	}
	s.say(u)
}

// answer tells what a decision made of its call.
func (s *story) answer(e *engine.Entry) {
	a := e.Payload.Answer
	if a == nil {
		return
	}
	ask := s.questions[a.Question]
	if ask == nil {
		return
	}
	c, q := ask.call, ask.question
	if c == nil {
		if s.replaying && len(q.Options()) == 0 {
			s.say(UserMessageChunk{Content: TextBlock(cut(told(a.Value))), MessageID: "answer-" + strconv.FormatInt(e.Seq, 10)})
		}
		return
	}
	c.notes = append(c.notes, ToolText(decided(q, *a)))
	c.Content = c.showing()
	switch {
	case q.IsGate() && a.Choice != interrupt.Approve:
		s.update(c, ToolFailed)
	case q.Payload.Kind == interrupt.Before, q.IsDoubt():
		// What it comes to is told by its task.
	default:
		c.RawOutput = value.Append(nil, a.Value)
		s.update(c, ToolCompleted)
	}
}

// step tells the calls of the tasks that finished, and notes what they wrote.
func (s *story) step(e *engine.Entry, base int64) {
	for _, task := range e.Tasks {
		s.showAll(e, base, task)
		s.endShown(base, task, "")
		resolved := e.Payload.Ran[task]
		c := s.callOf(base, task)
		if c == nil && resolved == nil {
			continue
		}
		if c == nil {
			c = s.call(taskCallID(base, task), task)
		}
		if c.over() && c.announced && !s.replaying {
			continue // told as it happened
		}
		if failure, failed := e.Payload.Failures[task]; failed {
			s.failed(c, resolved, failure.Cause)
			continue
		}
		s.completed(c, resolved, writtenBy(task, e.Payload.Ops))
	}
	s.plan.step(e)
	if e.Namespace != "" {
		return
	}
	clear(s.bases) // visits of subgraphs are over
	s.wrote.step(e)
}

// callOf finds the call of a task, unless it has none.
func (s *story) callOf(base int64, task string) *toolCall {
	return s.calls[taskCallID(base, task)]
}

func (s *story) completed(c *toolCall, resolved, wrote any) {
	c.ran(resolved)
	c.Content = c.showing()
	if c.terminal == "" {
		c.Content = c.showing(showResult(wrote)...)
	}
	if wrote != nil {
		c.RawOutput = value.Append(nil, wrote)
	}
	s.update(c, ToolCompleted)
}

func (s *story) failed(c *toolCall, resolved any, cause string) {
	c.ran(resolved)
	c.Content = c.showing()
	if cause != "" {
		c.Content = c.showing(ToolText(cut(visible(cause))))
	}
	s.update(c, ToolFailed)
}

// ran notes what ran, where the log says so.
func (c *toolCall) ran(resolved any) {
	if resolved == nil && c.resolved == nil {
		resolved = c.shown
	}
	if resolved != nil {
		c.runs(c.task, resolved)
	}
}

// ended tells how the calls ended that no step finished.
func (s *story) ended(e *engine.Entry, base int64) {
	if e.Namespace != "" {
		return
	}
	s.end = e.Payload.End
	cause := ""
	if s.end != nil {
		cause = s.end.Cause
	}
	for _, task := range e.Tasks {
		resolved := e.Payload.Ran[task]
		c := s.callOf(base, task)
		if c == nil && resolved != nil {
			c = s.call(taskCallID(base, task), task)
		}
		if c != nil && (!c.over() || s.replaying) {
			s.failed(c, resolved, cause)
		}
	}
	s.closeOpen(cut(visible(cause)))
}

// closeOpen fails the calls that are not over.
func (s *story) closeOpen(why string) {
	for _, c := range s.order {
		if c.announced && !c.over() {
			c.Content = c.showing(ToolText(why))
			s.update(c, ToolFailed)
		}
	}
}

// finish tells what the agent says at the end of a turn.
func (s *story) finish(seq int64, status engine.Status, state map[string]any) error {
	at := strconv.FormatInt(seq, 10)
	text, err := guarded("AgentText", func() (string, error) { return s.adapter.AgentText(s.wrote.of(s.thread, s.turn, status, state)) })
	if err != nil {
		return err
	}
	if text != "" && status != engine.Cancelled && status != engine.Failed && !s.wasSaid(text) {
		s.sayText("agent-"+at, text)
	}
	if s.end == nil {
		return nil
	}
	switch {
	case status == engine.Rejected:
		s.sayText("end-"+at, "Rejected: "+visible(s.end.Cause)+".")
	case status == engine.Failed && s.replaying:
		where := ""
		if s.end.Node != "" {
			where = " at node " + s.end.Node
		}
		s.sayText("end-"+at, "The turn failed"+where+": "+cut(visible(s.end.Cause)))
	}
	return nil
}
