package failpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

func parseAction(name, action string) (*point, error) {
	p := &point{nth: 1}
	verb := strings.TrimSpace(action)
	// Only in front of the file of a pause, which may have a star in its name.
	head, file, hasFile := strings.Cut(verb, ":")
	if count, rest, found := strings.Cut(head, "*"); found {
		count, p.onward = strings.CutSuffix(count, "+")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("fail point %s: %q: the number in front of * must be 1 or more", name, action)
		}
		p.nth, head = n, rest
	}
	switch {
	case head == "pause" && hasFile && file != "":
		p.act = func(int) error { return pause(name, file) }
	case hasFile || head == "pause":
		return nil, fmt.Errorf("fail point %s: %q: pause, and only pause, is followed by :FILE", name, action)
	case head == "kill":
		p.act = func(int) error { return kill() }
	case head == "error":
		p.act = func(int) error { return injected(name) }
	case head == "panic":
		p.act = func(int) error { panic(fmt.Sprintf("fail point %s: panic", name)) }
	default:
		return nil, fmt.Errorf("fail point %s: %q is none of kill, error, panic, pause:FILE, with N* or N+* in front", name, action)
	}
	return p, nil
}

// pause creates the file, which tells the test that the program is here, and
// waits until the test removes it. It looks rather than being told because the
// test is another process, on every system that Go has.
func pause(name, file string) error {
	// O_EXCL: two that pause at one file would both go on when it is removed,
	// and the test would believe that it held each of them.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("fail point %s: cannot pause: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("fail point %s: cannot pause: %w", name, err)
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for range look.C {
		// Other errors are passed over: on Windows a file that is just being
		// removed cannot be looked at.
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return nil
}
