package main

import (
	"net"
	"sync/atomic"
)

// meter counts connections, and those that ended without the client wanting it.
type meter struct{ opened, cut atomic.Int64 }

func (m *meter) follow(conn net.Conn) net.Conn {
	m.opened.Add(1)
	return &meteredConn{Conn: conn, meter: m}
}

type meteredConn struct {
	net.Conn
	meter *meter
	over  atomic.Bool // counted, or closed by the client itself
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.judge(err)
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.judge(err)
	return n, err
}

func (c *meteredConn) Close() error {
	c.over.Store(true)
	return c.Conn.Close()
}

func (c *meteredConn) judge(err error) {
	if err != nil && c.over.CompareAndSwap(false, true) {
		c.meter.cut.Add(1)
	}
}
