package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

func TestPagesOfSessionsHaveEachThreadOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 7 {
		if i%3 == 0 {
			b.clock.Advance(time.Millisecond) // the others changed at the same time
		}
		if err := b.s.Create(t.Context(), engine.Thread{ID: fmt.Sprint(i), Cwd: fmt.Sprintf("/%d", i%2)}); err != nil {
			t.Fatal(err)
		}
	}
	for cwd, want := range map[string]string{"": "6543210", "/0": "6420", "/1": "531", "/2": ""} {
		got, cursor := "", ""
		for {
			threads, next, err := b.s.Sessions(t.Context(), cwd, cursor, 2)
			if err != nil || len(threads) > 2 {
				t.Fatal(threads, err)
			}
			for _, thread := range threads {
				got += thread.ID
			}
			if cursor = next; next == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%s: %s, not %s", cwd, got, want)
		}
	}
	for _, bad := range []string{"x", "1.1", " ", "MS4x=", "LTEuMQ!"} {
		_, _, err := b.s.Sessions(t.Context(), "", bad, 2)
		want(t, err, engine.ErrInvalid)
	}
}
