package store

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/failpoint"
	"github.com/holdfast-agent/holdfast/interrupt"
	"github.com/holdfast-agent/holdfast/store/storetest"
)

// conformanceChild makes a process that runs storetest.Child, where there is a way.
var conformanceChild = storetest.Backend{}.Child

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB, place string, c clock.Clock) storetest.Store {
			s, err := Open(t.Context(), place, Options{Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		List: func(ctx context.Context, s storetest.Store, cursor string, limit int) (threads []engine.Thread, next string, err error) {
			f := Filter{Limit: limit}
			if cursor != "" {
				if err := json.Unmarshal([]byte(cursor), &f.After); err != nil {
					return nil, "", err
				}
			}
			list, err := s.(*Store).Threads(ctx, f)
			for _, l := range list {
				threads = append(threads, l.Thread)
			}
			if len(list) == limit {
				after, _ := json.Marshal(list[limit-1].Cursor)
				next = string(after)
			}
			return threads, next, err
		},
		Inbox: func(ctx context.Context, s storetest.Store) (open []interrupt.Question, err error) {
			items, err := s.(*Store).Inbox(ctx, 0)
			for _, item := range items {
				open = append(open, item.Question)
			}
			return open, err
		},
		Prune: func(ctx context.Context, s storetest.Store, thread string, turns int) (int64, error) {
			p, err := s.(*Store).Prune(ctx, thread, Retention{Turns: turns}, engine.By{Actor: "ada"}, false)
			return p.Entries, err
		},
		Verify: func(ctx context.Context, s storetest.Store) error {
			r, err := s.(*Store).Verify(ctx, "")
			if err == nil && !r.OK() {
				err = errors.New(r.Problems[0].String())
			}
			return err
		},
		Look: func(t testing.TB, place string) storetest.Store {
			s, err := Look(t.Context(), place, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Fail: func(t testing.TB, place string, applied bool) {
			point := "store.commit.before"
			if applied {
				point = "store.commit.after"
			}
			failpoint.SetIn(t, point, place, "error")
		},
		Child: conformanceChild,
	})
}
