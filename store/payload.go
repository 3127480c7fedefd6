package store

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// appendPayload appends the canonical JSON of a payload: keys sorted, absent
// where empty. Operations, which every step has, are written by hand; what
// comes once in a turn goes through its JSON tags.
//
// Values must be normalized, as everything is that the engine writes. One that
// is not is an error of the whole commit, and not a guess in the log.
func appendPayload(dst []byte, p *engine.Payload) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%w: payload: %v", engine.ErrInvalid, r)
		}
	}()
	w := objectWriter{buf: append(dst, '{')}
	if p.Answer != nil {
		w.other("answer", p.Answer)
	}
	if len(p.Arrivals) > 0 {
		w.lists("arrivals", p.Arrivals)
	}
	if p.End != nil {
		w.other("end", p.End)
	}
	if p.From != "" {
		w.key("from")
		w.buf = value.Append(w.buf, p.From)
	}
	if p.Input != nil {
		w.other("input", p.Input)
	}
	if p.Interrupt != nil {
		w.other("interrupt", p.Interrupt)
	}
	if len(p.Notes) > 0 {
		w.other("notes", p.Notes)
	}
	if len(p.Ops) > 0 {
		w.ops(p.Ops)
	}
	if p.Question != nil {
		w.other("question", p.Question)
	}
	if len(p.Routes) > 0 {
		w.lists("routes", p.Routes)
	}
	if p.State != nil {
		w.key("state")
		w.buf = value.Append(w.buf, p.State)
	}
	if w.err != nil {
		return nil, fmt.Errorf("%w: payload: %w", engine.ErrInvalid, w.err)
	}
	return append(w.buf, '}'), nil
}

type objectWriter struct {
	buf   []byte
	begun bool
	err   error
}

func (w *objectWriter) key(name string) {
	if w.begun {
		w.buf = append(w.buf, ',')
	}
	w.begun = true
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

func (w *objectWriter) other(name string, v any) {
	b, err := value.Marshal(v)
	if err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
		return
	}
	w.key(name)
	w.buf = append(w.buf, b...)
}

func (w *objectWriter) lists(name string, m map[string][]string) {
	w.other(name, m)
}

func (w *objectWriter) ops(ops []engine.Op) {
	w.key("ops")
	for i, op := range ops {
		if i == 0 {
			w.buf = append(w.buf, '[')
		} else {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(w.buf, `{"channel":`...)
		w.buf = value.Append(w.buf, op.Channel)
		if op.Keep != 0 {
			w.buf = append(w.buf, `,"keep":`...)
			w.buf = value.Append(w.buf, int64(op.Keep))
		}
		w.buf = append(w.buf, `,"op":`...)
		w.buf = value.Append(w.buf, string(op.Op))
		if op.Task != "" {
			w.buf = append(w.buf, `,"task":`...)
			w.buf = value.Append(w.buf, op.Task)
		}
		w.buf = append(w.buf, `,"value":`...)
		w.buf = value.Append(w.buf, op.Value)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, ']')
}

// decodePayload reads what appendPayload wrote. Unknown names are passed over:
// an older program reads what a newer one of the same file version wrote.
func decodePayload(data []byte) (engine.Payload, error) {
	var p engine.Payload
	v, err := value.Decode(data)
	if err != nil {
		return p, fmt.Errorf("payload: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return p, fmt.Errorf("payload is no JSON object, but a %s", value.Kind(v))
	}
	for name, v := range object {
		if err := setField(&p, name, v); err != nil {
			return p, fmt.Errorf("payload: %s: %w", name, err)
		}
	}
	return p, nil
}

func setField(p *engine.Payload, name string, v any) error {
	switch name {
	case "ops":
		return setOps(p, v)
	case "state":
		state, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("no object, but a %s", value.Kind(v))
		}
		p.State = state
		return nil
	case "from":
		p.From, _ = v.(string)
		return nil
	case "notes":
		return into(v, &p.Notes)
	case "routes":
		return into(v, &p.Routes)
	case "arrivals":
		return into(v, &p.Arrivals)
	case "end":
		p.End = new(engine.EndRecord)
		return into(v, p.End)
	}
	// What follows holds values of any shape. encoding/json would make every
	// number in them a float64, so they are put back as value.Decode read them.
	object, _ := v.(map[string]any)
	switch name {
	case "input":
		p.Input = new(engine.InputRecord)
		if err := into(v, p.Input); err != nil {
			return err
		}
		if values, ok := object["values"].(map[string]any); ok {
			p.Input.Values = values
		}
	case "interrupt":
		p.Interrupt = new(engine.InterruptRecord)
		if err := into(v, p.Interrupt); err != nil {
			return err
		}
		p.Interrupt.Data = object["data"]
	case "question":
		q, err := decodeQuestion(v)
		if err != nil {
			return err
		}
		p.Question = q
	case "answer":
		a, err := decodeAnswer(v)
		if err != nil {
			return err
		}
		p.Answer = a
	}
	return nil
}

func decodeQuestion(v any) (*interrupt.Question, error) {
	q := new(interrupt.Question)
	if err := into(v, q); err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	q.Shows = object["shows"]
	if doubt, ok := object["doubt"].(map[string]any); ok && q.Doubt != nil {
		q.Doubt.Effect = doubt["effect"]
	}
	return q, nil
}

func decodeAnswer(v any) (*interrupt.Answer, error) {
	a := new(interrupt.Answer)
	if err := into(v, a); err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	a.Value = object["value"]
	return a, nil
}

func into(v any, target any) error {
	return json.Unmarshal(value.Append(nil, v), target)
}

func setOps(p *engine.Payload, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("no list, but a %s", value.Kind(v))
	}
	p.Ops = make([]engine.Op, len(list))
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("item %d is no object, but a %s", i, value.Kind(item))
		}
		op := &p.Ops[i]
		op.Channel, _ = object["channel"].(string)
		op.Task, _ = object["task"].(string)
		kind, _ := object["op"].(string)
		op.Op = engine.OpKind(kind)
		op.Value = object["value"]
		keep, _ := object["keep"].(int64)
		op.Keep = int(keep)
	}
	return nil
}
