package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const writeErrorDelay = time.Second // how long the error of a write is held back at most

// Shared is the transport of all clients without their own. A client that is made for one call then leaves no
// unused connections behind.
var Shared = sync.OnceValue(NewTransport)

// NewTransport returns a transport with its own pool. It has no total timeout, because a transfer may take long. It
// pings silent HTTP/2 connections and closes dead ones; otherwise every retry would use a dead connection.
func NewTransport() *http.Transport {
	t := cleanhttp.DefaultPooledTransport()
	t.MaxIdleConns = 512 // a connection that is not kept costs a handshake
	t.MaxIdleConnsPerHost = 256
	t.MaxResponseHeaderBytes = 1 << 20
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
	t.OnProxyConnectResponse = redact.OnProxyConnectResponse
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: inner, readsOver: make(chan struct{})}, nil
	}
	return t
}

// conn lets the last response of a server be read. A server that refuses an upload responds and closes the
// connection, which resets it during the upload. net/http then drops the response with the failed write, although
// it can be read. So the write fails only when there is nothing left to read.
type conn struct {
	net.Conn
	readsOver chan struct{} // closed when nothing more can be read
	once      sync.Once     // closes it
	retired   atomic.Bool   // every write fails
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.endReads()
	}
	return n, err
}

// Write implements [net.Conn]. If the peer has closed the connection, it returns the error only when nothing more can
// be read, or after writeErrorDelay.
func (c *conn) Write(p []byte) (int, error) {
	if c.retired.Load() {
		return 0, errRetired
	}
	n, err := c.Conn.Write(p)
	if endedByPeer(err) {
		select {
		case <-c.readsOver:
		case <-time.After(writeErrorDelay):
		}
	}
	return n, err
}

// endedByPeer reports whether a write failed because the peer has closed the connection. Each system has its own number
// for that.
func endedByPeer(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Timeout() {
		return false
	}
	return !errors.Is(err, net.ErrClosed)
}

// Close also ends a write that is held back.
func (c *conn) Close() error {
	c.endReads()
	return c.Conn.Close()
}

// SetWriteDeadline also ends a write that is held back. TLS calls it when it begins to close, and its last record is
// not worth a wait.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.endReads()
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) endReads() { c.once.Do(func() { close(c.readsOver) }) }
