package acp

import "encoding/json"

// ReadTextFileRequest are the params of fs/read_text_file. Line counts from 1; 0
// and a limit of 0 are absent.
type ReadTextFileRequest struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Line      uint32 `json:"line,omitempty"`
	Limit     uint32 `json:"limit,omitempty"`
	Meta      Meta   `json:"_meta,omitempty"`
}

// ReadTextFileResponse is a file as the editor has it, with what is not saved yet.
type ReadTextFileResponse struct {
	Content string `json:"content"`
}

// WriteTextFileRequest are the params of fs/write_text_file. Its result is empty.
type WriteTextFileRequest struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Content   string `json:"content"`
	Meta      Meta   `json:"_meta,omitempty"`
}

// CreateTerminalRequest are the params of terminal/create.
type CreateTerminalRequest struct {
	SessionID       string     `json:"sessionId"`
	Command         string     `json:"command"`
	Args            []string   `json:"args,omitempty"`
	Env             []Variable `json:"env,omitempty"`
	CWD             string     `json:"cwd,omitempty"`
	OutputByteLimit *uint64    `json:"outputByteLimit,omitempty"`
	Meta            Meta       `json:"_meta,omitempty"`
}

// CreateTerminalResponse names the terminal. Every terminal must be released.
type CreateTerminalResponse struct {
	TerminalID string `json:"terminalId"`
}

// TerminalRequest are the params of terminal/output, wait_for_exit, kill and
// release. The results of the last two are empty.
type TerminalRequest struct {
	SessionID  string `json:"sessionId"`
	TerminalID string `json:"terminalId"`
	Meta       Meta   `json:"_meta,omitempty"`
}

// TerminalOutputResponse is what a terminal has shown; ExitStatus is nil while the
// command runs.
type TerminalOutputResponse struct {
	Output     string              `json:"output"`
	Truncated  bool                `json:"truncated"`
	ExitStatus *TerminalExitStatus `json:"exitStatus,omitempty"`
}

// TerminalExitStatus is how a command ended: with a code, or by a signal. Both
// may be unknown. It is also the result of terminal/wait_for_exit.
type TerminalExitStatus struct {
	ExitCode *uint32 `json:"exitCode,omitempty"`
	Signal   string  `json:"signal,omitempty"`
}

// ParseReadTextFile reads the result of fs/read_text_file.
func ParseReadTextFile(result json.RawMessage) (ReadTextFileResponse, error) {
	return parseWhole(result, "result", func(text json.RawMessage, path string) (v ReadTextFileResponse, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Content = required(o, "content", asString)
		return v, o.err
	})
}

// ParseCreateTerminal reads the result of terminal/create.
func ParseCreateTerminal(result json.RawMessage) (CreateTerminalResponse, error) {
	return parseWhole(result, "result", func(text json.RawMessage, path string) (v CreateTerminalResponse, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.TerminalID = required(o, "terminalId", asString)
		return v, o.err
	})
}

// ParseTerminalOutput reads the result of terminal/output.
func ParseTerminalOutput(result json.RawMessage) (TerminalOutputResponse, error) {
	return parseWhole(result, "result", func(text json.RawMessage, path string) (v TerminalOutputResponse, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Output = required(o, "output", asString)
		v.Truncated = required(o, "truncated", asBool)
		v.ExitStatus = optional(o, "exitStatus", pointer(parseExitStatus))
		return v, o.err
	})
}

// ParseTerminalExit reads the result of terminal/wait_for_exit.
func ParseTerminalExit(result json.RawMessage) (TerminalExitStatus, error) {
	return parseWhole(result, "result", parseExitStatus)
}

func parseExitStatus(text json.RawMessage, path string) (v TerminalExitStatus, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.ExitCode = optional(o, "exitCode", pointer(asUint32))
	v.Signal = optional(o, "signal", asString)
	return v, nil
}
