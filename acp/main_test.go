package acp_test

import (
	"os"
	"testing"

	"github.com/holdfast-agent/holdfast/integration/toolserver"
)

func TestMain(m *testing.M) {
	toolserver.Main()
	os.Exit(m.Run())
}
