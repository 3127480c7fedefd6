package store

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An auditor has the page about the file, and not this code.
func TestTheProgramOnThePageAboutTheFileChecksTheChain(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: ", err)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "file.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```python\n")
	program, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no program")
	}
	script := filepath.Join(t.TempDir(), "check.py")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	b := setup(t)
	everyKind(b)
	turns(b, "prunéd", 1, 4)
	b.prune("prunéd", Retention{Turns: 1})
	var heads strings.Builder
	list, err := b.s.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		fmt.Fprintln(&heads, h.Thread, h.Seq, h.Hash)
	}
	cmd := exec.CommandContext(t.Context(), python, script, b.path)
	cmd.Env = append(os.Environ(), "PYTHONIOENCODING=utf-8")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != heads.String() {
		t.Errorf("%v: it says\n%s\nand audit head\n%s", err, out, heads.String())
	}
	for _, change := range []string{
		`UPDATE checkpoints SET actor = 'mallory' WHERE no = 1 AND seq = 3`, `UPDATE checkpoints SET payload = X'00' WHERE no = 1 AND seq = 3`,
	} {
		image := filepath.Join(t.TempDir(), "changed.db")
		rawClosed(t, b.path, `VACUUM INTO '`+image+`'`)
		rawClosed(t, image, change)
		if out, err := exec.CommandContext(t.Context(), python, script, image).CombinedOutput(); err == nil || !strings.Contains(string(out), "main@3 does not fit") {
			t.Errorf("%s: %v, %s", change, err, out)
		}
	}
}
