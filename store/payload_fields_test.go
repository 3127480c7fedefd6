package store

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
)

// TestEveryFieldOfAPayloadComesBack fills every field that there is, so that a
// new one cannot be forgotten by the encoding, which is written by hand.
func TestEveryFieldOfAPayloadComesBack(t *testing.T) {
	t.Parallel()
	var p engine.Payload
	fill(reflect.ValueOf(&p).Elem())
	raw, err := appendPayload(nil, &p)
	require.NoError(t, err)
	back, err := decodePayload(raw)
	require.NoError(t, err)
	back.Question.Payload = p.Question.Payload // its place and text are the row's and the interrupt record's
	require.Equal(t, p, back)
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMilli(1700000000123).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item)
		v.SetMapIndex(reflect.ValueOf("key"), item)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"big": int64(1)<<62 + 1, "float": 1.5, "list": []any{nil, "x"}}))
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Kind())
	}
}
