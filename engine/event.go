package engine

import (
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// EventType says what an event reports.
type EventType string

// The events of a turn, in the order in which they come.
const (
	EventTurnStarted  EventType = "turn_started"  // an input was stored, or a turn is gone on with
	EventTaskStarted  EventType = "task_started"  // Task, Node, Resolved
	EventOutput       EventType = "output"        // Task, Text: a piece of what a task prints
	EventShown        EventType = "shown"         // Task, Shown, Offset: a piece of a message, or a tool call
	EventUsage        EventType = "usage"         // Task, Usage: what the turn has used, with this
	EventCustom       EventType = "custom"        // Task, Text: its name, Value
	EventTaskFinished EventType = "task_finished" // Task, Writes, Elapsed
	EventRetry        EventType = "retry"         // Task, Err, Attempt, Elapsed: the delay before the next attempt
	EventTaskFailed   EventType = "task_failed"   // Task, Err, Elapsed
	EventStep         EventType = "step"          // a step was committed: Seq, Status
	EventQuestion     EventType = "question"      // Question, stored
	EventSleep        EventType = "sleep"         // Question, stored: its Wait says for what
	EventAnswer       EventType = "answer"        // Answer, stored
	EventNote         EventType = "note"          // Text: something that a person should know
	EventTurnEnded    EventType = "turn_ended"    // Status, Err; the last of a turn in this process
)

// Event reports progress. Fields that do not concern the type are zero.
type Event struct {
	Type      EventType
	Thread    string
	Namespace string // of a subgraph
	Turn      int64
	Step      int64
	Seq       int64
	Base      int64  // the base that a task runs on
	Entry     *Entry // turn_started by an input, step, question, answer, turn_ended: the row as stored; not to be changed
	Task      string
	Node      string
	Text      string
	Resolved  any
	Value     any // JSON
	Shown     *Shown
	Offset    int // bytes of the shown message before this piece, in this run of the task
	Usage     *Usage
	Writes    []Write
	Status    Status
	Question  *interrupt.Question
	Answer    *interrupt.Answer
	Err       error
	Attempt   int
	Missed    int // of a Stream: events that were dropped before this one
	Elapsed   time.Duration
	At        time.Time
}
