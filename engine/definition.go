package engine

import (
	"context"
	"time"

	"github.com/holdfast-agent/holdfast/interrupt"
)

// The pseudo nodes: Start is only the source of an edge, End only a target.
const (
	Start = "__start__"
	End   = "__end__"
)

// DefaultRoute is the key of a conditional edge that takes what no other key does.
const DefaultRoute = "default"

// Definition is a graph before Compile, written in Go or read from a file.
type Definition struct {
	Name             string
	Channels         map[string]Channel
	Nodes            map[string]Node
	Edges            []Edge
	ConditionalEdges []ConditionalEdge
	InterruptBefore  []Gate
	InterruptAfter   []Gate
	// Commands are what a person can say instead of a text.
	Commands []SlashCommand
	// Retry is for nodes without a policy of their own.
	Retry *Retry
	// Limits are what the graph may do; the zero value has the defaults.
	Limits Limits

	// The rest is for whoever reads definitions from files.

	// Lenient is for definitions of before there were checks (schema_version: 0
	// of a graph file): what keeps no graph from running is a warning then.
	Lenient bool
	// Outside are channels that somebody outside reads and writes, so that it is
	// no mistake if the graph itself does not. What a prompt and its reply use
	// are known: prompt, response, messages and those that begin with _acp_.
	Outside []string
	// Warnings are findings of the reader; Graph.Warnings gives them too.
	Warnings []Problem
	// Place, if set, completes a problem with its place in the file.
	Place func(Problem) Problem
}

// The reducers that a channel can name.
const (
	Overwrite = "overwrite" // the default: the newest write; two writers in one step are an error
	Append    = "append"    // a list joins, anything else is pushed
	Merge     = "merge"     // objects, level by level
	Messages  = "messages"  // appended; the same id replaces
	Sum       = "sum"       // integers stay integers
	Min       = "min"
	Max       = "max"
)

// Reducers lists the reducers that a channel can name.
func Reducers() []string {
	return []string{Overwrite, Append, Merge, Messages, Sum, Min, Max}
}

// Channel is a named piece of state. The zero value is an overwrite channel
// that starts as null.
type Channel struct {
	Reducer string // one of Reducers; empty: overwrite
	// Initial is the value before the first write. Without it append and
	// messages start as [], merge as {}, sum as 0, all others as null.
	Initial any
	// Reduce, if set, combines in Go; Reducer is then a name of your own, part
	// of the graph's fingerprint. The log stores its result, so that state can
	// be read without this function. It must not change its arguments.
	Reduce func(current, write any) (any, error)
	// Keep bounds a list: after every write only its last so many items stay.
	// 0: all.
	Keep int
	// Ephemeral channels are never stored. They return to their initial value
	// whenever the thread comes to rest, in a living process too.
	Ephemeral bool
}

// OnCrash says what to do with work that may or may not have happened: the
// process died, or the attempt broke off, between its start and its stored result.
type OnCrash string

// What to do with work in doubt.
const (
	CrashRetry OnCrash = "retry" // run it again: it is harmless to repeat (the default)
	CrashAsk   OnCrash = "ask"   // ask a person: run again, done, or fail
	CrashFail  OnCrash = "fail"  // fail the task
)

// Func is the work of a node: it reads channels from the task and returns
// writes. Values that it reads must not be changed. It may run more than once
// (after an answer, a crash, a failure), always from its top: what must not be
// repeated belongs into Step.
type Func func(ctx context.Context, t *Task) (Output, error)

// Node is a node of a graph. Run is all that a node in Go needs.
type Node struct {
	Run     Func
	OnCrash OnCrash // of the node as a whole; empty: CrashRetry
	// Subgraph makes the node run a graph of its own, instead of Run.
	Subgraph *Subgraph
	// Calls are the graphs that the node may run inside of its task (Task.Call), by
	// the names that it has for them. They are part of the fingerprint. Nil is the
	// node of this graph that is called so, alone: see Graph.NodeGraph.
	Calls map[string]*Graph
	// Barrier makes the node a join.
	Barrier *Barrier
	// Retry runs a node again that failed, if its OnCrash is CrashRetry; nil is
	// the definition's.
	Retry *Retry
	// Timeout bounds the node; nil is no bound.
	Timeout *Timeout
	// OnError is the node that a failure leads to, instead of failing the turn;
	// it finds it in Task.Failure.
	OnError string
	// Sends are the nodes that this one may send tasks to, so that Compile knows
	// what leads to them; a run does not need it.
	Sends []string
	// MaxConcurrency bounds the tasks of this node that run at once in a step; 0:
	// by Options.MaxConcurrency alone.
	MaxConcurrency int
	// Effects are the channels that the node may read and write; nil is
	// unknown. Compile looks for mistakes in them, and a run does not need them.
	Effects *Effects

	// The rest is for node types that files can name.

	Type    string         // empty: "go"
	Version int            // of the type; part of the fingerprint
	Config  map[string]any // as in the file, without type
	// Resolve gives what the node is about to do (a command line, a folder, a
	// URL), as JSON. An approver is shown it, the digest of the question covers
	// it, and Task.Resolved gives it to Run.
	Resolve func(t *Task) (any, error)
	// Settle makes the output of work that a person says is done; v is the
	// value that came with that answer, nil if none. Without it v must be an
	// object of channels and values, or nil.
	Settle func(v any) (Output, error)
	// Lives looks at the newest note of an intent (see Task.Note) and gives the
	// id of a process of it that still lives, or 0.
	Lives func(note any) int
}

// Effects are channels by name, in any order.
type Effects struct {
	Reads, Writes []string
}

// Barrier makes a node wait for several others: it runs once, in the step
// after the last of them finished and led to it. Such an arrival is part of the
// log and used up when the join runs.
type Barrier struct {
	WaitFor []string // nodes with an edge to this one
	// Min makes it a quorum: so many arrivals are enough. What comes late
	// settles a debt and is not counted for the next round. 0: all.
	Min int
	// Timeout, counted from the first arrival of a round, is how long the join
	// waits: then it runs with those who arrived, as a quorum does. With fewer
	// than Min it fails with ErrTimeout. It is a durable timer, which is looked at
	// whenever the thread moves, and which wakes a thread that has nothing else
	// to do; work of other branches, and their questions, are not cut short. 0:
	// for ever.
	Timeout time.Duration
}

// Retry says how often a failed attempt is followed by another, and when. A
// failed attempt is stored, so that a restart does not begin to count anew; a
// task whose retries are used up gets one more attempt from each Resume.
type Retry struct {
	MaxRetries   int           // attempts after the first
	InitialDelay time.Duration // before the first retry; 0: 100 ms
	Multiplier   float64       // of each further delay; 0: 2
	MaxDelay     time.Duration // 0: 5 s
	Jitter       float64       // 0 to 1: the share of a delay that is left to chance
}

// OnTimeout says what a timeout makes of a task.
type OnTimeout string

// What a timeout makes of a task. A node that guards its work (OnCrash ask or
// fail) is in doubt in any case.
const (
	TimeoutFail  OnTimeout = "fail"  // it failed and is not retried (the default)
	TimeoutRetry OnTimeout = "retry" // it failed, and is retried as any failure is
	TimeoutSkip  OnTimeout = "skip"  // it finished and wrote nothing
)

// Timeout bounds a node. When it passes, the node's context ends with
// ErrTimeout; the node must return then.
type Timeout struct {
	Run  time.Duration // an attempt as a whole; 0: no bound
	Idle time.Duration // without a sign of life (Task.Alive, Task.Print); 0: no bound
	On   OnTimeout
}

// Edge leads from a node (or Start) to a node (or End).
type Edge struct {
	From, To string
}

// State is the channels by name. It is read-only to whoever is handed one.
type State map[string]any

// ConditionalEdge leads where Route says: keys, mapped by Routes to nodes or
// End. A key without a route goes to Routes["default"], or is an error.
type ConditionalEdge struct {
	From  string
	Route func(s State) (keys []string, err error)
	// Routes maps keys to nodes. Nil in a Go graph: a key is the node's name.
	Routes map[string]string
	// Labels are all the keys that Route can give, if they are known: Compile
	// then compares them with Routes. Nil: it can give any key.
	Labels []string
	// Reads are the channels that Route reads; nil is unknown.
	Reads     []string
	Condition string // how the file writes it; part of the fingerprint
}

// Gate is a static interrupt: a person approves or rejects, on every arrival.
type Gate struct {
	Node     string
	Message  string // what is asked; empty: "Interrupt before node: X"
	OnReject string // where a rejected branch goes; empty: it ends
	// Deadline decides the gate if nobody has until so long after it was asked:
	// with Default, which is approve or reject (the default).
	Deadline time.Duration
	Default  string
}

// Write is one write to one channel.
type Write struct {
	Channel string
	Value   any
	// Overwrite goes past the channel's reducer.
	Overwrite bool
}

// Output is what a node returns. The zero value writes nothing and follows the
// node's edges.
type Output struct {
	Writes []Write
	// Goto replaces the node's own edges: nodes, or End.
	Goto []string
	// GotoParent leaves a subgraph after this step: the subgraph's node leads to
	// these nodes of the parent.
	GotoParent []string
	// Sends are tasks of the next step, beside where the node leads: each runs a
	// node on the state with its own input laid over it.
	Sends []Send
	// Ask pauses the task. When the answer is in, the node runs again from its
	// top and finds it in Task.Answer.
	Ask *Ask
}

// Send is a task "node[i]" of the next step. Its input is seen by that task
// alone, as the values of those channels; what it writes goes to the channels
// of all, in the order of the sends.
type Send struct {
	Node  string
	Input Values
}

// Ask is a question of a node.
type Ask struct {
	Message string
	Data    any
	Choices []interrupt.Choice // empty: any value of Type

	// What the answer may be; see interrupt.Question.
	Type             string
	Format           string
	Minimum, Maximum *float64
	// Deadline answers with Default if nobody has until so long after it was
	// asked. 0: the question waits for as long as it takes.
	Deadline time.Duration
	Default  any
}

// Values are channel values by name.
type Values map[string]any

// Set is an output that writes one channel.
func Set(channel string, v any) Output {
	return Output{Writes: []Write{{Channel: channel, Value: v}}}
}

// Set adds a write.
func (o Output) Set(channel string, v any) Output {
	o.Writes = append(o.Writes[:len(o.Writes):len(o.Writes)], Write{Channel: channel, Value: v})
	return o
}

// Send adds a task of the next step.
func (o Output) Send(node string, input Values) Output {
	o.Sends = append(o.Sends[:len(o.Sends):len(o.Sends)], Send{Node: node, Input: input})
	return o
}

// GoTo sends the branch to these nodes instead of along the node's edges.
func (o Output) GoTo(nodes ...string) Output {
	o.Goto = append(o.Goto[:len(o.Goto):len(o.Goto)], nodes...)
	return o
}
