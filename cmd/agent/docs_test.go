package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

func TestTheListOfFeaturesHasEveryRowAndNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	declared, have := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`), map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			have[string(m[1])] = true
		}
		return err
	}))
	text, err := os.ReadFile("../../docs/features.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)\\w*)`").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		require.True(t, have[m[1]], "docs/features.md names %s, which is no test", m[1])
	}
	rows := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, row := range strings.Split(m[1], ", ") {
			n, err := strconv.Atoi(row)
			require.NoError(t, err)
			require.False(t, rows[n], "row %d stands twice", n)
			rows[n] = true
		}
	}
	// What is missing is about stores and servers that Holdfast does not have.
	for _, part := range [][2]int{{1, 62}, {65, 98}, {103, 108}} {
		for n := part[0]; n <= part[1]; n++ {
			require.True(t, rows[n], "docs/features.md has no row %d", n)
		}
	}
}
