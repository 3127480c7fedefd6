package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
)

// Sessions lists threads, those first that changed last, at most limit of them,
// and only those of a folder, where cwd names one. cursor is empty, or next of an
// earlier call; any other gives engine.ErrInvalid. next is empty where no more
// follow. The cursor is the place of the last thread, so that a page begins where
// the one before it ended, whatever changed meanwhile.
func (s *Store) Sessions(ctx context.Context, cwd, cursor string, limit int) (threads []engine.Thread, next string, err error) {
	filter := Filter{Cwd: cwd, Limit: limit + 1}
	if cursor != "" {
		if filter.After, err = readCursor(cursor); err != nil {
			return nil, "", err
		}
	}
	list, err := s.Threads(ctx, filter)
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = writeCursor(list[limit-1].Cursor)
	}
	for _, t := range list {
		threads = append(threads, t.Thread)
	}
	return threads, next, nil
}

func writeCursor(c Cursor) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", c.UpdatedAt, c.No))
}

func readCursor(text string) (c Cursor, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(raw), "%d.%d", &c.UpdatedAt, &c.No)
	}
	if err != nil || writeCursor(c) != text || strings.TrimSpace(text) == "" {
		return c, fmt.Errorf("cursor %q: %w", text, engine.ErrInvalid)
	}
	return c, nil
}
