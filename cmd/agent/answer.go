package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store"
)

type answerFlags struct {
	approve, reject bool
	choose          string
	value           string
	reason          string
	as              string
	noRun           bool
}

func (a *app) answerCommand() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer THREAD[@SEQ] (--approve | --reject | --choose OPTION [--value JSON] | --value JSON)",
		Short: "Answer an open question; the last answer goes on with the turn",
		Long: `Answers an open question, whose id is THREAD@SEQ; THREAD alone means its one open
question. When the last question is answered, and no other process waits for it,
the turn goes on here, in the folder where the thread was started.

The same answer again is fine. A question that has another answer, or can no
longer be answered, gives exit code 4 and says what became of it.`,
		Example: `  agent answer release-7@4 --approve
  agent answer release-7@4 --reject --reason 'not on a Friday' --as alice
  agent answer survey-1 --value '"blue"'
  agent answer release-7@6 --choose done --value '{"exit_code": 0}'`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd, args[0], f)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.approve, "approve", false, "approve the gate")
	flags.BoolVar(&f.reject, "reject", false, "reject the gate: its node does not run")
	flags.StringVar(&f.choose, "choose", "", "one of the question's choices, by its `OPTION` id")
	flags.StringVar(&f.value, "value", "", "a `JSON` value; with --choose done of a doubt, the result of what was done")
	flags.StringVar(&f.reason, "reason", "", "why, for the log (`TEXT`)")
	flags.StringVar(&f.as, "as", "", "the `NAME` that the log gets, beside the user of the system")
	flags.BoolVar(&f.noRun, "no-run", false, "store the answer and run nothing")
	return cmd
}

// given makes the answer of the flags.
func (f answerFlags) given(cmd *cobra.Command) (interrupt.Answer, error) {
	out := interrupt.Answer{Actor: f.as, Via: "cli", Reason: f.reason, Client: client()}
	changed := cmd.Flags().Changed
	n := 0
	for _, given := range []bool{f.approve, f.reject, changed("choose")} {
		if given {
			n++
		}
	}
	hasValue := changed("value")
	if n == 0 && !hasValue || n > 1 || hasValue && (f.approve || f.reject) {
		return out, usage("say the answer with exactly one of --approve, --reject, --choose OPTION (of a doubt also with --value JSON) and --value JSON")
	}
	switch {
	case f.approve:
		out.Choice = interrupt.Approve
	case f.reject:
		out.Choice = interrupt.Reject
	case changed("choose"):
		if f.choose == "" {
			return out, usage("--choose is empty: name one of the question's choices")
		}
		out.Choice = f.choose
	}
	if hasValue {
		v, err := decodeJSON(f.value)
		if err != nil {
			return out, usage("--value: %w", err)
		}
		out.Value = v
	}
	return out, nil
}

func (a *app) answer(cmd *cobra.Command, arg string, f answerFlags) error {
	answer, err := f.given(cmd)
	if err != nil {
		return err
	}
	thread, seq, err := checkpoint(arg)
	if err != nil {
		return err
	}
	if seq > 0 {
		answer.Question = arg
	}
	ctx, stop := a.interruptible(cmd.Context())
	defer stop()
	return a.working(ctx, func(s *store.Store) error {
		e := a.engine(nil, s, engine.Options{Ask: a.asker(f.as, false), Sleep: true})
		view, err := s.At(ctx, thread, 0)
		if err != nil {
			return err
		}
		if seq == 0 {
			if answer.Question, err = onlyQuestion(ctx, s, view); err != nil {
				return err
			}
		}
		turn, err := a.giveAnswer(ctx, e, view, answer, f.noRun)
		return a.conclude(ctx, s, thread, turn, err)
	})
}

// giveAnswer stores the answer and goes on with the turn, if it is for this
// process to do so.
func (a *app) giveAnswer(ctx context.Context, e *engine.Engine, view *engine.View, answer interrupt.Answer, noRun bool) (*engine.Turn, error) {
	thread := view.Thread.ID
	// On a turn that is over an answer is late, or the same again: a turn that
	// failed is not tried again for that.
	if noRun || view.Thread.Status.Over() {
		turn, err := e.Answer(ctx, thread, answer)
		if err == nil && turn.Status == engine.Running && !turn.Elsewhere {
			a.screen.line("the answer is stored; this goes on with the turn:\n%s", a.command("resume", thread))
		}
		return turn, err
	}
	a.screen.waits(view.Waits())
	turn, err := e.Resume(ctx, thread, answer)
	if errors.Is(err, engine.ErrBusy) {
		// Somebody moves the thread, so the question is not open: what became
		// of it is the answer, or the same answer again.
		return e.Answer(ctx, thread, answer)
	}
	return turn, err
}

// onlyQuestion is the id of the one open question of a thread.
func onlyQuestion(ctx context.Context, s *store.Store, view *engine.View) (string, error) {
	open := view.Open()
	switch len(open) {
	case 1:
		return open[0].ID(), nil
	case 0:
		return "", nothingOpen(ctx, s, view)
	}
	text := ""
	for _, q := range open {
		text += "\n  " + q.ID() + "  " + shorten(oneLine(q.Payload.Reason()), 60)
	}
	return "", usage("thread %s has %d open questions, say which one is answered:%s", view.Thread.ID, len(open), text)
}

// nothingOpen says what became of the thread's last question.
func nothingOpen(ctx context.Context, s *store.Store, view *engine.View) error {
	none := fmt.Sprintf("thread %s (%s) has no open question", view.Thread.ID, view.Thread.Status)
	seq, err := lastQuestion(ctx, s, view)
	if err != nil {
		return err
	}
	if seq > 0 {
		record, err := s.Question(ctx, view.Thread.ID, seq)
		if err != nil {
			return err
		}
		none += "; its last one, " + became(record)
	}
	return &exitError{code: exitConflict, err: errors.New(none)}
}

// became says what became of a question.
func became(r engine.QuestionRecord) string {
	if r.Answer == nil {
		return r.Question.ID() + ", is " + string(r.State)
	}
	return fmt.Sprintf("%s, is answered: %s, by %s via %s at %s",
		r.Question.ID(), compact(r.Answer.Value), r.Answer.Actor, r.Answer.Via, localTime(r.Answer.At))
}

// lastQuestion is the seq of the newest question, 0 if there never was one. It
// looks from the end of the log.
func lastQuestion(ctx context.Context, s *store.Store, view *engine.View) (int64, error) {
	const chunk = 256
	for after := view.Thread.Head; after > 0; {
		after = max(0, after-chunk)
		entries, err := s.History(ctx, view.Thread.ID, after, chunk)
		if err != nil {
			return 0, err
		}
		for i := len(entries) - 1; i >= 0; i-- {
			if entries[i].Kind == engine.KindPause {
				return entries[i].Seq, nil
			}
		}
	}
	return 0, nil
}
