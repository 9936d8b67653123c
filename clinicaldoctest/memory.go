package clinicaldoctest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// The hosts of a server without sockets. Nothing resolves them: a client that
// forgets the server's transport fails instead of reaching a stranger.
const (
	memoryAPIHost     = "api.clinicaldoc.test"
	memoryStorageHost = "storage.clinicaldoc.test"
)

// memoryListener accepts pipes instead of sockets.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newMemoryListener() *memoryListener {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.close()
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "pipe" }
func (memoryAddr) String() string  { return "pipe" }

// dialMemory connects to the listener of a host. It stands where a transport
// dials TLS, so that https addresses work without certificates.
func dialMemory(
	listeners map[string]*memoryListener,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		listener, ok := listeners[host]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		near, far := net.Pipe()
		client := &memoryConn{Conn: near}
		server := &memoryConn{Conn: far, peer: client}
		select {
		case listener.conns <- server:
			return client, nil
		case <-listener.closed:
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// memoryConn is one end of a pipe whose server end can be reset like a socket.
type memoryConn struct {
	net.Conn
	peer  *memoryConn // of the server's end
	reset atomic.Bool
}

// SetLinger makes the coming Close look like a reset to the peer, as it does
// on a TCP socket that must not linger.
func (c *memoryConn) SetLinger(int) error {
	c.peer.reset.Store(true)
	return nil
}

func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.resetError("read", err)
}

func (c *memoryConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.resetError("write", err)
}

func (c *memoryConn) resetError(op string, err error) error {
	if err != nil && c.reset.Load() {
		return &net.OpError{Op: op, Net: "pipe", Err: syscall.ECONNRESET}
	}
	return err
}
