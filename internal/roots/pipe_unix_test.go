//go:build unix

package roots

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPipeIsRefusedInsteadOfWaitedFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	p := Place{root, "pipe"}
	_, err := p.ReadFile(10)
	require.ErrorContains(t, err, "no regular file")
	require.ErrorContains(t, p.WriteFile([]byte("x"), 0o600), "no regular file")
}
