// Package engine runs graphs in super-steps and keeps every step in a log.
//
// A Definition (nodes, channels, edges, gates) is compiled to a Graph. An
// Engine runs turns of it on threads:
//
//	graph := engine.MustCompile(engine.Definition{
//		Channels: map[string]engine.Channel{"n": {Reducer: engine.Sum}},
//		Nodes:    map[string]engine.Node{"add": {Run: add}},
//		Edges:    []engine.Edge{{From: engine.Start, To: "add"}},
//	})
//	turn, err := engine.New(graph, store, engine.Options{}).Start(ctx, "t1", engine.Input{})
//
// In a step all ready tasks run on the same state; their writes become visible
// together, in task order, when the step is committed. There is one
// durability: the next step starts after the commit. A pause for a person is a
// row of the log too; the answer may come later, in another process.
//
// What a node can do beside returning writes: ask a person and wait for days
// (Task.Ask), do a thing once whatever happens (Step), sleep and wait for
// signals (Task.Sleep, Task.AwaitSignal), send work to other nodes (Output.Send)
// and choose where to go (Output.GoTo). What a definition can say of it: gates
// in front of and behind it (Gate), joins (Barrier), loops and choices
// (ConditionalEdge), graphs as nodes (Subgraph), retries, timeouts and error
// handlers (Node). What can be done with a thread: see Engine. The examples show
// most of it.
//
// Rules that hold here:
//
//   - Ready tasks, gates and questions are computed from the log alone: the same
//     log gives the same plan in every process.
//   - A finished task is never run again; its result is stored while siblings
//     still run.
//   - Questions are written when the thread has come to rest, so an answer never
//     meets a running task.
//   - Only "approve" lets a gated node run.
//   - Work that may have happened, and must not blindly be repeated, is asked
//     about (OnCrash, Step), never guessed.
//   - The package knows no SQL, no JSON-RPC and no YAML.
//
// Errors that a caller can act on, by errors.Is, with their types for errors.As:
//
//	ErrInvalid       bad input: a graph (*CompileError), an answer, a call at
//	                 the wrong time
//	ErrNotFound      no such thread, checkpoint or graph
//	ErrExists        the thread exists already
//	ErrDeleted       the thread was deleted; its id is not used again
//	ErrPaused        an input met open questions (*PausedError)
//	ErrBusy          a living process moves the thread (*BusyError)
//	ErrConflict      somebody else was first, or took the thread over
//	ErrAnswered      the question has another answer already (*AnsweredError)
//	ErrVoid          the question can no longer be answered (*AnsweredError)
//	ErrStopped       the context ended while work ran; Resume goes on
//	ErrGraphChanged  the turn began with another graph than the one at hand
//	                 (*GraphChangedError); see Engine.AcceptGraph
//	ErrNoStore       an interrupt without a store to keep it
//
// A turn that failed gives a *TurnError, and by errors.Is where it is so:
//
//	ErrStepLimit     it ran too many steps; Resume grants as many again
//	ErrBudget        a node says so: what the turn may use is used up
//	ErrRefusal       a node says so: a model refused
//
// What nodes, hosts and stores meet:
//
//	ErrCancelled     the cause of a context that a cancel ends (*CancelError)
//	ErrDeadline      the cause of one that the turn's deadline ends
//	ErrTimeout       the cause of one that a node's timeout ends
//	ErrInDoubt       wrapped by a node: its attempt broke off
//	ErrNoTerminal    a Host has none, and the node does it itself
//	ErrNoFiles       so do files
//	ErrCancelRequested  of a Log: its holder must end the turn as cancelled
package engine
