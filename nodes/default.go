package nodes

import (
	_ "embed"
	"runtime"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
)

//go:embed default.yaml
var defaultFile string

var defaultGraph = sync.OnceValue(func() *engine.Graph {
	text := defaultFile
	if runtime.GOOS == "windows" {
		text = strings.Replace(text, "[sh, -c,", "[cmd, /c,", 1)
	}
	types, err := NewRegistry(ownTypes()...)
	if err != nil {
		panic(err) // a mistake in this program, which a test finds
	}
	g, err := load(newDecoder(types, "default", "", true), "the default agent", []byte(text))
	if err != nil {
		panic(err) // a mistake in this program, which a test finds
	}
	return g
})

// Default is the embedded default agent: a prompt is a shell command line,
// which is shown, approved, run in the thread's folder, and answered with its
// output. Its channels are prompt, log and response.
func Default() *engine.Graph { return defaultGraph() }
