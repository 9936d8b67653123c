package clinicaldoctest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Silent makes the request's connection go silent: nothing more is read from it
// or sent on it, yet it stays open, as when a machine or a link on the way dies.
// Over HTTP/2 that ends every request on the connection. With
// [Fault.CommitAfter] the request is read and done first.
func Silent() Fault {
	return newFault("silent", func(s *Server, _ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		if conn, ok := r.Context().Value(connKey{}).(*quietConn); ok {
			conn.silent.Store(true)
		}
		select {
		case <-r.Context().Done():
		case <-s.closing.Done():
		}
		panic(http.ErrAbortHandler)
	})
}

// connKey is where a request's context holds its connection.
type connKey struct{}

// withConn gives requests their connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// quietListener accepts connections that can go silent.
type quietListener struct{ net.Listener }

func (l quietListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	quiet := &quietConn{Conn: conn, closed: make(chan struct{})}
	quiet.once = sync.OnceFunc(func() { close(quiet.closed) })
	return quiet, nil
}

// quietConn is a connection that can go silent.
type quietConn struct {
	net.Conn
	silent atomic.Bool
	closed chan struct{}
	once   func()
}

func (c *quietConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.silent.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *quietConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close also lets a silent reader go.
func (c *quietConn) Close() error {
	c.once()
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
