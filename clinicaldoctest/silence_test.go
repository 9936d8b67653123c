package clinicaldoctest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// farewell is a connection that remembers whether its writing side was closed.
type farewell struct {
	net.Conn
	said bool
}

func (f *farewell) CloseWrite() error { f.said = true; return nil }

func TestQuietConn_Silent_DoesNotCloseWriting(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		inner := &farewell{}
		conn := &quietConn{Conn: inner}
		conn.silent.Store(silent)
		require.NoError(t, conn.CloseWrite())
		assert.Equal(t, !silent, inner.said)
	}
}
