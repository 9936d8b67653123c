//go:build unix

package ingest_test

import (
	"os"
	"syscall"
)

const canStop = true

func stopSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

func letGoOn(process *os.Process) error { return process.Signal(syscall.SIGCONT) }
