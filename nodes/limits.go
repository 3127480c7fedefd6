package nodes

import (
	"cmp"
	"fmt"

	"github.com/holdfast-agent/holdfast/engine"
)

// readLimits reads what the graph may do. Numbers are checked here, so that one
// beyond those of the machine does not become another.
func (d *decoder) readLimits(t *tree) {
	if !d.object(t, "limits", limitKeys) {
		return
	}
	d.def.Limits.Each(func(name string, n *int, lowest, highest int) {
		v := t.get(name)
		if v == nil {
			return
		}
		number, ok := d.integer(v, "limits."+name)
		switch {
		case !ok:
		case number < int64(lowest) || number > int64(highest):
			d.wrong(v, "", "limits.%s is between %d and %d, not %d", name, lowest, highest, number)
		default:
			*n = int(number)
		}
	})
}

// valueLimit is how large a written value may be.
func (d *decoder) valueLimit() int { return cmp.Or(d.def.Limits.Value, engine.MaxValue) }

func limitsSchema() map[string]any {
	meanings := map[string]string{
		"value":   fmt.Sprintf("bytes of JSON of one written value; absent: %d", engine.MaxValue),
		"channel": fmt.Sprintf("bytes of JSON of all of a channel; absent: %d", engine.MaxChannel),
		"sends":   fmt.Sprintf("sends of one step; absent: %d", engine.MaxSends),
		"depth":   fmt.Sprintf("how deep subgraphs are nested; absent: %d", engine.MaxDepth),
	}
	properties := map[string]any{}
	new(engine.Limits).Each(func(name string, _ *int, lowest, highest int) {
		properties[name] = map[string]any{"type": "integer", "minimum": lowest, "maximum": highest, "description": meanings[name]}
	})
	return objectSchema("what the graph may do to its file and its memory", []any{}, properties)
}
