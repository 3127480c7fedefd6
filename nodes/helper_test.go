package nodes

import (
	"slices"
	"strings"
)

func fill(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}

// sorted sorts reports by their line.
func sorted(lines []string) []string {
	slices.SortStableFunc(lines, func(a, b string) int {
		x, _, _ := strings.Cut(a, ":")
		y, _, _ := strings.Cut(b, ":")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	return lines
}
