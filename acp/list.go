package acp

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/holdfast-agent/holdfast/engine"
)

// pageSize is how many sessions a list gives at once.
const pageSize = 50

func (c *client) listSessions(ctx context.Context, params json.RawMessage) (any, error) {
	p, err := ParseListSessions(params)
	if err != nil {
		return nil, err
	}
	cwd := p.CWD
	if cwd != "" {
		cwd = filepath.Clean(cwd)
	}
	threads, next, err := c.config.Store.Sessions(ctx, cwd, p.Cursor, pageSize)
	switch {
	case errors.Is(err, engine.ErrInvalid):
		return nil, InvalidParams("params.cursor", "is none that this agent gave")
	case err != nil:
		return nil, Internal(err)
	}
	out := ListSessionsResponse{NextCursor: next}
	for _, t := range threads {
		if !filepath.IsAbs(t.Cwd) {
			continue // begun by a program, without a folder: no client can open it
		}
		info := SessionInfo{
			SessionID: t.ID, CWD: t.Cwd, AdditionalDirectories: t.Roots, Title: t.Title, UpdatedAt: timestamp(t.UpdatedAt),
		}
		if err := info.Meta.Set("holdfast/status", t.Status); err != nil {
			return nil, err
		}
		out.Sessions = append(out.Sessions, info)
	}
	return out, nil
}
