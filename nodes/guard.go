package nodes

import (
	"errors"
	"fmt"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

// The language has no loops without an end, but loops in loops, and functions
// that double what they are given. A run is bounded by what it visits, by what
// it makes, and, as the last net, by time.
const (
	maxTicks   = 2_000_000        // passes of a predicate
	maxCharged = 256 << 20        // bytes made by functions
	maxWeight  = 2_000_000        // values in something that is compared or walked
	maxMade    = 4 << 20          // bytes of one text
	maxRun     = 10 * time.Second // looked at in every predicate
)

// The names under which the guards stand in a run. No expression can write a
// name that begins with $ but $env.
const (
	tickName   = "$tick"
	smallName  = "$small"
	chargeName = "$charge"
)

var tickType = types.TypeOf(func(...any) (any, error) { return nil, nil })

// guard puts the guards into an expression.
type guard struct{}

// operators that are computed by functions of ours: integers stay integers and
// never wrap around.
var arithmetic = map[string]string{"+": "$add", "-": "$sub", "*": "$mul", "/": "$div", "%": "$mod", "**": "$pow", "^": "$pow"}

// walks are functions whose time is that of their whole argument, or worse.
var walks = map[string]bool{"flatten": true, "min": true, "max": true, "mean": true, "median": true, "sum": true,
	"sort": true, "uniq": true, "toJSON": true, "string": true, "join": true}

func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// Visit is called for the inner nodes first.
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if name := arithmetic[n.Operator]; name != "" {
			g.replace(node, call(chargeName, call(name, n.Left, n.Right)))
			return
		}
		switch n.Operator {
		case "==", "!=", "in":
			if constant(n.Left) || constant(n.Right) && n.Operator != "in" {
				return
			}
			n.Left, n.Right = call(smallName, n.Left), call(smallName, n.Right)
		}
	case *ast.UnaryNode:
		if n.Operator == "-" && !constant(n.Node) {
			g.replace(node, call("$sub", &ast.IntegerNode{Value: 0}, n.Node))
		}
	case *ast.PredicateNode:
		n.Node = call(tickName, n.Node)
	case *ast.BuiltinNode:
		g.function(node, n.Name, n.Arguments)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			g.function(node, id.Value, n.Arguments)
		}
	}
}

func (g *guard) function(node *ast.Node, name string, args []ast.Node) {
	if walks[name] {
		for i, arg := range args {
			if _, predicate := arg.(*ast.PredicateNode); !predicate && !constant(arg) {
				args[i] = call(smallName, arg)
			}
		}
	}
	if t := (*node).Type(); t == nil || t.Kind().String() != "bool" && t.Kind().String() != "int" {
		g.replace(node, call(chargeName, *node))
	}
}

func (g *guard) replace(node *ast.Node, with ast.Node) {
	with.SetLocation((*node).Location())
	*node = with
}

func constant(n ast.Node) bool {
	switch n.(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.ConstantNode:
		return true
	}
	return false
}

// budget is what one run has left.
type budget struct {
	ticks   int
	charged int
	until   time.Time
}

func newBudget() *budget {
	return &budget{ticks: maxTicks, charged: maxCharged}
}

func (b *budget) offer(env map[string]any) {
	env[tickName] = b.tick
	env[smallName] = b.small
	env[chargeName] = b.charge
}

var errTooLong = errors.New("the expression takes too long: let it look at less, or do the work in a command")

func (b *budget) tick(args ...any) (any, error) {
	if b.ticks--; b.ticks < 0 {
		return nil, errTooLong
	}
	if b.until.IsZero() {
		b.until = clock.Real.Now().Add(maxRun)
	} else if b.ticks%64 == 0 && clock.Real.Now().After(b.until) {
		return nil, errTooLong
	}
	return args[0], nil
}

func (b *budget) small(args ...any) (any, error) {
	left := maxWeight
	if !weigh(args[0], &left, 0) {
		return nil, errTooLong
	}
	// Walking it counts like that many passes, so that doing it in a loop ends
	// as well.
	if b.ticks -= (maxWeight - left) / 4; b.ticks < 0 {
		return nil, errTooLong
	}
	return args[0], nil
}

// weigh counts the values in v, one that is there twice twice.
func weigh(v any, left *int, depth int) bool {
	if *left--; *left < 0 || depth > 1000 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !weigh(e, left, depth+1) {
				return false
			}
		}
	case map[string]any:
		for _, e := range v {
			if !weigh(e, left, depth+1) {
				return false
			}
		}
	case string:
		*left -= len(v) / 256
	}
	return *left >= 0
}

func (b *budget) charge(args ...any) (any, error) {
	size := 0
	switch v := args[0].(type) {
	case string:
		size = len(v)
	case []any:
		size = 16 * len(v)
	case []string:
		size = 16 * len(v)
	case map[string]any:
		size = 64 * len(v)
	}
	if b.charged -= size; b.charged < 0 {
		return nil, fmt.Errorf("the expression makes more than %d MiB of values", maxCharged>>20)
	}
	return args[0], nil
}
