package value_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/holdfast-agent/holdfast/internal/value"
)

func TestAppendAllocatesNothing(t *testing.T) {
	v, err := value.Decode(message)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buffer = value.Append(buffer[:0], v) }); n != 0 {
		t.Errorf("Append: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = value.Size(v) }); n != 0 {
		t.Errorf("Size: %v allocations, want 0", n)
	}
	if !bytes.Equal(buffer, message) {
		t.Errorf("got %s", buffer)
	}
}

// message is about 200 bytes, and canonical.
var message = []byte(`{"content":"The tests pass on this machine, and the build of the release is ready.\nShall I deploy it to production now?","id":"msg_01J8ZQ4","n":17,"role":"assistant","score":0.25,"tags":["a","b"]}`)

func BenchmarkNormalize(b *testing.B) {
	v, err := value.Decode(message)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := value.Normalize(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v, err := value.Decode(message)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	var buffer []byte
	for b.Loop() {
		buffer = value.Append(buffer[:0], v)
	}
}

func BenchmarkDecode(b *testing.B) {
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Decode(message); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeEncodingJSON is the yardstick of BenchmarkDecode.
func BenchmarkDecodeEncodingJSON(b *testing.B) {
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	for b.Loop() {
		var v any
		if err := json.Unmarshal(message, &v); err != nil {
			b.Fatal(err)
		}
	}
}
