package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestALookChangesNothingAndSeesEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	look := func() {
		t.Helper()
		s, err := Look(t.Context(), b.path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		list, err := s.Threads(t.Context(), Filter{})
		if err != nil || len(list) != 2 {
			t.Errorf("threads: %v, %v", list, err)
		}
		if v, err := s.At(t.Context(), "main", 0); err != nil || v.State["x"] != int64(3) {
			t.Errorf("state: %v", err)
		}
		if r, err := s.Verify(t.Context(), ""); err != nil || !r.OK() {
			t.Errorf("verify: %v, %v", r, err)
		}
		if items, err := s.Inbox(t.Context(), 0); err != nil || len(items) != 1 {
			t.Errorf("inbox: %v, %v", items, err)
		}
		// What writes says so.
		for what, err := range map[string]error{
			"create": s.Create(t.Context(), engine.Thread{ID: "y"}),
			"delete": s.Delete(t.Context(), "main"),
			"signal": s.Signal(t.Context(), "main", engine.Signal{Name: "x"}),
			"commit": b.load(s, "other").Commit(t.Context(), &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(2)}}),
		} {
			if !errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), "for a look only") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	look() // while another has it open
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	look()
	if after, err := os.ReadFile(b.path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed (%v)", err)
	}
	b.s = b.open()
	b.verify()
}

func TestALookMakesNoFileAndRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Look(t.Context(), filepath.Join(dir, "none.db"), Options{})
	want(t, err, ErrAccess)
	want(t, err, os.ErrNotExist)
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Look(t.Context(), empty, Options{})
	want(t, err, ErrEmpty)
	// The process that made it died before anything was in it.
	rawClosed(t, empty, `PRAGMA journal_mode = WAL`)
	_, err = Look(t.Context(), empty, Options{})
	want(t, err, ErrEmpty)
	foreign := filepath.Join(dir, "foreign.db")
	rawClosed(t, foreign, `CREATE TABLE notes (x)`)
	_, err = Look(t.Context(), foreign, Options{})
	want(t, err, ErrForeign)
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("in the folder: %v", entries)
	}
	err = current("x.db", 1, 2)
	want(t, err, ErrOlder)
	if err := current("x.db", 2, 2); err != nil {
		t.Error(err)
	}
}
