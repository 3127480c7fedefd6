package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-agent/holdfast/engine"
)

var errTimeout = errors.New("timeout")

// inTerminal runs the command where the person watches it, if the surroundings
// offer that; else it gives engine.ErrNoTerminal and nothing has run. A
// terminal has one stream, which counts as stdout, and no input of ours.
func (c *command) inTerminal(ctx context.Context, t *engine.Task, p *process) (*result, error) {
	host := t.Host()
	if p.stdin != nil {
		return nil, engine.ErrNoTerminal
	}
	dir, err := filepath.Abs(p.cwd)
	if err != nil {
		return nil, engine.ErrNoTerminal
	}
	env := map[string]string{}
	for _, e := range p.env {
		name, v, _ := strings.Cut(e, "=")
		env[name] = v
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	if p.timeout > 0 {
		fired, stop := p.clock.After(p.timeout)
		defer stop()
		watch.Go(func() {
			select {
			case <-fired:
				cancel(errTimeout)
			case <-ctx.Done():
			}
		})
	}
	r := &result{stdout: newCapture(p.maxOutput), stderr: newCapture(p.maxOutput)}
	out, err := host.Terminal(ctx, t, engine.Command{Args: p.argv, Dir: dir, Env: env, Limit: p.maxOutput})
	switch {
	case errors.Is(err, engine.ErrNoTerminal):
		return nil, engine.ErrNoTerminal
	case errors.Is(context.Cause(ctx), errTimeout):
		r.timedOut = true
		return r, nil
	case err != nil && ctx.Err() == nil && c.inDoubtToo:
		// The connection to the terminal broke while the command ran.
		return nil, fmt.Errorf("%w; %w", err, engine.ErrInDoubt)
	case err != nil:
		return nil, err
	}
	r.stdout.add([]byte(out.Output))
	r.exitCode, r.signal, r.cut = out.ExitCode, out.Signal, out.Truncated
	return r, nil
}
