package acpschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// Clients returns the folder integration/clients with its packages installed. It
// installs them, once for all test processes, where they are not there or are not
// those of the lock file.
//
// Without npm the test is skipped, with that as the reason; under CI it fails.
func Clients(tb testing.TB) string {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "..", "clients")
	if installed(folder) {
		return folder
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("npm is needed to install %s: %v", folder, err)
		}
		tb.Skipf("skipped: npm is needed to install %s: %v", folder, err)
	}
	if err := install(npm, folder); err != nil {
		tb.Fatal(err)
	}
	return folder
}

// stamp is written after everything else, so an installation that was cut short
// does not count.
func stamp(folder string) string { return filepath.Join(folder, "node_modules", ".holdfast-lock.json") }

func installed(folder string) bool {
	want, errWant := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	have, errHave := os.ReadFile(stamp(folder))
	return errWant == nil && errHave == nil && bytes.Equal(want, have)
}

func install(npm, folder string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	// The name fits what is ignored for git.
	lock := flock.New(filepath.Join(folder, "install.out"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return fmt.Errorf("wait for another test that installs %s: %w", folder, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if installed(folder) {
		return nil
	}
	command := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w\n%s", folder, err, output)
	}
	text, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(stamp(folder), text, 0o644)
}
