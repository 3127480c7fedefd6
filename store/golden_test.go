package store

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/value"
	"github.com/holdfast-agent/holdfast/migrations"
)

var update = flag.Bool("update", false, "make the golden file of this version of the format anew")

// golden is what a golden file must give for good.
type golden struct {
	Report Report                     `json:"report"`
	Heads  []Head                     `json:"heads"`
	States map[string]json.RawMessage `json:"states"` // by THREAD@SEQ; null: the state was removed
	Open   []string                   `json:"open"`   // questions
}

func goldenPath(version int, ext string) string {
	return filepath.Join("testdata", "golden-"+strconv.Itoa(version)+ext)
}

// makeGolden writes a file with everything that this version can write.
func makeGolden(t *testing.T) {
	b := setup(t)
	everyKind(b)
	turns(b, "pruned", 1, 6)
	b.prune("pruned", Retention{Turns: 2})
	turns(b, "redacted", 1, 2)
	b.redact("redacted@2")
	turns(b, "gone", 1, 1)
	if err := b.s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	b.begin("values", set("v", map[string]any{"null": nil, "text": "é\x00", "n": int64(1<<53 + 1), "f": 0.5, "list": []any{}}))
	l := b.begin("snapshot")
	grow(b, l, 40)
	if err := l.Put(t.Context(), engine.Result{Task: "a", Kind: engine.ResultTask, Value: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Signal(t.Context(), "snapshot", engine.Signal{Name: "go", Value: int64(1)}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	copyAs(t, b.path, goldenPath(migrations.Latest(), ".db"), "")
	s, err := Look(t.Context(), b.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text, err := json.MarshalIndent(readGolden(t, s), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenPath(migrations.Latest(), ".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t *testing.T, s *Store) golden {
	t.Helper()
	g := golden{States: make(map[string]json.RawMessage)}
	report, err := s.Verify(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	g.Report = *report
	if g.Heads, err = s.Heads(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, head := range g.Heads {
		for seq := int64(1); seq <= head.Seq; seq++ {
			text := json.RawMessage("null")
			if state, err := s.State(t.Context(), head.Thread, seq); err == nil {
				// Of a large one its hash will do.
				if text = value.Append(nil, state); len(text) > 1000 {
					text, _ = json.Marshal(payloadHash(text))
				}
			} else {
				want(t, err, ErrRemoved)
			}
			g.States[engine.CheckpointID(head.Thread, seq)] = text
		}
	}
	items, err := s.Inbox(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		g.Open = append(g.Open, item.Question.ID())
	}
	return g
}

// TestFilesOfEveryVersionOpenFoldAndVerify keeps the promise that a later
// program reads what an earlier one wrote. A golden file is never changed once
// its version was released; a new version of the format adds one, with
//
//	go test ./store -run TestFilesOfEveryVersion -update
//
// Cases 29, 30 and 76 of the seeds.
func TestFilesOfEveryVersionOpenFoldAndVerify(t *testing.T) {
	if *update {
		makeGolden(t)
	}
	for version := 1; version <= migrations.Latest(); version++ {
		text, err := os.ReadFile(goldenPath(version, ".json"))
		if err != nil {
			t.Fatal(err)
		}
		var expected golden
		if err := json.Unmarshal(text, &expected); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "agent.db")
		copyAs(t, goldenPath(version, ".db"), path, "")
		b := setupAt(t, path)
		got, err := json.Marshal(readGolden(t, b.s))
		if err != nil {
			t.Fatal(err)
		}
		var read golden
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatal(err)
		}
		compact, err := json.Marshal(expected)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read.Report, expected.Report) || string(got) != string(compact) {
			t.Errorf("version %d gives\n%s\nand should\n%s", version, got, compact)
		}
		// And it is gone on with.
		l := b.load(b.s, "snapshot")
		b.commit(l, &engine.Commit{Take: engine.TakeFree})
		b.commit(l, &engine.Commit{Leave: engine.LeaseFree, Entries: []*engine.Entry{last(step(1, 41), engine.Done)}})
		b.commit(b.load(b.s, "main"), &engine.Commit{Entries: []*engine.Entry{answer("main@9", 1, 0, engine.Running, "approve")}})
		turns(b, "pruned", 7, 9)
		b.prune("pruned", Retention{Turns: 1})
		b.verify()
	}
}
