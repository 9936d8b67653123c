//go:build unix

package ingest_test

import (
	"os"
	"syscall"
	"time"
)

const canStop = true

func stopSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond) // this thread may run on for a moment
}

func letGoOn(process *os.Process) error { return process.Signal(syscall.SIGCONT) }
