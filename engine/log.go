package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// Status says where a thread is.
type Status string

// The statuses of a thread.
const (
	Running   Status = "running" // a turn is under way, or was cut short: Resume goes on
	Paused    Status = "paused"  // at least one question is open
	Sleeping  Status = "sleeping"
	Done      Status = "done" // also a thread that had no turn yet
	Rejected  Status = "rejected"
	Failed    Status = "failed" // Resume tries again what is missing
	Cancelled Status = "cancelled"
	Deleted   Status = "deleted"
)

// Over reports whether the turn has ended.
func (s Status) Over() bool {
	return s == Done || s == Rejected || s == Failed || s == Cancelled
}

// Kind says what an entry of the log records.
type Kind string

// The kinds of an entry.
const (
	KindInput  Kind = "input"  // a turn began
	KindStep   Kind = "step"   // a super-step was committed
	KindPause  Kind = "pause"  // one question was asked
	KindAnswer Kind = "answer" // one question was answered
	KindUpdate Kind = "update" // state was edited by hand
	KindFork   Kind = "fork"   // the thread goes on from another place
	KindGraph  Kind = "graph"  // the turn goes on with a changed graph, on somebody's word
	KindEnd    Kind = "end"    // the turn ended, and no step ended it
	KindPrune  Kind = "prune"  // payloads were removed: of old turns, or of one entry by hand
)

// MovesBase reports whether an entry of this kind makes a new base: results,
// effects and questions belong to the base they arose on and never leak to
// the next.
func (k Kind) MovesBase() bool {
	return k == KindInput || k == KindStep || k == KindUpdate || k == KindFork
}

// ChangesState reports whether an entry of this kind may change channels, so
// that later states need its payload.
func (k Kind) ChangesState() bool { return k.MovesBase() || k == KindGraph }

// Entry is one row of a thread's log. The writer gives Kind, Status, Turn,
// Step, Tasks, Next, Actor, At and Payload; the store gives Seq, Base, Parent
// (unless set) and Hash.
type Entry struct {
	Seq       int64
	Base      int64  // seq of the newest entry, up to this one, that moves the base
	Namespace string // of a subgraph; empty for the graph itself
	Kind      Kind
	Status    Status // of the thread after this entry
	Turn      int64  // 1 for the first
	Step      int64  // within the turn; 0 is the input
	Parent    int64  // the seq it follows; not Seq-1 only for a fork in place
	Tasks     []string
	Next      []string // ids of the tasks that are ready after it
	Actor     string
	At        time.Time // UTC, whole milliseconds
	Payload   Payload
	Removed   bool // the payload was pruned or redacted; its hash stays
	Hash      []byte
}

// Payload is what an entry holds beside its columns, stored as JSON. Which
// fields are set follows from the kind.
type Payload struct {
	Ops   []Op         `json:"ops,omitempty"`   // input, step, update: how the state changed
	Input *InputRecord `json:"input,omitempty"` // input, fork, graph
	// Routes of a step with gates behind its nodes: task -> where it leads. The
	// arrivals and debts beside it are then those before the step.
	Routes    map[string][]string  `json:"routes,omitempty"`
	Failures  map[string]Failure   `json:"failures,omitempty"` // step: task that failed -> how; its branch went to on_error
	Sends     map[string]Values    `json:"sends,omitempty"`    // step: task -> its own input
	Arrivals  map[string][]string  `json:"arrivals,omitempty"` // joins that still wait -> members that arrived
	Left      []string             `json:"left,omitempty"`     // step of a subgraph: it was left for these nodes of its parent
	Refused   string               `json:"refused,omitempty"`  // step: a gate in a subgraph was rejected, and how
	Rejected  []string             `json:"rejected,omitempty"` // nodes whose gate was rejected in this turn
	Debts     map[string][]string  `json:"debts,omitempty"`    // joins that did not wait for all -> members that come late
	Timers    map[string]time.Time `json:"timers,omitempty"`   // joins that still wait -> when they run without the rest
	Question  *interrupt.Question  `json:"question,omitempty"` // pause
	Interrupt *InterruptRecord     `json:"interrupt,omitempty"`
	Answer    *interrupt.Answer    `json:"answer,omitempty"`  // answer
	End       *EndRecord           `json:"end,omitempty"`     // end
	Shown     map[string][]Shown   `json:"shown,omitempty"`   // step: task -> what it showed
	Usage     *Usage               `json:"usage,omitempty"`   // step, update, fork: what the turn used up to here
	Ran       map[string]any       `json:"ran,omitempty"`     // step, end: task -> what it resolved to, unless its gate's question says so
	Edit      *EditRecord          `json:"edit,omitempty"`    // update, fork, graph, prune
	State     map[string]any       `json:"state,omitempty"`   // fork, prune: the whole state
	From      string               `json:"from,omitempty"`    // fork, prune: THREAD@SEQ that the state is of
	Pruned    int64                `json:"pruned,omitempty"`  // prune: inputs, steps and edits up to this entry lose their payload
	Redacts   []string             `json:"redacts,omitempty"` // prune: the entries (THREAD@SEQ) whose payload was removed by hand
	Notes     []string             `json:"notes,omitempty"`   // what a reader should know, such as replaced bytes
}

// Failure is a failed task that an error handler took over.
type Failure struct {
	Node  string `json:"node"`
	Task  string `json:"task"`
	Cause string `json:"cause"`
}

// InterruptRecord is the part of a question's payload that its row does not
// already say (the row gives thread and checkpoint).
type InterruptRecord struct {
	Kind    interrupt.Kind `json:"kind"`
	Node    string         `json:"node,omitempty"`
	Message string         `json:"message,omitempty"`
	Data    any            `json:"data,omitempty"`
}

// InputRecord says how a turn began.
type InputRecord struct {
	Graph    string     `json:"graph"` // fingerprint
	Name     string     `json:"name,omitempty"`
	Text     string     `json:"text,omitempty"` // what the user said, if it came as text
	MaxSteps int        `json:"max_steps"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Via      string     `json:"via,omitempty"`
	OSUser   string     `json:"os_user,omitempty"`
	Client   string     `json:"client,omitempty"`
}

// EditRecord says how a thread was changed by hand; who did is the entry's actor.
type EditRecord struct {
	Via    string `json:"via,omitempty"`
	Reason string `json:"reason,omitempty"`
	OSUser string `json:"os_user,omitempty"`
	Client string `json:"client,omitempty"`
}

// EndRecord says how a turn ended when a step did not end it.
type EndRecord struct {
	Cause  string `json:"cause"`
	Node   string `json:"node,omitempty"`
	Task   string `json:"task,omitempty"`
	Code   string `json:"code,omitempty"` // step_limit, budget, refusal, crashes, rejected, cancelled, task, router, ...
	Reason string `json:"reason,omitempty"`
	Via    string `json:"via,omitempty"`
	OSUser string `json:"os_user,omitempty"` // of whoever cancelled it; the entry's actor is a claim
	Client string `json:"client,omitempty"`
}

// Question gives the question that a pause entry asked, with its place.
func (e Entry) Question(thread string) (interrupt.Question, bool) {
	if e.Kind != KindPause || e.Payload.Question == nil || e.Payload.Interrupt == nil {
		return interrupt.Question{}, false
	}
	q, i := *e.Payload.Question, e.Payload.Interrupt
	q.Payload = interrupt.New(
		interrupt.Interrupt{Kind: i.Kind, Node: i.Node, Message: i.Message, Data: i.Data},
		thread, CheckpointID(thread, e.Seq))
	return q, true
}

// CheckpointID is THREAD@SEQ: it says where a checkpoint is.
func CheckpointID(thread string, seq int64) string {
	return thread + "@" + strconv.FormatInt(seq, 10)
}

// ParseCheckpointID takes THREAD@SEQ apart. A bare THREAD gives seq 0.
func ParseCheckpointID(id string) (thread string, seq int64, err error) {
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return id, 0, CheckThreadID(id)
	}
	seq, err = strconv.ParseInt(id[at+1:], 10, 64)
	if err != nil || seq < 1 {
		return "", 0, fmt.Errorf("%q is no checkpoint: expected THREAD@SEQ with a number from 1, such as %s", id, CheckpointID(id[:at], 17))
	}
	return id[:at], seq, CheckThreadID(id[:at])
}

// MaxThreadID bounds the length of a thread's id, in bytes.
const MaxThreadID = 256

// CheckThreadID says whether a thread may have this id: 1 to MaxThreadID bytes
// of printable UTF-8 without white space and without '@'.
func CheckThreadID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("thread id is empty")
	case len(id) > MaxThreadID:
		return fmt.Errorf("thread id has %d bytes; at most %d are possible", len(id), MaxThreadID)
	case !utf8.ValidString(id):
		return fmt.Errorf("thread id %q is not UTF-8", id)
	case strings.ContainsFunc(id, func(r rune) bool { return r == '@' || !printable(r) }):
		return fmt.Errorf("thread id %q: white space, control characters and '@' are not possible in it", id)
	}
	return nil
}
