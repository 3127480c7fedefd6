package engine

import "strings"

// pointerEscapes is made once: that is what takes time.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// EscapePointer writes one part of an RFC 6901 pointer.
func EscapePointer(part string) string { return pointerEscapes.Replace(part) }

// Nearest words a suggestion: the name that was probably meant, or nothing if
// none is near.
func Nearest(got string, names []string) string {
	if best := nearest(got, names); best != "" {
		return "did you mean " + best + "?"
	}
	return ""
}

func nearest(got string, names []string) string {
	best, least := "", 3 // more than two letters wrong is another word
	if len(got) <= 3 {
		least = 2
	}
	// __end__ is meant by end, too.
	bare := func(name string) string {
		if short := strings.Trim(name, "_"); short != "" {
			name = short
		}
		return strings.ToLower(name)
	}
	for _, name := range names {
		if d := distance(bare(got), bare(name), least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour in order to get from a to b; it gives up at limit.
func distance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) >= limit || len(y)-len(x) >= limit {
		return limit
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
