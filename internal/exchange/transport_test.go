package exchange

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silentConn is a connection whose other end can vanish without a word.
type silentConn struct {
	net.Conn
	silent  *atomic.Bool
	forgets chan struct{}
}

func (c silentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.silent.Load() && err == nil {
		<-c.forgets // what has come is not told
		return 0, net.ErrClosed
	}
	return n, err
}

func TestTransport_SilentHTTP2Connection_IsClosed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
	)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()

	tr := NewTransport()
	assert.Positive(t, tr.HTTP2.SendPingTimeout)
	assert.Less(t, tr.HTTP2.SendPingTimeout+tr.HTTP2.PingTimeout, time.Minute, "before the default stall timeout")
	tr.HTTP2.SendPingTimeout, tr.HTTP2.PingTimeout = 100*time.Millisecond, 3*time.Second // which a busy machine keeps
	tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	var dials atomic.Int32
	var silent atomic.Bool
	forgets := make(chan struct{})
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil && dials.Add(1) == 1 {
			conn = silentConn{conn, &silent, forgets}
		}
		return conn, err
	}
	defer tr.CloseIdleConnections()
	defer close(forgets)
	client := &http.Client{Transport: tr}
	get := func() (version int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.ProtoMajor, resp.Body.Close()
	}
	version, err := get()
	require.NoError(t, err)
	assert.Equal(t, 2, version)
	silent.Store(true)
	_, err = get()
	require.Error(t, err, "it ends, without a timeout of the caller's")
	_, err = get()
	require.NoError(t, err, "and the next one takes another connection")
	assert.EqualValues(t, 2, dials.Load())
}

// brokenPipe is a connection that fails every write and gives what it was sent before.
type brokenPipe struct {
	net.Conn
	err    error
	letter chan string
}

func (c brokenPipe) Write(p []byte) (int, error) { return 0, c.err }
func (c brokenPipe) Close() error                { return nil }

func (c brokenPipe) SetWriteDeadline(time.Time) error { return nil }

func (c brokenPipe) Read(p []byte) (int, error) {
	text, more := <-c.letter
	if !more {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

func TestConnWrite_ClosedByPeer_WaitsForTheResponse(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
	for name, tc := range map[string]struct {
		err   error
		then  func(*conn, brokenPipe)
		waits time.Duration
	}{
		"until all has been read": {reset, func(c *conn, pipe brokenPipe) {
			time.Sleep(100 * time.Millisecond)
			pipe.letter <- "413"
			time.Sleep(100 * time.Millisecond)
			close(pipe.letter)
		}, 200 * time.Millisecond},
		"until it is closed": {reset, func(c *conn, _ brokenPipe) {
			time.Sleep(100 * time.Millisecond)
			_ = c.Close()
		}, 100 * time.Millisecond},
		"until TLS closes it": {reset, func(c *conn, _ brokenPipe) {
			time.Sleep(100 * time.Millisecond)
			_ = c.SetWriteDeadline(time.Now())
		}, 100 * time.Millisecond},
		"not for ever":      {reset, func(*conn, brokenPipe) {}, writeErrorDelay},
		"not after a close": {&net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed}, func(*conn, brokenPipe) {}, 0},
		"not after a timeout": {
			&net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}, func(*conn, brokenPipe) {}, 0,
		},
		"not without failure": {nil, func(*conn, brokenPipe) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pipe := brokenPipe{err: tc.err, letter: make(chan string)}
				c := &conn{Conn: pipe, readsOver: make(chan struct{})}
				got := make(chan string, 1)
				go func() {
					all, _ := io.ReadAll(c)
					got <- string(all)
				}()
				go tc.then(c, pipe)
				start := time.Now()
				_, err := c.Write([]byte("x"))
				assert.Equal(t, tc.err, err)
				assert.Equal(t, tc.waits, time.Since(start))
				if tc.waits == 200*time.Millisecond {
					assert.Equal(t, "413", <-got)
					return
				}
				close(pipe.letter)
				<-got
			})
		})
	}
	t.Run("a failed dial", func(t *testing.T) {
		t.Parallel()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		conn, err := NewTransport().DialContext(ended, "tcp", "127.0.0.1:1")
		require.Error(t, err)
		assert.Nil(t, conn)
	})
}

func TestTransport_RefusedUpload_ResponseIsRead(t *testing.T) {
	t.Parallel()
	// The server responds at the first bytes and closes: what is on its way then resets the connection.
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := httptest.NewTLSServer(http.NotFoundHandler())
			defer certificate.Close()
			var config net.ListenConfig
			ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			scheme := "http"
			if secure {
				scheme = "https"
				config := &tls.Config{Certificates: certificate.TLS.Certificates, MinVersion: tls.VersionTLS12}
				ln = tls.NewListener(ln, config)
			}
			defer ln.Close()
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					_, _ = io.ReadFull(conn, make([]byte, 10<<10))
					_, _ = io.WriteString(
						conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\nsynthetic",
					)
					_ = conn.Close()
				}
			}()
			tr := NewTransport()
			tr.TLSClientConfig = certificate.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			defer tr.CloseIdleConnections()
			for i := range 30 {
				req, err := http.NewRequestWithContext(
					t.Context(), http.MethodPost, fmt.Sprintf("%s://%s", scheme, ln.Addr()), io.LimitReader(endless{}, 8<<20),
				)
				require.NoError(t, err)
				req.ContentLength = 8 << 20
				resp, err := tr.RoundTrip(req)
				require.NoError(t, err, i)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				_ = resp.Body.Close()
				assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
				assert.Equal(t, "synthetic", string(body))
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, strings.Repeat("x", len(p))), nil }

func TestTransport_ManyCalls_KeepTheirConnections(t *testing.T) {
	t.Parallel()
	const calls = 128
	var arrived, connections atomic.Int32
	all := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := arrived.Add(1)
		wave := all[(n-1)/calls]
		if n%calls == 0 {
			close(wave)
		}
		<-wave // each takes a connection of its own
		_, _ = io.WriteString(w, "ok")
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	target, err := url.Parse(srv.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: NewTransport()}
	defer client.CloseIdleConnections()
	for range all {
		var wave sync.WaitGroup
		for range calls {
			wave.Go(func() {
				req := (&http.Request{Method: http.MethodGet, URL: target}).WithContext(t.Context())
				resp, err := client.Do(req)
				if assert.NoError(t, err) {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		}
		wave.Wait()
	}
	// A connection is given back a moment after its response has ended.
	assert.LessOrEqual(t, connections.Load(), int32(calls+calls/4))
}
