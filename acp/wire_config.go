package acp

import (
	"encoding/json"
	"fmt"
)

// ModeState is the modes of a session and which one it is in.
type ModeState struct {
	CurrentModeID  string     `json:"currentModeId"`
	AvailableModes List[Mode] `json:"availableModes"`
	Meta           Meta       `json:"_meta,omitempty"`
}

// Mode is a way for the agent to work.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Meta        Meta   `json:"_meta,omitempty"`
}

// Types of config options.
const (
	ConfigSelect  = "select"
	ConfigBoolean = "boolean"
)

// ConfigOption is a setting of a session with its current value. A boolean one is
// only for clients that have Session.ConfigOptions.Boolean.
type ConfigOption struct {
	Type        string // ConfigSelect or ConfigBoolean
	ID          string
	Name        string
	Description string
	Category    string // mode, model, model_config, thought_level, or _something

	Value   string         // select: the current one of Options or Groups
	Options []ConfigChoice // select
	Groups  []ConfigGroup  // select: instead of Options

	On bool // boolean

	Meta Meta
}

// ConfigChoice is a value that can be chosen.
type ConfigChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Meta        Meta   `json:"_meta,omitempty"`
}

// ConfigGroup is choices under a heading.
type ConfigGroup struct {
	Group   string             `json:"group"`
	Name    string             `json:"name"`
	Options List[ConfigChoice] `json:"options"`
	Meta    Meta               `json:"_meta,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (c ConfigOption) MarshalJSON() ([]byte, error) {
	type wire struct {
		ID           string `json:"id"`
		Name         string `json:"name"`
		Description  string `json:"description,omitempty"`
		Category     string `json:"category,omitempty"`
		CurrentValue any    `json:"currentValue"`
		Options      any    `json:"options,omitempty"`
		Meta         Meta   `json:"_meta,omitempty"`
	}
	w := wire{c.ID, c.Name, c.Description, c.Category, c.Value, nil, c.Meta}
	switch c.Type {
	case ConfigBoolean:
		w.CurrentValue = c.On
	case ConfigSelect:
		w.Options = List[ConfigChoice](c.Options)
		if c.Groups != nil {
			w.Options = c.Groups
		}
	default:
		return nil, fmt.Errorf("config option %q of unknown type %q", c.ID, c.Type)
	}
	return tagged("type", c.Type, w)
}

// SetModeRequest are the params of session/set_mode. Its result is empty.
type SetModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
	Meta      Meta   `json:"_meta,omitempty"`
}

// SetConfigOptionRequest are the params of session/set_config_option: Value for a
// select, On for a boolean, the other is its zero value.
type SetConfigOptionRequest struct {
	SessionID string
	ConfigID  string
	Value     string
	On        *bool
	Meta      Meta
}

// MarshalJSON implements json.Marshaler.
func (r SetConfigOptionRequest) MarshalJSON() ([]byte, error) {
	w := struct {
		SessionID string `json:"sessionId"`
		ConfigID  string `json:"configId"`
		Type      string `json:"type,omitempty"`
		Value     any    `json:"value"`
		Meta      Meta   `json:"_meta,omitempty"`
	}{r.SessionID, r.ConfigID, "", r.Value, r.Meta}
	if r.On != nil {
		w.Type, w.Value = ConfigBoolean, *r.On
	}
	return json.Marshal(w)
}

// SetConfigOptionResponse is the whole list of options with the new value.
type SetConfigOptionResponse struct {
	ConfigOptions List[ConfigOption] `json:"configOptions"`
	Meta          Meta               `json:"_meta,omitempty"`
}

// ParseSetMode reads the params of session/set_mode.
func ParseSetMode(params json.RawMessage) (SetModeRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v SetModeRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.SessionID = required(o, "sessionId", asString)
		v.ModeID = required(o, "modeId", asString)
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// ParseSetConfigOption reads the params of session/set_config_option.
func ParseSetConfigOption(params json.RawMessage) (SetConfigOptionRequest, error) {
	return parseWhole(params, "params", func(text json.RawMessage, path string) (v SetConfigOptionRequest, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.SessionID = required(o, "sessionId", asString)
		v.ConfigID = required(o, "configId", asString)
		if value := required(o, "value", asRaw); o.err == nil {
			if isString(value) {
				v.Value = required(o, "value", asString)
			} else if v.On = required(o, "value", pointer(asBool)); optional(o, "type", asString) != ConfigBoolean && o.err == nil {
				o.err = InvalidParams(path+".type", `must be "boolean" where the value is true or false`)
			}
		}
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}
