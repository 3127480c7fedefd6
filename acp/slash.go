package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// slash is a command that every session has. It looks at the thread, or changes
// it from outside; it begins no turn, and an open question stays open.
type slash struct {
	name, description, hint string
	run                     func(p *prompt, ctx context.Context, behind string) (string, error)
}

func slashes() []slash {
	return []slash{
		{"status", "What the session is doing, in which mode, and what is open", "", (*prompt).showStatus},
		{"history", "The newest entries of the session's log", "how many", (*prompt).showHistory},
		{"fork", "Make a session that goes on from here, or from an earlier entry of the log", "number of the entry", (*prompt).forkSession},
		{"cancel", "End the turn that is open; its questions end with it", "", (*prompt).cancelTurn},
		{"permissions", "List what was decided for always, or forget it", "forget NUMBER, or forget all", (*prompt).permissions},
	}
}

func slashNamed(name string) *slash {
	for _, c := range slashes() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// fitsCommands says whether the commands of a graph leave those of every session
// alone.
func fitsCommands(graph *engine.Graph) error {
	for _, c := range graph.Commands() {
		if slashNamed(c.Name) != nil {
			return fmt.Errorf("graph %s has a command /%s, which every session has already: give it another name", graph.Name(), c.Name)
		}
	}
	return nil
}

// commands are those that the next prompt can give.
func (s *Server) commands(t engine.Thread) List[AvailableCommand] {
	var list List[AvailableCommand]
	add := func(name, description, hint string) {
		c := AvailableCommand{Name: name, Description: description}
		if hint != "" {
			c.Input = &CommandInput{Hint: hint}
		}
		list = append(list, c)
	}
	for _, c := range s.choice(t).graph.Commands() {
		add(c.Name, c.Description, c.Hint)
	}
	for _, c := range slashes() {
		add(c.name, c.description, c.hint)
	}
	return list
}

// tellCommands tells the commands if they are not those that were told last. The
// caller holds s.telling.
func (s *session) tellCommands(t engine.Thread) {
	list := s.c.server.commands(t)
	text, err := json.Marshal(list)
	if err == nil && !bytes.Equal(text, s.told.commands) {
		s.told.commands = text
		s.c.notify(s.id, AvailableCommandsUpdate{AvailableCommands: list})
	}
}

// slash does what the text says, if it is a command of every session.
func (p *prompt) slash() (done bool, err error) {
	name, behind, ok := engine.CutCommand(p.text)
	c := slashNamed(name)
	if !ok || c == nil {
		return false, nil
	}
	text := ""
	if behind != "" && c.hint == "" {
		text = fmt.Sprintf("/%s stands alone; nothing was done.", c.name)
	} else if text, err = c.run(p, p.ctx, behind); err != nil {
		return true, err
	}
	p.say(text)
	return true, nil
}

func (p *prompt) showStatus(ctx context.Context, _ string) (string, error) {
	view, err := p.c.config.Store.At(ctx, p.s.id, 0)
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	t := view.Thread
	var b strings.Builder
	status := string(t.Status)
	switch {
	case t.Turn == 0:
		status = "new"
	case t.Status == engine.Running:
		status = "cut short: the next prompt goes on"
	}
	fmt.Fprintf(&b, "session: %s\nstatus: %s\n", t.ID, status)
	if t.Owner != nil && t.Owner.Alive && !t.Owner.Self {
		fmt.Fprintf(&b, "held by: process %d\n", t.Owner.PID)
	}
	if t.Turn > 0 {
		fmt.Fprintf(&b, "turn: %d, step %d\nhead: %s\n", t.Turn, view.Head.Step, engine.CheckpointID(t.ID, t.Head))
	}
	fmt.Fprintf(&b, "graph: %s\nfolder: %s\nmode: %s\n", p.s.served.graph.Name(), t.Cwd, modeText(t))
	fmt.Fprintf(&b, "decided for always: %d\n", len(Standings(t)))
	for _, q := range view.Open() {
		fmt.Fprintf(&b, "open: %s: %s\n", q.ID(), oneLine(q.Payload.Reason(), 200))
	}
	for _, q := range view.Waits() {
		fmt.Fprintf(&b, "waits: %s\n", oneLine(q.Task+": "+q.Payload.Message, 200))
	}
	return fenced("", b.String()).Content.Text, nil
}

// modeText is the mode with who set it.
func modeText(t engine.Thread) string {
	actor, client, at := ModeBy(t)
	if actor == "" {
		return modeOf(t)
	}
	return fmt.Sprintf("%s, set by %s (%s) %s", modeOf(t), actor, client, at.Format(time.DateTime+"Z"))
}

// Bounds of /history.
const (
	historyShown = 20
	historyMost  = 200
)

func (p *prompt) showHistory(ctx context.Context, behind string) (string, error) {
	n := int64(historyShown)
	if behind != "" {
		var err error
		if n, err = strconv.ParseInt(behind, 10, 64); err != nil || n < 1 || n > historyMost {
			return fmt.Sprintf("/history takes how many entries to show, 1 to %d.", historyMost), nil
		}
	}
	t, err := p.c.config.Store.Thread(ctx, p.s.id)
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	if t.Head == 0 {
		return "The session has no entries yet.", nil
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEQ\tKIND\tTURN\tSTEP\tSTATUS\tWHAT\tWHO\tAT")
	err = p.c.config.Store.Entries(ctx, p.s.id, max(0, t.Head-n), 0, func(e engine.Entry) error {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", e.Seq, e.Kind, e.Turn, e.Step, e.Status,
			oneLine(entryText(e), 80), oneLine(e.Actor, 40), e.At.Format(time.DateTime+"Z"))
		return nil
	})
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	if err := table.Flush(); err != nil {
		return "", Internal(err)
	}
	return fenced("", b.String()).Content.Text, nil
}

// entryText says in a few words what an entry is about.
func entryText(e engine.Entry) string {
	switch pl := e.Payload; {
	case e.Removed:
		return "(removed)"
	case pl.Answer != nil:
		text := pl.Answer.Choice
		if text == "" {
			text = told(pl.Answer.Value)
		}
		return text + " via " + pl.Answer.Via
	case pl.Interrupt != nil:
		return interrupt.Interrupt{Kind: pl.Interrupt.Kind, Node: pl.Interrupt.Node, Message: pl.Interrupt.Message}.Reason()
	case pl.End != nil:
		return pl.End.Cause
	case pl.From != "":
		return "from " + pl.From
	case pl.Input != nil:
		return pl.Input.Text
	}
	return strings.Join(e.Tasks, ", ")
}

func (p *prompt) forkSession(ctx context.Context, behind string) (string, error) {
	t, err := p.c.config.Store.Thread(ctx, p.s.id)
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	seq := t.Head
	if behind != "" {
		if seq, err = strconv.ParseInt(behind, 10, 64); err != nil || seq < 1 || seq > t.Head {
			return fmt.Sprintf("/fork takes the number of an entry, 1 to %d; /history shows them.", t.Head), nil
		}
	}
	if seq == 0 {
		return "There is nothing to fork yet: the session has no entries.", nil
	}
	id := newSessionID()
	turn, err := p.engine().Fork(ctx, engine.CheckpointID(p.s.id, seq), id, p.c.by())
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	text := fmt.Sprintf("Session %s goes on from %s; load it from the list of sessions.", id, engine.CheckpointID(p.s.id, seq))
	if !turn.Status.Over() {
		text += " Its turn is not over: the first prompt there goes on with it."
	}
	return text, nil
}

func (p *prompt) cancelTurn(ctx context.Context, _ string) (string, error) {
	turn, err := p.engine().Cancel(ctx, p.s.id, p.c.by())
	switch {
	case errors.Is(err, engine.ErrInvalid) && turn != nil && turn.Status.Over():
		return "No turn is open: there is nothing to cancel.", nil
	case err != nil:
		return "", storeError(p.s.id, err)
	}
	p.s.waits = ""
	return fmt.Sprintf("Turn %d is cancelled.", turn.Number), nil
}

func (p *prompt) permissions(ctx context.Context, behind string) (string, error) {
	t, err := p.c.config.Store.Thread(ctx, p.s.id)
	if err != nil {
		return "", storeError(p.s.id, err)
	}
	list := Standings(t)
	if behind != "" {
		return p.forget(ctx, list, strings.Fields(behind))
	}
	if len(list) == 0 {
		return "Nothing was decided for always: you are asked every time.", nil
	}
	var b strings.Builder
	for i, s := range list {
		fmt.Fprintf(&b, "%d  %s\n   chosen by %s at %s, %s\n", i+1, oneLine(s.Label, 200), oneLine(s.Actor, 100), s.Origin, s.At.Format(time.DateTime+"Z"))
		if g := p.c.server.named(s.GraphName); g == nil || g.graph.Fingerprint() != s.Graph {
			fmt.Fprintf(&b, "   of another version of graph %s: you are asked again\n", oneLine(s.GraphName, 100))
		}
	}
	return fenced("", b.String()).Content.Text + "\n\n/permissions forget NUMBER takes one of them back, /permissions forget all takes all.", nil
}

// forget takes back what the words name: a number of the list, or all of it.
func (p *prompt) forget(ctx context.Context, list []Standing, words []string) (string, error) {
	const usage = "/permissions lists what was decided for always; /permissions forget NUMBER, or forget all, takes it back."
	if len(words) != 2 || !strings.EqualFold(words[0], "forget") {
		return usage, nil
	}
	gone := list
	if !strings.EqualFold(words[1], "all") {
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > len(list) {
			return fmt.Sprintf("There is no number %s in the list. %s", oneLine(words[1], 40), usage), nil
		}
		gone = list[n-1 : n]
	}
	// What was decided since the list was made is not meant.
	_, err := p.c.change(ctx, p.s.id, forget(func(s Standing) bool {
		return slices.ContainsFunc(gone, func(g Standing) bool { return g.Origin == s.Origin && g.same(s) })
	}))
	if err != nil {
		return "", err
	}
	p.s.announce(ctx)
	return fmt.Sprintf("Forgotten: %d. You are asked again.", len(gone)), nil
}

// by says that something is done on the word of this client.
func (c *client) by() engine.By {
	_, name := c.able()
	return engine.By{Via: "acp", Client: name}
}
