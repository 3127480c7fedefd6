package nodes

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/interrupt"
)

// Bounds of an expression; see also guard.go for those of its run.
const (
	maxExpression      = 16 << 10 // bytes of text: the parser recurses
	maxExpressionNodes = 2000
)

// where an expression stands decides which names it has beside the channels.
type where struct {
	names []string
	lacks string // why answer, failure, thread, turn or step is not there
	alone string // why the channels are not there; empty: they are
}

var (
	inCondition = where{lacks: "a route is computed from the channels alone: let a set node write it to a channel first"}
	inCommand   = where{names: []string{"failure", "thread", "turn", "step"}, lacks: "what is approved is what runs, so it cannot depend on the approval: let a set node write the answer to a channel first"}
	inQuestion  = where{names: []string{"failure", "thread", "turn", "step"}, lacks: "a question must be the same when it is asked again"}
	inSet       = where{names: []string{"answer", "failure", "thread", "turn", "step"}}
)

// disabled are functions of the language that do not give the same for the
// same state every time, or that depend on the machine.
var disabled = []string{"now", "date", "duration", "timezone"}

// program is a checked expression.
type program struct {
	source  string
	code    *vm.Program
	reads   []string // channels
	limit   int      // bytes of JSON of what it gives
	boolean bool     // it gives true or false and nothing else
}

// span is a part of a scalar: an expression in it.
type span struct {
	text   string
	offset int // in bytes of the scalar's value
}

// expression checks an expression against the declared channels; nil if it is
// wrong, which is reported at its place in the line.
func (d *decoder) expression(t *tree, s span, w where) *program {
	complain := func(offset int, suggestion, format string, args ...any) {
		d.mistake(d.inside(t, s.offset+offset), t.pointer, suggestion, format, args...)
	}
	if strings.TrimSpace(s.text) == "" {
		complain(0, "", "an empty expression")
		return nil
	}
	if len(s.text) > maxExpression {
		complain(0, "", "an expression has at most %d bytes", maxExpression)
		return nil
	}
	if i := strings.Index(s.text, "${{"); i >= 0 {
		complain(i, "this is an expression already: leave out ${{ }}", "%s in an expression", "${{")
		return nil
	}
	// The canonical form is read right after the file, and says the same again.
	key := programKey{text: s.text, seen: strings.Join(w.names, " ")}
	if w.alone == "" {
		if d.scope == "" {
			d.scope = strings.Join(d.channels(), "\x00")
		}
		key.channels = d.scope
	}
	if p := d.programs[key]; p != nil {
		d.effects.Reads = append(d.effects.Reads, p.reads...)
		return p
	}
	names := types.Map{tickName: tickType, smallName: tickType, chargeName: tickType}
	channels := d.def.Channels
	if w.alone != "" {
		channels = nil
	}
	for channel := range channels {
		names[channel] = types.Any
	}
	for _, name := range w.names {
		names[name] = types.Any
	}
	for _, name := range []string{tickName, smallName, chargeName} {
		if _, taken := d.def.Channels[name]; taken {
			complain(0, "", "a channel cannot have the name %s", name)
			return nil
		}
	}
	// First as it stands, for its own mistakes; then with guards around what
	// could run away, after which the library's messages would be about those.
	collect := &collector{channels: channels}
	if _, err := expr.Compile(s.text, options(names, collect)...); err != nil {
		d.explain(complain, s.text, err, names, w)
		return nil
	}
	if collect.err != "" {
		complain(0, `write $env["name"]`, "%s", collect.err)
		return nil
	}
	code, err := expr.Compile(s.text, options(names, &guard{})...)
	if err != nil {
		d.explain(complain, s.text, err, names, w)
		return nil
	}
	p := &program{source: strings.TrimSpace(s.text), code: code, reads: collect.reads, limit: d.valueLimit()}
	d.effects.Reads = append(d.effects.Reads, p.reads...)
	p.boolean = collect.root != nil && collect.root == reflect.TypeFor[bool]()
	d.programs[key] = p
	return p
}

// programKey is what a checked expression depends on.
type programKey struct {
	text     string
	seen     string // names beside the channels
	channels string
}

func options(names types.Map, visitor ast.Visitor) []expr.Option {
	list := []expr.Option{expr.Env(names), expr.MaxNodes(maxExpressionNodes), expr.Patch(visitor)}
	for _, name := range disabled {
		list = append(list, expr.DisableBuiltin(name))
	}
	return append(list, functions...)
}

var unknownName = regexp.MustCompile(`^unknown name (\S+)`)

// explain reports an error of the library in our words.
func (d *decoder) explain(complain func(int, string, string, ...any), text string, err error, names types.Map, w where) {
	var at *file.Error
	if !errors.As(err, &at) {
		complain(0, "", "%v", err)
		return
	}
	offset := byteOffset(text, at.From)
	message := at.Message
	found := unknownName.FindStringSubmatch(message)
	if found == nil {
		message, suggestion := syntax(message, text)
		complain(offset, suggestion, "bad expression: %s", message)
		return
	}
	name := found[1]
	if slices.Contains(disabled, name) {
		complain(offset, "", "%s is not offered: an expression gives the same for the same state, always", name)
		return
	}
	if w.alone != "" {
		complain(offset, "", "unknown name %s in an expression: %s", name, w.alone)
		return
	}
	if slices.Contains(inSet.names, name) && w.lacks != "" {
		complain(offset, "", "%s is not there: %s", name, w.lacks)
		return
	}
	var known []string
	for n := range names {
		if !strings.HasPrefix(n, "$") {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	suggestion := engine.Nearest(name, known)
	if suggestion == "" {
		suggestion = engine.Nearest(name, builtin.Names)
	}
	if suggestion == "" && strings.TrimSpace(text) == name {
		suggestion = fmt.Sprintf(`for the text itself write '"%s"'`, name)
	}
	if suggestion == "" && len(d.def.Channels) > 0 {
		suggestion = "declared are " + strings.Join(d.channels(), ", ")
	}
	complain(offset, suggestion, "unknown name %s in an expression: it is no declared channel", name)
}

var (
	unexpected = regexp.MustCompile(`(?s)^unexpected token (\w+)(?:\("(.*)"\))?`)
	onlyWords  = regexp.MustCompile(`^[\pL\pN_,.!-]+(\s+[\pL\pN_,.!-]+)+$`)
)

// syntax says what the library says of a broken expression, and what was
// probably meant.
func syntax(message, text string) (plain, suggestion string) {
	found := unexpected.FindStringSubmatch(message)
	text = strings.TrimSpace(text)
	switch {
	case found == nil:
		return message, ""
	case found[1] == "EOF":
		return "it ends too early", ""
	case found[2] == "=":
		return `unexpected "="`, "write == to compare"
	case onlyWords.MatchString(text):
		suggestion = fmt.Sprintf(`for the text itself write '"%s"'`, text)
	}
	return fmt.Sprintf("unexpected %q", found[2]) + strings.TrimPrefix(message, found[0]), suggestion
}

// byteOffset is where rune n begins.
func byteOffset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// collector notes what an expression reads and what it gives.
type collector struct {
	channels map[string]engine.Channel
	reads    []string
	root     reflect.Type
	inEnv    int
	err      string
}

func (c *collector) Visit(node *ast.Node) {
	// The last node visited is the whole expression.
	c.root = (*node).Type()
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			c.inEnv++
			c.err = "$env is only there for one channel at a time, whose name is written out"
			return
		}
		c.read(n.Value)
	case *ast.MemberNode:
		id, ok := n.Node.(*ast.IdentifierNode)
		if !ok || id.Value != "$env" {
			return
		}
		if name, ok := n.Property.(*ast.StringNode); ok {
			c.read(name.Value)
			if c.inEnv--; c.inEnv == 0 {
				c.err = ""
			}
		}
	}
}

func (c *collector) read(name string) {
	if _, ok := c.channels[name]; ok && !slices.Contains(c.reads, name) {
		c.reads = append(c.reads, name)
	}
}

// run computes the expression. extra are names beside the channels, which a
// channel of the same name hides.
func (p *program) run(s engine.State, extra map[string]any) (any, error) {
	env := make(map[string]any, len(s)+len(extra)+3)
	maps.Copy(env, extra)
	maps.Copy(env, s)
	newBudget().offer(env)
	v, err := vm.Run(p.code, env)
	if err == nil {
		v, err = finishWithin(v, p.limit)
	}
	if err != nil {
		return nil, p.failed(s, err)
	}
	return v, nil
}

// failed says what went wrong, in which expression, and what it saw.
func (p *program) failed(s engine.State, err error) error {
	var at *file.Error
	message := err.Error()
	if errors.As(err, &at) {
		message = at.Message
	}
	var saw []string
	for _, name := range p.reads {
		saw = append(saw, name+" = "+preview(s[name], 120))
	}
	seen := ""
	if len(saw) > 0 {
		seen = "; it saw " + strings.Join(saw, ", ")
	}
	return fmt.Errorf("expression %s failed: %s%s", shorten(p.source, 200), message, seen)
}

// envOf gives the names beside the channels.
func envOf(t *engine.Task) map[string]any {
	return map[string]any{
		"answer": answerValue(t.Answer()), "failure": failureValue(t.Failure()), "thread": t.Thread(), "turn": t.Turn(), "step": t.Step(),
	}
}

func failureValue(f *engine.Failure) any {
	if f == nil {
		return nil
	}
	return map[string]any{"node": f.Node, "task": f.Task, "cause": f.Cause}
}

func answerValue(a *interrupt.Answer) any {
	if a == nil {
		return nil
	}
	return map[string]any{"value": a.Value, "actor": a.Actor, "reason": a.Reason, "choice": a.Choice}
}
