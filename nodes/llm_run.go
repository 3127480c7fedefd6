package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/internal/model"
	"github.com/holdfast-agent/holdfast/internal/value"
)

// called is what is stored of a call.
type called struct {
	model.Response
	ID string `json:"id"` // of the message
}

func (n *llm) run(ctx context.Context, t *engine.Task) (engine.Output, error) {
	req, err := n.request(ctx, t)
	if err != nil {
		return engine.Output{}, err
	}
	answer, err := n.call(ctx, t, req, true, func(r *model.Response) error {
		_, err := n.value(r)
		return err
	})
	if err != nil {
		return engine.Output{}, err
	}
	var out engine.Output
	if n.messages != "" {
		message, err := asMap(answer.Message)
		if err != nil {
			return out, err
		}
		out = out.Set(n.messages, message)
	}
	if n.output != "" && len(answer.Message.ToolCalls) == 0 {
		v, err := n.value(&answer.Response)
		if err != nil {
			return out, err
		}
		out = out.Set(n.output, v)
	}
	return out, nil
}

func (n *llm) request(ctx context.Context, t *engine.Task) (model.Request, error) {
	req := model.Request{Schema: n.schema}
	if n.messages != "" {
		messages, err := model.Messages(value.Append(nil, t.Get(n.messages)))
		if err != nil {
			return req, fmt.Errorf("channel %s: %w", n.messages, err)
		}
		req.Messages = messages
	}
	if n.prompt != nil {
		text, err := n.prompt.Text(t)
		if err != nil {
			return req, err
		}
		req.Messages = append(req.Messages, model.Message{Role: "user", Content: text})
	}
	if n.tools != nil {
		specs, err := n.tools.specs(ctx, t)
		if err != nil {
			return req, err
		}
		req.Tools = specs
	}
	return req, nil
}

// value is what the output channel gets: the text, or the JSON that fits the
// schema.
func (n *llm) value(r *model.Response) (any, error) {
	if n.checks == nil || len(r.Message.ToolCalls) > 0 {
		return r.Message.Content, nil
	}
	text := strings.TrimSpace(r.Message.Content)
	if rest, fenced := strings.CutPrefix(text, "```"); fenced {
		rest = strings.TrimPrefix(rest, "json")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	v, err := value.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w: %s", err, preview(text, 200))
	}
	if err := fitsSchema(n.checks, v); err != nil {
		return nil, fmt.Errorf("the answer does not fit answer_schema: %w: %s", err, preview(text, 200))
	}
	return v, nil
}

func fitsSchema(checks *jsonschema.Schema, v any) error {
	if err := checks.Validate(plainNumbers(v)); err != nil {
		return errors.New(schemaMistake(err))
	}
	return nil
}

// call makes one call, or gives what is stored of it. check looks at an answer
// before it is stored; one that it does not like is a failed attempt. say shows
// the answer as it comes.
func (m *modelCall) call(ctx context.Context, t *engine.Task, req model.Request, say bool, check func(*model.Response) error) (called, error) {
	if used := t.Usage().Tokens(); m.budget > 0 && used >= m.budget {
		return called{}, fmt.Errorf("this turn has used %d tokens, and budget of node %s is %d: %w", used, m.node, m.budget, engine.ErrBudget)
	}
	var err error
	if req.Model, err = m.model.Text(t); err != nil {
		return called{}, err
	}
	if req.System, err = m.system.Text(t); err != nil {
		return called{}, err
	}
	req.Temperature, req.MaxTokens, req.Parameters = m.temperature, m.maxTokens, m.parameters
	made := false
	// If the process dies before the answer is stored, the call is made again
	// and paid again; afterwards it never is.
	answer, err := engine.Step(ctx, "model", func(ctx context.Context) (called, error) {
		made = true
		client := m.client
		if client.Key, err = model.Key(m.keyEnv); err != nil {
			return called{}, &engine.RetryError{Err: err, Never: true}
		}
		// A person has seen the first half of an answer that broke off: another
		// attempt is another message.
		id := "msg_" + model.RandomID()
		sink := model.Sink{Say: func(string) { t.Alive() }, Think: func(string) { t.Alive() }}
		if say {
			sink = model.Sink{Say: func(piece string) { t.Say(id, piece) }, Think: func(piece string) { t.Think(id, piece) }}
		}
		response, err := client.Call(ctx, req, sink)
		if failed := (*model.Error)(nil); errors.As(err, &failed) {
			return called{}, &engine.RetryError{Err: fmt.Errorf("model %s: %w", req.Model, err), After: failed.After, Never: !failed.Retry}
		}
		if err != nil {
			return called{}, err
		}
		response.Message.ID = id
		switch {
		case response.Stop == model.StopRefusal:
		case check == nil:
		case check(response) == nil:
		case response.Stop == model.StopMaxTokens:
			return called{}, &engine.RetryError{Err: fmt.Errorf("model %s: the answer was cut at max_tokens: %w", req.Model, check(response)), Never: true}
		default:
			return called{}, fmt.Errorf("model %s: %w", req.Model, check(response))
		}
		return called{*response, id}, nil
	}, engine.CrashRetry)
	if err != nil {
		return called{}, err
	}
	if !made && say {
		// What is shown is kept with the step: a node that runs again shows it again.
		t.Think(answer.ID, answer.Thought)
		t.Say(answer.ID, answer.Message.Content)
	}
	u := answer.Usage
	t.Use(engine.Usage{InputTokens: u.Input, OutputTokens: u.Output, Context: u.Input + u.Output, Window: m.window})
	if answer.Stop == model.StopRefusal {
		return called{}, fmt.Errorf("model %s: %s: %w", req.Model, answer.Refusal, engine.ErrRefusal)
	}
	return answer, nil
}

func asMap(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	doc, err := value.Decode(raw)
	if err != nil {
		return nil, err
	}
	out, _ := doc.(map[string]any)
	return out, nil
}
