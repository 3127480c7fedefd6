package acp

import "encoding/json"

// ElicitationForm are the params of elicitation/create in form mode.
type ElicitationForm struct {
	SessionID       string
	ToolCallID      string // optional
	Message         string
	RequestedSchema ElicitationSchema
	Meta            Meta
}

// MarshalJSON implements json.Marshaler.
func (f ElicitationForm) MarshalJSON() ([]byte, error) {
	return tagged("mode", "form", struct {
		SessionID       string            `json:"sessionId"`
		ToolCallID      string            `json:"toolCallId,omitempty"`
		Message         string            `json:"message"`
		RequestedSchema ElicitationSchema `json:"requestedSchema"`
		Meta            Meta              `json:"_meta,omitempty"`
	}{f.SessionID, f.ToolCallID, f.Message, f.RequestedSchema, f.Meta})
}

// ElicitationURL are the params of elicitation/create in url mode. The id is
// unique among the open ones; accept means that the user opened the page, and
// elicitation/complete says later that it is done.
type ElicitationURL struct {
	SessionID     string
	ToolCallID    string // optional
	Message       string
	ElicitationID string
	URL           string
	Meta          Meta
}

// MarshalJSON implements json.Marshaler.
func (u ElicitationURL) MarshalJSON() ([]byte, error) {
	return tagged("mode", "url", struct {
		SessionID     string `json:"sessionId"`
		ToolCallID    string `json:"toolCallId,omitempty"`
		Message       string `json:"message"`
		ElicitationID string `json:"elicitationId"`
		URL           string `json:"url"`
		Meta          Meta   `json:"_meta,omitempty"`
	}{u.SessionID, u.ToolCallID, u.Message, u.ElicitationID, u.URL, u.Meta})
}

// ElicitationComplete are the params of elicitation/complete.
type ElicitationComplete struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitempty"`
}

// ElicitationSchema describes a flat form.
type ElicitationSchema struct {
	Title       string
	Description string
	Properties  map[string]ElicitationProperty
	Required    []string
}

// MarshalJSON implements json.Marshaler.
func (s ElicitationSchema) MarshalJSON() ([]byte, error) {
	if s.Properties == nil {
		s.Properties = map[string]ElicitationProperty{}
	}
	return tagged("type", "object", struct {
		Title       string                         `json:"title,omitempty"`
		Description string                         `json:"description,omitempty"`
		Properties  map[string]ElicitationProperty `json:"properties"`
		Required    []string                       `json:"required,omitempty"`
	}{s.Title, s.Description, s.Properties, s.Required})
}

// ElicitationProperty is one field of a form. Type is string, number, integer,
// boolean or array, and says which of the others may be set.
type ElicitationProperty struct {
	Type        string          `json:"type"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`

	MinLength *uint32      `json:"minLength,omitempty"` // string
	MaxLength *uint32      `json:"maxLength,omitempty"` // string
	Pattern   string       `json:"pattern,omitempty"`   // string
	Format    string       `json:"format,omitempty"`    // string: email, uri, date, date-time
	Enum      []string     `json:"enum,omitempty"`      // string: the choices
	OneOf     []EnumOption `json:"oneOf,omitempty"`     // string: choices with titles

	Minimum json.RawMessage `json:"minimum,omitempty"` // number, integer
	Maximum json.RawMessage `json:"maximum,omitempty"` // number, integer

	Items    *ElicitationItems `json:"items,omitempty"`    // array: the choices
	MinItems *uint64           `json:"minItems,omitempty"` // array
	MaxItems *uint64           `json:"maxItems,omitempty"` // array
}

// EnumOption is a choice with a title.
type EnumOption struct {
	Const       string `json:"const"`
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
}

// ElicitationItems are the choices of an array: either Enum or AnyOf.
type ElicitationItems struct {
	Enum  []string
	AnyOf []EnumOption
}

// MarshalJSON implements json.Marshaler.
func (i ElicitationItems) MarshalJSON() ([]byte, error) {
	if i.AnyOf != nil {
		return json.Marshal(struct {
			AnyOf []EnumOption `json:"anyOf"`
		}{i.AnyOf})
	}
	return tagged("type", "string", struct {
		Enum List[string] `json:"enum"`
	}{i.Enum})
}

// Actions of a user. An unknown one is no consent.
const (
	ElicitationAccept  = "accept"
	ElicitationDecline = "decline"
	ElicitationCancel  = "cancel"
)

// ElicitationResponse is the result of elicitation/create. Content is what the
// user typed, not checked against the schema, and may be nil after accept.
type ElicitationResponse struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitempty"`
	Meta    Meta                       `json:"_meta,omitempty"`
}

// ParseElicitationResponse reads the result of elicitation/create.
func ParseElicitationResponse(result json.RawMessage) (ElicitationResponse, error) {
	return parseWhole(result, "result", func(text json.RawMessage, path string) (v ElicitationResponse, err error) {
		o, err := parseObject(text, path)
		if err != nil {
			return v, err
		}
		v.Action = required(o, "action", asString)
		if v.Action == ElicitationAccept {
			v.Content = strict(o, "content", parseElicitationContent)
		}
		v.Meta = optional(o, "_meta", asMeta)
		return v, o.err
	})
}

// parseElicitationContent allows strings, numbers, booleans and arrays of strings.
func parseElicitationContent(text json.RawMessage, path string) (map[string]json.RawMessage, error) {
	o, err := parseObject(text, path)
	if err != nil {
		return nil, err
	}
	for name, value := range o.members {
		field := path + "." + shorten(name)
		switch value[0] {
		case '[':
			if _, err := listOf(asString, false)(value, field); err != nil {
				return nil, err
			}
		case '{', 'n':
			return nil, InvalidParams(field, "must be a string, a number, a boolean or an array of strings, not "+typeOf(value))
		}
	}
	return o.members, nil
}
