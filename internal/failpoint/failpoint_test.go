package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

func TestHitDoesNothingWhereNothingWasSet(t *testing.T) {
	t.Parallel()
	failpoint.SetIn(t, "test.other", t.Name(), "error")
	if err := failpoint.Hit("test.unset"); err != nil {
		t.Errorf("Hit: %v", err)
	}
	if err := failpoint.HitIn("test.other", "another scope"); err != nil {
		t.Errorf("HitIn another scope: %v", err)
	}
}

func TestActionHappensAtItsHitAndOnlyThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ action, want string }{
		{"error", "x...."},
		{"1*error", "x...."},
		{"3*error", "..x.."},
		{"1+*error", "xxxxx"},
		{"4+*error", "...xx"},
		{" 2*error ", ".x..."},
	} {
		t.Run(c.action, func(t *testing.T) {
			t.Parallel()
			failpoint.SetIn(t, "test.nth", t.Name(), c.action)
			var got strings.Builder
			for range 5 {
				err := failpoint.HitIn("test.nth", t.Name())
				switch {
				case err == nil:
					got.WriteByte('.')
				case errors.Is(err, failpoint.ErrInjected) && strings.Contains(err.Error(), "test.nth"):
					got.WriteByte('x')
				default:
					t.Errorf("error is not ErrInjected or does not name its point: %v", err)
				}
			}
			if got.String() != c.want {
				t.Errorf("hits: got %s, want %s", got.String(), c.want)
			}
		})
	}
}

func TestSeveralActionsAtOnePointAllHappen(t *testing.T) {
	t.Parallel()
	failpoint.SetIn(t, "test.several", t.Name(), "2*error")
	failpoint.SetIn(t, "test.several", t.Name(), "2+*error")
	want := []int{0, 2, 1}
	for i, n := range want {
		err := failpoint.HitIn("test.several", t.Name())
		got := 0
		if err != nil {
			got = strings.Count(err.Error(), "test.several")
		}
		if got != n {
			t.Errorf("hit %d: got %d errors (%v), want %d", i+1, got, err, n)
		}
	}
}

// Not parallel, as every test that uses Set.
func TestSetBreaksEveryScopeUntilTheTestIsOver(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		failpoint.Set(t, "test.everywhere", "1+*error")
		if err := failpoint.Hit("test.everywhere"); !errors.Is(err, failpoint.ErrInjected) {
			t.Errorf("Hit: got %v, want ErrInjected", err)
		}
		if err := failpoint.HitIn("test.everywhere", "a scope"); !errors.Is(err, failpoint.ErrInjected) {
			t.Errorf("HitIn: got %v, want ErrInjected", err)
		}
	})
	if err := failpoint.Hit("test.everywhere"); err != nil {
		t.Errorf("after the test: %v", err)
	}
}

func TestSetRefusesAParallelTest(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Set in a parallel test did not panic")
		}
	}()
	failpoint.Set(t, "test.never", "error")
}

func TestFuncDecidesAtEachHit(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	failpoint.SetFunc(t, "test.func", t.Name(), func(hit int) error {
		if hit%2 == 1 {
			return odd
		}
		return nil
	})
	for i := 1; i <= 4; i++ {
		err := failpoint.HitIn("test.func", t.Name())
		if (i%2 == 1) != (err == odd) {
			t.Errorf("hit %d: got %v", i, err)
		}
	}
}

func TestPanicNamesThePoint(t *testing.T) {
	t.Parallel()
	failpoint.SetIn(t, "test.panic", t.Name(), "panic")
	defer func() {
		if r, _ := recover().(string); !strings.Contains(r, "test.panic") {
			t.Errorf("recovered %q, want the name in it", r)
		}
	}()
	_ = failpoint.HitIn("test.panic", t.Name())
}

func TestPauseHoldsUntilItsFileIsRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "paused*here") // a star in the name is not a number of hits
	failpoint.SetIn(t, "test.pause", t.Name(), "pause:"+file)
	over := make(chan error, 1)
	go func() { over <- failpoint.HitIn("test.pause", t.Name()) }()
	waitForFile(t, file)
	select {
	case err := <-over:
		t.Fatalf("went on while its file was there: %v", err)
	default:
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Errorf("Hit: %v", err)
	}
}

func TestPauseRefusesAFileThatIsThere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failpoint.SetIn(t, "test.pause", t.Name(), "pause:"+file)
	if err := failpoint.HitIn("test.pause", t.Name()); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want os.ErrExist", err)
	}
}

func TestHitsFromManyGoroutinesAreEachCounted(t *testing.T) {
	t.Parallel()
	failpoint.SetIn(t, "test.many", t.Name(), "50*error")
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		errors int
	)
	for range 100 {
		all.Go(func() {
			if failpoint.HitIn("test.many", t.Name()) != nil {
				mu.Lock()
				errors++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if errors != 1 {
		t.Errorf("got %d errors in 100 hits, want 1", errors)
	}
}

// recorder is a TB that notes a failure.
type recorder struct{ failure string }

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(func())                    {}
func (r *recorder) Fatalf(format string, args ...any) { r.failure = format }

func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"", "kil", "0*kill", "-1*kill", "x*error", "*error", "error:file", "pause", "pause:", "2*", "+*error", "1+error"} {
		var r recorder
		failpoint.SetIn(&r, "test.mistake", t.Name(), action)
		if r.failure == "" {
			t.Errorf("action %q was accepted", action)
		}
	}
	var r recorder
	failpoint.SetIn(&r, "test.mistake", "", "error")
	if r.failure == "" {
		t.Error("SetIn accepted an empty scope")
	}
	r = recorder{}
	failpoint.SetFunc(&r, "test.mistake", "", func(int) error { return nil })
	if r.failure == "" {
		t.Error("SetFunc accepted an empty scope")
	}
}

var build struct {
	sync.Mutex
	dir      string
	programs map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// program builds testdata/victim once for each set of tags.
func program(t *testing.T, tags string) string {
	t.Helper()
	build.Lock()
	defer build.Unlock()
	if path, ok := build.programs[tags]; ok {
		return path
	}
	if build.dir == "" {
		dir, err := os.MkdirTemp("", "failpoint")
		if err != nil {
			t.Fatal(err)
		}
		build.dir, build.programs = dir, make(map[string]string)
	}
	path := filepath.Join(build.dir, "victim"+tags+".exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", path, "./testdata/victim").CombinedOutput()
	if err != nil {
		t.Fatalf("build the victim: %v\n%s", err, out)
	}
	build.programs[tags] = path
	return path
}

func victim(t *testing.T, tags, setting string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, tags))
	cmd.Env = append(os.Environ(), "HOLDFAST_FAILPOINT="+setting)
	return cmd
}

func TestProgramWithoutTheTagIgnoresTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"victim.hit=kill", "victim.hit=error", "nonsense"} {
		out, err := victim(t, "", setting).CombinedOutput()
		if err != nil || string(out) != "1 2 3 deferred\n" {
			t.Errorf("%s: got %v, %q", setting, err, out)
		}
	}
}

func TestProgramWithTheTagDiesByKill(t *testing.T) {
	t.Parallel()
	out, err := victim(t, "failpoint", "victim.hit=3*kill").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("got %v, want that it is killed", err)
	}
	if runtime.GOOS == "windows" {
		if exit.ExitCode() != 137 {
			t.Errorf("exit code %d, want 137", exit.ExitCode())
		}
	} else if exit.String() != "signal: killed" {
		t.Errorf("ended with %q, want signal: killed", exit.String())
	}
	if string(out) != "1 2 " {
		t.Errorf("printed %q; want what came before the third hit, and nothing deferred", out)
	}
}

func TestProgramWithTheTagFailsPanicsAndRefusesMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting, out, errs string
		code               int
	}{
		{"", "1 2 3 deferred\n", "", 0},
		{"other.name=kill", "1 2 3 deferred\n", "", 0},
		{"other.name=kill; victim.hit=2*error ;", "1 deferred\n", "fail point victim.hit: injected by a fail point", 1},
		{"victim.hit=3*error;victim.hit=2*panic", "1 deferred\n", "fail point victim.hit: panic", 2},
		{"victim.hit", "", "write name=action", 2},
		{"victim.hit=explode", "", "none of kill, error, panic", 2},
	} {
		cmd := victim(t, "failpoint", c.setting)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("%s: got exit code %d, %q, %q", c.setting, code, out.String(), errs.String())
		}
	}
}

func TestProgramWithTheTagPausesForAnotherProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "paused")
	cmd := victim(t, "failpoint", "victim.hit=2*pause:"+file)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "1 2 3 deferred\n" {
		t.Errorf("got %v, %q", err, out.String())
	}
}

func waitForFile(t *testing.T, file string) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatalf("%s was never created", file)
		}
	}
}

func BenchmarkHitWithNothingSet(b *testing.B) {
	for b.Loop() {
		if err := failpoint.HitIn("bench.hit", "scope"); err != nil {
			b.Fatal(err)
		}
	}
}
