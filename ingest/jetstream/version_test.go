package jetstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// versionProxy passes connections on to a server, which reports another version through it.
type versionProxy struct {
	listener net.Listener
	version  atomic.Pointer[string]
}

func newVersionProxy(t *testing.T, s *server.Server, version string) *versionProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	p := &versionProxy{listener: listener}
	p.version.Store(&version)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.pass(t.Context(), conn, s.Addr().String())
		}
	}()
	return p
}

func (p *versionProxy) url() string { return "nats://" + p.listener.Addr().String() }

// pass copies what the client and the server send, until one of them closes the connection.
func (p *versionProxy) pass(ctx context.Context, client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	upstream, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	go func() {
		defer func() { _ = upstream.Close() }()
		_, _ = io.Copy(upstream, client)
	}()
	reader := bufio.NewReader(upstream)
	for {
		line, err := reader.ReadString('\n')
		if strings.HasPrefix(line, "INFO ") { // a server sends it more than once
			line = strings.Replace(line, `"version":"`+server.VERSION+`"`, `"version":"`+*p.version.Load()+`"`, 1)
		}
		if _, failed := io.WriteString(client, line); failed != nil || err != nil {
			return
		}
	}
}

func TestServerVersion_TooOldIsRejectedEverywhere(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	old := newVersionProxy(t, s, "2.9.10")
	_, err := Connect(old.url())
	require.ErrorIs(t, err, ErrServerTooOld)
	require.ErrorContains(t, err, "2.9.10")
	require.ErrorContains(t, err, "2.11")

	conn, err := nats.Connect(old.url(), safe()...) // as a program does that has its own connection
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	_, err = Begin(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ErrServerTooOld)
	_, err = Join(t.Context(), connect(t, s), Params{})
	require.ErrorIs(t, err, ErrNoFleet, "nothing was made on it")

	openFleet(t, connect(t, s), Params{})
	_, err = Join(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ErrServerTooOld)
	require.ErrorIs(t, Repair(t.Context(), conn, Params{}), ErrServerTooOld)
}

func TestServerVersion_OlderServerAfterReconnectEndsUploads(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	proxy := newVersionProxy(t, s, server.VERSION)
	conn, err := Connect(proxy.url())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	j := openJournal(t, conn, time.Second)
	ctx := t.Context()
	older := "2.10.29"
	proxy.version.Store(&older)
	reconnected, report := context.WithCancel(ctx)
	conn.SetReconnectHandler(func(*nats.Conn) { report() })
	require.NoError(t, conn.ForceReconnect())
	<-reconnected.Done()
	_, err = j.Claim(ctx, ingest.Key{1})
	require.ErrorIs(t, err, ErrServerTooOld)
	require.ErrorIs(t, err, ErrStore)
}

func TestServerVersion_IsComparedByItsNumbers(t *testing.T) {
	t.Parallel()
	for version, tooOld := range map[string]bool{
		"": false, "2.11.0": false, "2.11.0-beta.1": false, "v2.15.2": false, "3.0.0": false, "2.100.1": false,
		"2.10.29": true, "2.9.10": true, "1.4.1": true, "0.7.2": true, "synthetic": true,
	} {
		err := checkVersion(version)
		assert.Equal(t, tooOld, err != nil, version)
	}
}
