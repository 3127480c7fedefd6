// Package nodes reads graph files and has the node types that they can name.
//
// A graph file is YAML or JSON; [Load] makes an engine.Graph of it, and
// [Types] lists the node types. docs/graph-files.md is the reference for
// authors. A program adds types of its own with [Register], and a [Registry] is
// what the files loaded with it may name. Rules that hold here:
//
//   - Every mistake of a file is reported at once, each with line, column and
//     pointer. One mistake is one report: what only follows from another
//     mistake is left out.
//   - A loaded graph written by Graph.Canonical and loaded again is the same
//     graph: it has the same fingerprint.
//   - An expression gives the same value for the same state, always: it has no
//     clock and no chance, and objects are walked in the order of their keys.
//     It is bounded in time and memory.
//   - A value is never put into the text of a shell line. It goes in as an
//     environment variable, whatever stands around it.
//   - What a command node does is what its Resolve gave and an approver saw:
//     Run reads nothing else.
package nodes
