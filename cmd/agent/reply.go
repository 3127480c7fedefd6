package main

import (
	"context"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/store"
)

// reply is the text that a turn leaves for whoever gave the input: what an editor
// would be told.
func reply(ctx context.Context, s *store.Store, turn *engine.Turn) (string, error) {
	output, err := acp.OutputOf(ctx, s, turn)
	if err != nil {
		return "", err
	}
	return acp.Adapter{}.For(nil).AgentText(output)
}
