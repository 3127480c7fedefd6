package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Defaults of Options and Input.
const (
	DefaultMaxConcurrency = 64
	DefaultMaxSteps       = 100
	MaxCrashes            = 3 // owners that may die on one base before the turn is parked as failed
)

// Engine runs turns of threads. It holds no state of its own: many engines, in
// many processes, may work on one store.
type Engine struct {
	graph *Graph
	store Store
	o     Options
}

// Options of an engine. The zero value is good.
type Options struct {
	// MaxConcurrency bounds the tasks of one step that run at once; 0:
	// DefaultMaxConcurrency.
	MaxConcurrency int
	// Events gets every event of every turn, in order, one at a time. It must
	// return soon: the turn waits for it.
	Events func(Event)
	// Ask, if set, is a dialog with a person who is there now. When a turn
	// pauses, the engine keeps the lease as waiting and asks each open question
	// in turn. The context ends when the question was decided elsewhere. An
	// error (or the end of the turn's own context) withdraws the dialog: the
	// turn stays paused.
	Ask func(ctx context.Context, q interrupt.Question) (interrupt.Answer, error)
	// Sleep keeps a call waiting while its turn sleeps, which is while all that
	// is open are timers and signals: it wakes up in time and goes on. Without it
	// the call returns, and whoever resumes the thread later fires what is due. A
	// question to a person is waited for with Ask, and not with Sleep.
	Sleep bool
	// Load rebuilds a stored graph, so that a turn goes on with the graph it
	// began with. Without it only the engine's own graph can go on.
	Load func(name string, definition []byte) (*Graph, error)
	// Host is what the surroundings offer to nodes; nil is nothing.
	Host Host
	// Clock is the time; nil is the real one.
	Clock clock.Clock
}

// New makes an engine for new turns of graph g. With a nil store a turn runs
// in memory only, and an interrupt ends it with ErrNoStore. A nil graph can go
// on with turns whose graph Load gives, and start none.
func New(g *Graph, s Store, o Options) *Engine {
	if o.MaxConcurrency <= 0 {
		o.MaxConcurrency = DefaultMaxConcurrency
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	return &Engine{graph: g, store: s, o: o}
}

// Input begins a turn.
type Input struct {
	Values   Values // written through the channels' reducers
	Text     string // what the user said, if it came as text; for the record
	Actor    string // who, as claimed; empty: the operating system's user
	Via      string // cli, acp, go (the default)
	Client   string // name and version of the client
	MaxSteps int    // steps since the last event from outside; 0: DefaultMaxSteps
	// Deadline ends the turn as failed, killing its work; zero: none.
	Deadline time.Time
	// Cwd is the thread's folder when this input creates it. Title names a thread
	// that has no title yet.
	Cwd, Title string
}

// Turn is a thread's turn as a call left it.
type Turn struct {
	Thread    string
	Status    Status
	Number    int64 // 1 for the thread's first turn
	Step      int64
	Head      int64
	State     State                // all channels; not to be changed
	Questions []interrupt.Question // the open ones
	// Elsewhere reports that another living process goes on with the turn: it
	// waits with an open dialog and takes the answer in.
	Elsewhere bool
}

// PausedError says which questions keep an input from being taken.
type PausedError struct {
	Thread    string
	Questions []interrupt.Question
}

func (e *PausedError) Error() string {
	if len(e.Questions) == 0 {
		return fmt.Sprintf("thread %s is not at the end of a turn: it waits", e.Thread)
	}
	q := e.Questions[0]
	more := ""
	if n := len(e.Questions) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("thread %s is paused and takes no input: answer %s %q%s, or cancel the turn first", e.Thread, q.ID(), q.Payload.Reason(), more)
}

// Is makes errors.Is(err, ErrPaused) true.
func (e *PausedError) Is(target error) bool { return target == ErrPaused }

// Start begins a turn on a thread, creating the thread if it is new, and runs
// it until it ends or pauses. The input is stored before anything runs. A turn
// that a crash cut short is finished first. If the thread is paused the input
// is refused with ErrPaused; if another process moves it, with ErrBusy.
//
// A turn that failed gives the Turn and a *TurnError. ErrStopped means that
// the context ended while work ran: the turn can be resumed.
func (e *Engine) Start(ctx context.Context, thread string, in Input) (*Turn, error) {
	if err := CheckThreadID(thread); err != nil {
		return nil, err
	}
	if e.graph == nil {
		return nil, errors.New("this engine has no graph to start a turn with")
	}
	if _, _, err := e.graph.inputOps(nil, in); err != nil {
		return nil, fmt.Errorf("input of thread %s: %w (%w)", thread, err, ErrInvalid)
	}
	if e.store == nil {
		r := &run{e: e, graph: e.graph, thread: Thread{ID: thread, Cwd: in.Cwd}, state: map[string]any{}, children: map[string][]Entry{}}
		r.root = r
		return r.start(ctx, in)
	}
	for attempt := 0; ; attempt++ {
		res, err := e.startOnce(ctx, thread, in)
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return res, err
	}
}

// maxAttempts bounds how often a call reads again after somebody else was first.
const maxAttempts = 100

// errAgain wraps a conflict that happened before anything ran: reading again
// may help.
type errAgain struct{ error }

func (e errAgain) Unwrap() error { return e.error }

func retryable(err error) bool {
	var again errAgain
	return errors.As(err, &again)
}

func (e *Engine) startOnce(ctx context.Context, thread string, in Input) (turn *Turn, err error) {
	log, err := e.store.Open(ctx, thread)
	if errors.Is(err, ErrNotFound) {
		log, err = e.store.New(ctx, Thread{ID: thread, Cwd: in.Cwd, Title: in.Title, Status: Done})
	}
	if err != nil {
		return nil, fmt.Errorf("start a turn on thread %s: %w", thread, err)
	}
	r := e.newRun(log)
	defer func() { err = closeErr(err, r.close()) }()
	if err := r.busy(TakeFree); err != nil {
		return r.result(), err
	}
	switch r.thread.Status {
	case Paused, Sleeping:
		// What is due comes first: it may end the turn.
		if d, err := r.decide(nil); err != nil || len(d.entries) == 0 {
			return r.result(), cmp.Or(err, error(&PausedError{Thread: thread, Questions: r.open()}))
		}
		fallthrough
	case Running:
		res, err := r.resume(ctx, nil, TakeFree)
		if err != nil {
			return res, fmt.Errorf("the turn that is under way comes first, and the input was not taken: %w", err)
		}
		if !res.Status.Over() {
			return res, &PausedError{Thread: thread, Questions: res.Questions}
		}
		return nil, errAgain{ErrConflict} // finished; now the input
	}
	r.graph = e.graph
	return r.start(ctx, in)
}

// Resume goes on with a thread: it stores the answers, if any, and runs the
// turn until it ends or pauses again. Without answers it goes on after a
// crash, a stop or a failure. A turn that is over, and did not fail, is left
// as it is; the Turn says how it ended. An answer without a question id is
// for the one open question.
//
// If questions remain open the Turn is paused. If another living process
// waits with a dialog, the answers are stored and it goes on (Elsewhere).
func (e *Engine) Resume(ctx context.Context, thread string, answers ...interrupt.Answer) (*Turn, error) {
	return e.resume(ctx, thread, answers, TakeFree)
}

// TakeOver is Resume for a thread whose owner lives but hangs: the fence
// refuses whatever that owner writes afterwards.
func (e *Engine) TakeOver(ctx context.Context, thread string) (*Turn, error) {
	return e.resume(ctx, thread, nil, TakeOver)
}

func (e *Engine) resume(ctx context.Context, thread string, answers []interrupt.Answer, take Take) (*Turn, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	for attempt := 0; ; attempt++ {
		log, err := e.store.Open(ctx, thread)
		if err != nil {
			return nil, fmt.Errorf("resume thread %s: %w", thread, err)
		}
		r := e.newRun(log)
		res, err := closing(r, func() (*Turn, error) { return r.resume(ctx, answers, take) })
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return res, err
	}
}

// Answer stores answers and runs nothing: whoever resumes the thread goes on.
func (e *Engine) Answer(ctx context.Context, thread string, answers ...interrupt.Answer) (*Turn, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	for attempt := 0; ; attempt++ {
		log, err := e.store.Open(ctx, thread)
		if err != nil {
			return nil, fmt.Errorf("answer on thread %s: %w", thread, err)
		}
		r := e.newRun(log)
		res, err := closing(r, func() (*Turn, error) { return r.answerAtRest(answers) })
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return res, err
	}
}

// By says who asks for something, and why.
type By struct {
	Actor  string `json:"actor,omitempty"`
	Via    string `json:"via,omitempty"`
	Reason string `json:"reason,omitempty"`
	Client string `json:"client,omitempty"`  // name and version of the client
	OSUser string `json:"os_user,omitempty"` // filled in by the engine
}

// Record is what stands beside the actor, whose name is a claim.
func (by By) Record() *EditRecord {
	return &EditRecord{Via: or(by.Via, "go"), Reason: by.Reason, OSUser: osUser(), Client: by.Client}
}

// Cancel ends the thread's turn: open questions end with it, and the last
// committed state stays. If a living process moves the thread, Cancel sets its
// cancel flag and waits until that process has obeyed, or ctx ends. A turn
// that is over gives ErrInvalid.
func (e *Engine) Cancel(ctx context.Context, thread string, by By) (*Turn, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	for attempt := 0; ; attempt++ {
		log, err := e.store.Open(ctx, thread)
		if err != nil {
			return nil, fmt.Errorf("cancel thread %s: %w", thread, err)
		}
		r := e.newRun(log)
		res, err := closing(r, func() (*Turn, error) { return r.cancelFromOutside(ctx, by) })
		if retryable(err) && attempt < maxAttempts {
			continue
		}
		return res, err
	}
}

// Signal stores a signal for the thread's turn under way: a node that waits for
// it, now or later in that turn, gets it. If no process waits with the thread,
// the next Resume hands it over.
func (e *Engine) Signal(ctx context.Context, thread, name string, v any, by By) error {
	if e.store == nil {
		return ErrNoStore
	}
	if name == "" {
		return fmt.Errorf("a signal needs a name: %w", ErrInvalid)
	}
	v, _, err := value.Normalize(v)
	if err != nil {
		return fmt.Errorf("signal %s: %w (%w)", name, err, ErrInvalid)
	}
	s := Signal{Name: name, Value: v, Actor: or(by.Actor, osUser()), Via: or(by.Via, "go"), At: e.now()}
	if err := e.store.Signal(ctx, thread, s); err != nil {
		return fmt.Errorf("signal thread %s: %w", thread, err)
	}
	return nil
}

// State is the thread as it was right after an entry of its log; 0 is the
// newest.
func (e *Engine) State(ctx context.Context, thread string, seq int64) (*View, error) {
	if e.store == nil {
		return nil, ErrNoStore
	}
	return e.store.At(ctx, thread, seq)
}

// History gives the thread's log, oldest first, to fn until fn returns an error.
func (e *Engine) History(ctx context.Context, thread string, fn func(Entry) error) error {
	if e.store == nil {
		return ErrNoStore
	}
	return e.store.Entries(ctx, thread, 0, 0, fn)
}

// CheckInput says whether an input of these values would be taken by a thread
// that is new; the error wraps ErrInvalid.
func (g *Graph) CheckInput(values Values) error {
	if _, _, err := g.inputOps(nil, Input{Values: values}); err != nil {
		return fmt.Errorf("input: %w (%w)", err, ErrInvalid)
	}
	return nil
}

// inputOps makes the operations of an input on a state: initial values of
// channels that the thread does not have yet, then the input's own writes. The
// notes say what a reader should know of them.
func (g *Graph) inputOps(state map[string]any, in Input) (ops []Op, notes []string, err error) {
	for _, name := range g.Channels() {
		ch := g.channels[name]
		current, has := state[name]
		if !has {
			ops = append(ops, Op{Channel: name, Op: OpSet, Value: ch.initial})
			continue
		}
		if err := ch.fits(current); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range sortedKeys(in.Values) {
		op, replaced, err := g.opOf("", Write{Channel: name, Value: in.Values[name]})
		if err != nil {
			return nil, nil, err
		}
		if replaced {
			notes = append(notes, fmt.Sprintf("the input for channel %s held text that is not UTF-8: such bytes were replaced", name))
		}
		ops = append(ops, op)
	}
	return ops, notes, nil
}

// fits checks that a channel can go on with the value that an earlier graph left.
func (c *channel) fits(v any) error {
	if v == nil || c.Reduce != nil {
		return nil
	}
	ok, want := true, ""
	switch c.Reducer {
	case Append, Messages:
		_, ok = v.([]any)
		want = "a list"
	case Merge:
		_, ok = v.(map[string]any)
		want = "an object"
	case Sum, Min, Max:
		ok, want = isNumber(v), "a number"
	}
	if !ok {
		return fmt.Errorf("channel %s has reducer %s now, which needs %s, but the thread holds %s from an earlier turn: use another channel or a new thread", c.name, c.Reducer, want, value.Kind(v))
	}
	return nil
}

func (e *Engine) now() time.Time { return e.o.Clock.Now().UTC().Truncate(time.Millisecond) }

func (e *Engine) emit(ev Event) {
	if e.o.Events != nil {
		ev.At = e.now()
		e.o.Events(ev)
	}
}

// OSUser is who the operating system says this process belongs to; empty if it
// does not say. Answers and inputs that name nobody else get this name.
func OSUser() string { return osUser() }

// osUser is who the operating system says this process belongs to.
var osUser = sync.OnceValue(func() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
})
