package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestTheReferenceNamesEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	docs := string(data)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.Contains(t, docs, cmd.CommandPath())
		cmd.Flags().VisitAll(func(f *pflag.Flag) { require.Contains(t, docs, "--"+f.Name, cmd.CommandPath()) })
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newApp(os.Stdin, os.Stdout, os.Stderr).rootCommand())
}
