package nodes

import "github.com/holdfast-agent/holdfast/engine"

func (d *decoder) readChannels(t *tree) {
	if t.kind != objectKind {
		d.wrong(t, "", "channels is an object of channels by name, not %s", t.what())
		return
	}
	d.def.Channels = map[string]engine.Channel{}
	for _, k := range t.keys {
		d.def.Channels[k.name] = d.readChannel(k.value, k.name)
	}
}

func (d *decoder) readChannel(t *tree, name string) (ch engine.Channel) {
	if t.kind == nullKind {
		return ch // "log:" and nothing else is a channel with everything by default
	}
	if !d.object(t, "channel "+name, channelKeys) {
		return ch
	}
	if v := t.get("reducer"); v != nil {
		ch.Reducer, _ = d.oneOf(v, "reducer", engine.Reducers())
	}
	if v := t.get("initial"); v != nil {
		ch.Initial = d.data(v)
	}
	if v := t.get("persistence"); v != nil {
		kind, _ := d.oneOf(v, "persistence", []string{"checkpoint", "ephemeral"})
		ch.Ephemeral = kind == "ephemeral"
	}
	ch.Keep = d.retention(t, name)
	return ch
}

// retention gives how many items of a list stay; 0 is all.
func (d *decoder) retention(t *tree, name string) int {
	kind := ""
	if v := t.get("retention"); v != nil {
		kind, _ = d.oneOf(v, "retention", []string{"unbounded", "latest", "bounded"})
		if kind == "" {
			return 0
		}
	}
	limit := t.get("retention_limit")
	switch {
	case kind != "bounded" && limit != nil:
		d.wrong(limit, "write retention: bounded", "retention_limit belongs to retention: bounded")
	case kind == "latest":
		return 1
	case kind == "bounded":
		if limit = d.need(t, "retention_limit", "channel "+name+" with retention: bounded"); limit == nil {
			return 0
		}
		n, ok := d.integer(limit, "retention_limit")
		if ok && (n < 1 || n > maxRetention) {
			d.wrong(limit, "", "retention_limit is between 1 and %d, not %d", maxRetention, n)
			return 0
		}
		return int(n)
	}
	return 0
}

// maxRetention is far beyond what a value may hold.
const maxRetention = 1 << 30
