package interrupt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/internal/value"
)

// The choices of a gate. Nothing else is taken.
const (
	Approve = "approve"
	Reject  = "reject"
)

// The choices of a doubt: did the effect happen?
const (
	RunAgain = "run_again" // it did not, or may be repeated: run it (again)
	DoneIt   = "done"      // it did: go on, with the result if one is given
	FailIt   = "fail"      // nobody knows, or it broke something: fail the task
)

// Choice is one option of a question.
type Choice struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // what a person reads; the id where it is empty
	Kind string `json:"kind,omitempty"` // allow_once (default), allow_always, reject_once, reject_always
}

// Label is what a person reads.
func (c Choice) Label() string {
	if c.Name != "" {
		return c.Name
	}
	return c.ID
}

// Doubt says which effect may have happened.
type Doubt struct {
	Key    string `json:"key"`              // the effect's key; empty: the node itself
	Intent int64  `json:"intent"`           // number of the intent that has no result
	Effect any    `json:"effect,omitempty"` // what was about to happen, as the node describes it
	PID    int    `json:"pid,omitempty"`    // a process of it that still lives
}

// Question is one open interrupt. Its id is the id of the checkpoint that
// asked it (Payload.CheckpointID).
type Question struct {
	Payload GraphInterruptPayload `json:"-"`

	AskingNode string     `json:"asking_node"`
	Task       string     `json:"task"`
	Ordinal    int        `json:"ordinal,omitempty"` // which Ask of the task, from 0
	Choices    []Choice   `json:"choices,omitempty"`
	Type       string     `json:"type,omitempty"`    // one of Types; empty: any JSON value, or one of Choices. With Choices: string (one) or list (several)
	Format     string     `json:"format,omitempty"`  // of a string: one of Formats
	Minimum    *float64   `json:"minimum,omitempty"` // of a number, or of how many choices
	Maximum    *float64   `json:"maximum,omitempty"`
	Doubt      *Doubt     `json:"doubt,omitempty"`
	Shows      any        `json:"shows,omitempty"`    // the resolved configuration that the approver sees and that will run
	Deadline   *time.Time `json:"deadline,omitempty"` // when Default becomes the answer
	Default    any        `json:"default,omitempty"`
	Wait       *Wait      `json:"wait,omitempty"` // not for a person: the clock or a signal answers
	Digest     string     `json:"digest"`         // of what is asked and of what will run; see Seal
	AskedAt    time.Time  `json:"asked_at"`
	Voids      string     `json:"voids,omitempty"` // id of the question whose answer this one makes void
}

// Wait is what a question waits for that no person answers.
type Wait struct {
	Until  *time.Time `json:"until,omitempty"`  // a timer
	Signal string     `json:"signal,omitempty"` // the name of a signal
}

// Wakes is the time at which the question is decided by itself: its deadline,
// or the end of its timer; nil if there is none.
func (q Question) Wakes() *time.Time {
	if q.Wait != nil && q.Wait.Until != nil {
		return q.Wait.Until
	}
	return q.Deadline
}

// ID is the id of the question: THREAD@SEQ.
func (q Question) ID() string { return q.Payload.CheckpointID }

// IsGate reports whether the question is a static one, before or after a node.
func (q Question) IsGate() bool { return q.Payload.Kind == Before || q.Payload.Kind == After }

// IsDoubt reports whether the question asks whether an effect happened.
func (q Question) IsDoubt() bool { return q.Doubt != nil }

// FreeText reports whether any text is an answer: no choices, and no type or
// the type string.
func (q Question) FreeText() bool {
	return !q.IsGate() && len(q.Choices) == 0 && (q.Type == "" || q.Type == "string")
}

// Options are the choices of which one is the answer: the question's own, or those
// of a gate. Empty for a question of another kind.
func (q Question) Options() []Choice {
	if q.Multi() {
		return nil
	}
	if q.IsGate() {
		return []Choice{
			{ID: Approve, Name: "Approve", Kind: "allow_once"},
			{ID: Reject, Name: "Reject", Kind: "reject_once"},
		}
	}
	return q.Choices
}

// DoubtChoices are the choices of a doubt.
func DoubtChoices() []Choice {
	return []Choice{
		{ID: RunAgain, Name: "Run it again", Kind: "allow_once"},
		{ID: DoneIt, Name: "It is done, go on", Kind: "allow_once"},
		{ID: FailIt, Name: "Fail the task", Kind: "reject_once"},
	}
}

// Seal computes the digest: SHA-256 over the question, the base it stands on
// and the resolved configuration, so that what was approved is what runs.
func (q *Question) Seal(base int64) error {
	doubt := any(nil)
	if q.Doubt != nil {
		doubt = map[string]any{"key": q.Doubt.Key, "intent": q.Doubt.Intent}
	}
	choices := make([]any, len(q.Choices))
	for i, c := range q.Choices {
		choices[i] = map[string]any{"id": c.ID, "name": c.Name, "kind": c.Kind}
	}
	asked := map[string]any{
		"kind": string(q.Payload.Kind), "node": q.Payload.Node, "message": q.Payload.Message,
		"data": q.Payload.Data, "task": q.Task, "choices": choices, "type": q.Type,
		"doubt": doubt, "shows": q.Shows, "base": base, "default": q.Default,
	}
	if q.Format != "" {
		asked["format"] = q.Format
	}
	if q.Minimum != nil {
		asked["minimum"] = *q.Minimum
	}
	if q.Maximum != nil {
		asked["maximum"] = *q.Maximum
	}
	b, err := value.Marshal(asked)
	if err != nil {
		return fmt.Errorf("question of task %s: %w", q.Task, err)
	}
	sum := sha256.Sum256(b)
	q.Digest = hex.EncodeToString(sum[:])
	return nil
}

// Answer is what a question was told, by whom and how.
type Answer struct {
	Question string    `json:"question"` // id of the question
	Choice   string    `json:"choice,omitempty"`
	Value    any       `json:"value"`
	Actor    string    `json:"actor,omitempty"`   // who, as claimed
	Via      string    `json:"via,omitempty"`     // acp, cli, deadline, mode, always, go
	Reason   string    `json:"reason,omitempty"`  // why, in the actor's words
	OSUser   string    `json:"os_user,omitempty"` // who the operating system says it was
	Client   string    `json:"client,omitempty"`  // name and version of the client
	Digest   string    `json:"digest,omitempty"`  // digest of the question that was answered
	Origin   string    `json:"origin,omitempty"`  // id of the question at which this was decided for always: this one itself, or an earlier one
	At       time.Time `json:"at"`
}

// Same reports whether b says the same as a: its choice and value. Giving the
// same answer twice is fine.
func (a Answer) Same(b Answer) bool {
	return a.Choice == b.Choice && value.Equal(a.Value, b.Value)
}

// Check decides whether a may answer q, and completes it: a choice question
// has a choice and, unless a value came with it, that choice's id as value.
// The error says what would be accepted.
func (q Question) Check(a Answer) (Answer, error) {
	v, _, err := value.Normalize(a.Value)
	if err != nil {
		return a, fmt.Errorf("answer to %s: %w", q.ID(), err)
	}
	a.Value = v
	a.Digest = q.Digest
	options := q.Options()
	if len(options) == 0 {
		if a.Choice != "" {
			return a, fmt.Errorf("question %s has no choices: it takes %s, not the choice %q", q.ID(), q.Wants(), a.Choice)
		}
		return a, q.typeFits(v)
	}
	given := a.Value != nil
	if a.Choice == "" {
		s, ok := a.Value.(string)
		if !ok {
			return a, fmt.Errorf("question %s takes one of %s, not %s", q.ID(), ids(options), short(a.Value))
		}
		a.Choice, given = s, false
	}
	for _, c := range options {
		if c.ID != a.Choice {
			continue
		}
		if q.IsDoubt() && c.ID == DoneIt {
			if !given {
				a.Value = nil
			}
			return a, nil
		}
		if given && !value.Equal(a.Value, c.ID) {
			return a, fmt.Errorf("choice %q of question %s takes no value; only a doubt's %q does", c.ID, q.ID(), DoneIt)
		}
		a.Value = c.ID
		return a, nil
	}
	return a, fmt.Errorf("question %s takes one of %s, not %q", q.ID(), ids(options), a.Choice)
}

func ids(choices []Choice) string {
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = c.ID
	}
	return strings.Join(names, ", ")
}

func short(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return value.Kind(v)
	}
	if len(b) > 60 {
		return string(b[:57]) + "..."
	}
	return string(b)
}
