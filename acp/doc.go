// Package acp speaks the Agent Client Protocol, version 1, as an agent: wire
// types, a connection over sourcegraph/jsonrpc2, and the sessions on top.
//
// The lower half knows lines, messages and types, and nothing about sessions:
//
//   - lines.go reads bounded lines, members.go and message.go make messages of
//     them, outbox.go writes; stream.go joins these to what jsonrpc2 wants;
//   - conn.go, request.go and call.go are the connection;
//   - wire*.go are the types, fields.go is how they are read;
//   - errors.go has the codes and the errors that are sent.
//
// # Rules that hold in this room
//
//  1. Only protocol lines are written to the peer, one message a line, from one
//     place (the outbox). Everything else is logged, to standard error.
//  2. No line closes the connection. A line that is no message is answered with
//     -32700 or -32600; only the end of the input or an error of the operating
//     system ends it.
//  3. A request is answered exactly once, with the id's own bytes, also when its
//     handler panics. A notification is never answered.
//  4. Messages are handled on the read loop in the order in which they came. A
//     handler registers its work there and must not wait there; the work runs on
//     a goroutine of its own (Request.Go).
//  5. What one goroutine sends arrives in the order in which it was sent, so
//     updates that are sent before a reply arrive before it.
//  6. Property names are compared exactly, and a name that is there twice makes
//     its object malformed. encoding/json would take "Method" for "method", and
//     the last of two values; an approval must not depend on such a choice.
//  7. Only a well-formed answer answers a call. Anything else is an error, and an
//     error is never an approval.
//
// # Memory
//
// A peer cannot make the process grow without bound. A line that is longer than
// 32 MiB is skipped without being kept; at most 1,024 requests (and 256 MiB of
// them) wait for their answers; more are refused. What a slow peer has not read
// yet waits in the outbox: from 1 MiB on, Notify and Call wait; replies never
// wait, so a handler may reply on the read loop, but once 16 MiB of replies are
// unread the read loop takes no further line until the peer reads again or the
// connection is closed. So a long turn in front of a slow reader never keeps
// session/cancel from being read; only a peer that keeps asking and never reads
// its answers stops itself.
//
// # Errors
//
//	ErrDisconnected  the peer is gone or the connection is closed
//	ErrReplied       a second reply to one request
//	*LineTooLong     a message would be longer than a peer reads (10 MiB)
//	*jsonrpc2.Error  what the peer answered, or what is to be answered
package acp
