//go:build linux

package store

import (
	"os"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestALockFileForWhichThereIsNoRoomSaysSoAndIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A device that is always full stands where the lock file is to be.
	path := ownerPath(b.s.path, b.s.owner.id)
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	l, err := b.s.New(t.Context(), engine.Thread{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	begin := &engine.Commit{Take: engine.TakeFree, Leave: engine.LeaseMoving, Entries: []*engine.Entry{input(1)}}
	want(t, l.Commit(t.Context(), begin), ErrFull)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("it is left behind: %v", err)
	}
	b.commit(l, begin)
	b.verify()
}
