package store

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/migrations"
)

// raw opens a file as any other program would.
func raw(t testing.TB, path string, statements ...string) *sql.DB {
	t.Helper()
	opts, _ := Options{}.withDefaults()
	uri, _, _ := strings.Cut(dsn(path, false, opts), "?")
	db, err := sql.Open("sqlite", uri)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return db
}

func rawClosed(t *testing.T, path string, statements ...string) {
	t.Helper()
	if err := raw(t, path, statements...).Close(); err != nil {
		t.Fatal(err)
	}
}

// copyAs takes a picture of a file that a program has open, as a crash leaves it.
func copyAs(t *testing.T, from, to string, suffixes ...string) {
	t.Helper()
	for _, suffix := range suffixes {
		b, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRule6AFileThatIsNotOursIsRefusedAndLeftAsItWas(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"foreign": {func(t *testing.T, path string) {
			rawClosed(t, path, `CREATE TABLE notes (x)`)
		}, ErrForeign},
		"foreign in WAL mode": {func(t *testing.T, path string) {
			rawClosed(t, path, `PRAGMA journal_mode = WAL`, `CREATE TABLE notes (x)`)
		}, ErrForeign},
		"foreign, all of it in the log": {func(t *testing.T, path string) {
			db := raw(t, path+".live", `PRAGMA journal_mode = WAL`, `CREATE TABLE notes (x)`)
			defer db.Close()
			copyAs(t, path+".live", path, "", "-wal")
		}, ErrForeign},
		"foreign without tables": {func(t *testing.T, path string) {
			rawClosed(t, path, `PRAGMA user_version = 7`)
		}, ErrForeign},
		"another application": {func(t *testing.T, path string) {
			rawClosed(t, path, `PRAGMA application_id = 1234`, `PRAGMA user_version = 1`)
		}, ErrForeign},
		"ours by id only": {func(t *testing.T, path string) {
			rawClosed(t, path, `PRAGMA application_id = 1215063142`)
		}, ErrForeign},
		"newer": {func(t *testing.T, path string) {
			rawClosed(t, path, `PRAGMA application_id = 1215063142`, `PRAGMA user_version = 999`)
		}, ErrNewer},
		"newer, in the log": {func(t *testing.T, path string) {
			db := raw(t, path+".live", `PRAGMA journal_mode = WAL`, `PRAGMA application_id = 1215063142`, `PRAGMA user_version = 1`,
				`PRAGMA wal_checkpoint(TRUNCATE)`, `PRAGMA user_version = 999`)
			defer db.Close()
			copyAs(t, path+".live", path, "", "-wal")
		}, ErrNewer},
		"text": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("hello\n"), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrNotDatabase},
		"one byte": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("S"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrNotDatabase},
		"header cut off": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(sqliteMagic+"\x10\x00"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrNotDatabase},
		"zeros": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrNotDatabase},
		"a folder": {func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrNotDatabase},
	}
	if migrations.ApplicationID != 1215063142 {
		t.Fatalf("the cases name another application id than %d", migrations.ApplicationID)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file.db")
			c.make(t, path)
			before := picture(t, filepath.Dir(path))
			_, err := Open(t.Context(), path, Options{})
			want(t, err, c.want)
			var file *FileError
			if !errors.As(err, &file) || !strings.Contains(err.Error(), path) || file.Advice == "" {
				t.Errorf("the error does not say which file and what to do: %v", err)
			}
			if _, err := Doctor(t.Context(), path); err != nil {
				t.Errorf("doctor: %v", err)
			}
			if after := picture(t, filepath.Dir(path)); after != before {
				t.Errorf("the folder was changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// picture describes a folder: names, sizes, times and content.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out.WriteString(d.Name() + " " + info.Mode().String() + " " + info.ModTime().String())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out.WriteString(" " + string(payloadHash(b)))
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestNewFilesAreForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folders", "agent.db")
	b := setupAt(t, path)
	b.begin("x")
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for name, mode := range map[string]fs.FileMode{path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, filepath.Dir(path): 0o700 | fs.ModeDir, ownerPath(path, b.s.owner.id): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAnEmptyFileIsNewAndAnyPathIsPossible(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "with space", "question?mark", "hash#tag", "per%cent%20", "uni cöde 語", "a&b=c;d", "semi;colon'quote\""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b := setupAt(t, path)
			if err := b.s.Create(t.Context(), engine.Thread{ID: "x"}); err != nil {
				t.Fatal(err)
			}
			b.reopen()
			if _, err := b.s.At(t.Context(), "x", 0); err != nil {
				t.Error(err)
			}
			for _, s := range []string{"", "-wal", "-shm"} {
				if _, err := os.Stat(path + s); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestALinkLeadsToTheSameFileAndTheSameOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "real", "agent.db")
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	b := setupAt(t, link) // the file is created behind the link
	if b.s.Path() != path {
		t.Errorf("got %s, want %s", b.s.Path(), path)
	}
	b.begin("x")
	b.path = path
	other := b.load(b.open(), "x")
	want(t, other.Commit(t.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrBusy)
}

func TestMigrationThatDiesLeavesANewFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.db")
	failpoint.SetIn(t, "store.open.migrate", path, "error")
	_, err := Open(t.Context(), path, Options{})
	want(t, err, failpoint.ErrInjected)
	setupAt(t, path).begin("x")
}

func TestManyThatCreateOneFileAtOnceAllOpenIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.db")
	errs := make(chan error)
	for range 8 {
		go func() {
			s, err := Open(t.Context(), path, Options{})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCloseEmptiesTheLogAndLeavesNothingBeside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.begin("x")
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(b.path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if err := b.s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	_, err = b.s.At(t.Context(), "x", 0)
	want(t, err, ErrClosed)
	_, err = b.s.Threads(t.Context(), Filter{})
	want(t, err, ErrClosed)
}

func TestAStoreThatOnlyLooksHasNoLockFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.s.Create(t.Context(), engine.Thread{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	b.load(b.s, "x")
	if ids, err := ownerFiles(b.s.Path()); err != nil || len(ids) != 0 {
		t.Errorf("lock files: %v, %v", ids, err)
	}
}

func TestOptionsThatAreNotPossibleAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "x"), Options{Synchronous: "OFF"})
	if err == nil {
		t.Error("OFF was accepted")
	}
	_, err = Open(t.Context(), "", Options{})
	if err == nil {
		t.Error("an empty path was accepted")
	}
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "x"), Options{Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for query, want := range map[string]int{"PRAGMA synchronous": 1, "PRAGMA foreign_keys": 1, "PRAGMA busy_timeout": 10000} {
		var got int
		if err := s.write.conn.sql.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v", query, got, err)
		}
	}
	if _, err := s.read.ExecContext(t.Context(), `CREATE TABLE x (y)`); err == nil {
		t.Error("a reader wrote")
	}
}
