package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// payloadFields are the fields of a payload in the order of their JSON names,
// as canonical JSON has them.
var payloadFields = func() []payloadField {
	var out []payloadField
	for i, t := 0, reflect.TypeFor[engine.Payload](); i < t.NumField(); i++ {
		if name, ok := jsonName(t.Field(i)); ok {
			out = append(out, payloadField{name: name, key: `"` + name + `":`, index: i})
		}
	}
	slices.SortFunc(out, func(a, b payloadField) int { return strings.Compare(a.name, b.name) })
	return out
}()

type payloadField struct {
	name, key string
	index     int
}

func jsonName(f reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, f.IsExported() && name != "-" && name != ""
}

// appendPayload appends the canonical JSON of a payload: keys sorted, absent
// where zero. Operations, which every step has, are written by hand.
//
// Values must be normalized, as everything is that the engine writes. One that
// is not is an error of the whole commit, and not a guess in the log.
func appendPayload(dst []byte, p *engine.Payload) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%w: payload: %v", engine.ErrInvalid, r)
		}
	}()
	dst = append(dst, '{')
	begun := false
	fields := reflect.ValueOf(p).Elem()
	for i := range payloadFields {
		f := &payloadFields[i]
		v := fields.Field(f.index)
		if v.IsZero() {
			continue
		}
		if begun {
			dst = append(dst, ',')
		}
		begun = true
		dst = append(dst, f.key...)
		switch v := v.Interface().(type) {
		case []engine.Op:
			dst = appendOps(dst, v)
		case map[string]any:
			dst = value.Append(dst, v)
		case string:
			dst = value.Append(dst, v)
		default:
			text, err := value.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("%w: payload: %s: %w", engine.ErrInvalid, f.name, err)
			}
			dst = append(dst, text...)
		}
	}
	return append(dst, '}'), nil
}

func appendOps(dst []byte, ops []engine.Op) []byte {
	dst = append(dst, '[')
	for i, op := range ops {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"channel":`...)
		dst = value.Append(dst, op.Channel)
		if op.Keep != 0 {
			dst = append(dst, `,"keep":`...)
			dst = value.Append(dst, int64(op.Keep))
		}
		dst = append(dst, `,"op":`...)
		dst = value.Append(dst, string(op.Op))
		if len(op.Raw) > 0 {
			dst = append(dst, `,"raw":`...)
			dst = value.Append(dst, op.Raw)
		}
		if op.Task != "" {
			dst = append(dst, `,"task":`...)
			dst = value.Append(dst, op.Task)
		}
		dst = append(dst, `,"value":`...)
		dst = value.Append(dst, op.Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
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
	fields := reflect.ValueOf(&p).Elem()
	for i := range payloadFields {
		f := &payloadFields[i]
		v, ok := object[f.name]
		if !ok {
			continue
		}
		if f.name == "ops" {
			err = setOps(&p, v) // every step has some, and a fold reads many
		} else {
			err = assign(fields.Field(f.index), v)
		}
		if err != nil {
			return p, fmt.Errorf("payload: %s: %w", f.name, err)
		}
	}
	return p, nil
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
		op.Raw, _ = object["raw"].([]any)
		keep, _ := object["keep"].(int64)
		op.Keep = int(keep)
	}
	return nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// assign puts a decoded value into a field. It is encoding/json but for one
// thing: where the field may hold any value, it gets the value as it was
// decoded, an integer as an int64. encoding/json would make it a float64.
func assign(to reflect.Value, v any) error {
	mismatch := func() error { return fmt.Errorf("a %s cannot be a %s", value.Kind(v), to.Type()) }
	if v == nil {
		to.SetZero()
		return nil
	}
	if to.Kind() == reflect.Interface {
		to.Set(reflect.ValueOf(v))
		return nil
	}
	if reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return json.Unmarshal(value.Append(nil, v), to.Addr().Interface())
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Elem(), v)
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			return mismatch()
		}
		for i, t := 0, to.Type(); i < t.NumField(); i++ {
			name, ok := jsonName(t.Field(i))
			if !ok {
				continue
			}
			if v, ok := object[name]; ok {
				if err := assign(to.Field(i), v); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return mismatch()
		}
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
		for i, item := range list {
			if err := assign(to.Index(i), item); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case reflect.Map:
		object, ok := v.(map[string]any)
		if !ok || to.Type().Key().Kind() != reflect.String {
			return mismatch()
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), len(object)))
		for key, item := range object {
			element := reflect.New(to.Type().Elem()).Elem()
			if err := assign(element, item); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			to.SetMapIndex(reflect.ValueOf(key).Convert(to.Type().Key()), element)
		}
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return mismatch()
		}
		to.SetString(s)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return mismatch()
		}
		to.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, ok := v.(int64)
		if !ok {
			return mismatch()
		}
		to.SetInt(n)
	case reflect.Float64:
		switch n := v.(type) {
		case float64:
			to.SetFloat(n)
		case int64:
			to.SetFloat(float64(n))
		default:
			return mismatch()
		}
	default:
		return mismatch()
	}
	return nil
}

func decodeQuestion(v any) (*interrupt.Question, error) {
	q := new(interrupt.Question)
	return q, assign(reflect.ValueOf(q).Elem(), v)
}
