//go:build unix

package filelock

import (
	"os"
	"syscall"
)

func ownAlone(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && stat.Nlink == 1 && info.Mode().Perm()&0o077 == 0
}
