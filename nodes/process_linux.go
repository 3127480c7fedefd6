package nodes

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// noteOf describes a process so that nobody takes a later one with the same
// number for it.
func noteOf(pid int) map[string]any {
	note := map[string]any{"pid": int64(pid)}
	if s, ok := readStat(pid); ok {
		note["start"] = s.start
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		note["boot"] = strings.TrimSpace(string(boot))
	}
	return note
}

// lives gives the command's process if it still lives, or one of its group.
func lives(note any) int {
	n, _ := note.(map[string]any)
	pid64, _ := n["pid"].(int64)
	start, _ := n["start"].(string)
	if pid64 <= 0 || start == "" {
		return 0
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err != nil || strings.TrimSpace(string(boot)) != n["boot"] {
		return 0
	}
	pid := int(pid64)
	if s, ok := readStat(pid); ok {
		if s.start != start {
			return 0 // another process by now, so the group is another one too
		}
		if s.state != 'Z' {
			return pid
		}
	}
	// The command is gone, but a number is not given to a new process while it
	// is that of a group: who is in it belongs to the command.
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		other, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(other); ok && s.group == pid && s.state != 'Z' {
			return other
		}
	}
	return 0
}

type stat struct {
	state byte
	group int
	start string // in clock ticks since the boot
}

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// The name in parentheses may hold anything, also parentheses and spaces.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, false
	}
	group, err := strconv.Atoi(fields[2])
	return stat{state: fields[0][0], group: group, start: fields[19]}, err == nil
}
