package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// database is the file of this run, and what named it.
func (a *app) database() (path, source string, err error) {
	if a.db != "" {
		return a.db, "--db", nil
	}
	if path = os.Getenv("HOLDFAST_DB"); path != "" {
		return path, "$HOLDFAST_DB", nil
	}
	dir, source, err := dataFolder()
	if err != nil {
		return "", "", err
	}
	return filepath.Join(dir, "holdfast", "agent.db"), source, nil
}

// dataFolder is the place for the data of programs.
func dataFolder() (dir, source string, err error) {
	// The rule of XDG: a path that is not absolute is as good as none.
	if dir = os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir, "$XDG_DATA_HOME", nil
	}
	if runtime.GOOS == "windows" {
		if dir = os.Getenv("LocalAppData"); dir != "" {
			return dir, "%LocalAppData%", nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", fmt.Errorf("no place for the database: %w; name a file with --db or $HOLDFAST_DB", err)
	}
	switch runtime.GOOS {
	case "darwin", "ios":
		return filepath.Join(home, "Library", "Application Support"), "the home folder", nil
	}
	return filepath.Join(home, ".local", "share"), "the home folder", nil
}

// errNoDatabase says that a command that only looks found no file to look at.
type errNoDatabase struct{ path string }

func (e *errNoDatabase) Error() string {
	return fmt.Sprintf("no database at %s yet; agent run makes one", e.path)
}

// open opens the file, and makes it if there is none.
func (a *app) open(ctx context.Context) (*store.Store, error) { return a.openLogging(ctx, nil) }

// openLogging is open for a process that has a log.
func (a *app) openLogging(ctx context.Context, log *slog.Logger) (*store.Store, error) {
	path, _, err := a.database()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, path, store.Options{Program: "agent", Logger: log})
}

// existing is the file, if there is one, for a command that makes none: else
// the error is an *errNoDatabase.
func (a *app) existing() (string, error) {
	path, _, err := a.database()
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return "", &errNoDatabase{path: path}
	}
	return path, nil
}

// listing opens the file for a list: without a file there is nothing to list.
func (a *app) listing(ctx context.Context, list func(*store.Store) error) error {
	err := a.looking(ctx, list)
	if none := new(errNoDatabase); errors.As(err, &none) {
		a.screen.line("%v", none)
		return nil
	}
	return err
}

// looking opens the file for a look at something in it, which changes nothing:
// it may be of another user, or on a disk that cannot be written.
func (a *app) looking(ctx context.Context, look func(*store.Store) error) error {
	path, err := a.existing()
	if err != nil {
		return err
	}
	s, err := store.Look(ctx, path, store.Options{Program: "agent"})
	if errors.Is(err, store.ErrEmpty) {
		return &errNoDatabase{path: path}
	}
	if err != nil {
		return err
	}
	return closing(s, look(s))
}

// working opens the file for something that changes a thread in it.
func (a *app) working(ctx context.Context, work func(*store.Store) error) error {
	if _, err := a.existing(); err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	return closing(s, work(s))
}

// closing closes the store. What happened before matters more.
func closing(s *store.Store, err error) error {
	if closeErr := s.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("close %s: %w", s.Path(), closeErr)
	}
	return err
}

// engine makes the engine for turns of graph g, which may be nil for turns that
// began earlier.
func (a *app) engine(g *engine.Graph, s *store.Store, o engine.Options) *engine.Engine {
	o.Events, o.Load = a.event, a.graphs.load
	return engine.New(g, s, o)
}

// checkpoint reads the argument THREAD[@SEQ].
func checkpoint(arg string) (thread string, seq int64, err error) {
	if thread, seq, err = engine.ParseCheckpointID(arg); err != nil {
		return "", 0, usage("%w", err)
	}
	return thread, seq, nil
}

// threadArg reads the argument THREAD.
func threadArg(arg string) (string, error) {
	thread, seq, err := checkpoint(arg)
	if err == nil && seq != 0 {
		return "", usage("%s names a checkpoint; this command takes the thread: %s", arg, thread)
	}
	return thread, err
}
