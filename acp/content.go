package acp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// media says which content a prompt may have beside text and resources.
type media struct{ image, audio bool }

// mediaOf says what a graph takes: all of it, where it has a channel for whole
// prompts, else what its adapter says.
func mediaOf(graph *engine.Graph, a Adapter) media {
	whole := graph.HasChannel(promptChannel)
	return media{image: whole || a.Image, audio: whole || a.Audio}
}

// media is what any of the graphs takes, which is what is advertised: a client asks
// before a session has chosen its graph.
func (s *Server) media() (any media) {
	for _, g := range s.served {
		any.image = any.image || g.media.image
		any.audio = any.audio || g.media.audio
	}
	return any
}

// takes refuses content that m does not have. who is named in the refusal.
func (m media) takes(blocks []ContentBlock, who string) error {
	for i, b := range blocks {
		if b.Type == ContentImage && !m.image || b.Type == ContentAudio && !m.audio {
			return InvalidParams(fmt.Sprintf("params.prompt[%d].type", i), fmt.Sprintf("%q is not supported by %s", b.Type, who))
		}
	}
	return nil
}

// wellFormed refuses data that is not what it says.
func wellFormed(blocks []ContentBlock) error {
	for i, b := range blocks {
		field, data := "data", b.Data
		if b.Type == ContentResource && b.Resource != nil && b.Resource.IsBlob {
			field, data = "resource.blob", b.Resource.Blob
		}
		_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
		if err != nil {
			return InvalidParams(fmt.Sprintf("params.prompt[%d].%s", i, field), "is not base64: "+err.Error())
		}
	}
	return nil
}

// blockValues are the blocks of a prompt as a channel holds them.
func blockValues(blocks []ContentBlock) ([]any, error) {
	all := make([]any, len(blocks))
	for i, b := range blocks {
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		if all[i], err = value.Decode(raw); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// promptBlocks are the blocks that a turn began with, where its graph has a channel
// for them.
func promptBlocks(e *engine.Entry) []ContentBlock {
	for _, op := range e.Payload.Ops {
		list, isList := op.Value.([]any)
		if op.Channel != promptChannel || !isList || len(list) == 0 {
			continue
		}
		blocks := make([]ContentBlock, len(list))
		for i, item := range list {
			if blocks[i].UnmarshalJSON(value.Append(nil, item)) != nil {
				return nil // not a prompt's
			}
		}
		return blocks
	}
	return nil
}
