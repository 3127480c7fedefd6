package migrations

import (
	"errors"
	"testing"
	"testing/fstest"
)

func TestAFileIsOursOrNewOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		application, version int
		tables               bool
		want                 error
	}{
		{0, 0, false, nil}, {ApplicationID, 1, true, nil}, {ApplicationID, Latest(), true, nil},
		{0, 0, true, ErrForeign}, {0, 1, false, ErrForeign}, {1, 1, true, ErrForeign}, {ApplicationID, 0, true, ErrForeign},
		{ApplicationID, -1, true, ErrForeign}, {ApplicationID, Latest() + 1, true, ErrNewer},
	} {
		if err := Refuse(c.application, c.version, c.tables); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestAGapInTheNumbersIsAMistakeOfTheBuild(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it was accepted")
		}
	}()
	mustRead(fstest.MapFS{"0001_a.sql": {Data: []byte("-- a")}, "0003_c.sql": {Data: []byte("-- c")}})
}
