package exchange

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that refuses a request may not have read its body, so the rest would be in the way on an HTTP/1 connection.
// Over HTTP/2 and 3, other requests share the connection, so a refused request does not close it.
func TestReceive_RefusedRequest_ClosesOnlyHTTP1(t *testing.T) {
	t.Parallel()
	for protocol, retires := range map[int]bool{1: true, 2: false, 3: false} {
		r := newRequest(Creates, nil)
		r.Body = &Body{Bytes: []byte("{}")}
		state := new(SendState)
		state.Watchdog.Guard(t.Context(), time.Minute)
		closed := false
		state.conn.Store(new(net.Conn(hungUp{closed: &closed})))
		c := &call{Request: r, policy: receiver(func() {})}
		response := responds(http.StatusUnprocessableEntity, "{}") //nolint:bodyclose // receive closes it
		response.ProtoMajor = protocol
		require.ErrorIs(t, c.receive(t.Context(), response, new(Attempt), state), ErrStatus)
		assert.Equal(t, retires, state.retired.Load(), "HTTP/%d", protocol)
		assert.Equal(t, retires, closed, "HTTP/%d", protocol)
		state.Watchdog.Stop()
	}
}
