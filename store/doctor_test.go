package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestAHealthyFileHasNoFindings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	h, err := b.s.Doctor(t.Context())
	if err != nil || len(h.Findings) != 0 || h.Verified == nil || h.Verified.Entries != 12 || h.SQLite == "" || h.Schema != 1 || h.WAL == 0 {
		t.Errorf("open: %+v, %v", h, err)
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	before := picture(t, filepath.Dir(b.path))
	h, err = Doctor(t.Context(), b.path)
	if err != nil || len(h.Findings) != 0 || h.WAL != 0 {
		t.Errorf("closed: %+v, %v", h, err)
	}
	if after := picture(t, filepath.Dir(b.path)); after != before {
		t.Errorf("doctor wrote: from\n%s\nto\n%s", before, after)
	}
}

func TestDoctorFindsWhatIsWrongAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	l := b.begin("crashed")
	b.commit(l, &engine.Commit{})
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	rawClosed(t, b.path, `PRAGMA foreign_keys = OFF`,
		`UPDATE threads SET owner = 'dead', lease = 'moving' WHERE thread_id = 'crashed'`,
		`INSERT INTO results VALUES (99, 1, 't', 0, 'task', '', X'31', 0)`,
		`INSERT INTO signals (no, name, value, actor, via, at) SELECT no, 'go', '1', '', '', 0 FROM threads WHERE thread_id = 'other'`,
		`INSERT INTO threads (thread_id, status, created_at, updated_at) VALUES ('gone', 'deleted', 0, 0)`,
		`INSERT INTO snapshots SELECT no, 1, 0, 1, X'00', X'00' FROM threads WHERE thread_id = 'gone'`)
	for path, mode := range map[string]os.FileMode{b.path: 0o644, filepath.Dir(b.path): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Doctor(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range h.Findings {
		if f.Advice == "" {
			t.Errorf("no advice: %+v", f)
		}
		all.WriteString(f.Severity + ": " + f.What + "\n")
	}
	for _, want := range []string{"other users", "belong to no thread", "no thread number 99", "thread crashed: the process that moved it died",
		"may replace files", "1 signals belong to a turn that is over", "1 snapshots belong to a thread that was deleted"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is not among\n%s", want, all.String())
		}
	}
}

func TestDoctorWorksOnADamagedFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	everyKind(b)
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:len(b)/2] },
		"zeros": func(b []byte) []byte {
			clear(b[8192 : len(b)-4096])
			return b
		},
		"noise": func(b []byte) []byte {
			for i := 4096; i < len(b); i += 97 {
				b[i] ^= 0x5a
			}
			return b
		},
	} {
		path := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(path, damage(append([]byte(nil), image...)), 0o600); err != nil {
			t.Fatal(err)
		}
		before := picture(t, filepath.Dir(path))
		h, err := Doctor(t.Context(), path)
		if err != nil || h.OK() {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		if after := picture(t, filepath.Dir(path)); after != before {
			t.Errorf("%s: doctor wrote", name)
		}
	}
}

func TestDoctorLooksAroundTheFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.begin("x")
	future := step(1, 1)
	future.At = time.Now().Add(100 * 24 * time.Hour).UTC()
	b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(future, engine.Done)}})
	h, err := b.s.Doctor(t.Context())
	if err != nil || !h.OK() || len(h.Findings) != 1 || !strings.Contains(h.Findings[0].What, "ahead of this machine's clock") {
		t.Errorf("a clock that went back: %+v, %v", h.Findings, err)
	}
	if free, known := freeDisk(filepath.Dir(b.path)); known && (free <= 0 || h.Free <= 0) {
		t.Errorf("free on the disk: %d, %d", free, h.Free)
	}
	h = new(Health)
	h.disk(lowDisk)
	if len(h.Findings) != 0 {
		t.Errorf("enough room: %+v", h.Findings)
	}
	h.disk(lowDisk - 1)
	if len(h.Findings) != 1 || !h.OK() {
		t.Errorf("little room: %+v", h.Findings)
	}
}
