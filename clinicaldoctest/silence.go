package clinicaldoctest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connKey is where a request's context holds its connection.
type connKey struct{}

// withConn gives requests their connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, rawConn(conn))
}

// rawConn is a connection below its TLS.
func rawConn(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

// connOf returns a request's connection, nil where no server of the box read it.
func connOf(r *http.Request) *quietConn {
	conn, _ := r.Context().Value(connKey{}).(*quietConn)
	return conn
}

// quietListener accepts connections that can go silent.
type quietListener struct{ net.Listener }

func (l quietListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	quiet := &quietConn{Conn: conn, closed: make(chan struct{})}
	quiet.release = sync.OnceFunc(func() { close(quiet.closed) })
	return quiet, nil
}

// quietConn is a connection that can go silent.
type quietConn struct {
	net.Conn
	silent  atomic.Bool
	closed  chan struct{}
	release func() // closes closed, once
}

// Read blocks until Close if the connection is silent.
func (c *quietConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.silent.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write drops what a silent connection should send.
func (c *quietConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close also lets a silent reader go.
func (c *quietConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// SetLinger and CloseWrite are what net/http and resets ask of a socket.
func (c *quietConn) SetLinger(seconds int) error {
	if conn, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return conn.SetLinger(seconds)
	}
	return nil
}

// CloseWrite tells the client that nothing more comes.
func (c *quietConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok && !c.silent.Load() {
		return conn.CloseWrite()
	}
	return nil
}
