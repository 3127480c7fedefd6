//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strings"
)

// Enabled tells whether this build reads HOLDFAST_FAILPOINT.
const Enabled = true

func init() {
	parsed, err := parse(os.Getenv("HOLDFAST_FAILPOINT"))
	if err != nil {
		// A test with a typing mistake must not pass because nothing broke.
		fmt.Fprintf(os.Stderr, "HOLDFAST_FAILPOINT: %v\n", err)
		os.Exit(2)
	}
	if len(parsed) > 0 {
		add(parsed)
	}
}

// parse reads what HOLDFAST_FAILPOINT holds.
func parse(text string) (map[string][]*point, error) {
	parsed := make(map[string][]*point)
	for _, part := range strings.Split(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, action, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if !found || name == "" {
			return nil, fmt.Errorf("fail point %q: write name=action", part)
		}
		p, err := parseAction(name, action)
		if err != nil {
			return nil, err
		}
		parsed[name] = append(parsed[name], p)
	}
	return parsed, nil
}
