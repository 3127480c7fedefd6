package nodes

import (
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// capture keeps the beginning and the end of a stream in bounded memory: the
// beginning says what ran, and errors are at the end.
type capture struct {
	limit int // bytes that are kept
	total int64
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring continues
}

func newCapture(limit int) *capture { return &capture{limit: limit} }

func (c *capture) headLimit() int { return c.limit / 4 }

func (c *capture) tailLimit() int { return c.limit - c.limit/4 }

func (c *capture) add(p []byte) {
	c.total += int64(len(p))
	if room := c.headLimit() - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if room := c.tailLimit() - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	if len(p) > len(c.tail) {
		p = p[len(p)-len(c.tail):]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		p = p[n:]
		c.next = (c.next + n) % len(c.tail)
	}
}

func (c *capture) truncated() bool { return c.total > int64(c.limit) }

// text is what was kept, at most limit bytes of it and a line that says how
// much is missing. It is cut between runes.
func (c *capture) text(limit int) string {
	tail := append(append([]byte(nil), c.tail[c.next:]...), c.tail[:c.next]...)
	if c.total <= int64(limit) && !c.truncated() {
		return string(c.head) + string(tail)
	}
	marker := func(n int64) string { return fmt.Sprintf("\n... %d bytes left out ...\n", n) }
	keep := max(limit-len(marker(c.total)), 0)
	all := append(append([]byte(nil), c.head...), tail...)
	head, tailKeep := min(keep/4, len(c.head)), keep-keep/4
	if !c.truncated() {
		head = keep / 4
	}
	begin := cutEnd(all[:head])
	end := cutStart(all[max(len(all)-tailKeep, head):])
	return string(begin) + marker(c.total-int64(len(begin)+len(end))) + string(end)
}

// cutEnd drops a rune that the cut left incomplete at the end.
func cutEnd(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// cutStart drops the rest of a rune at the beginning.
func cutStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// result is how a command ended.
type result struct {
	stdout, stderr *capture
	exitCode       int
	signal         string
	timedOut       bool
	cut            bool // somebody else left a part of the output out
}

// value is what is written to the channel. The command has run and cannot be
// unrun, so this must never be refused for its size: bytes that JSON writes
// longer are cut away instead.
func (r *result) value(limit int) any {
	out := map[string]any{"exit_code": int64(r.exitCode)}
	if r.signal != "" {
		out["signal"] = r.signal
	}
	for {
		out["stdout"], out["stderr"] = r.stdout.text(limit), r.stderr.text(limit)
		out["truncated"] = r.cut || r.stdout.total > int64(limit) || r.stderr.total > int64(limit)
		v, _, err := value.Normalize(out)
		if err != nil || value.Size(v) <= engine.MaxValue || limit < 64 {
			return v
		}
		limit -= limit / 4
	}
}
