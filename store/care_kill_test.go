//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// childCare cares for a file, and says "done" when it is told that it has.
// Arguments: path, fail point, action, prune or redact or backup.
func childCare(args []string) error {
	failpoint.SetIn(childTB{}, args[1], args[0], args[2])
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{Program: "child"})
	if err != nil {
		return err
	}
	switch args[3] {
	case "prune":
		_, err = s.Prune(ctx, "x", Retention{Turns: 2}, engine.By{Actor: "ada"}, false)
	case "redact":
		_, err = s.Redact(ctx, "x@2", engine.By{Actor: "ada"})
	case "backup":
		_, err = s.Backup(ctx, args[0]+".copy")
	}
	if err != nil {
		return err
	}
	fmt.Println("done")
	return s.Close()
}

func TestAKillInThePlacesOfCareLeavesAWholeFile(t *testing.T) {
	t.Parallel()
	// One file for all of them, of which each gets a copy.
	base := setup(t)
	turns(base, "x", 1, 30)
	before, err := base.stateAt("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := base.s.Close(); err != nil {
		t.Fatal(err)
	}
	commits := []string{"store.commit.begin", "store.commit.before", "store.commit.after"}
	for care, points := range map[string][]string{
		"prune":  append([]string{"store.prune.rest"}, commits...),
		"redact": commits,
		"backup": {"store.backup.begin", "store.backup.rename"},
	} {
		for _, point := range points {
			t.Run(care+" "+point, func(t *testing.T) {
				t.Parallel()
				for hit := 1; ; hit++ {
					b := &bundle{t: t, path: filepath.Join(t.TempDir(), "agent.db"), clock: clock.NewFake(base.clock.Now())}
					copyAs(t, base.path, b.path, "")
					out, err := childOf(t, "care", b.path, point, fmt.Sprintf("%d*kill", hit), care).Output()
					done := strings.Contains(string(out), "done")
					if strings.Contains(string(out), "error") || (err == nil) != done {
						t.Fatalf("hit %d: %v, %s", hit, err, out)
					}
					b.s = b.open()
					r := b.verify()
					if now, err := b.stateAt("x", 0); err != nil || !value.Equal(now, before) {
						t.Errorf("hit %d: state %v, %v", hit, now, err)
					}
					// Either all of it is recorded, or nothing is removed.
					if recorded := r.Entries == 91; !recorded && r.Removed > 0 || recorded && r.Removed == 0 && care == "redact" {
						t.Errorf("hit %d: %+v", hit, r)
					}
					b.finishCare(care)
					if done {
						if hit == 1 {
							t.Error("the point was never hit")
						}
						return
					}
				}
			})
		}
	}
}

// finishCare does again what a process that died may have done, and checks that
// it is done then, once.
func (b *bundle) finishCare(care string) {
	b.t.Helper()
	removed := int64(0)
	switch care {
	case "prune":
		b.prune("x", Retention{Turns: 2})
		removed = 84
	case "redact":
		b.redact("x@2")
		removed = 1
	case "backup":
		if _, err := b.s.Backup(b.t.Context(), b.path+".copy"); err != nil && !errors.Is(err, os.ErrExist) {
			b.t.Error(err)
		}
		left, err := filepath.Glob(b.path + ".copy*")
		if err != nil || len(left) != 1 {
			b.t.Errorf("left: %v, %v", left, err)
		}
		copied := setupAt(b.t, b.path+".copy")
		if r := copied.verify(); r.Entries != 90 {
			b.t.Errorf("the copy: %+v", r)
		}
		return
	}
	if r := b.verify(); r.Removed != removed || r.Entries != 91 {
		b.t.Errorf("in the end: %+v", r)
	}
}
