package clinicaldoc_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// h2Server is an httptest server that speaks HTTP/2.
func h2Server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	if tr, ok := srv.Client().Transport.(*http.Transport); assert.True(t, ok) {
		tr.ExpectContinueTimeout = 10 * time.Second
	}
	return srv
}

// The frames of HTTP/2 that a test needs to misbehave. Requests are told apart by their stream alone, so that their
// compressed header need not be understood.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1 // of settings
	flagEndStream  = 0x1 // of data and headers
	flagEndHeaders = 0x4

	codeProtocolError = 0x1
	codeRefusedStream = 0x7

	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frameServer is a TLS listener whose n-th connection runs the n-th script, the last one all that follow. It returns its
// URL, an HTTP client that trusts it, and a count of connections.
func frameServer(t *testing.T, scripts ...func(*h2Conn)) (string, *http.Client, func() int) {
	t.Helper()
	certificate := h2Server(t, func(http.ResponseWriter, *http.Request) {})
	config := certificate.TLS.Clone()
	config.NextProtos = []string{"h2"}
	var listen net.ListenConfig
	plain, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(plain, config)
	tr := socketTransport(t)
	tr.TLSClientConfig = certificate.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tr.ForceAttemptHTTP2 = true
	var mu sync.Mutex
	var open []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			script := scripts[min(len(open), len(scripts)-1)]
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				serveFrames(conn, script)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		tr.CloseIdleConnections()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "https://" + plain.Addr().String(), &http.Client{Transport: tr}, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
}

// h2Conn is a server's end of an HTTP/2 connection.
type h2Conn struct {
	net.Conn
	in *bufio.Reader
}

func serveFrames(conn net.Conn, script func(*h2Conn)) {
	in := bufio.NewReader(conn)
	if _, err := io.ReadFull(in, make([]byte, len(clientPreface))); err != nil {
		return
	}
	c := &h2Conn{conn, in}
	c.frame(frameSettings, 0, 0, nil)
	script(c)
	_, _ = io.Copy(io.Discard, in) // the client closes; a close from here could overtake the last frames
}

func (c *h2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.Write(append(frame, payload...))
}

func (c *h2Conn) next() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	payload = make([]byte, length>>8)
	_, err = io.ReadFull(c.in, payload)
	return byte(length), head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

// request waits for a request's header and returns its stream; with whole, for all of its body too. The body is what has
// come until its end, a reset or the connection's end.
func (c *h2Conn) request(whole bool) (stream uint32, body []byte, ended bool) {
	for {
		kind, flags, id, payload, err := c.next()
		if err != nil {
			return stream, body, false
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.frame(frameSettings, flagAck, 0, nil)
		case kind == frameReset:
			return id, body, false
		case kind == frameHeaders && !whole:
			return id, nil, flags&flagEndStream != 0
		case kind == frameHeaders && flags&flagEndStream == 0:
			c.frame(frameHeaders, flagEndHeaders, id, []byte("\x08\x03100")) // :status 100, whether it was asked for or not
		case kind == frameData:
			body = append(body, payload...)
			if len(payload) > 0 {
				size := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
				c.frame(frameWindowUpdate, 0, 0, size)
				c.frame(frameWindowUpdate, 0, id, size)
			}
		}
		if (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 {
			return id, body, true
		}
	}
}

// respond sends a complete response with the status 200.
func (c *h2Conn) respond(stream uint32, body string) {
	c.frame(frameHeaders, flagEndHeaders, stream, []byte{0x88})
	c.frame(frameData, flagEndStream, stream, []byte(body))
}

// goAway says that streams beyond last were not looked at.
func (c *h2Conn) goAway(last uint32) {
	c.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), 0))
}

func (c *h2Conn) resetStream(stream, code uint32) {
	c.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}
