package transports

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/oauth2"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// pool is a transport of net/http's whose connections end with the test.
func pool(t *testing.T) *http.Transport {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func through(t *testing.T, transport http.RoundTripper, baseURL, token string) *clinicaldoc.Client {
	t.Helper()
	client, err := clinicaldoc.NewClient(baseURL, token, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	require.NoError(t, err)
	return client
}

// visit is a note's life: created, waited for, listed, changed, read.
func visit(t *testing.T, client *clinicaldoc.Client, size int) int64 {
	t.Helper()
	ctx := minute(t)
	note, err := client.Notes.Create(ctx, recording(size))
	require.NoError(t, err)
	_, err = client.Notes.Wait(ctx, note.ID, clinicaldoc.WaitParams{Interval: 50 * time.Millisecond})
	require.NoError(t, err)
	notes, err := clinicaldoc.Collect(client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: 7}))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	_, err = client.Notes.Update(ctx, note.ID, clinicaldoc.UpdateNoteParams{Name: new("synthetic visit, reviewed")})
	require.NoError(t, err)
	_, err = client.Notes.Get(ctx, note.ID)
	require.NoError(t, err)
	return note.ID
}

type wrapped func(*http.Request) (*http.Response, error)

func (f wrapped) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// zipped asks for compressed responses and undoes the compression, as wrappers do that replace net/http's own.
func zipped(next http.RoundTripper) http.RoundTripper {
	return wrapped(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := next.RoundTrip(r)
		if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
			return resp, err
		}
		unpacked, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, err
		}
		resp.Header.Del("Content-Encoding")
		resp.Body = struct {
			io.Reader
			io.Closer
		}{unpacked, resp.Body}
		return resp, nil
	})
}

func TestNoteLife_WrappedTransport_Succeeds(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"otelhttp": func(next http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(next) },
		"gzip":     zipped,
	} {
		for _, size := range []int{100, 2 << 20} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				srv := clinicaldoctest.NewServer()
				t.Cleanup(srv.Close)
				visit(t, through(t, wrap(pool(t)), srv.URL, srv.Token), size)
			})
		}
	}
}

// oauth2Source is how a token of oauth2's goes to the service alone: its own transport would send it to storage too.
type oauth2Source struct{ oauth2.TokenSource }

func (s oauth2Source) Token(context.Context) (string, error) {
	token, err := s.TokenSource.Token()
	if err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

func TestOAuth2_Token_IsNotSentToStorage(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	var fetched atomic.Int64
	pooled := pool(t)
	watched := wrapped(func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != "/user" {
			fetched.Add(1)
			assert.Empty(t, r.Header.Get("Authorization"), "storage gets no token")
		}
		return pooled.RoundTrip(r)
	})
	source := clinicaldoc.WithTokenSource(oauth2Source{oauth2.StaticTokenSource(&oauth2.Token{AccessToken: srv.Token})})
	client, err := clinicaldoc.NewClient(srv.URL, "", source, clinicaldoc.WithHTTPClient(&http.Client{Transport: watched}))
	require.NoError(t, err)
	id := visit(t, client, 100)
	_, err = client.Notes.DownloadAudio(t.Context(), id, io.Discard, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, fetched.Load())
}
