package acp

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesAreFoundHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	request := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m"}`, id) }
	long := fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"m","params":{"x":%q}}`, strings.Repeat("y", 200_000))
	for _, test := range []struct {
		name  string
		input string
		ids   []string
	}{
		{"line feeds", request(1) + "\n" + request(2) + "\n", []string{"1", "2"}},
		{"carriage returns", request(1) + "\r\n" + request(2) + "\r\n", []string{"1", "2"}},
		{"blank lines", "\n\r\n  \t\n" + request(1) + "\n\n\n" + request(2) + "\n\n", []string{"1", "2"}},
		{"no end at the end", request(1) + "\n" + request(2), []string{"1", "2"}},
		{"a byte order mark", "\ufeff" + request(1) + "\n", []string{"1"}},
		{"longer than the buffer", request(1) + "\n" + long + "\r\n" + request(2) + "\n", []string{"1", "3", "2"}},
		{"nothing", "", nil},
		{"only blank", "\n\n", nil},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"whole":           func(r io.Reader) io.Reader { return r },
			"byte by byte":    iotest.OneByteReader,
			"in halves":       iotest.HalfReader,
			"error with data": iotest.DataErrReader,
		} {
			t.Run(test.name+", "+name, func(t *testing.T) {
				t.Parallel()
				var want []string
				for _, id := range test.ids {
					want = append(want, done(id, "m"))
				}
				if got := exchange(t, reader(strings.NewReader(test.input)), handlerFuncs{}, Options{}); !slices.Equal(got, want) {
					t.Errorf("answers %q, want %q", got, want)
				}
			})
		}
	}
}

func TestALineThatIsTooLongIsSkippedAndAnswered(t *testing.T) {
	t.Parallel()
	const max = 100_000
	// line gives a request of exactly n bytes.
	line := func(id, n int) string {
		start := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m","params":{"x":"`, id)
		return start + strings.Repeat("y", n-len(start)-len(`"}}`)) + `"}}`
	}
	for _, test := range []struct {
		name string
		line string
		want string
	}{
		{"as long as allowed", line(5, max), done("5", "m")},
		{"as long as allowed, with a carriage return", line(5, max) + "\r", done("5", "m")},
		{"a byte more", line(5, max+1), failure("null", -32600)},
		{"two bytes more", line(5, max+2), failure("null", -32600)},
		{"three bytes more", line(5, max+3), failure("null", -32600)},
		{"a multiple of the buffer", line(5, 2*65536), failure("null", -32600)},
		{"very much more", strings.Repeat("x", 20*max), failure("null", -32600)},
	} {
		for _, end := range []string{"\n", ""} {
			t.Run(fmt.Sprintf("%s, end %q", test.name, end), func(t *testing.T) {
				t.Parallel()
				input, want := test.line+end, []string{test.want}
				if end != "" {
					input, want = input+line(6, 100)+end, append(want, done("6", "m"))
				}
				got := exchange(t, strings.NewReader(input), handlerFuncs{}, Options{MaxLine: max})
				for i := range got {
					got[i] = blank(got[i])
				}
				if !slices.Equal(got, want) {
					t.Errorf("answers %q, want %q", got, want)
				}
			})
		}
	}
}

// endless gives a line of n bytes without having it anywhere.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left) // what is in p does not matter, unless it is a line feed
	clear(p[:n])
	e.left -= n
	return n, nil
}

func TestALineThatIsTooLongIsNotKept(t *testing.T) {
	// Not parallel: it counts what the whole process allocates.
	reader := newLineReader(&endless{left: 64 << 20}, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := reader.next()
	runtime.ReadMemStats(&after)
	if err != errLineTooLong {
		t.Fatalf("error %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes allocated for a line that was to be skipped after 1 MiB", n)
	}
}

func TestAnErrorWhileReadingEndsTheConnection(t *testing.T) {
	t.Parallel()
	p := connect(t, handlerFuncs{}, Options{})
	if err := p.in.CloseWithError(io.ErrUnexpectedEOF); err != nil {
		t.Fatal(err)
	}
	<-p.conn.Done()
	if err := p.conn.Err(); err != io.ErrUnexpectedEOF {
		t.Errorf("Err is %v", err)
	}
}

func TestTheBeginningOfALongAnswerSaysWhatItAnswers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]uint64{
		`{"jsonrpc":"2.0","id":7,"result":{"content":"xxxx`:       7,
		`{"id":7,"jsonrpc":"2.0","error":{"message":"xxx`:         7,
		` { "id" : 7 , "result" : "`:                              7,
		`{"jsonrpc":"2.0","id":7,"method":"x","params":"xxx`:      0,
		`{"jsonrpc":"2.0","id":"7","result":"xxx`:                 0,
		`{"jsonrpc":"2.0","result":{"content":"xx`:                0,
		`{"jsonrpc":"2.0","id":7`:                                 0,
		`{"jsonrpc":"2.0","method":"x","params":{"id":7,"result"`: 0,
		`{"id":-7,"result":"`:                                     0, `[{"id":7,"result":"`: 0, `xxxxx`: 0, ``: 0,
	} {
		if got := answeredCall([]byte(line)); got != want {
			t.Errorf("%s answers %d, want %d", line, got, want)
		}
	}
}
