package acp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
	"github.com/holdfast-agent/holdfast/interrupt"
)

var booleans = editor.Object{"session": editor.Object{"configOptions": editor.Object{"boolean": editor.Object{}}}}

// loop runs work three times, with a gate in front of it, and other once.
func loop(version int) *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name: "loop", Channels: map[string]engine.Channel{"prompt": {}, "response": {}, "n": {Reducer: engine.Sum}},
		Nodes: map[string]engine.Node{
			"begin": {Run: func(context.Context, *engine.Task) (engine.Output, error) {
				return engine.Output{Writes: []engine.Write{{Channel: "n", Value: 0, Overwrite: true}}}, nil
			}, Version: version},
			"work": {Run: set("n", 1)}, "other": {Run: set("response", "done")},
		},
		Edges: []engine.Edge{{From: engine.Start, To: "begin"}, {From: "begin", To: "work"}},
		ConditionalEdges: []engine.ConditionalEdge{{From: "work", Routes: map[string]string{"again": "work", "over": "other"}, Route: func(s engine.State) ([]string, error) {
			if n, _ := s["n"].(int64); n < 3 {
				return []string{"again"}, nil
			}
			return []string{"over"}, nil
		}}},
		InterruptBefore: []engine.Gate{{Node: "work"}, {Node: "other"}},
	})
}

// titles answers every dialog with an option, and notes what was asked.
func titles(asked *[]string, optionID string) func(editor.Message) (any, bool) {
	return func(m editor.Message) (any, bool) {
		*asked = append(*asked, m.Params["toolCall"].(map[string]any)["title"].(string))
		return editor.Chosen(optionID), true
	}
}

func TestWhatIsDecidedForAlwaysHoldsForItsNodeInItsSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, loop(1))
	c := d.client(nil)
	s := c.NewSession()
	var options []any
	asked := 0
	c.Ask = func(m editor.Message) (any, bool) {
		asked++
		options = m.Params["options"].([]any)
		if asked == 1 {
			return editor.Chosen("approve_always"), true
		}
		return editor.Chosen("approve"), true
	}
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 2, asked, "once for work, and once for other")
	want := []string{"approve allow_once", "reject reject_once", "approve_always allow_always", "reject_always reject_always"}
	for i, o := range options {
		o := o.(map[string]any)
		require.Equal(t, want[i], o["optionId"].(string)+" "+o["kind"].(string))
	}
	require.Equal(t, "Approve other for the rest of this session, whatever it runs", options[2].(map[string]any)["name"], "what it covers is said")

	// The log says what each answer goes back to.
	given := d.answers(s)
	require.Len(t, given, 4)
	origin := given[0].Question
	require.Equal(t, []string{"acp", "always", "always", "acp"}, viaOf(given))
	for i, want := range []string{origin, origin, origin, ""} {
		require.Equal(t, want, given[i].Origin)
		require.Equal(t, engine.OSUser(), given[i].Actor)
		require.Equal(t, "approve", given[i].Choice)
	}
	require.Contains(t, given[1].Reason, origin)
	require.Equal(t, "editor 7", given[1].Client)

	// In another process too, and in no other session.
	c.leave()
	c = d.client(nil)
	var titlesOf []string
	c.Ask = titles(&titlesOf, "approve")
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, []string{"Interrupt before node: other"}, titlesOf)
	titlesOf = nil
	require.Equal(t, "end_turn", c.Says(c.NewSession(), "y"))
	require.Len(t, titlesOf, 4)

	// A graph that has changed is another one.
	c.leave()
	d.config.Graphs = []*engine.Graph{loop(2)}
	c = d.client(nil)
	titlesOf = nil
	c.Ask = titles(&titlesOf, "approve")
	require.Equal(t, "end_turn", c.Says(s, "z"))
	require.Len(t, titlesOf, 4)
}

func TestARejectionForAlwaysCountsMoreThanTheMode(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	c.Ask = always(editor.Chosen("reject_always"))
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, engine.Rejected, d.status(s))
	c.Call("session/set_mode", mode(s, "auto-approve"))
	c.Ask = never(t)
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, engine.Rejected, d.status(s))
	require.Equal(t, []string{"acp", "always"}, viaOf(d.answers(s)))
	calls, order := editor.ToolCalls(t, c.Log)
	require.Len(t, order, 2)
	require.Equal(t, "failed", calls[order[1]]["status"])
	require.NotContains(t, editor.Text(c.Log, "agent_message_chunk"), "ran\n")
}

func TestAStandingIsListedAndRevokedByAnOption(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		capabilities editor.Object
		typ          string
		on, off, bad any
	}{
		"boolean": {booleans, "boolean", true, false, "off"},
		"select":  {nil, "select", "on", "off", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
			c := d.client(test.capabilities)
			s := c.NewSession()
			c.Ask = always(editor.Chosen("approve_always"))
			require.Equal(t, "end_turn", c.Says(s, "x"))
			require.Equal(t, 1, count(c.Log, "config_option_update"), "the new option is announced, in the turn")
			id := "always/gated/work/before"
			opened := c.Call("session/load", editor.Object{"sessionId": s, "cwd": d.dir, "mcpServers": []any{}})
			o := option(opened["configOptions"], id)
			require.Equal(t, []any{test.typ, test.on}, []any{o["type"], o["currentValue"]})
			require.Equal(t, "Approve work for the rest of this session, whatever it runs", o["name"])
			require.Contains(t, o["description"], s+"@2")
			require.Equal(t, -32602, c.Refused("session/set_config_option", config(s, id, test.bad)).Code)
			require.NotNil(t, option(c.Call("session/set_config_option", config(s, id, test.on))["configOptions"], id), "on is what it is")

			c.Ask = never(t)
			require.Equal(t, "end_turn", c.Says(s, "y"))
			before := len(c.Log)
			require.Nil(t, option(c.Call("session/set_config_option", config(s, id, test.off))["configOptions"], id))
			require.Equal(t, 1, count(c.Log[before:], "config_option_update"))
			require.Equal(t, -32602, c.Refused("session/set_config_option", config(s, id, test.off)).Code)
			asked := 0
			c.Ask = func(editor.Message) (any, bool) { asked++; return editor.Chosen("reject"), true }
			require.Equal(t, "end_turn", c.Says(s, "z"))
			require.Equal(t, 1, asked)
		})
	}
}

func TestNothingIsOfferedForAlwaysWhereItMustNotBe(t *testing.T) {
	t.Parallel()
	graph, _ := several(t)
	// An adapter that offers it for everything: a doubt is asked every time.
	adapter := acp.Adapter{InterruptPermission: func(q interrupt.Question) (*acp.Permission, error) {
		p := &acp.Permission{ToolCall: acp.ToolCall{Title: "t"}}
		for _, o := range q.Options() {
			p.Options = append(p.Options, acp.PermissionOption{OptionID: o.ID, Name: o.ID, Kind: acp.AllowAlways})
		}
		return p, nil
	}}
	d := newDesk(t, adapter, graph)
	c := d.client(forms)
	s := c.NewSession()
	kinds := map[string]string{}
	c.Ask = func(m editor.Message) (any, bool) {
		if m.Method == "elicitation/create" {
			return accepted(true), true
		}
		first := m.Params["options"].([]any)[0].(map[string]any)
		id := first["optionId"].(string)
		kinds[id] = first["kind"].(string)
		return editor.Chosen(id), true
	}
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, map[string]string{"approve": "allow_always", "run_again": "allow_once"}, kinds)
	for _, a := range d.answers(s) {
		if a.Choice == "run_again" {
			require.Empty(t, a.Origin)
		}
	}
	thread, err := d.store.Thread(context.Background(), s)
	require.NoError(t, err)
	for _, standing := range acp.Standings(thread) {
		require.NotEqual(t, "run_again", standing.Option)
	}
	require.Len(t, acp.Standings(thread), 4, "two gates before, one after, and the choice of a node")
}

// An author can offer it for a choice of a node. It answers that question of that
// node, and no other one.
func TestAChoiceThatItsAuthorOffersForAlwaysIsRemembered(t *testing.T) {
	t.Parallel()
	choices := []interrupt.Choice{{ID: "eu", Kind: "allow_always"}, {ID: "us"}}
	graph := single("asker", func(_ context.Context, t *engine.Task) (engine.Output, error) {
		first, err := t.Ask(engine.Ask{Message: "Where?", Choices: choices})
		if err != nil {
			return engine.Output{}, err
		}
		second, err := t.Ask(engine.Ask{Message: "And then?", Choices: choices})
		return engine.Set("response", fmt.Sprint(first.Value, " ", second.Value)), err
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	var asked []string
	answer := []string{"eu", "us", "us"}
	c.Ask = func(m editor.Message) (any, bool) {
		asked = append(asked, m.Params["toolCall"].(map[string]any)["title"].(string))
		return editor.Chosen(answer[len(asked)-1]), true
	}
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, []string{"Where?", "And then?", "And then?"}, asked)
	require.Equal(t, "eu us\neu us\n", editor.Text(c.Log, "agent_message_chunk"))
}

// What is no answer remembers nothing, whatever was chosen.
func TestAnAnswerThatDoesNotCountIsNotRemembered(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, gated(set("response", "ran")))
	c := d.client(nil)
	s := c.NewSession()
	prompt := c.Request("session/prompt", editor.Prompt(s, "x"))
	open := c.Until("session/request_permission")
	// Somebody else is first.
	e := engine.New(nil, d.store, engine.Options{})
	_, err := e.Answer(context.Background(), s, interrupt.Answer{Choice: "reject"})
	require.NoError(t, err)
	m, _ := c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	c.Respond(open, editor.Chosen("approve_always")) // late
	c.Ask = always(editor.Error{Code: -32603, Message: "no"})
	require.Equal(t, "end_turn", c.Says(s, "y"))
	c.Call("session/close", editor.Object{"sessionId": s})
	thread, err := d.store.Thread(context.Background(), s)
	require.NoError(t, err)
	require.Empty(t, acp.Standings(thread))
	require.Equal(t, engine.Paused, thread.Status)

	// Twice: the first is the answer.
	prompt = c.Request("session/prompt", editor.Prompt(s, "z"))
	open = c.Until("session/request_permission")
	c.Respond(open, editor.Chosen("reject"))
	c.Respond(open, editor.Chosen("approve_always"))
	c.Ask = always(editor.Chosen("reject"))
	m, _ = c.Response(prompt)
	require.Equal(t, "end_turn", m.Result["stopReason"])
	thread, err = d.store.Thread(context.Background(), s)
	require.NoError(t, err)
	require.Empty(t, acp.Standings(thread))
	for _, a := range d.answers(s) {
		require.Equal(t, "reject", a.Choice)
	}
}

func TestAStandingIsOfTheNodeInItsSubgraph(t *testing.T) {
	t.Parallel()
	inner := gated(set("response", "ran"))
	graph := engine.MustCompile(engine.Definition{
		Name: "outer", Channels: channels(),
		Nodes: map[string]engine.Node{"one": {Subgraph: &engine.Subgraph{Graph: inner}}, "two": {Subgraph: &engine.Subgraph{Graph: inner}}},
		Edges: []engine.Edge{{From: engine.Start, To: "one"}, {From: "one", To: "two"}},
	})
	d := newDesk(t, acp.Adapter{}, graph)
	c := d.client(nil)
	s := c.NewSession()
	answers := []string{"approve_always", "approve", "approve"}
	asked := 0
	c.Ask = func(editor.Message) (any, bool) { asked++; return editor.Chosen(answers[asked-1]), true }
	require.Equal(t, "end_turn", c.Says(s, "x"))
	require.Equal(t, 2, asked, "the same node of another subgraph is another one")
	require.Equal(t, "end_turn", c.Says(s, "y"))
	require.Equal(t, 3, asked)
	thread, err := d.store.Thread(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, "outer/one/work/before", acp.Standings(thread)[0].ID())
}
