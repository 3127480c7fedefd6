package nodes

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/clock"
	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
	"github.com/holdfast-agent/holdfast/interrupt"
)

func graphFilesDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "graph-files.md"))
	require.NoError(t, err)
	return string(text)
}

// section is the part of a Markdown text below a heading.
func section(text, heading string) string {
	_, rest, _ := strings.Cut(text, "\n## "+heading+"\n")
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

var tableKey = regexp.MustCompile("`([a-z0-9_]+)`")

// documentedKeys are the keys in the first column of the tables.
func documentedKeys(part string) []string {
	var keys []string
	for _, line := range strings.Split(part, "\n") {
		if cells := strings.SplitN(line, " | ", 2); strings.HasPrefix(line, "| `") {
			for _, m := range tableKey.FindAllStringSubmatch(cells[0], -1) {
				keys = append(keys, m[1])
			}
		}
	}
	slices.Sort(keys)
	return keys
}

func TestTheDocumentationHasEveryKeyOfEveryType(t *testing.T) {
	t.Parallel()
	text := graphFilesDoc(t)
	for _, typ := range Types() {
		part := section(text, "`"+typ.Name+"`")
		require.NotEmpty(t, part, "docs/graph-files.md has no section about %s", typ.Name)
		require.NotEmpty(t, fenced(part, "yaml graph"), "%s has no example", typ.Name)
		if typ.Name != "set" { // its one key is told in a sentence
			require.Equal(t, typ.keys(), documentedKeys(part), typ.Name)
		}
	}
	common := slices.DeleteFunc(slices.Clone(commonKeys()), func(key string) bool { return key == "type" })
	slices.Sort(common)
	documented := documentedKeys(section(text, "What every node has"))
	for _, key := range common {
		require.Contains(t, documented, key)
	}
}

// exampleOf runs the example of a section in a folder of its own.
func exampleOf(t *testing.T, heading string, values engine.Values, do func(e *engine.Engine, fake *clock.Fake, turn *engine.Turn) *engine.Turn, replace ...string) *engine.Turn {
	t.Helper()
	g := mustLoad(t, fill(fenced(section(graphFilesDoc(t), heading), "yaml graph")[0], replace...))
	require.Empty(t, g.Warnings(), heading)
	fake := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	e := engine.New(g, openStore(t), engine.Options{Clock: fake})
	turn, err := e.Start(t.Context(), "t", engine.Input{Values: values, Cwd: t.TempDir()})
	require.NoError(t, err, heading)
	if do != nil {
		turn = do(e, fake, turn)
	}
	require.Equal(t, engine.Done, turn.Status, heading)
	return turn
}

func TestTheExampleOfEveryTypeDoesWhatItSays(t *testing.T) {
	t.Setenv("TRACKER_TOKEN", "a token")
	ctx := t.Context()
	resume := func(e *engine.Engine, answers ...interrupt.Answer) *engine.Turn {
		turn, err := e.Resume(ctx, "t", answers...)
		require.NoError(t, err)
		return turn
	}
	answer := func(e *engine.Engine, turn *engine.Turn, v any) *engine.Turn {
		a := interrupt.Answer{Question: turn.Questions[0].ID(), Value: v}
		if len(turn.Questions[0].Choices) > 0 {
			a.Choice, _ = v.(string)
		}
		return resume(e, a)
	}
	say := func(turn *engine.Turn) any { return turn.State["response"] }
	ran := map[string]bool{}
	run := func(name string, values engine.Values, do func(*engine.Engine, *clock.Fake, *engine.Turn) *engine.Turn) *engine.Turn {
		ran[name] = true
		return exampleOf(t, "`"+name+"`", values, do)
	}

	turn := run("set", nil, nil)
	require.Equal(t, []any{int64(2), int64(1), "so far 0"}, []any{turn.State["left"], turn.State["right"], turn.State["note"]})
	turn = run("exec", engine.Values{"who": "you"}, nil)
	require.Equal(t, "hello you\n", turn.State["log"].([]any)[1].(map[string]any)["stdout"])
	turn = run("ask", nil, func(e *engine.Engine, _ *clock.Fake, turn *engine.Turn) *engine.Turn {
		turn = answer(e, turn, "green")
		require.Equal(t, "How many in green?", turn.Questions[0].Payload.Message)
		turn = answer(e, turn, int64(3))
		turn = answer(e, turn, []any{"eu", "asia"})
		return answer(e, turn, "2026-02-01")
	})
	require.Equal(t, "3 x green to eu, asia by 2026-02-01", turn.State["summary"])
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer a token" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(map[string]string{"POST /projects/web/tickets": `{"id": 7}`, "GET /tickets/7": `{"id": 7, "state": "open"}`}[r.Method+" "+r.URL.Path]))
	})
	require.Equal(t, "ticket 7 is open", say(run("http", engine.Values{"api": api, "title": "it broke"}, nil)))
	require.Equal(t, "- buy milk\n", say(run("file", engine.Values{"prompt": "buy milk"}, nil)))
	require.Equal(t, "ten minutes later: hi", say(run("wait", engine.Values{"prompt": "hi"}, func(e *engine.Engine, fake *clock.Fake, turn *engine.Turn) *engine.Turn {
		require.Equal(t, engine.Sleeping, turn.Status)
		fake.Advance(10 * time.Minute)
		return resume(e)
	})))
	require.Equal(t, "it is here", say(run("signal", nil, func(e *engine.Engine, _ *clock.Fake, _ *engine.Turn) *engine.Turn {
		require.NoError(t, e.Signal(ctx, "t", "parcel", nil, engine.By{}))
		return resume(e)
	})))
	require.Equal(t, "it is lost", say(run("signal", nil, func(e *engine.Engine, fake *clock.Fake, _ *engine.Turn) *engine.Turn {
		fake.Advance(48 * time.Hour)
		return resume(e)
	})))
	require.Equal(t, "a ticket is open", say(run("switch", nil, nil)))
	require.Equal(t, "somebody is called", say(run("switch", engine.Values{"severity": 1}, nil)))
	require.Equal(t, "order 7", say(run("transform", nil, nil)))
	require.Equal(t, "this is no order", say(run("transform", engine.Values{"raw": `{"id": "x"}`}, nil)))
	require.Equal(t, "[3,5,7]", say(run("map", nil, nil)))
	turn = run("subgraph", nil, func(e *engine.Engine, _ *clock.Fake, turn *engine.Turn) *engine.Turn { return answer(e, turn, "good") })
	require.Equal(t, []any{"good"}, turn.State["verdicts"])
	asked := func(name string, values engine.Values, replies ...modeltest.Reply) (*engine.Turn, *modeltest.Server) {
		ran[name] = true
		s := modeltest.New(t, replies...)
		return exampleOf(t, "`"+name+"`", values, nil, "http://localhost:11434/v1", s.URL), s
	}
	turn, _ = asked("llm", engine.Values{"prompt": "good morning"}, modeltest.Text("guten Morgen"))
	require.Equal(t, "guten Morgen", say(turn))
	user := func(text string) engine.Values {
		return engine.Values{"messages": []any{map[string]any{"role": "user", "content": text}}}
	}
	turn, _ = asked("intent_classifier", user("My screen is dark."), modeltest.Text("Support"))
	require.Equal(t, "Have you tried to turn it off and on again?", say(turn))
	_, s := asked("tools", user("Note the date."),
		calls("exec", `{"command":"date"}`, "write_file", `{"path":"notes/a","content":"x"}`, "write_file", `{"path":"b","content":"x"}`), modeltest.Text("done"))
	sent := s.Requests()[1].Messages()
	require.Equal(t, "error: denied: only notes/ may be written", sent[len(sent)-1]["content"])
	s = modeltest.New(t, calls("add_tax", `{"net":10}`, "ask_expert", `{"question":"Is it dear?"}`), modeltest.Text("done"))
	desk := strings.ReplaceAll(fenced(section(graphFilesDoc(t), "`tools`"), "yaml graph")[1], "http://localhost:11434/v1", s.URL)
	g := mustLoad(t, desk)
	require.Empty(t, g.Warnings())
	e := engine.New(g, openStore(t), engine.Options{})
	turn, err := e.Start(t.Context(), "t", engine.Input{Values: user("What is it with tax?")})
	require.NoError(t, err)
	require.Equal(t, "Is it dear?", turn.Questions[0].Payload.Message)
	_, err = e.Resume(t.Context(), "t", interrupt.Answer{Value: "no"})
	require.NoError(t, err)
	sent = s.Requests()[1].Messages()
	require.Equal(t, []any{`{"gross":12}`, `{"answer":"no"}`}, []any{sent[len(sent)-2]["content"], sent[len(sent)-1]["content"]})

	for _, typ := range Types() {
		require.True(t, ran[typ.Name], "the example of %s is not run", typ.Name)
	}
}

func TestTheAgentOfTheDocumentationIsOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "models.md"))
	require.NoError(t, err)
	s := modeltest.New(t, calls("list_files", "{}"), modeltest.Text("It is empty."))
	agent := strings.ReplaceAll(fenced(string(text), "yaml graph")[0], "model: gpt-5", "model: gpt-5\n    base_url: "+s.URL)
	turn, err := runGraph(t, agent, engine.Values{"messages": map[string]any{"role": "user", "content": "What is here?"}})
	require.NoError(t, err)
	require.Equal(t, "It is empty.", turn.State["messages"].([]any)[3].(map[string]any)["content"])
	require.Equal(t, "no files", s.Requests()[1].Last()["content"])
}
