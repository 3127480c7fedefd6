//go:build linux || darwin || freebsd

package store

import "syscall"

// freeDisk is how many bytes this user may still write where path is; false if
// the system does not say.
func freeDisk(path string) (int64, bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
