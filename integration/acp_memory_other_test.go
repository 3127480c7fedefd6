//go:build unix && !linux

package integration

import "testing"

// peakMemory is known on Linux only.
func peakMemory(*testing.T, int) int { return 0 }
