// Package interrupt holds what a paused turn asks and what it is told: the
// GraphInterruptPayload that clients see, the question around it, and the
// answer. It knows nothing of graphs, stores or protocols.
//
// Rules that hold here:
//
//   - The JSON of GraphInterruptPayload has exactly six names: kind, node,
//     message, data, thread_id, checkpoint_id. What it has no field for (who
//     asks, the choices, a deadline) stands beside it, in Question.
//   - checkpoint_id names exactly one question.
//   - Every JSON value is an answer: false, 0, "" and null too. Whether it is
//     acceptable is decided by the question alone (Question.Check).
//   - A gate takes exactly "approve" or "reject".
package interrupt
