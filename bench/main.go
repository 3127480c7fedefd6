// Command bench measures Holdfast, the bare database in the same layout, and
// other systems that keep workflows or agent graphs in SQLite, in turn within
// one run, and prints a table of ratios.
//
// What it prints holds for one machine and one run: compare the ratios of a
// table, never figures of two tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A work is one thing that every system is asked to do.
type work struct {
	name    string
	about   string
	unit    string // what is measured: us, or a ratio
	want    string // what ours must reach, as a ratio to the first system
	n       int    // how often a system does it in one round
	systems []system
}

// A system does a work. The first of a work is the yardstick.
type system struct {
	name string
	n    int // if not the work's own: a slow one does it less often
	run  func(ctx context.Context, r room) (float64, error)
}

// room is what a system has for one round.
type room struct {
	dir  string // empty
	n    int    // how often to do the work
	sync string // FULL or NORMAL
}

func (r room) file() string { return filepath.Join(r.dir, "bench.db") }

// errSkipped says why a system does not take part.
type errSkipped struct{ why string }

func (e errSkipped) Error() string { return e.why }

func main() {
	rounds := flag.Int("rounds", 5, "how often each system does each work; the median counts")
	only := flag.String("work", "", "comma-separated names of works, such as W1-FULL,W6; empty: all")
	dir := flag.String("dir", "", "where the files are made; empty: the system's temporary folder")
	flag.Parse()
	if err := run(context.Background(), *rounds, *only, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, only, dir string) error {
	all := works()
	chosen := all
	if only != "" {
		names := strings.Split(only, ",")
		chosen = nil
		for _, name := range names {
			i := slices.IndexFunc(all, func(w work) bool { return strings.EqualFold(w.name, name) })
			if i < 0 {
				return fmt.Errorf("there is no work %q; there are %s", name, strings.Join(namesOf(all), ", "))
			}
			chosen = append(chosen, all[i])
		}
	}
	if rounds < 1 {
		return fmt.Errorf("-rounds is at least 1, not %d", rounds)
	}
	fmt.Printf("%d rounds, each system in turn; the median, and the least and most of the rounds. Ratios are to the first line of a work.\n", rounds)
	for _, w := range chosen {
		if err := w.measure(ctx, rounds, dir); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func namesOf(works []work) (names []string) {
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

// measure lets the systems take turns, so that a change of the machine's mood
// meets all of them.
func (w work) measure(ctx context.Context, rounds int, parent string) error {
	figures := make([][]float64, len(w.systems))
	skipped := make([]string, len(w.systems))
	for range rounds {
		for i, s := range w.systems {
			if skipped[i] != "" {
				continue
			}
			v, err := w.once(ctx, s, parent)
			var skip errSkipped
			if errors.As(err, &skip) {
				skipped[i] = skip.why
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			figures[i] = append(figures[i], v)
		}
	}
	fmt.Printf("\n%s: %s (%s; wanted: %s)\n", w.name, w.about, w.unit, w.want)
	fmt.Printf("  %-34s %10s %8s   %s\n", "", "median", "ratio", "least .. most")
	var yardstick float64
	for i, s := range w.systems {
		if skipped[i] != "" {
			fmt.Printf("  %-34s %10s %8s   %s\n", s.name, "-", "-", "not run: "+skipped[i])
			continue
		}
		slices.Sort(figures[i])
		median := figures[i][len(figures[i])/2]
		if yardstick == 0 {
			yardstick = median
		}
		fmt.Printf("  %-34s %10.2f %7.2fx   %.2f .. %.2f\n", s.name, median, median/yardstick, figures[i][0], figures[i][len(figures[i])-1])
	}
	return nil
}

func (w work) once(ctx context.Context, s system, parent string) (float64, error) {
	dir, err := os.MkdirTemp(parent, "bench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	n := w.n
	if s.n > 0 {
		n = s.n
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	sync := "FULL"
	if strings.HasSuffix(w.name, "NORMAL") {
		sync = "NORMAL"
	}
	return s.run(ctx, room{dir: dir, n: n, sync: sync})
}

// each is how long one of n took, in us.
func each(began time.Time, n int) float64 {
	return float64(time.Since(began).Nanoseconds()) / 1000 / float64(n)
}

// fileSize is the size of a database with all that lies beside it, in bytes.
func fileSize(path string) (float64, error) {
	files, err := filepath.Glob(path + "*")
	if err != nil {
		return 0, err
	}
	size := 0.0
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		if !info.IsDir() {
			size += float64(info.Size())
		}
	}
	return size, nil
}
