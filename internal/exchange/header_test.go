package exchange

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
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
	return &Peer{
		Transport: transport, Accept: "application/json", UserAgent: "synthetic/1", StallTimeout: time.Minute,
		MaxBody: 1 << 20,
	}, target
}

func traced(header http.Header) { header["Traceparent"] = []string{"synthetic"} }

// A header that one request adds is not in another.
func TestHeader_AddedValues_StayInOneRequest(t *testing.T) {
	t.Parallel()
	var got http.Header
	peer, target := peerAt(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.Header.Clone()
		got.Del("Content-Length")
	})
	token := "Bearer first"
	authorization := func(context.Context) (string, error) { return token, nil }
	send := func(method string, prepare func(*Request)) http.Header {
		c := &Request{
			Peer: peer, Method: method, URL: target, Effect: Repeatable, Caller: &caller{}, Authorization: authorization,
		}
		prepare(c)
		result, err := c.Do(t.Context())
		defer result.Release()
		require.NoError(t, err)
		return got
	}
	usual := func(token string) http.Header {
		return http.Header{
			"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Authorization": {token}, "User-Agent": {"synthetic/1"},
		}
	}
	with := func(key, value string) http.Header {
		header := usual(token)
		header.Set(key, value)
		return header
	}
	bare := func(*Request) {}
	document := func(c *Request) { c.Body = &Body{Bytes: []byte("{}")} }
	for range 2 {
		assert.Equal(t, usual("Bearer first"), send(http.MethodGet, bare))
		assert.Equal(t, with("Content-Type", "application/json"), send(http.MethodPut, document))
		assert.Equal(t, usual("Bearer another"), send(http.MethodGet, func(c *Request) {
			c.Authorization = func(context.Context) (string, error) { return "Bearer another", nil }
		}))
		assert.Equal(t,
			with("X-Synthetic", "1"), send(http.MethodGet, func(c *Request) { c.Header = http.Header{"X-Synthetic": {"1"}} }),
		)
		assert.Equal(t,
			with("Traceparent", "synthetic"), send(http.MethodGet, func(c *Request) { c.Caller = &caller{begin: traced} }),
		)
		assert.NotContains(t, send(http.MethodHead, bare), "Accept-Encoding", "there is nothing to compress")
	}
	token = "Bearer second"
	assert.Equal(t, usual("Bearer second"), send(http.MethodGet, bare))
	assert.Equal(t, with("Content-Type", "application/json"), send(http.MethodPut, document))
}

// A transport, or its Proxy function, may change the headers of a request, which it should not. The change does not
// appear in the next attempt.
func TestHeader_ChangedByTransport_StaysInOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		given := http.Header{"X-Given": make([]string, 1, 8)}
		for range 2 {
			c := newRequest(Reads, func(r *http.Request) (*http.Response, error) {
				assert.NotContains(t, r.Header, "X-Synthetic")
				assert.Len(t, r.Header["X-Given"], 1)
				r.Header.Set("X-Synthetic", "1")
				r.Header.Add("X-Given", "2")
				return responds(503, "{}"), nil
			})
			c.Header = given
			result, err := c.Do(t.Context())
			require.Error(t, err)
			assert.Equal(t, 4, result.Last.Number)
			result.Release()
		}
		assert.Equal(t, []string{"", ""}, given["X-Given"][:2])
	})
}
