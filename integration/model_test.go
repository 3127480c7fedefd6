package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/internal/model/modeltest"
)

// example copies a graph of the examples, with its model at a server of the test.
func (h *harness) example(path string, s *modeltest.Server) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "examples", path))
	require.NoError(h.t, err)
	// Behind the model's name stands where it is.
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		if rest, inline := strings.CutPrefix(line, "x-model: &model {type: llm, "); inline {
			line = fmt.Sprintf("x-model: &model {base_url: %q, api_key_env: HOLDFAST_KEY, type: llm, %s", s.URL, rest)
		}
		out = append(out, line)
		if strings.HasPrefix(line, "    model: ") {
			out = append(out, "    base_url: "+s.URL, "    api_key_env: HOLDFAST_KEY")
		}
	}
	h.env = append(h.env, "HOLDFAST_KEY=sk-integration-0123456789")
	return h.write(filepath.Base(path), strings.Join(out, "\n"))
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func reply(id, name string, args any) modeltest.Reply {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return modeltest.Reply{Pieces: []string{"I will " + name + ". "}, Calls: []modeltest.Call{{ID: id, Name: name, Arguments: string(raw)}}}
}

// The example of a coding agent: it reads, edits what a person approves, runs a
// test without asking, and says what it did.
func TestTheCoderReadsEditsAndTests(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.write("greet.txt", "helo world\n")
	s := modeltest.New(t,
		reply("1", "search", map[string]any{"pattern": "helo"}),
		reply("2", "edit_file", map[string]any{"path": "greet.txt", "old_text": "helo", "new_text": "hello"}),
		reply("3", "write_file", map[string]any{"path": ".git/config", "content": "x"}),
		reply("4", "exec", map[string]any{"command": "git status"}),
		modeltest.Text("I fixed the greeting."),
	)
	graph := h.example("coder/coder.yaml", s)
	h.command("run", graph, "--thread", "c", "--input", "Fix the greeting").run().exits(3).
		says("edit_file", "- helo world", "+ hello world")
	require.Equal(t, "helo world\n", fileText(t, filepath.Join(h.dir, "greet.txt")))
	h.command("answer", "c", "--approve").run().exits(0).says("I fixed the greeting.", "Edit greet.txt", "leave .git alone")
	require.Equal(t, "hello world\n", fileText(t, filepath.Join(h.dir, "greet.txt")))
	require.NoFileExists(t, filepath.Join(h.dir, ".git", "config"))
	requests := s.Requests()
	require.Equal(t, "greet.txt:1: helo world", requests[1].Last()["content"])
	require.Contains(t, requests[4].Last()["content"], "(exit code ")
	require.Equal(t, "Bearer sk-integration-0123456789", requests[0].Header.Get("Authorization"))
	h.command("audit", "verify").run().exits(0)
	for _, file := range []string{h.db, h.db + "-wal"} {
		data, err := os.ReadFile(file)
		if err == nil {
			require.NotContains(t, string(data), "sk-integration", file)
		}
	}
}

// A process that dies after the answer does not pay for it again; one that dies
// before it is stored does.
func TestAKilledProcessPaysNoAnswerTwice(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]int{
		"engine.effect.before": 1, "engine.effect.after": 2, "engine.node.after": 1, "engine.step.before": 1, "engine.step.after": 1,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := modeltest.New(t, modeltest.Text("Hello."), modeltest.Text("Hello."))
			graph := h.write("chat.yaml", fmt.Sprintf(`schema_version: 1
channels: {messages: {reducer: messages}}
nodes: {model: {type: llm, model: m, base_url: %q}}
edges: [{from: __start__, to: model}]
`, s.URL))
			r := h.command("run", graph, "--thread", "t", "--input", "Hi").at(point, "kill").run()
			require.True(t, r.killed(), "%v", r)
			h.command("resume", "t").run().exits(0).says("Hello.")
			require.Len(t, s.Requests(), want)
			h.command("audit", "verify").run().exits(0)
		})
	}
}

func TestTheResearchFansOutJoinsAndIsReviewed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reviews := 0
	s := modeltest.Func(t, func(r modeltest.Request) modeltest.Reply {
		text, _ := r.Last()["content"].(string)
		switch {
		case strings.HasPrefix(text, "Give three questions"):
			return modeltest.Text(`{"questions": ["What?", "Why?", "How?"]}`)
		case strings.HasPrefix(text, "Answer with what you know"):
			return modeltest.Text("It is so: " + text[strings.LastIndex(text, ": ")+2:])
		case strings.HasPrefix(text, "Write a short report") && strings.Contains(text, "longer"):
			return modeltest.Text("The long report.")
		case strings.HasPrefix(text, "Write a short report"):
			for _, q := range []string{"What?", "Why?", "How?"} {
				if !strings.Contains(text, "It is so: "+q) {
					return modeltest.Text("A finding is missing.")
				}
			}
			return modeltest.Text("The report.")
		case strings.HasPrefix(text, "Is this report right"):
			reviews++
			return modeltest.Text(fmt.Sprintf(`{"good": %v, "advice": "make it longer"}`, reviews > 1))
		}
		t.Errorf("an unexpected question: %s", text)
		return modeltest.Reply{}
	})
	graph := h.example("research/research.yaml", s)
	r := h.command("run", graph, "--thread", "r", "--input", "heat pumps").run().exits(0)
	require.Equal(t, "The long report.\n", r.stdout)
	require.Len(t, s.Requests(), 1+3+2+2)
}

// Two graphs that a model called in one batch: each runs a command and then asks.
// Wherever a process dies, what is stored is not done again, and each answer goes
// to the graph that asked.
const callsTwo = `schema_version: 1
channels: {messages: {reducer: messages}}
nodes:
  model: {type: llm, model: m, base_url: %q, tools: hands}
  hands:
    type: tools
    approve: never
    tools:
      - name: ask_expert
        description: asks
        input: [question]
        output: [answer]
        definition:
          channels: {question: {}, log: {reducer: append}, answer: {}}
          nodes:
            note: {type: exec, command: "echo ${{ question }} >> ran", output: log, on_crash: retry}
            ask: {type: ask, message: "${{ question }}?", output: answer}
          edges: [{from: __start__, to: note}, {from: note, to: ask}]
edges: [{from: __start__, to: model}, {from: hands, to: model}]
conditional_edges: [{from: model, condition: has_tool_calls, routes: {true: hands, false: __end__}}]
`

func TestAGraphThatAModelCalledSurvivesKill9AtEveryCommit(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"store.commit.before", "store.commit.after"} {
		for n := 2; ; n++ {
			h := newHarness(t)
			s := modeltest.Func(t, func(r modeltest.Request) modeltest.Reply {
				if r.Last()["role"] == "tool" {
					return modeltest.Text(fmt.Sprint(r.Messages()[2]["content"], r.Messages()[3]["content"]))
				}
				return modeltest.Reply{Calls: []modeltest.Call{
					{ID: "1", Name: "ask_expert", Arguments: `{"question":"red"}`}, {ID: "2", Name: "ask_expert", Arguments: `{"question":"blue"}`},
				}}
			})
			graph := h.write("agent.yaml", fmt.Sprintf(callsTwo, s.URL))
			r := h.command("run", graph, "--thread", "t", "--input", "Hi").at(point, fmt.Sprintf("%d*kill", n)).run()
			killed := r.killed()
			if killed {
				r = h.run("resume", "t")
			}
			for i := 0; r.code == 3; i++ {
				require.Less(t, i, 2, "%s, hit %d: a question is asked again: %s", point, n, r.stdout)
				q := h.inbox()[0]
				color := strings.TrimSuffix(q.Message, "?")
				r = h.run("answer", q.CheckpointID, "--value", `"`+color+`"`)
			}
			r.exits(0).says(`{"answer":"red"}{"answer":"blue"}`)
			for _, color := range []string{"red", "blue"} {
				ran := strings.Count(fileText(t, filepath.Join(h.dir, "ran")), color+"\n")
				require.True(t, ran == 1 || killed && ran == 2, "%s, hit %d: %s ran %d times", point, n, color, ran)
			}
			h.verify()
			if !killed {
				break
			}
		}
	}
}
