package store

import (
	"context"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
)

// keepEvery is how often a process that lives long looks for what may go.
const keepEvery = time.Hour

// Keep prunes all threads at once and then every hour, until ctx ends. It is
// for a process that lives long; what it does is in the log of the store.
func (s *Store) Keep(ctx context.Context, keep Retention, by engine.By) {
	for {
		err := s.PruneAll(ctx, keep, by, false, func(p Pruned) error {
			s.opts.Logger.InfoContext(ctx, "thread pruned", "thread", p.Thread, "up_to", p.UpTo, "payloads", p.Entries, "bytes", p.Bytes)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			// The next time may be better; what is wrong with the file is said
			// to everybody who works with it.
			s.opts.Logger.WarnContext(ctx, "threads not pruned", "reason", err)
		}
		if clock.Sleep(ctx, s.opts.Clock, keepEvery) != nil {
			return
		}
	}
}
