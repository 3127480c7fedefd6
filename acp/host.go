package acp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/roots"
)

// host is what the client offers to the nodes of a prompt: its terminal, its files
// with what is not saved yet, and the tools of the session's servers.
type host struct{ p *prompt }

var _ engine.Host = host{}

// ReadFile implements engine.Host.
func (h host) ReadFile(ctx context.Context, t *engine.Task, path string) (string, error) {
	if able, _ := h.p.c.able(); !able.FS.ReadTextFile {
		return "", engine.ErrNoFiles
	}
	place, err := within(t, path)
	if err != nil {
		return "", fmt.Errorf("read a file in the editor: %w", err)
	}
	raw, err := h.p.c.conn.Call(ctx, MethodReadTextFile, ReadTextFileRequest{SessionID: h.p.s.id, Path: place})
	if err != nil {
		return "", h.fileError(ctx, "read", place, err)
	}
	file, err := ParseReadTextFile(raw)
	if err != nil {
		return "", h.fileError(ctx, "read", place, err)
	}
	return file.Content, nil
}

// WriteFile implements engine.Host. What is no text, or too long for a message, the
// node has to write itself.
func (h host) WriteFile(ctx context.Context, t *engine.Task, path, text string) error {
	if able, _ := h.p.c.able(); !able.FS.WriteTextFile || !utf8.ValidString(text) {
		return engine.ErrNoFiles
	}
	place, err := within(t, path)
	if err != nil {
		return fmt.Errorf("write a file in the editor: %w", err)
	}
	_, err = h.p.c.conn.Call(ctx, MethodWriteTextFile, WriteTextFileRequest{SessionID: h.p.s.id, Path: place, Content: text})
	long := new(LineTooLong)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &long):
		return engine.ErrNoFiles
	case errors.Is(err, ErrDisconnected), ctx.Err() != nil:
		return fmt.Errorf("%w; %w", h.fileError(ctx, "write", place, err), engine.ErrInDoubt)
	}
	return h.fileError(ctx, "write", place, err)
}

// within gives a path as the client is asked for it: absolute, and inside of the
// task's roots, through symbolic links too. The client opens it, so that a link
// that somebody makes in between is not seen.
func within(t *engine.Task, path string) (string, error) {
	place, err := roots.Locate(t.Roots(), path)
	if err == nil {
		err = place.Check()
	}
	return place.Path(), err
}

// fileError says what went wrong with a file, and takes a client that does not have
// what it said for one without files.
func (h host) fileError(ctx context.Context, what, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s in the editor: %w", what, path, context.Cause(ctx))
	}
	refused, is := errors.AsType[*jsonrpc2.Error](err)
	switch {
	case !is:
		return fmt.Errorf("%s %s in the editor: %w", what, path, err)
	case refused.Code == CodeMethodNotFound:
		h.p.c.log.Warn("the ACP client has no files after all; the disk is used", "error", err)
		return engine.ErrNoFiles
	case refused.Code == CodeResourceNotFound:
		return fmt.Errorf("%s %s in the editor: %s: %w", what, path, oneLine(refused.Message, 300), fs.ErrNotExist)
	}
	return fmt.Errorf("%s %s in the editor: %s", what, path, oneLine(refused.Message, 300))
}

// Tools implements engine.Host.
func (h host) Tools(ctx context.Context, _ *engine.Task) ([]engine.HostTool, error) {
	set := h.p.s.toolServers()
	if set == nil {
		return nil, nil
	}
	return set.Tools(ctx)
}

// CallTool implements engine.Host.
func (h host) CallTool(ctx context.Context, t *engine.Task, name string, args any) (any, error) {
	set := h.p.s.toolServers()
	if set == nil {
		return engine.NoHost{}.CallTool(ctx, t, name, args)
	}
	return set.Call(ctx, name, args)
}
