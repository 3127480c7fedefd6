package nodes

import (
	"errors"
	"os"
	"syscall"
)

func exitOf(state *os.ProcessState) (code int, signal string) { return state.ExitCode(), "" }

func tooLong(err error) bool { return errors.Is(err, syscall.Errno(206)) }
