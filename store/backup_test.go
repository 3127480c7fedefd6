package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestABackupIsAWholeFileOfOneMomentWhileOthersWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	turns(b, "pruned", 1, 5)
	b.prune("pruned", Retention{Turns: 1})
	b.redact("pruned@14")
	if err := b.s.Create(t.Context(), engine.Thread{ID: "gone"}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			l := b.begin(fmt.Sprintf("w%d", i))
			for n := int64(1); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", n))}})
			}
		})
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	saved, err := b.s.Backup(t.Context(), path)
	close(stop)
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || saved.Path != path || saved.Bytes != info.Size() || saved.Threads < 3 || saved.Entries < 12 {
		t.Errorf("saved: %+v, %v", saved, err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left beside it: %v", entries)
	}
	before := picture(t, dir)
	_, err = b.s.Backup(t.Context(), path)
	want(t, err, fs.ErrExist)
	if after := picture(t, dir); after != before {
		t.Error("an existing file was changed")
	}
	copied := setupAt(t, path)
	if r := copied.verify(); r.Entries != saved.Entries {
		t.Errorf("verified: %+v, saved: %+v", r, saved)
	}
	want(t, copied.s.Create(t.Context(), engine.Thread{ID: "gone"}), engine.ErrDeleted)
	for _, id := range []string{"main", "other", "pruned"} {
		if _, err := copied.s.At(t.Context(), id, 0); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestABackupThatIsPutBackGoesOnWhereItStood(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("moving", set("x", int64(1)))
	if err := l.Put(t.Context(), engine.Result{Task: "a", Kind: engine.ResultTask, Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	waiting := b.begin("waiting")
	b.commit(waiting, &engine.Commit{Leave: engine.LeaseWaiting, Entries: []*engine.Entry{pause(1, 0, "a")}})
	path := filepath.Join(t.TempDir(), "copy.db")
	if _, err := b.s.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	// In the place of the file, beside the lock files of those who live on.
	if err := os.Rename(path, b.path+".back"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{b.s.owner.id} {
		text, err := os.ReadFile(ownerPath(b.path, id))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ownerPath(b.path+".back", id), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copied := setupAt(t, b.path+".back")
	v := copied.load(copied.s, "moving")
	if th := v.View().Thread; th.Owner != nil || th.Crashes != 0 || len(v.View().Results) != 1 {
		t.Errorf("thread: %+v", th)
	}
	copied.commit(v, &engine.Commit{Take: engine.TakeFree})
	copied.commit(v, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 1), engine.Done)}})
	copied.commit(copied.load(copied.s, "waiting"), &engine.Commit{Entries: []*engine.Entry{answer("waiting@2", 1, 0, engine.Running, "approve")}})
	copied.verify()
}

func TestABackupOfADamagedFileIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	rawClosed(t, b.path, `UPDATE checkpoints SET actor = 'mallory' WHERE no = 1 AND seq = 2`)
	dir := t.TempDir()
	_, err := b.s.Backup(t.Context(), filepath.Join(dir, "copy.db"))
	want(t, err, ErrCorrupt)
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	for _, path := range []string{"", filepath.Join(dir, "no", "such", "folder", "x")} {
		if _, err := b.s.Backup(t.Context(), path); err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
