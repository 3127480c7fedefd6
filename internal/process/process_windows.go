package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Prepare makes the command one that SignalGroup ends, with what it started. It
// comes before Start.
func Prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	// cmd reads its line by rules of its own, which quoting for other programs
	// would break.
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(cmd.Args[0]), ".exe"))
	if name == "cmd" && len(cmd.Args) == 3 && strings.EqualFold(cmd.Args[1], "/c") {
		cmd.SysProcAttr.CmdLine = `cmd /s /c "` + cmd.Args[2] + `"`
	}
}

// SignalGroup ends the command and what it started. Windows has no signal that
// every program understands, so asking is ending.
func SignalGroup(pid int, _ bool) {
	if exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(pid)).Run() == nil {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
