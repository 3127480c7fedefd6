package nodes

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkLoad1000Nodes loads a chain of set nodes, each with an expression of
// its own.
func BenchmarkLoad1000Nodes(b *testing.B) {
	var text strings.Builder
	text.WriteString("schema_version: 1\nname: long\nchannels: {n: {initial: 0}, response: {}}\nnodes:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  a%d: {type: set, values: {n: 'n + %d'}}\n", i, i)
	}
	text.WriteString("edges:\n  - {from: __start__, to: a0}\n")
	for i := range 999 {
		fmt.Fprintf(&text, "  - {from: a%d, to: a%d}\n", i, i+1)
	}
	for b.Loop() {
		if _, err := Load("long", []byte(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}
