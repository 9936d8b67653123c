package exchange

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// peerAt is a server on a socket, reached through net/http's own transport.
func peerAt(t *testing.T, serve http.HandlerFunc) (*Peer, *url.URL) {
	t.Helper()
	srv := httptest.NewServer(serve)
	t.Cleanup(srv.Close)
	target, err := url.Parse(srv.URL + "/v1/progress-notes/7")
	require.NoError(t, err)
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &Peer{Transport: transport, UserAgent: "synthetic/1", StallTimeout: time.Minute, MaxBody: 1 << 20}, target
}

type traced struct{ parent string }

func (h traced) Begin(ctx context.Context, _ *Attempt) *Trace {
	return &Trace{Context: ctx, Parent: h.parent}
}
func (traced) End(context.Context, *Attempt) {}

// What one request adds to its headers must not be seen by another, although most share theirs.
func TestNoHeaderReachesAnotherRequest(t *testing.T) {
	t.Parallel()
	var got http.Header
	peer, target := peerAt(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.Header.Clone()
		got.Del("Content-Length")
	})
	token := "Bearer first"
	peer.Authorization = func(context.Context) (string, error) { return token, nil }
	send := func(method string, prepare func(*Call)) http.Header {
		c := &Call{Peer: peer, Method: method, URL: target, Effect: Repeatable, Explain: ExplainFunc(func(a *Attempt) error { return a })}
		prepare(c)
		defer c.Release()
		require.NoError(t, c.Do(t.Context()))
		return got
	}
	usual := func(token string) http.Header {
		return http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Authorization": {token}, "User-Agent": {"synthetic/1"}}
	}
	with := func(key, value string) http.Header {
		header := usual(token)
		header.Set(key, value)
		return header
	}
	bare := func(*Call) {}
	document := func(c *Call) { c.Body = JSON("{}") }
	for range 2 {
		assert.Equal(t, usual("Bearer first"), send(http.MethodGet, bare))
		assert.Equal(t, with("Content-Type", "application/json"), send(http.MethodPut, document))
		assert.Equal(t, usual("Bearer another"), send(http.MethodGet, func(c *Call) {
			c.Authorization = func(context.Context) (string, error) { return "Bearer another", nil }
		}))
		assert.Equal(t, with("X-Synthetic", "1"), send(http.MethodGet, func(c *Call) { c.Header = http.Header{"X-Synthetic": {"1"}} }))
		assert.Equal(t, with("Traceparent", "synthetic"), send(http.MethodGet, func(c *Call) { c.Hook = traced{"synthetic"} }))
		assert.NotContains(t, send(http.MethodHead, bare), "Accept-Encoding", "there is nothing to compress")
	}
	token = "Bearer second"
	assert.Equal(t, usual("Bearer second"), send(http.MethodGet, bare))
	assert.Equal(t, with("Content-Type", "application/json"), send(http.MethodPut, document))
}

// A transport of the caller's may do to the headers what it should not.
func TestHeadersAreSharedWithNoOtherTransport(t *testing.T) {
	t.Parallel()
	for range 2 {
		c := newCall(Reads, func(r *http.Request) (*http.Response, error) {
			assert.NotContains(t, r.Header, "Accept-Encoding", "it may undo no compression")
			assert.NotContains(t, r.Header, "X-Synthetic")
			r.Header.Set("X-Synthetic", "1")
			return responds(200, "{}"), nil
		})
		require.NoError(t, c.Do(t.Context()))
		c.Release()
		assert.Nil(t, c.Peer.usual.Load())
	}
}

//nolint:paralleltest // AllocsPerRun counts the allocations of all goroutines.
func TestUsualHeadersCostNothing(t *testing.T) {
	c := newCall(Reads, nil)
	c.Peer.Transport = new(http.Transport)
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.header("Bearer synthetic") }))
}
