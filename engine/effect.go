package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Step runs fn once and stores its JSON result under key; when the node runs
// again on the same step (after an answer, a failure, a crash) the stored
// result is returned and fn does not run. A key used several times in one node
// is told apart by order.
//
// If the process dies between fn and its stored result, onCrash decides (by
// default the node's own): retry runs fn again, ask asks a person, fail fails
// the task. For ask and fail an intent is stored before fn runs.
func Step[T any](ctx context.Context, key string, fn func(context.Context) (T, error), onCrash ...OnCrash) (T, error) {
	var out T
	t := TaskFrom(ctx)
	if t == nil {
		return out, fmt.Errorf("effect %s: this context belongs to no task; pass on the one that the node was given", key)
	}
	if key == "" {
		return out, errors.New("an effect needs a key: the empty one is the node itself")
	}
	policy := t.node.OnCrash
	if len(onCrash) > 0 {
		policy = onCrash[0]
	}
	raw, err := t.effect(ctx, key, policy, nil, func(ctx context.Context) (any, error) { return fn(ctx) })
	if err != nil {
		return out, fmt.Errorf("effect %s: %w", key, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("effect %s: its stored result does not fit %T: %w", key, out, err)
	}
	return out, nil
}

// effect is Step; describe is what a person is shown of work in doubt.
func (t *Task) effect(ctx context.Context, key string, policy OnCrash, describe any, fn func(context.Context) (any, error)) (json.RawMessage, error) {
	t.mu.Lock()
	if t.over {
		defer t.mu.Unlock()
		return nil, t.tooLate()
	}
	key = t.ownKey(key)
	for _, r := range t.results {
		if r.Kind == ResultEffect && r.Key == key {
			t.mu.Unlock()
			return r.Value, nil
		}
	}
	done, err := t.settle(ctx, key, policy, describe, nil)
	if err == nil && done != nil {
		raw := value.Append(nil, done.Value)
		err = t.put(ctx, ResultEffect, key, raw)
		t.mu.Unlock()
		return raw, err
	}
	if err == nil && policy.guards() {
		err = t.put(ctx, ResultIntent, key, []byte("null"))
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// If the process dies from here until the result is stored, the intent
	// without a result is what the next process finds.
	if err := failpoint.HitIn("engine.effect.before", t.run.thread.ID); err != nil {
		return nil, err
	}
	v, err := fn(ctx)
	if err != nil {
		return nil, t.broke(ctx, key, policy, describe, err)
	}
	if err := failpoint.HitIn("engine.effect.after", t.run.thread.ID); err != nil {
		return nil, err
	}
	raw, err := value.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("its result: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return raw, t.put(ctx, ResultEffect, key, raw)
}

// ownKey tells a key that is used again apart from the earlier ones of this pass.
// The caller holds t.mu.
func (t *Task) ownKey(key string) string {
	if t.keys == nil {
		t.keys = map[string]int{}
	}
	// The name that a repeated key gets is taken like any other: a node may
	// have chosen it too.
	t.keys[key]++
	for n := t.keys[key]; n > 1; n = t.keys[key] {
		key += "#" + strconv.Itoa(n)
		t.keys[key]++
	}
	return key
}

// guards reports whether an intent is stored before the work.
func (c OnCrash) guards() bool { return c == CrashAsk || c == CrashFail }

// settle looks for an intent of the key that has no result and decides: nil,
// nil means run it; an answer means a person said that it is done. cause is how
// the attempt broke off, nil if the process stopped. The caller holds t.mu.
func (t *Task) settle(ctx context.Context, key string, policy OnCrash, describe any, cause error) (*interrupt.Answer, error) {
	intent := t.openIntent(key)
	if intent == 0 || !policy.guards() {
		return nil, nil
	}
	what := "effect " + key + " of node " + t.node.name
	if key == "" {
		what = "node " + t.node.name
	}
	if policy == CrashFail {
		return nil, t.giveUp(ctx, key, fmt.Errorf("%s may have done its work already: the process stopped while it ran, and on_crash is fail", what))
	}
	for _, q := range t.asked {
		d := q.question.Doubt
		if d == nil || d.Key != key || d.Intent != intent || q.answer == nil {
			continue
		}
		switch q.answer.Choice {
		case interrupt.RunAgain:
			return nil, nil
		case interrupt.DoneIt:
			return q.answer, nil
		default:
			who := q.answer.Actor
			if who == "" {
				who = "somebody"
			}
			return nil, t.giveUp(ctx, key, fmt.Errorf("%s was in doubt, and %s answered %s", what, who, interrupt.FailIt))
		}
	}
	if t.question != nil {
		return nil, errAsked
	}
	doubt := &interrupt.Doubt{Key: key, Intent: intent, Effect: describe}
	why := "the process stopped while it ran"
	if cause != nil {
		why = brokeOff(cause)
	}
	if key == "" && t.node.Lives != nil {
		if doubt.PID = t.lives(intent); doubt.PID != 0 {
			why += fmt.Sprintf(", and its command (process %d) still lives", doubt.PID)
		}
	}
	message := "It is not known whether " + what + " did its work: " + why + ". Run it again, count it as done, or fail?"
	data := map[string]any{"effect": key, "node": t.node.name}
	if describe != nil {
		data["runs"] = describe
	}
	q := &interrupt.Question{
		Payload:    interrupt.GraphInterruptPayload{Kind: interrupt.Dynamic, Message: message, Data: data},
		AskingNode: t.node.name, Task: t.id, Choices: interrupt.DoubtChoices(), Doubt: doubt,
	}
	if err := q.Seal(t.base); err != nil {
		return nil, t.fail(err)
	}
	t.question = q
	return nil, errAsked
}

// brokeOff says in one line how an attempt broke off.
func brokeOff(cause error) string {
	const most = 300
	text := strings.NewReplacer("; "+ErrInDoubt.Error(), "", ": "+ErrInDoubt.Error(), "").Replace(cause.Error())
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return "it broke off (" + text + ")"
}

// rests settles the intent of work that came to rest with a question: it did
// not break off, and begins anew when the answer is in. A doubt about this very
// work leaves its intent open.
func (t *Task) rests(ctx context.Context, key string, asked bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.question; q != nil {
		if q.Doubt != nil && q.Doubt.Key == key {
			return nil
		}
		asked = true
	}
	if !asked || t.openIntent(key) == 0 {
		return nil
	}
	return t.put(context.WithoutCancel(ctx), ResultAttempt, key, value.Append(nil, "paused by a question"))
}

// giveUp settles an intent as failed, so that a later Resume, which is
// somebody's decision, runs the work anew.
func (t *Task) giveUp(ctx context.Context, key string, cause error) error {
	if err := t.put(ctx, ResultAttempt, key, value.Append(nil, cause.Error())); err != nil {
		return err
	}
	return t.fail(cause)
}

// openIntent is the number of the newest intent of the key that neither a
// result nor a failed attempt settled; 0 if there is none.
func (t *Task) openIntent(key string) int64 {
	open := int64(0)
	for _, r := range t.results {
		if r.Key != key {
			continue
		}
		switch r.Kind {
		case ResultIntent:
			open = r.N
		case ResultEffect, ResultAttempt:
			open = 0
		}
	}
	return open
}

func (t *Task) lastNote(intent int64) any {
	var note any
	for _, r := range t.results {
		if r.Kind == ResultNote && r.N > intent {
			if v, err := value.Decode(r.Value); err == nil {
				note = v
			}
		}
	}
	return note
}

// broke records how an attempt failed. A failure settles its intent: a known
// one, and one that broke off (ErrInDoubt) where that is a failure too. One that
// a person is asked about, or that was killed with the process about to stop,
// leaves it open.
func (t *Task) broke(ctx context.Context, key string, policy OnCrash, describe any, cause error) error {
	if !policy.guards() {
		return cause
	}
	if errors.Is(cause, errAsked) {
		if err := t.rests(ctx, key, true); err != nil {
			return err
		}
		return cause
	}
	if ctx.Err() != nil {
		return cause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(cause, ErrInDoubt) && policy == CrashAsk {
		if _, err := t.settle(ctx, key, policy, describe, cause); err != nil {
			return err
		}
		return cause
	}
	if err := t.put(context.WithoutCancel(ctx), ResultAttempt, key, value.Append(nil, cause.Error())); err != nil {
		return err
	}
	return cause
}

// lives asks the node for a process of the intent that still lives. One that
// panics knows of none: the question must be asked all the same.
func (t *Task) lives(intent int64) (pid int) {
	defer func() {
		if recover() != nil {
			pid = 0
		}
	}()
	return t.node.Lives(t.lastNote(intent))
}
