//go:build unix

package download

import "syscall"

const noFollow = syscall.O_NOFOLLOW
