package acpschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Checker checks the lines of one connection. It must see both directions, each in
// its order, because a result is checked by the request that it answers. It is not
// for several goroutines.
type Checker struct {
	schema *Schema
	agent  side
	client side
}

// side is one direction.
type side struct {
	name string
	open map[string][]string // requests of this side without an answer: id to methods
}

// NewChecker makes a checker for a new connection.
func (s *Schema) NewChecker() *Checker {
	return &Checker{
		schema: s,
		agent:  side{name: "agent", open: map[string][]string{}},
		client: side{name: "client", open: map[string][]string{}},
	}
}

// Agent checks a line that the agent wrote, strictly.
func (c *Checker) Agent(line []byte) error {
	if err := c.check(line, &c.agent, &c.client, true); err != nil {
		return fmt.Errorf("%w in the line of the agent: %s", err, shorten(line))
	}
	return nil
}

// Client checks a line that the client wrote. It may have members that the schema
// does not know.
func (c *Checker) Client(line []byte) error {
	if err := c.check(line, &c.client, &c.agent, false); err != nil {
		return fmt.Errorf("%w in the line of the client: %s", err, shorten(line))
	}
	return nil
}

// Sent only remembers the request of a client, so that its answer can be checked,
// whatever its params are. It is for tests that send what is wrong on purpose.
func (c *Checker) Sent(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &m) == nil && m.ID != nil && m.Method != "" {
		c.client.open[string(m.ID)] = append(c.client.open[string(m.ID)], m.Method)
	}
}

// Unanswered lists the ids of the client's requests that have no answer yet, with
// their methods.
func (c *Checker) Unanswered() map[string][]string { return c.client.open }

func (c *Checker) check(line []byte, from, to *side, strict bool) error {
	members := map[string]json.RawMessage{}
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&members); err != nil {
		return fmt.Errorf("not a JSON object (%w)", err)
	}
	if decoder.InputOffset() != int64(len(bytes.TrimRight(line, " \t\r\n"))) {
		return fmt.Errorf("more than one value")
	}
	if string(members["jsonrpc"]) != `"2.0"` {
		return fmt.Errorf(`no "jsonrpc":"2.0"`)
	}
	id, hasID := members["id"]
	for name := range members {
		if strict && !strings.Contains(" jsonrpc id method params result error ", " "+name+" ") {
			return fmt.Errorf("unknown member %q", name)
		}
	}
	if _, there := members["method"]; there {
		return c.checkRequest(members, id, hasID, from, strict)
	}
	return c.checkResponse(members, id, hasID, to, strict)
}

func (c *Checker) checkRequest(members map[string]json.RawMessage, id json.RawMessage, hasID bool, from *side, strict bool) error {
	var method string
	if err := json.Unmarshal(members["method"], &method); err != nil {
		return fmt.Errorf("method is no string")
	}
	if hasID {
		// null is legal but discouraged; an agent of ours never uses it.
		if strict && string(id) == "null" || id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f' {
			return fmt.Errorf("bad id %s", id)
		}
		from.open[string(id)] = append(from.open[string(id)], method)
	}
	if strings.HasPrefix(method, "_") {
		return nil // an extension
	}
	d := c.schema.methods[method]
	if d == nil {
		return fmt.Errorf("unknown method %q", method)
	}
	// The side of a method is the one that offers it, so the other one sends it.
	if d.side == from.name {
		return fmt.Errorf("%s is a method of the %s itself", method, from.name)
	}
	isNotification := d.result == nil
	if isNotification == hasID {
		return fmt.Errorf("%s with an id: %t", method, hasID)
	}
	params, there := members["params"]
	if !there {
		params = json.RawMessage("{}")
	}
	schema := d.openParams
	if strict {
		schema = d.params
	}
	return validate(schema, params, "params of "+method)
}

func (c *Checker) checkResponse(members map[string]json.RawMessage, id json.RawMessage, hasID bool, to *side, strict bool) error {
	result, hasResult := members["result"]
	failure, hasFailure := members["error"]
	switch {
	case !hasID:
		return fmt.Errorf("neither id nor method")
	case hasResult == hasFailure:
		return fmt.Errorf("a response has either result or error")
	}
	methods := to.open[string(id)]
	if len(methods) == 0 {
		if hasFailure && string(id) == "null" {
			return validate(c.schema.errors, failure, "error")
		}
		return fmt.Errorf("answer to %s, which is not open", id)
	}
	method := methods[0]
	if to.open[string(id)] = methods[1:]; len(methods) == 1 {
		delete(to.open, string(id))
	}
	if hasFailure {
		return validate(c.schema.errors, failure, "error for "+method)
	}
	d := c.schema.methods[method]
	if d == nil || d.result == nil {
		if strings.HasPrefix(method, "_") {
			return nil
		}
		return fmt.Errorf("result for %q, which has none", method)
	}
	schema := d.openResult
	if strict {
		schema = d.result
	}
	return validate(schema, result, "result of "+method)
}

func validate(schema *jsonschema.Schema, text json.RawMessage, what string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func shorten(line []byte) string {
	if len(line) > 2000 {
		return string(line[:2000]) + "..."
	}
	return string(line)
}
