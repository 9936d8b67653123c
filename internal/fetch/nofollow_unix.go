//go:build unix

package fetch

import "syscall"

const noFollow = syscall.O_NOFOLLOW
