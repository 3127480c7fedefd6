package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// langGraph runs a work in Node; it measures itself, without the start of Node.
func langGraph(what string) func(context.Context, room) (float64, error) {
	return func(ctx context.Context, r room) (float64, error) {
		if _, err := exec.LookPath("node"); err != nil {
			return 0, errSkipped{"node is not installed"}
		}
		if _, err := os.Stat("langgraph/node_modules"); err != nil {
			return 0, errSkipped{"run npm ci in bench/langgraph first, as make bench does"}
		}
		cmd := exec.CommandContext(ctx, "node", "langgraph/bench.mjs", what, strconv.Itoa(r.n), r.file(), r.sync)
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			return 0, fmt.Errorf("%w: %s", err, problems.String())
		}
		var figure struct{ Value float64 }
		if err := json.Unmarshal(out, &figure); err != nil {
			return 0, fmt.Errorf("%s: %w", out, err)
		}
		return figure.Value, nil
	}
}
