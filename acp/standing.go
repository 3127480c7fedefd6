package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// The options that a gate has beside its own two. They decide the same, and hold
// for the gate's later questions in this session too.
const (
	OptionApproveAlways = "approve_always"
	OptionRejectAlways  = "reject_always"
)

// alwaysOption is where the standings of a session are, among the facts of its
// thread.
const alwaysOption = "acp.always"

// Standing is a decision that a person made for always: it answers the later
// questions of the same gate, or of the same question of a node, whatever the node
// is about to do. It holds in its session and for the graph as it was: where the
// graph changes, the person is asked again.
type Standing struct {
	Graph     string         `json:"graph"` // fingerprint
	GraphName string         `json:"graph_name"`
	Node      string         `json:"node"` // behind the nodes of its subgraphs: outer/inner
	Gate      interrupt.Kind `json:"gate"`
	Ordinal   int            `json:"ordinal,omitempty"` // which question of the node, from 0
	Option    string         `json:"option"`
	Kind      PermissionKind `json:"kind"`
	Label     string         `json:"label"` // what the person chose, as it was shown
	Actor     string         `json:"actor"`
	Client    string         `json:"client,omitempty"`
	At        time.Time      `json:"at"`
	Origin    string         `json:"origin"` // the question at which it was chosen
}

// Standings gives what was decided for always in a session, as its thread has it.
// What cannot be read is left out: nothing is decided by it.
func Standings(t engine.Thread) []Standing {
	list, _ := t.Options[alwaysOption].([]any)
	var out []Standing
	for _, item := range list {
		var s Standing
		if json.Unmarshal(value.Append(nil, item), &s) == nil {
			out = append(out, s)
		}
	}
	return out
}

func setStandings(t *engine.Thread, list []Standing) error {
	if len(list) == 0 {
		setOption(t, alwaysOption, nil)
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	v, err := value.Decode(text)
	if err == nil {
		setOption(t, alwaysOption, v)
	}
	return err
}

// same reports whether both are about the same question of the same node, of
// whatever version of the graph.
func (s Standing) same(other Standing) bool {
	return s.GraphName == other.GraphName && s.Node == other.Node && s.Gate == other.Gate && s.Ordinal == other.Ordinal
}

// ID names a standing among those of its session.
func (s Standing) ID() string {
	id := s.GraphName + "/" + s.Node + "/" + string(s.Gate)
	if s.Ordinal > 0 {
		id += fmt.Sprintf("/%d", s.Ordinal)
	}
	return id
}

// place is a standing about this question, without a decision.
func place(t engine.Thread, namespace string, q interrupt.Question) Standing {
	return Standing{Graph: t.Graph, GraphName: t.GraphName, Node: nodePath(namespace, q.AskingNode), Gate: q.Payload.Kind, Ordinal: q.Ordinal}
}

// remember puts a standing in the place of an older one, if there is one.
func remember(s Standing) func(*engine.Thread) error {
	return func(t *engine.Thread) error {
		list := slices.DeleteFunc(Standings(*t), s.same)
		return setStandings(t, append(list, s))
	}
}

// forget takes standings away.
func forget(which func(Standing) bool) func(*engine.Thread) error {
	return func(t *engine.Thread) error {
		return setStandings(t, slices.DeleteFunc(Standings(*t), which))
	}
}

// nodePath is a node behind the nodes of the subgraphs that it is in. A namespace
// is a list of LENGTH:TASK@BASE, of which the node of the task is kept: a visit is
// like any other.
func nodePath(namespace, node string) string {
	var path []string
	for namespace != "" {
		var n int
		if _, err := fmt.Sscanf(namespace, "%d:", &n); err != nil {
			break
		}
		_, rest, _ := strings.Cut(namespace, ":")
		if n < 0 || n > len(rest) {
			break
		}
		task, _, _ := strings.Cut(rest[:n], "[") // a node that was sent to is node[i]
		path = append(path, task)
		_, namespace, _ = strings.Cut(rest[n:], "/")
	}
	return strings.Join(append(path, node), "/")
}

// always gives the options of a gate that hold for its later questions too. What
// they cover is the node, so that is what they say.
func always(q interrupt.Question) []PermissionOption {
	what := oneLine(q.AskingNode, 60) + " for the rest of this session, whatever it runs"
	if q.Payload.Kind == interrupt.After {
		what = "what " + oneLine(q.AskingNode, 60) + " wrote for the rest of this session, whatever it is"
	}
	return []PermissionOption{
		{OptionID: OptionApproveAlways, Name: "Approve " + what, Kind: AllowAlways},
		{OptionID: OptionRejectAlways, Name: "Reject " + what, Kind: RejectAlways},
	}
}

// forAlways reports whether an option holds for later questions too.
func (o PermissionOption) forAlways() bool { return o.Kind == AllowAlways || o.Kind == RejectAlways }

// decision is the option that says the same for once: what the adapter makes an
// answer of.
func decision(optionID string) string {
	switch optionID {
	case OptionApproveAlways:
		return interrupt.Approve
	case OptionRejectAlways:
		return interrupt.Reject
	}
	return optionID
}
