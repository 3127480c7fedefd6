//go:build !failpoint

package failpoint

// Enabled tells whether this build reads HOLDFAST_FAILPOINT.
const Enabled = false
