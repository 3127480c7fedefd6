package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-agent/holdfast/nodes"
)

// typeJSON is a node type that graph files can name.
type typeJSON struct {
	Name    string         `json:"name"`
	Version int            `json:"version"`
	Doc     string         `json:"doc"`
	Schema  map[string]any `json:"schema"`
}

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodes",
		Short:   "List the node types that graph files can name, and what they take",
		Example: "  agent nodes\n  agent nodes --json",
		Args:    cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.does(func(*cobra.Command, []string) error {
		for i, t := range nodes.Types() {
			if *asJSON {
				_ = a.out.json(typeJSON{Name: t.Name, Version: t.Version, Doc: t.Doc, Schema: t.Schema}) // kept by out
				continue
			}
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			fmt.Fprintf(a.out, "%s (version %d)\n", t.Name, t.Version)
			for _, line := range wrap(t.Doc, 78) {
				fmt.Fprintln(a.out, "  "+strings.TrimRight(line, " "))
			}
			a.keys(t.Schema)
		}
		if *asJSON {
			return nil
		}
		fmt.Fprintln(a.out, "\nevery node, whatever its type")
		a.keys(nodes.CommonSchema())
		return nil
	})
	return cmd
}

// keys lists what the configuration of a node may hold.
func (a *app) keys(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		text, _ := p["description"].(string)
		if slices.Contains(required, any(name)) {
			text = "required: " + text
		}
		for i, line := range wrap(text, 78-15) {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(a.out, "    %-12s %s\n", name, strings.TrimRight(line, " "))
		}
	}
}
