package nodes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

func FuzzLoad(f *testing.F) {
	f.Add([]byte(releaseGraph))
	f.Add([]byte(defaultFile))
	f.Add([]byte("a: &x [*x, {<<: *x}]\n? b\n: !!str 1\n"))
	f.Add([]byte("nodes: {a: {type: exec, command: 'echo ${{ p }} \"$(x ${{ p }})\" <<E\n${{ p }}\nE'}}\nchannels: {p: }\nedges: [{from: __start__, to: a}]"))
	f.Add([]byte("nodes: {a: {type: ask, message: '${{ map(p, #) }}', data: [1]}}\nchannels: {p: {initial: []}}\nedges: [{from: __start__, to: a, condition: 'p'}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Load("fuzz", data)
		if err != nil {
			var all *engine.CompileError
			require.True(t, errors.As(err, &all))
			require.NotEmpty(t, all.Problems)
			for _, p := range all.Problems {
				require.Positive(t, p.Line, p.String())
				require.Positive(t, p.Column, p.String())
			}
			return
		}
		// What was loaded once can be stored, and gone on with.
		again, err := Load("elsewhere", g.Canonical())
		require.NoError(t, err, string(g.Canonical()))
		require.Equal(t, g.Fingerprint(), again.Fingerprint())
	})
}

// The examples of the documentation load as they stand there.
func TestTheExamplesOfTheDocumentationLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "graph-files.md"))
	require.NoError(t, err)
	examples := fenced(string(text), "yaml graph")
	require.GreaterOrEqual(t, len(examples), 10)
	for _, example := range examples {
		g, err := Load("example", []byte(example))
		require.NoError(t, err, example)
		require.Empty(t, g.Warnings(), example)
		requireFits(t, example)
		again, err := Load("elsewhere", g.Canonical())
		require.NoError(t, err, example)
		require.Equal(t, g.Fingerprint(), again.Fingerprint(), example)
	}
	for _, example := range fenced(string(text), "yaml wrong") {
		_, err := Load("example", []byte(example))
		require.ErrorIs(t, err, engine.ErrInvalid, example)
	}
}
