package engine

import (
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// ShownKind says what a Shown is.
type ShownKind string

// The kinds of a Shown.
const (
	ShownMessage ShownKind = "message" // of the agent to the person
	ShownThought ShownKind = "thought" // what a model thinks aloud
	ShownCall    ShownKind = "call"    // a tool call
)

// Shown is what a task shows to a person beside what it writes. It is reported
// as it comes and kept with the step, so that a transcript can be told again;
// of a task that does not finish nothing is kept.
type Shown struct {
	Kind ShownKind `json:"kind"`
	ID   string    `json:"id"` // unique within the task and kind
	// Text of a message. In the log it is absent where the task wrote a message
	// of this id, with this text as its content: see Entry.ShownText.
	Text string `json:"text,omitempty"`
	Call *Call  `json:"call,omitempty"`
}

// Call is a tool call as a person sees it.
type Call struct {
	Title  string     `json:"title"`
	Kind   string     `json:"kind,omitempty"` // read, edit, delete, move, search, execute, think, fetch; empty: other
	Status CallStatus `json:"status"`
	Input  any        `json:"input,omitempty"`  // JSON
	Output any        `json:"output,omitempty"` // JSON
	Text   string     `json:"text,omitempty"`   // its result, or why it failed, for a person
	Paths  []string   `json:"paths,omitempty"`  // absolute, of the files that it touches
	Diffs  []FileDiff `json:"diffs,omitempty"`
}

// CallStatus says how far a tool call is.
type CallStatus string

// The statuses of a call. The last two are final; a call that has none of them
// when its task ends is told to have failed.
const (
	CallPending   CallStatus = "pending"
	CallRuns      CallStatus = "in_progress"
	CallCompleted CallStatus = "completed"
	CallFailed    CallStatus = "failed"
)

// FileDiff is a change of a text file.
type FileDiff struct {
	Path string  `json:"path"` // absolute
	Old  *string `json:"old"`  // nil: the file is new
	New  string  `json:"new"`
}

// Usage is what a turn has used of its models.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	Cost         float64 `json:"cost,omitempty"`
	Currency     string  `json:"currency,omitempty"` // ISO 4217
	// Context is how many tokens the newest call had in its model's window, and
	// Window how many that holds; 0: unknown.
	Context int64 `json:"context,omitempty"`
	Window  int64 `json:"window,omitempty"`
}

// Tokens is the sum of what went in and came out.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// plus adds what was used later.
func (u Usage) plus(later Usage) Usage {
	u.InputTokens += later.InputTokens
	u.OutputTokens += later.OutputTokens
	u.Cost += later.Cost
	u.Currency = or(later.Currency, u.Currency)
	if later.Context > 0 {
		u.Context, u.Window = later.Context, later.Window
	}
	return u
}

// Say shows a piece of a message, as it comes. Pieces of one id make one
// message. A node that runs again says it again from the start: what a person
// has seen of it is not shown twice (see Event.Offset). For another try with
// another text use another id.
func (t *Task) Say(id, piece string) { t.say(ShownMessage, id, piece) }

// Think is Say for what a model thinks aloud.
func (t *Task) Think(id, piece string) { t.say(ShownThought, id, piece) }

func (t *Task) say(kind ShownKind, id, piece string) {
	piece = strings.ToValidUTF8(piece, "\uFFFD")
	t.Alive()
	t.mu.Lock()
	if t.over || piece == "" {
		t.mu.Unlock()
		return
	}
	s := t.shownAs(kind, id)
	offset := len(s.Text)
	s.Text += piece
	t.mu.Unlock()
	t.run.emit(Event{Type: EventShown, Task: t.id, Node: t.node.name, Offset: offset, Shown: &Shown{Kind: kind, ID: id, Text: piece}})
}

// Show shows a tool call, or how far the one of this id is now.
func (t *Task) Show(id string, c Call) error {
	for _, v := range []*any{&c.Input, &c.Output} {
		normal, _, err := value.Normalize(*v)
		if err != nil {
			return fmt.Errorf("show call %s: %w", id, err)
		}
		*v = normal
	}
	t.Alive()
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return nil
	}
	t.shownAs(ShownCall, id).Call = &c
	t.mu.Unlock()
	t.run.emit(Event{Type: EventShown, Task: t.id, Node: t.node.name, Shown: &Shown{Kind: ShownCall, ID: id, Call: &c}})
	return nil
}

// shownAs finds or adds what is shown under an id. The caller holds t.mu.
func (t *Task) shownAs(kind ShownKind, id string) *Shown {
	for i := range t.shown {
		if t.shown[i].Kind == kind && t.shown[i].ID == id {
			return &t.shown[i]
		}
	}
	t.shown = append(t.shown, Shown{Kind: kind, ID: id})
	return &t.shown[len(t.shown)-1]
}

// Use adds what a call of a model used. A node that runs again adds it again:
// only what a finished task used counts for the turn, so that a stored result
// is not counted twice.
func (t *Task) Use(u Usage) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.used = t.used.plus(u)
	total := t.run.usage().plus(t.spent())
	t.mu.Unlock()
	t.run.emit(Event{Type: EventUsage, Task: t.id, Node: t.node.name, Usage: &total})
}

// Usage is what the turn has used, up to this task and with it. What tasks of
// the same step use is not seen.
func (t *Task) Usage() Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run.usage().plus(t.spent())
}

// usage is what the turn has used before the step that is ready. A subgraph
// begins with what its parent's task saw.
func (r *run) usage() Usage {
	u := r.before
	if len(r.tail) > 0 && r.base().Payload.Usage != nil {
		u = u.plus(*r.base().Payload.Usage)
	}
	return u
}

// addShown puts what the finished tasks showed and used into the step's entry.
func (r *run) addShown(entry *Entry, outcomes []*outcome) {
	entry.Payload.Usage = r.base().Payload.Usage
	for _, o := range outcomes {
		if o.task.used != (Usage{}) {
			var used Usage
			if entry.Payload.Usage != nil {
				used = *entry.Payload.Usage
			}
			used = used.plus(o.task.used)
			entry.Payload.Usage = &used
		}
		if kept := o.task.kept(o.output.Writes); len(kept) > 0 {
			if entry.Payload.Shown == nil {
				entry.Payload.Shown = map[string][]Shown{}
			}
			entry.Payload.Shown[o.task.id] = kept
		}
	}
}

// kept is what the log keeps of what a task showed: a text that the task wrote
// as a message of the same id is kept once, and what is too large is told to be.
func (t *Task) kept(writes []Write) []Shown {
	if len(t.shown) == 0 {
		return nil
	}
	written := map[string]string{}
	for _, w := range writes {
		eachMessage(w.Value, func(id, content string) { written[id] = content })
	}
	most := t.Limits().Value
	kept := make([]Shown, len(t.shown))
	for i, s := range t.shown {
		if s.Kind == ShownMessage && written[s.ID] == s.Text && s.Text != "" {
			s.Text = ""
		}
		if len(s.Text) > most {
			s.Text = strings.ToValidUTF8(s.Text[:most], "") + "\n(cut: it was longer)"
		}
		if c := s.Call; c != nil {
			call := *c
			if call.Status != CallCompleted {
				call.Status = CallFailed
			}
			if value.Size(call.Input)+value.Size(call.Output)+diffSize(call.Diffs)+len(call.Text) > most {
				call.Input, call.Output, call.Diffs, call.Text = nil, nil, nil, "It was too large to be kept."
			}
			s.Call = &call
		}
		kept[i] = s
	}
	return kept
}

func diffSize(diffs []FileDiff) (n int) {
	for _, d := range diffs {
		n += len(d.New)
		if d.Old != nil {
			n += len(*d.Old)
		}
	}
	return n
}

// ShownText is the text of a message that a task of this step showed: its own,
// or the one that the task wrote under its id.
func (e *Entry) ShownText(task string, s Shown) string {
	if s.Text != "" || s.Kind == ShownCall {
		return s.Text
	}
	text := ""
	for _, op := range e.Payload.Ops {
		if op.Task == task {
			eachMessage(op.Value, func(id, content string) {
				if id == s.ID {
					text = content
				}
			})
		}
	}
	return text
}

// eachMessage gives the messages in a written value: objects with an id and a
// content that is text.
func eachMessage(v any, fn func(id, content string)) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if _, object := item.(map[string]any); object {
				eachMessage(item, fn)
			}
		}
	case map[string]any:
		id, _ := v["id"].(string)
		content, isText := v["content"].(string)
		if id != "" && isText {
			fn(id, content)
		}
	}
}
