package engine

import (
	"context"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// Store is what the engine needs of a store of threads. Package store
// satisfies it on SQLite; store/storetest says what any other must pass.
type Store interface {
	// Open reads what is needed to go on with a thread. ErrNotFound if there is
	// none, ErrDeleted if it was deleted. A store that cannot be read is any
	// other error, never ErrNotFound.
	Open(ctx context.Context, thread string) (Log, error)
	// New is a log for a thread that does not exist yet: its first Commit
	// creates it, and gives ErrExists if somebody else did meanwhile, or
	// ErrDeleted if the id belongs to a deleted thread.
	New(ctx context.Context, t Thread) (Log, error)
	// At is the thread as it was right after entry seq (0: the newest).
	At(ctx context.Context, thread string, seq int64) (*View, error)
	// Entries gives the thread's log in order, payloads included, from
	// after+1 on, at most limit (0: all), to fn, until fn returns an error.
	Entries(ctx context.Context, thread string, after int64, limit int, fn func(Entry) error) error
	// Question is one question with what became of it. ErrNotFound if that
	// checkpoint asked none.
	Question(ctx context.Context, thread string, seq int64) (QuestionRecord, error)
	// Signal stores a signal for the thread's turn under way. ErrInvalid if
	// there is none.
	Signal(ctx context.Context, thread string, s Signal) error
	// Graph is the stored definition of a fingerprint. ErrNotFound if unknown.
	Graph(ctx context.Context, fingerprint string) (definition []byte, err error)
}

// Log is a handle on one thread's log. It is used by one goroutine at a time,
// but for Put and Wait, which may run beside the others.
type Log interface {
	// View is the thread as this handle knows it: as read by Open or Reload,
	// with Thread, Head and Results kept up by its own commits. State and Tail
	// are not kept up: whoever commits knows them.
	View() *View
	// Reload reads anew what others appended. The lease stays as it is.
	Reload(ctx context.Context) error
	// Commit is one transaction: all of it, or nothing and an error.
	// ErrConflict: somebody else appended first, or took the thread over.
	// ErrCancelRequested: the holder of the lease wanted to append entries, but
	// the thread's cancel flag is set; an entry with status Cancelled clears it.
	// ErrBusy (a *BusyError): a living process holds the thread, be it another
	// handle of this very store (two goroutines of one process exclude each
	// other too).
	// On success the entries have their Seq, Base, Parent and Hash.
	Commit(ctx context.Context, c *Commit) error
	// Put stores a result of the current base, by the holder of the lease.
	// ErrConflict if the lease was lost.
	Put(ctx context.Context, r Result) error
	// Wait returns when the thread in the store differs from what this handle
	// knows: another head, fence, status or cancel flag, or a new signal. It
	// returns the thread as it is now, or the context's error.
	Wait(ctx context.Context) (Thread, error)
	// SnapshotDue reports whether the payloads since the newest snapshot have
	// outgrown it, so that one should be written at the head.
	SnapshotDue() bool
	// Snapshot writes the whole state at the head, outside of any commit. It is
	// a cache: an error costs time at the next load and nothing else.
	Snapshot(ctx context.Context, state map[string]any) error
	// Close gives the handle back. A lease that it still holds is released.
	Close() error
}

// Take says whether a commit takes the lease, the right to move the thread.
type Take int

// How a commit takes the lease.
const (
	TakeNone Take = iota // it has the lease already, or the thread is at rest
	TakeFree             // if no living process moves the thread; else ErrBusy
	TakeOver             // also from a living process, whose later writes the fence refuses
)

// Lease says what becomes of the lease after a commit.
type Lease int

// What a lease may be.
const (
	LeaseMoving  Lease = iota // this process moves the thread
	LeaseWaiting              // this process waits with an open dialog; others may answer
	LeaseFree                 // nobody holds it
)

func (l Lease) String() string {
	switch l {
	case LeaseMoving:
		return "moving"
	case LeaseWaiting:
		return "waiting"
	}
	return "free"
}

// Commit is one transaction on a thread.
//
// With the lease, or with Take, the entries are appended under its fence. With
// neither the thread must be at rest (nobody moves it), and the lease stays
// what it is.
type Commit struct {
	Take    Take
	Leave   Lease
	Entries []*Entry // the store keeps copies, not the pointers
	Results []Result // stored with the entries; an entry that moves the base settles (deletes) those of the old base
	Graph   *GraphRecord
	// Status is what threads.status becomes if there are no entries: a failed
	// turn that is resumed is running again before its next entry.
	Status Status
	Title  string // names a thread that has no title yet
	// RequestCancel sets the thread's cancel flag and nothing else: the living
	// holder takes it in. All other fields must be zero then.
	RequestCancel *By
	// Consume are the ids of signals that the entries use up. ErrConflict if
	// another commit was first.
	Consume []int64
}

// GraphRecord is a definition to be stored by its fingerprint.
type GraphRecord struct {
	Fingerprint string // SHA-256 of the canonical form, in hex
	Name        string
	Definition  []byte // the canonical form, JSON
}

// Thread is a row of the threads table.
type Thread struct {
	ID        string
	Graph     string // fingerprint of the newest turn's graph
	GraphName string
	Status    Status
	Turn      int64
	Head      int64 // seq of the newest entry, 0 if there is none
	Owner     *Owner
	Lease     Lease
	Fence     int64
	// Crashes counts the owners that died while they moved the thread on its
	// current base, the present one included if it is dead.
	Crashes         int
	CancelRequested bool
	CancelBy        By         // who requested it
	WakeAt          *time.Time // the first deadline or timer of a thread at rest
	Cwd             string
	Roots           []string
	Title           string
	Mode            string
	Options         map[string]any
	CreatedAt       time.Time
	UpdatedAt       time.Time // at turn boundaries, not at steps
}

// Owner is the process that holds a thread's lease.
type Owner struct {
	ID      string // random, of one open store
	Alive   bool   // the operating system still holds its lock
	Self    bool   // it is this open store
	PID     int    // as it said; 0 if unknown
	Program string
	Since   time.Time // when it opened the store
}

// View is a thread at one entry of its log.
type View struct {
	Thread Thread
	Head   Entry   // Seq 0 if the log is empty
	Tail   []Entry // from the base of the graph itself, inclusive, to Head: its own entries and those of its subgraphs
	State  map[string]any
	// Results are of the base, and of subgraphs' bases after it, in no particular
	// order; only where the view is of the newest entry.
	Results []Result
	Signals []Signal // that no wait has taken yet, oldest first; only where the view is of the newest entry
	// OutsideStep is the step number at the last event from outside in this
	// turn (input, answer, update, fork, end): the step limit counts from it.
	OutsideStep int64
	// MaxSteps is the step limit of this turn, and InputSeq the entry that says
	// how it began: its input, a fork, or a changed graph that was accepted.
	MaxSteps int
	InputSeq int64
}

// Base is the entry that the view's results and questions belong to.
func (v *View) Base() *Entry {
	if len(v.Tail) == 0 {
		return nil
	}
	return &v.Tail[0]
}

// Signal is a message from outside for a node that waits for it, now or later
// in the same turn.
type Signal struct {
	ID    int64 // given by the store, in the order in which signals came
	Name  string
	Value any
	Actor string
	Via   string
	At    time.Time
}

// Open gives the questions that waited for a person at this entry, those of
// subgraphs too, in the order in which they were asked.
func (v *View) Open() []interrupt.Question {
	if v.Head.Status != Paused {
		return nil
	}
	own, children := byNamespace(v.Tail)
	var out []interrupt.Question
	for _, q := range waitingOf(v.Thread.ID, own, children) {
		if q.question.Wait == nil {
			out = append(out, q.question)
		}
	}
	return out
}

// Waits gives what the thread waited for at this entry that no person answers:
// timers and signals, in the order in which the waits began.
func (v *View) Waits() []interrupt.Question {
	if v.Head.Status != Paused && v.Head.Status != Sleeping {
		return nil
	}
	own, children := byNamespace(v.Tail)
	var out []interrupt.Question
	for _, q := range waitingOf(v.Thread.ID, own, children) {
		if q.question.Wait != nil {
			out = append(out, q.question)
		}
	}
	return out
}

// ResultKind says what a stored result is.
type ResultKind string

// The kinds of a result.
const (
	ResultTask    ResultKind = "task"    // a finished task: its output
	ResultEffect  ResultKind = "effect"  // a finished effect: its value
	ResultIntent  ResultKind = "intent"  // an effect is about to happen
	ResultNote    ResultKind = "note"    // what an intent learned meanwhile, such as a process id
	ResultAttempt ResultKind = "attempt" // a failed attempt
)

// Result is a row of the results table: something of a step that is not
// committed yet. Task and N are its key within the base; a second Put of the
// same key gives ErrConflict.
type Result struct {
	Base  int64 // seq of the base; 0 is the newest of the graph itself
	Task  string
	N     int64 // 0 is the task's own result; others count up as things happen
	Kind  ResultKind
	Key   string // of an effect, intent or note
	Value []byte // JSON
	At    time.Time
}

// QuestionState says what became of a question.
type QuestionState string

// The states of a question.
const (
	QuestionPending   QuestionState = "pending"
	QuestionAnswered  QuestionState = "answered"
	QuestionVoid      QuestionState = "void"      // asked anew, or its base is gone
	QuestionCancelled QuestionState = "cancelled" // the turn was cancelled
)

// QuestionRecord is a question with what became of it.
type QuestionRecord struct {
	Question  interrupt.Question
	State     QuestionState
	Answer    *interrupt.Answer // of an answered one
	AnswerSeq int64
}
