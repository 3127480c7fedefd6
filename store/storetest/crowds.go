package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
)

var crowdCases = []testCase{
	{"rule 3: one winner for every place of one thread", func(b *bundle) {
		l := b.begin("race")
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}})
		var won atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				mine := b.load(b.s, "race")
				for range 10 {
					u := step(1, 0, push("log", "x"))
					u.Kind, u.Status = engine.KindUpdate, engine.Paused
					if err := mine.Commit(b.Context(), &engine.Commit{Entries: []*engine.Entry{u}}); err == nil {
						won.Add(1)
						continue
					} else if !errors.Is(err, engine.ErrConflict) {
						b.Error(err)
					}
					b.ok(mine.Reload(b.Context()))
				}
			})
		}
		all.Wait()
		v := b.at("race", 0)
		if n := won.Load(); n == 0 || v.Thread.Head != 2+n || int64(len(v.State["log"].([]any))) != n {
			b.Errorf("%d won, and the head is %d", won.Load(), v.Thread.Head)
		}
		b.verify()
	}},
	{"a thousand commits from 50 goroutines all arrive", func(b *bundle) {
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				l := b.begin(fmt.Sprintf("t%d", i))
				for n := int64(1); n < 20; n++ {
					b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, n, push("log", n))}})
				}
				b.ok(l.Close())
			})
		}
		all.Wait()
		for i := range 50 {
			if v := b.at(fmt.Sprintf("t%d", i), 0); v.Thread.Head != 20 || len(v.State["log"].([]any)) != 19 {
				b.Errorf("t%d: %+v", i, v.Thread)
			}
		}
		b.verify()
	}},
	{"two processes write to one place", func(b *bundle) {
		if b.backend.Child == nil {
			b.Skip("this system has no such processes")
		}
		// A thread of its own each, and one that both append to.
		shared := b.begin("shared")
		b.commit(shared, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{pause(1, 0, "a")}})
		out := make([]string, 2)
		var all sync.WaitGroup
		for i := range out {
			cmd := b.backend.Child(b.T, b.place, fmt.Sprintf("own-%d", i))
			all.Go(func() {
				text, err := cmd.Output()
				if err != nil {
					b.Errorf("child %d: %v, %s", i, err, text)
				}
				out[i] = string(text)
			})
		}
		all.Wait()
		var won [2]int64
		for i := range out {
			if _, err := fmt.Sscanf(out[i], "won %d", &won[i]); err != nil {
				b.Fatalf("child %d said %q", i, out[i])
			}
			if v := b.at(fmt.Sprintf("own-%d", i), 0); v.Thread.Head != 50 {
				b.Errorf("own-%d: head %d", i, v.Thread.Head)
			}
		}
		if v := b.at("shared", 0); v.Thread.Head != 2+won[0]+won[1] || won[0] == 0 || won[1] == 0 {
			b.Errorf("%d and %d won, and the head is %d", won[0], won[1], v.Thread.Head)
		}
		b.verify()
	}},
	{"who died is replaced at once", func(b *bundle) {
		if b.backend.Child == nil {
			b.Skip("this system has no such processes")
		}
		b.ok(b.begin("x").Close())
		cmd := b.backend.Child(b.T, b.place, "x", "hold")
		pipe, err := cmd.StdoutPipe()
		b.ok(err)
		_, err = cmd.StdinPipe() // which stays open, and so does the child
		b.ok(err)
		b.ok(cmd.Start())
		lines := bufio.NewScanner(pipe)
		if !lines.Scan() || lines.Text() != "holds" {
			b.Errorf("the child said %q", lines.Text())
		}
		b.want(b.load(b.s, "x").Commit(b.Context(), &engine.Commit{Take: engine.TakeFree}), engine.ErrBusy)
		b.ok(cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		l := b.load(b.s, "x")
		if v := l.View(); v.Thread.Crashes != 1 || v.Thread.Owner == nil || v.Thread.Owner.Alive {
			b.Errorf("thread: %+v", v.Thread)
		}
		b.commit(l, &engine.Commit{Take: engine.TakeFree})
		b.commit(l, &engine.Commit{Entries: []*engine.Entry{step(1, 1)}})
	}},
	{"a prune runs while turns do", func(b *bundle) {
		stop := make(chan struct{})
		var all, pruner sync.WaitGroup
		pruner.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := b.backend.Prune(b.Context(), b.s, fmt.Sprintf("t%d", i%3), 1)
				if err != nil && !errors.Is(err, engine.ErrBusy) && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrNotFound) {
					b.Error(err)
				}
			}
		})
		for i := range 3 {
			all.Go(func() {
				for n := int64(1); n <= 20; {
					err := b.turn(b.s, fmt.Sprintf("t%d", i), n)
					switch {
					case err == nil:
						n++
					case !errors.Is(err, engine.ErrConflict): // a prune came first, before the turn began
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		close(stop)
		pruner.Wait()
		for i := range 3 {
			v := b.at(fmt.Sprintf("t%d", i), 0)
			want := make([]any, 20)
			for n := range want {
				want[n] = int64(n + 1)
			}
			if log, _ := v.State["log"].([]any); v.State["turn"] != int64(20) || !slices.Equal(log, want) {
				b.Errorf("t%d: %v", i, v.State["log"])
			}
		}
		b.verify()
	}},
	{"a hundred thousand checkpoints", func(b *bundle) {
		total, group := int64(100_000), int64(2_000)
		if testing.Short() || raced() {
			total = 10_000
		}
		l := b.begin("x")
		state := map[string]any{}
		for n := int64(1); n < total; {
			c := new(engine.Commit)
			for ; int64(len(c.Entries)) < group && n < total; n++ {
				c.Entries = append(c.Entries, step(1, n, set("n", n)))
			}
			state["n"] = n - 1
			b.commit(l, c)
			if l.SnapshotDue() {
				b.ok(l.Snapshot(b.Context(), state))
			}
		}
		b.ok(l.Close())
		b.reopen()
		for _, seq := range []int64{total, total - 1, total / 2, 2} {
			if v := b.at("x", seq); v.Head.Seq != seq || v.State["n"] != seq-1 {
				b.Errorf("at %d: %+v", seq, v.Head)
			}
		}
		count := int64(0)
		b.ok(b.s.Entries(b.Context(), "x", 0, 0, func(engine.Entry) error {
			count++
			return nil
		}))
		if count != total {
			b.Errorf("%d entries", count)
		}
	}},
}

// raced reports whether the race detector watches. A store in Go code, such as
// SQLite's, is then so slow that what one goroutine does many times is done less.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Child is what a process does that Backend.Child makes: it writes to a place
// that others write to, or holds a thread until it is killed.
func Child(open func(place string) (Store, error), args []string) error {
	ctx := context.Background()
	s, err := open(args[0])
	if err != nil {
		return err
	}
	if len(args) == 3 && args[2] == "hold" {
		l, err := s.Open(ctx, args[1])
		if err == nil {
			err = l.Commit(ctx, &engine.Commit{Take: engine.TakeFree})
		}
		if err != nil {
			return err
		}
		fmt.Println("holds")
		_, err = os.Stdin.Read(make([]byte, 1)) // for ever: nobody writes
		return err
	}
	own, err := s.New(ctx, engine.Thread{ID: args[1]})
	if err != nil {
		return err
	}
	if err := own.Commit(ctx, &engine.Commit{Take: engine.TakeFree, Entries: []*engine.Entry{input(1)}, Graph: graph()}); err != nil {
		return err
	}
	shared, err := s.Open(ctx, "shared")
	if err != nil {
		return err
	}
	won := 0
	for n := int64(1); n < 50; n++ {
		if err := own.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{step(1, n)}}); err != nil {
			return err
		}
		u := step(1, 0, push("log", args[1]))
		u.Kind, u.Status = engine.KindUpdate, engine.Paused
		switch err := shared.Commit(ctx, &engine.Commit{Entries: []*engine.Entry{u}}); {
		case err == nil:
			won++
		case errors.Is(err, engine.ErrConflict):
			if err := shared.Reload(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
	fmt.Println("won", won)
	return errors.Join(own.Close(), s.Close())
}
