package nodes

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-agent/holdfast/engine"
)

// This file reads the keys that every node has, whatever its type.

// CommonSchema is the JSON Schema of the keys that every node may have beside
// those of its type.
func CommonSchema() map[string]any {
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"on_crash":        enumSchema("what to do with work of which nobody knows whether it was done: run it again, ask a person, or fail; absent: ask for exec, retry for all other types", "retry", "ask", "fail"),
			"on_error":        textSchema("the node that a failure leads to, after the retries; absent: the turn fails"),
			"retry_policy":    retrySchema(),
			"run_timeout":     durationSchema("how long an attempt may take"),
			"idle_timeout":    durationSchema("how long an attempt may give no sign of life, such as output"),
			"on_timeout":      enumSchema("what becomes of an attempt that took too long: it failed, it failed and is tried again, or it counts as done and wrote nothing; absent: fail", "fail", "retry", "skip"),
			"max_concurrency": map[string]any{"type": "integer", "minimum": 1, "description": "how many tasks of this node run at once, where a map or a fan-out sends it many; absent: as many as the program allows"},
			"barrier": map[string]any{
				"type": "object", "description": "makes the node a join: it runs once, in the step after the last of several others led to it",
				"required": []any{"wait_for"}, "additionalProperties": false, "patternProperties": annotationSchema(),
				"properties": map[string]any{
					"wait_for": map[string]any{"type": "array", "minItems": 1, "uniqueItems": true, "items": wordSchema("a node with an edge to this one"), "description": "the nodes to wait for"},
					"min":      map[string]any{"type": "integer", "minimum": 1, "description": "so many arrivals are enough; absent: all"},
					"timeout":  durationSchema("how long it waits after the first arrival: then it runs with those who arrived; with fewer than min it fails"),
				},
			},
		},
	}
}

var commonKeys = sync.OnceValue(func() []string {
	keys := []string{"type"}
	for key := range CommonSchema()["properties"].(map[string]any) {
		keys = append(keys, key)
	}
	return slices.Clip(keys)
})

// common reads what every node may have.
func (b *Config) common(node *engine.Node) {
	d := b.d
	if v := b.get("on_crash"); v != nil {
		if policy, ok := d.oneOf(v, "on_crash", []string{"ask", "retry", "fail"}); ok {
			node.OnCrash = engine.OnCrash(policy)
		}
	}
	if v := b.get("on_error"); v != nil {
		node.OnError, _ = d.word(v, b.what("on_error"))
	}
	if v := b.get("retry_policy"); v != nil {
		node.Retry = d.retryPolicy(v)
	}
	if v := b.get("barrier"); v != nil {
		node.Barrier = d.barrier(v, b.name)
	}
	if v := b.get("max_concurrency"); v != nil {
		n, ok := d.integer(v, b.what("max_concurrency"))
		if ok && n < 1 {
			d.wrong(v, "", "%s is at least 1, not %d", b.what("max_concurrency"), n)
		}
		node.MaxConcurrency = int(min(max(n, 0), engine.MaxSends))
	}
	if limit := b.timeout(); limit != nil {
		node.Timeout = limit
	}
}

func (b *Config) timeout() *engine.Timeout {
	limit := engine.Timeout{}
	if v := b.get("run_timeout"); v != nil {
		limit.Run, _, _ = b.d.duration(v, b.what("run_timeout"))
	}
	if v := b.get("idle_timeout"); v != nil {
		limit.Idle, _, _ = b.d.duration(v, b.what("idle_timeout"))
	}
	bounded := b.get("run_timeout") != nil || b.get("idle_timeout") != nil
	if v := b.get("on_timeout"); v != nil {
		on, _ := b.d.oneOf(v, "on_timeout", []string{"fail", "retry", "skip"})
		limit.On = engine.OnTimeout(on)
		if !bounded {
			b.d.wrong(v, "add run_timeout or idle_timeout", "node %s has no timeout", b.name)
		}
	}
	if !bounded {
		return nil
	}
	return &limit
}

func (d *decoder) barrier(t *tree, name string) *engine.Barrier {
	what := "barrier of node " + name
	if !d.object(t, what, barrierKeys) {
		return nil
	}
	list := t.get("wait_for")
	if d.lenient && (list == nil || list.kind == nullKind || list.kind == listKind && len(list.items) == 0) {
		d.warn(d.at(t), t.pointer, "", "%s waits for nobody: it is left out", what)
		return nil
	}
	barrier := &engine.Barrier{}
	if list = d.need(t, "wait_for", what); list != nil {
		items, _ := d.list(list, "wait_for")
		for _, item := range items {
			member, _ := d.word(item, "an entry of wait_for")
			barrier.WaitFor = append(barrier.WaitFor, member)
		}
	}
	if v := t.get("min"); v != nil {
		n, ok := d.integer(v, "min")
		if ok && (n < 1 || n > int64(len(barrier.WaitFor))) {
			d.wrong(v, "", "min is between 1 and %d, the number of nodes in wait_for, not %d", len(barrier.WaitFor), n)
			n = 0
		}
		barrier.Min = int(n)
	}
	if v := t.get("timeout"); v != nil {
		barrier.Timeout, _, _ = d.duration(v, "timeout of the "+what)
	}
	return barrier
}

func (d *decoder) retryPolicy(t *tree) *engine.Retry {
	policy := &engine.Retry{}
	if !d.object(t, "retry_policy", retryKeys) {
		return policy
	}
	if v := t.get("max_retries"); v != nil {
		if n, ok := d.integer(v, "max_retries"); ok {
			if n < 0 || n > maxRetries {
				d.wrong(v, "", "max_retries is between 0 and %d", maxRetries)
			}
			policy.MaxRetries = int(n)
		}
	}
	policy.InitialDelay = d.milliseconds(t, "initial_delay_ms")
	policy.MaxDelay = d.milliseconds(t, "max_delay_ms")
	if v := t.get("backoff_multiplier"); v != nil {
		policy.Multiplier = d.number(v, "backoff_multiplier", 1, 1000)
	}
	if v := t.get("jitter"); v != nil {
		policy.Jitter = d.number(v, "jitter", 0, 1)
	}
	if v := t.get("jitter_pct"); v != nil {
		if t.get("jitter") != nil {
			d.wrong(v, "leave out one of them", "jitter and jitter_pct are the same, once as a share and once in percent")
		}
		policy.Jitter = d.number(v, "jitter_pct", 0, 100) / 100
	}
	return policy
}

// Bounds of a retry policy: what is beyond them is a mistake, and numbers
// beyond those of a machine would become others.
const (
	maxRetries = 1_000_000
	maxDelay   = 366 * 24 * 3600 * 1000
)

// milliseconds reads a delay. In a file 0 is no delay, and in the engine it is
// the default: what is as good as none stands for it.
func (d *decoder) milliseconds(t *tree, key string) time.Duration {
	v := t.get(key)
	if v == nil {
		return 0
	}
	ms := d.number(v, key, 0, maxDelay)
	return max(time.Duration(math.Round(ms*float64(time.Millisecond))), time.Nanosecond)
}

// number reads a number between two bounds.
func (d *decoder) number(t *tree, what string, least, most float64) float64 {
	f, ok := t.value.(float64)
	if n, isInteger := t.value.(int64); isInteger {
		f, ok = float64(n), true
	}
	if t.kind != numberKind || !ok || f < least || f > most {
		d.wrong(t, "", "%s is a number between %v and %v, not %s", what, least, int64(most), orWhat(t))
		return least
	}
	return f
}

// orWhat is a scalar as written, else its kind.
func orWhat(t *tree) string {
	if t.raw != "" {
		return t.raw
	}
	return t.what()
}
