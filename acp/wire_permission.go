package acp

import "encoding/json"

// PermissionKind tells a client how to show an option.
type PermissionKind string

// The kinds.
const (
	AllowOnce    PermissionKind = "allow_once"
	AllowAlways  PermissionKind = "allow_always"
	RejectOnce   PermissionKind = "reject_once"
	RejectAlways PermissionKind = "reject_always"
)

// PermissionOption is one button of the dialog.
type PermissionOption struct {
	OptionID string         `json:"optionId"`
	Name     string         `json:"name"`
	Kind     PermissionKind `json:"kind"`
	Meta     Meta           `json:"_meta,omitempty"`
}

// RequestPermissionRequest are the params of session/request_permission.
type RequestPermissionRequest struct {
	SessionID string                 `json:"sessionId"`
	ToolCall  ToolCallUpdate         `json:"toolCall"`
	Options   List[PermissionOption] `json:"options"`
	Meta      Meta                   `json:"_meta,omitempty"`
}

// PermissionOutcome is what the user chose. Selected says that it was an option;
// whether OptionID was offered is for the caller to check. Without Selected the
// dialog was cancelled, and that is no answer.
type PermissionOutcome struct {
	Selected bool
	OptionID string
	Meta     Meta
}

// MarshalJSON implements json.Marshaler: it is what a client sends.
func (o PermissionOutcome) MarshalJSON() ([]byte, error) {
	outcome := struct {
		Outcome  string  `json:"outcome"`
		OptionID *string `json:"optionId,omitempty"`
		Meta     Meta    `json:"_meta,omitempty"`
	}{"cancelled", nil, o.Meta}
	if o.Selected {
		outcome.Outcome, outcome.OptionID = "selected", &o.OptionID
	}
	return json.Marshal(map[string]any{"outcome": outcome})
}

// ParsePermissionOutcome reads the result of session/request_permission. What is
// not exactly an outcome is an error: it must not become an approval.
func ParsePermissionOutcome(result json.RawMessage) (PermissionOutcome, error) {
	return parseWhole(result, "result", func(text json.RawMessage, path string) (v PermissionOutcome, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v = required(o, "outcome", func(text json.RawMessage, path string) (v PermissionOutcome, err error) {
			o, err := parseObject(text, path)
			if err != nil {
				return v, err
			}
			v.Selected = required(o, "outcome", oneOf("selected", "cancelled")) == "selected"
			if v.Selected {
				v.OptionID = required(o, "optionId", asString)
			}
			v.Meta = optional(o, "_meta", asMeta)
			return v, o.err
		})
		return v, o.err
	})
}
