// Package failpoint names the places where a test can break the program: kill
// it between two writes, make a commit fail, hold it while the test looks.
//
// At such a place the program says
//
//	if err := failpoint.HitIn("store.commit.before", s.path); err != nil {
//		return err
//	}
//
// which costs one atomic load as long as no test has asked for anything there.
//
// Rules:
//
//   - A shipped binary cannot be made to fail from outside. The environment
//     variable HOLDFAST_FAILPOINT is read only in a build with the tag
//     failpoint (see [Enabled]); [Set], [SetIn] and [SetFunc] are for tests
//     alone, and need no tag.
//   - A name is room.place, in lower case with dots, without "=" and ";". It
//     stands in one place of the code.
//   - Hits are counted per point that was set, from 1.
//   - A point set for all scopes is seen by every test of the process, so
//     [Set] refuses a parallel test. A parallel test uses [SetIn] with a scope
//     that only it has, such as the path of its database.
//
// An action, in the environment and in [Set], is
//
//	[N*]kill         the process dies as by kill -9 (on Windows: is terminated
//	                 with exit code 137)
//	[N*]error        Hit returns an error, of which errors.Is(err, ErrInjected)
//	[N*]panic        Hit panics
//	[N*]pause:FILE   Hit creates FILE, and returns when somebody removed it
//
// at the N-th hit, the first if N is absent, and only at that; N+* is the N-th
// and every later one. HOLDFAST_FAILPOINT holds name=action, several separated
// by ";", also for the same name:
//
//	HOLDFAST_FAILPOINT='store.commit.before=3*kill;store.results=1+*error'
package failpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrInjected is what every error made by an action is.
var ErrInjected = errors.New("injected by a fail point")

// Hit is a place where a test may break the program. It returns nil unless a
// test asked for something at that name.
func Hit(name string) error {
	if points.Load() == nil {
		return nil
	}
	return hit(name, "")
}

// HitIn is [Hit] in a scope, which is whatever tells apart what parallel tests
// work on: the path of a database, the id of a thread.
func HitIn(name, scope string) error {
	if points.Load() == nil {
		return nil
	}
	return hit(name, scope)
}

// TB is what is needed of a *testing.T; a *rapid.T will do. It is not
// testing.TB, so that the program does not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// SequentialTB is what [Set] needs of a *testing.T.
type SequentialTB interface {
	TB
	Setenv(key, value string)
}

// Set makes an action happen at a name, in whatever scope, until the test is
// over. The test must not be parallel: it panics if it is.
func Set(t SequentialTB, name, action string) {
	t.Helper()
	// Only for its check that the test is not parallel. Nobody reads it.
	t.Setenv("HOLDFAST_FAILPOINT_SET", name)
	set(t, name, "", action)
}

// SetIn makes an action happen at a name that is hit in this scope, until the
// test is over.
func SetIn(t TB, name, scope, action string) {
	t.Helper()
	if scope == "" {
		t.Fatalf("failpoint.SetIn(%q): the scope is empty; use failpoint.Set for all scopes", name)
		return
	}
	set(t, name, scope, action)
}

// SetFunc calls f at every hit of a name in this scope, with the number of the
// hit, until the test is over; the place then gets f's error. It is for what no
// action does: to wait for a channel, to fail every other time. f may be called
// from several goroutines at once.
func SetFunc(t TB, name, scope string, f func(hit int) error) {
	t.Helper()
	if scope == "" {
		t.Fatalf("failpoint.SetFunc(%q): the scope is empty; name the scope that only this test has", name)
		return
	}
	remove := add(map[string][]*point{name: {{scope: scope, nth: 1, onward: true, act: f}}})
	t.Cleanup(remove)
}

func set(t TB, name, scope, action string) {
	t.Helper()
	p, err := parseAction(name, action)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	p.scope = scope
	t.Cleanup(add(map[string][]*point{name: {p}}))
}

// points is nil in a program that nobody wants to break. The map and its
// slices are never changed, only replaced, under mu.
var (
	mu     sync.Mutex
	points atomic.Pointer[map[string][]*point]
)

type point struct {
	scope  string // "" for all
	nth    int
	onward bool // also at every hit after the n-th
	act    func(hit int) error
	hits   atomic.Int64
}

func hit(name, scope string) error {
	all := points.Load()
	if all == nil {
		return nil // the last one was removed meanwhile
	}
	var errs []error
	for _, p := range (*all)[name] {
		if p.scope != "" && p.scope != scope {
			continue
		}
		n := int(p.hits.Add(1))
		if n != p.nth && (!p.onward || n < p.nth) {
			continue
		}
		if err := p.act(n); err != nil {
			errs = append(errs, err)
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return errors.Join(errs...)
}

// add adds points, and gives the function that takes them away again.
func add(more map[string][]*point) (remove func()) {
	mu.Lock()
	defer mu.Unlock()
	next := make(map[string][]*point)
	if now := points.Load(); now != nil {
		maps.Copy(next, *now)
	}
	for name, added := range more {
		next[name] = slices.Concat(next[name], added)
	}
	points.Store(&next)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		left := make(map[string][]*point)
		if now := points.Load(); now != nil {
			for name, set := range *now {
				kept := slices.DeleteFunc(slices.Clone(set), func(p *point) bool { return slices.Contains(more[name], p) })
				if len(kept) > 0 {
					left[name] = kept
				}
			}
		}
		if len(left) == 0 {
			points.Store(nil)
			return
		}
		points.Store(&left)
	}
}

func injected(name string) error {
	return fmt.Errorf("fail point %s: %w", name, ErrInjected)
}
