package exchange

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReset_Windows_HasItsOwnNumbers(t *testing.T) {
	t.Parallel()
	const aborted, reset = syscall.Errno(10053), syscall.Errno(10054) // of Windows
	for _, number := range []syscall.Errno{aborted, reset} {
		err := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("wsarecv", number)}
		assert.True(t, Reset(err))
	}
	assert.True(t, Reset(syscall.ECONNRESET))
	assert.True(t, Reset(syscall.EPIPE))
	assert.False(t, Reset(syscall.ECONNREFUSED))
	assert.False(t, Reset(io.EOF))
}
