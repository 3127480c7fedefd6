package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// taskLine is a task that runs: what it does, and the line that it has begun to print.
type taskLine struct {
	work    string
	partial strings.Builder
}

// maxPartial is how much of a line without an end is kept back.
const maxPartial = 8 << 10

// event takes in an event of a turn: whether something runs, for who stops it,
// and the progress, for who watches.
func (a *app) event(ev engine.Event) {
	switch ev.Type {
	case engine.EventTurnStarted, engine.EventSleep, engine.EventAnswer:
		a.resting.Store(ev.Status == engine.Sleeping)
	}
	a.screen.event(ev)
}

// event shows the progress of a turn.
func (s *screen) event(ev engine.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Namespace == "" && ev.Entry != nil {
		ev.Namespace = ev.Entry.Namespace // the parent writes what a subgraph asks
	}
	if ev.Namespace != "" && ev.Task != "" {
		ev.Task = visit(ev.Namespace) + ev.Task // other graphs may have a node of that name
	}
	switch ev.Type {
	case engine.EventTurnStarted:
		if s.made == ev.Thread {
			s.raw("thread " + oneLine(ev.Thread) + "\n") // now it exists
			s.made = ""
		}
	case engine.EventTaskStarted:
		t := &taskLine{work: work(ev.Resolved)}
		s.tasks[ev.Task] = t
		if t.work == "" {
			return // what it does is over before one could read that it began
		}
		if text := ev.Task + ": " + t.work; s.moves {
			// One row of the screen, so that it can be written over.
			s.raw(fitRow(oneLine(text), s.width()) + "\n")
			s.last = ev.Task
		} else {
			s.raw(oneLine(text) + "\n")
		}
	case engine.EventOutput:
		s.output(ev.Task, ev.Text)
	case engine.EventShown:
		if c := ev.Shown.Call; c != nil {
			s.call(ev.Task, c)
		}
	case engine.EventTaskFinished, engine.EventTaskFailed:
		s.finished(ev)
	case engine.EventRetry:
		text := oneLine(ev.Task) + ": attempt " + strconv.Itoa(ev.Attempt) + " failed"
		if ev.Err != nil {
			text += ": " + visible(ev.Err.Error())
		}
		s.raw(text + "; again in " + elapsed(ev.Elapsed) + "\n")
	case engine.EventNote:
		text := ev.Text
		if strings.HasPrefix(text, "panic: ") {
			text, _, _ = strings.Cut(text, "\n") // what follows is for who debugs the node
		}
		s.raw("note: " + visible(text) + "\n")
	case engine.EventStep:
		for _, task := range slices.Sorted(maps.Keys(ev.Entry.Payload.Failures)) {
			s.raw("note: " + oneLine(visit(ev.Namespace)+task) + " failed, and its error handler takes over\n")
		}
	case engine.EventSleep:
		s.raw(oneLine(ev.Task+": "+waiting(*ev.Question)) + "\n")
	case engine.EventAnswer:
		if ev.Answer != nil {
			s.raw(oneLine(answered(*ev.Answer)) + "\n")
		}
	}
}

// waits shows what a sleeping turn waits for.
func (s *screen) waits(waits []interrupt.Question) {
	for _, q := range waits {
		s.line("%s: %s", cmp.Or(q.Task, q.AskingNode), waiting(q))
	}
}

// waiting says what a task waits for that no person answers.
func waiting(q interrupt.Question) string {
	switch at := q.Wakes(); {
	case q.Wait.Signal == "":
		return "sleeps until " + localTime(*at) + " (" + ahead(*at) + ")"
	case at != nil:
		return "waits for signal " + q.Wait.Signal + ", until " + localTime(*at) + " at the latest (" + ahead(*at) + ")"
	}
	return "waits for signal " + q.Wait.Signal
}

// visit is a namespace for a person: the nodes whose subgraphs were entered,
// each with a slash behind it. The namespace itself (8:NODE@SEQ/...) also says
// which visit it is, which matters to the log and not on a screen.
func visit(namespace string) string {
	path := ""
	for namespace != "" {
		size, rest, found := strings.Cut(namespace, ":")
		n, err := strconv.Atoi(size)
		if !found || err != nil || n < 0 || n > len(rest) {
			return path + namespace + "/"
		}
		path += rest[:n] + "/"
		_, namespace, _ = strings.Cut(rest[n:], "/")
	}
	return path
}

// output shows whole lines of what a task prints. Of a line that is written
// over and over, as progress bars are, the newest is shown.
func (s *screen) output(task, text string) {
	t := s.tasks[task]
	if t == nil {
		t = &taskLine{}
		s.tasks[task] = t
	}
	text = t.partial.String() + text
	t.partial.Reset()
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found {
			break
		}
		s.printed(task, line)
		text = rest
	}
	if len(text) > maxPartial {
		s.printed(task, text)
		text = ""
	}
	t.partial.WriteString(text)
}

func (s *screen) printed(task, line string) {
	line = strings.TrimSuffix(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	s.raw(s.style(dim, oneLine(task)+" |") + " " + oneLine(line) + "\n")
}

func (s *screen) finished(ev engine.Event) {
	t := s.tasks[ev.Task]
	delete(s.tasks, ev.Task)
	if t != nil && t.partial.Len() > 0 {
		s.printed(ev.Task, t.partial.String())
	}
	text := oneLine(ev.Task) + ": "
	if ev.Type == engine.EventTaskFailed {
		text += s.style(red, "failed") + " (" + elapsed(ev.Elapsed) + ")"
		if ev.Err != nil {
			text += ": " + visible(rootCause(ev.Err).Error())
		}
	} else {
		text += s.style(green, "done") + " (" + elapsed(ev.Elapsed) + ")"
		if t != nil && t.work != "" && s.moves && s.last == ev.Task {
			text += " " + s.style(dim, fitRow(oneLine(t.work), s.width()-columns(ev.Task)-24))
		}
	}
	if s.moves && s.last == ev.Task {
		text = "\x1b[1A\x1b[2K" + text
	}
	s.raw(text + "\n")
}

// rootCause skips nothing but the frame of a turn's error.
func rootCause(err error) error {
	var turn *engine.TurnError
	if errors.As(err, &turn) && turn.Cause != nil {
		return turn.Cause
	}
	return err
}

// fitRow cuts a line to what fits into one row.
func fitRow(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeColumns(r); n > max(width-3, 0) {
			return s[:i] + "..."
		}
	}
	return s
}

func elapsed(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return d.Round(100 * time.Millisecond).String()
}

// answered says who answered what, and how.
func answered(a interrupt.Answer) string {
	switch a.Via {
	case "clock":
		return "the time of " + a.Question + " has come"
	case "signal":
		return "the signal of " + a.Question + " has come: " + shorten(compact(a.Value), 80) + ", by " + a.Actor
	case "deadline":
		return "the time of " + a.Question + " is up: " + shorten(compact(a.Value), 80)
	}
	text := "answered " + a.Question + ":"
	if a.Choice != "" {
		text += " " + a.Choice
	}
	if a.Choice == "" || a.Value != nil && !value.Equal(a.Value, a.Choice) {
		text += " " + shorten(compact(a.Value), 80)
	}
	if a.Actor != "" {
		text += ", by " + a.Actor
	}
	if a.Via != "" {
		text += " via " + a.Via
	}
	if a.Reason != "" {
		text += " (" + a.Reason + ")"
	}
	return text
}

// compact is a value as JSON in one line.
func compact(v any) string {
	b, err := value.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
