package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// ErrInDoubt, wrapped by the error of a node or effect, says that its attempt
// broke off: nobody knows whether it did its work. What happens then is the
// node's OnCrash, as after a crash.
var ErrInDoubt = errors.New("broke off: it is not known whether the work was done")

// errAsked unwinds a node that asks. Whoever swallows it changes nothing: the
// task is paused all the same.
var errAsked = errors.New("the task asks a question: return this error from the node")

// Task is one run of one node in one step: what the node sees of the world.
// Its methods may be used from several goroutines of the node, but not after
// the node has returned: what they read then is the next step's.
type Task struct {
	id       string
	ctx      taskContext
	node     *node
	run      *run // that it is a part of
	base     int64
	turn     int64
	step     int64
	state    State
	gate     *interrupt.Answer
	resolved any
	handles  *Failure // the failure that led here
	short    error    // it is a join that ran out of time with too few arrivals

	mu       sync.Mutex
	results  []Result       // stored ones of this task and base
	asked    []asked        // questions of this task and base, in order
	asks     int            // how many Asks this pass made
	keys     map[string]int // how often each effect key was used in this pass
	question *interrupt.Question
	inner    []pending // questions of the subgraph that it runs
	refused  string    // a gate in that subgraph was rejected, and nothing was left to run there
	failure  error     // an engine error that the node must not hide
	notes    []string
	shown    []Shown
	used     Usage         // by this task
	alive    chan struct{} // signs of life, for the idle timeout
	over     bool          // the node returned: whoever still holds the task changes nothing
}

type taskKey struct{}

// taskContext is the context that a node is given: its task is in it.
type taskContext struct {
	context.Context
	task *Task
}

func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		return c.task
	}
	return c.Context.Value(key)
}

// TaskFrom gives the task that a context belongs to, or nil.
func TaskFrom(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}

// ID is the task's id: the name of its node, or node[i] for the i-th Send to it
// in its step, from 0.
func (t *Task) ID() string { return t.id }

// Node is the name of the node.
func (t *Task) Node() string { return t.node.name }

// Thread is the id of the thread.
func (t *Task) Thread() string { return t.run.thread.ID }

// Turn and Step say where in the thread the task runs.
func (t *Task) Turn() int64 { return t.turn }

// Step is the number of the step within the turn, from 1.
func (t *Task) Step() int64 { return t.step }

// Base is the seq of the checkpoint that made the task ready. With its id it names
// the task within the thread.
func (t *Task) Base() int64 { return t.base }

// Cwd is the folder where the thread was started; empty if it has none.
func (t *Task) Cwd() string { return t.run.thread.Cwd }

// Roots are the folders that the task's files lie in: the thread's own folder
// and the further ones of its session.
func (t *Task) Roots() []string {
	if t.run.thread.Cwd == "" {
		return t.run.thread.Roots
	}
	return append([]string{t.run.thread.Cwd}, t.run.thread.Roots...)
}

// Host is what the surroundings of the turn offer; never nil.
func (t *Task) Host() Host {
	if host := t.run.e.o.Host; host != nil {
		return host
	}
	return NoHost{}
}

// Get is the value of a channel as the step began. It must not be changed; to
// append to a list that it gives is fine, as it makes a new one.
func (t *Task) Get(channel string) any { return clipped(t.state[channel]) }

// State is all channels as the step began. It must not be changed.
func (t *Task) State() State { return t.state }

// Resolved is what the node's Resolve gave, which is what an approver saw.
func (t *Task) Resolved() any { return t.resolved }

// Answer is the newest answer that this task was given on this step: of its
// last question, else of the gate in front of it. Nil if there was none.
func (t *Task) Answer() *interrupt.Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.asked) - 1; i >= 0; i-- {
		if q := t.asked[i]; q.answer != nil && !q.question.IsDoubt() {
			a := *q.answer
			return &a
		}
	}
	return t.gate
}

// Print reports a piece of the node's output as it comes. It is shown and not
// stored.
func (t *Task) Print(text string) {
	t.Alive()
	t.mu.Lock()
	over := t.over
	t.mu.Unlock()
	if over {
		return
	}
	t.run.emit(Event{Type: EventOutput, Task: t.id, Node: t.node.name, Text: text})
}

// Report emits an event of the node's own, for whoever listens. It is not stored.
func (t *Task) Report(name string, v any) error {
	v, _, err := value.Normalize(v)
	if err != nil {
		return fmt.Errorf("report %s: %w", name, err)
	}
	t.Alive()
	t.mu.Lock()
	over := t.over
	t.mu.Unlock()
	if !over {
		t.run.emit(Event{Type: EventCustom, Task: t.id, Node: t.node.name, Text: name, Value: v})
	}
	return nil
}

// IdempotencyKey names one effect of this task for services that accept such a
// key: the same after a crash and for every attempt, and of no other task.
func (t *Task) IdempotencyKey(key string) string {
	h := sha256.New()
	for _, part := range []string{t.run.thread.ID, strconv.FormatInt(t.base, 10), t.id, key} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Get reads a channel as T: the value itself, or decoded from its JSON.
func Get[T any](t *Task, channel string) (T, error) {
	var out T
	if err := into(t.Get(channel), &out); err != nil {
		return out, fmt.Errorf("channel %s: %w", channel, err)
	}
	return out, nil
}

// Resolved reads what the node's Resolve gave as T: the value itself, or decoded
// from its JSON.
func Resolved[T any](t *Task) (T, error) {
	var out T
	if err := into(t.Resolved(), &out); err != nil {
		return out, fmt.Errorf("what node %s resolved: %w", t.node.name, err)
	}
	return out, nil
}

// into fills out, a pointer, from a channel value.
func into[T any](v any, out *T) error {
	if same, ok := v.(T); ok {
		*out = same
		return nil
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(value.Append(nil, v), out)
}

// Ask asks a person and gives the answer. The first time it returns an error
// that the node must return: the task pauses. When the answer is in, the node
// runs again from its top and Ask returns it. Several Asks in one node are
// matched by their order, and by what they ask: if the node now asks something
// else, the old answer is void and the new question is asked.
func (t *Task) Ask(a Ask) (interrupt.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ordinal := t.asks
	t.asks++
	return t.ask(a, ordinal)
}

func (t *Task) ask(a Ask, ordinal int) (interrupt.Answer, error) {
	if t.question != nil {
		return interrupt.Answer{}, errAsked
	}
	q, err := t.newQuestion(a, ordinal)
	if err != nil {
		return interrupt.Answer{}, t.fail(err)
	}
	return t.match(q)
}

// match gives the answer of a question, or asks it. The caller holds t.mu.
func (t *Task) match(q *interrupt.Question) (interrupt.Answer, error) {
	if t.over {
		return interrupt.Answer{}, t.tooLate()
	}
	if t.question != nil {
		return interrupt.Answer{}, errAsked
	}
	voids := 0
	for i := range t.asked {
		old := &t.asked[i]
		if old.question.IsGate() || old.question.IsDoubt() || old.question.Ordinal != q.Ordinal {
			continue
		}
		if old.void {
			voids++
			continue
		}
		if old.question.Digest == q.Digest && old.answer != nil {
			return *old.answer, nil
		}
		// The node asks something else than it did: its old answer is void.
		// Twice in a row is a node that cannot make up its mind.
		if voids > 0 {
			return interrupt.Answer{}, t.fail(fmt.Errorf(
				"question %d of task %s changed twice: first it asked %q, now %q; a node must ask the same when it runs again",
				q.Ordinal+1, t.id, old.question.Payload.Message, q.Payload.Message))
		}
		q.Voids = old.question.ID()
	}
	t.question = q
	return interrupt.Answer{}, errAsked
}

func (t *Task) newQuestion(a Ask, ordinal int) (*interrupt.Question, error) {
	seen := map[string]bool{}
	for _, c := range a.Choices {
		if c.ID == "" || seen[c.ID] {
			return nil, fmt.Errorf("choice %q: every choice needs an id of its own", c.ID)
		}
		seen[c.ID] = true
	}
	data, _, err := value.Normalize(a.Data)
	if err != nil {
		return nil, fmt.Errorf("data of a question: %w", err)
	}
	q := &interrupt.Question{
		Payload:    interrupt.GraphInterruptPayload{Kind: interrupt.Dynamic, Message: strings.ToValidUTF8(a.Message, "\uFFFD"), Data: data},
		AskingNode: t.node.name, Task: t.id, Ordinal: ordinal, Choices: a.Choices, Type: a.Type,
		Format: a.Format, Minimum: a.Minimum, Maximum: a.Maximum,
	}
	if _, problem := q.Mistake(); problem != "" {
		return nil, errors.New(problem)
	}
	if a.Deadline > 0 {
		def, _, err := value.Normalize(a.Default)
		if err != nil {
			return nil, fmt.Errorf("default answer of a question: %w", err)
		}
		if _, err := q.Check(interrupt.Answer{Value: def}); err != nil {
			return nil, fmt.Errorf("default answer of a question with a deadline: %w", err)
		}
		at := t.run.e.now().Add(a.Deadline)
		q.Deadline, q.Default = &at, def
	}
	return q, q.Seal(t.base)
}

// fail notes an error that the node must not hide, and gives it back.
func (t *Task) fail(err error) error {
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// Note stores what the node's intent learned meanwhile, such as the id of the
// process that does the work, so that a doubt can name it.
func (t *Task) Note(ctx context.Context, v any) error {
	raw, err := value.Marshal(v)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(ctx, ResultNote, "", raw)
}

// put stores a result under the task's next number. The caller holds t.mu.
func (t *Task) put(ctx context.Context, kind ResultKind, key string, raw []byte) error {
	if t.over {
		return t.tooLate()
	}
	r := Result{Task: t.id, N: t.nextN(), Kind: kind, Key: key, Value: raw}
	if err := t.run.put(ctx, r); err != nil {
		return t.fail(fmt.Errorf("store %s of task %s: %w", kind, t.id, err))
	}
	t.results = append(t.results, r)
	return nil
}

// end makes the task useless to whoever still holds it: the base has moved on,
// or will, and what came now would be taken for something of another step.
func (t *Task) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *Task) tooLate() error {
	return fmt.Errorf("task %s: its node has returned: wait for your goroutines before you return (%w)", t.id, ErrInvalid)
}

func (t *Task) nextN() int64 {
	n := int64(1)
	for _, r := range t.results {
		if r.N >= n {
			n = r.N + 1
		}
	}
	return n
}
