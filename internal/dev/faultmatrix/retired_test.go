package faultmatrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// refusing takes every upload, but for those that ask to be refused: these get a 429 in good order, some without a body.
type refusing struct {
	body    string
	created atomic.Int64
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Synthetic-Refuse") != "" {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, s.body)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // it was cut, and is sent once more
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"id":%d,"name":"synthetic","patient_id":7,"created_at":"2026-01-02T03:04:05Z"}`, s.created.Add(1))
}

// A connection that a refused upload had is not used again. Whoever gets it from the pool all the same takes another one,
// which is no retry.
func TestCreate_BesideRefusedUploads_Succeeds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		protocol  string
		body      string
		size      int
		transport bool // the caller's own
	}{
		"http/1.1":                     {"http/1.1", `{"message":"slow down"}`, 2 << 10, false},
		"http/1.1, without a body":     {"http/1.1", "", 2 << 10, false},
		"http/1.1, larger":             {"http/1.1", `{"message":"slow down"}`, 200 << 10, false},
		"http/1.1, caller's transport": {"http/1.1", `{"message":"slow down"}`, 2 << 10, true},
		"plain":                        {"", `{"message":"slow down"}`, 20 << 10, false},
		"plain, without a body":        {"", "", 20 << 10, false},
		"h2":                           {"h2", `{"message":"slow down"}`, 20 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &refusing{body: tc.body}
			server := httptest.NewUnstartedServer(service)
			var opts []clinicaldoc.Option
			transport := &http.Transport{MaxIdleConnsPerHost: 100}
			t.Cleanup(transport.CloseIdleConnections)
			switch tc.protocol {
			case "":
				server.Start()
			default:
				server.EnableHTTP2 = tc.protocol == "h2"
				server.TLS = serverTLS(tc.protocol)
				server.StartTLS()
				transport.TLSClientConfig = clientTLS()
				transport.ForceAttemptHTTP2 = server.EnableHTTP2
			}
			t.Cleanup(server.Close)
			if tc.protocol != "" || tc.transport {
				opts = append(opts, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}))
			}
			client, err := clinicaldoc.NewClient(server.URL, "synthetic", append(opts, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))...)
			require.NoError(t, err)
			mixUploads(t, client, strings.Repeat("\x01", tc.size))
			assert.EqualValues(t, mixers*uploads, service.created.Load())
		})
	}
}

const (
	mixers  = 10 // of each kind, at once
	uploads = 10 // of each of them
)

// mixUploads makes creates that are refused beside creates that are not.
func mixUploads(t *testing.T, client *clinicaldoc.Client, audio string) {
	t.Helper()
	create := func(ctx context.Context, opts ...clinicaldoc.CallOption) error {
		_, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
			Name: "synthetic", PatientID: 7, Audio: clinicaldoc.AudioBytes("a.wav", []byte(audio)),
		}, opts...)
		return err
	}
	var all sync.WaitGroup
	for range mixers {
		all.Go(func() {
			for range uploads {
				assert.NoError(t, create(t.Context()))
			}
		})
		all.Go(func() {
			for range uploads {
				err := create(t.Context(), clinicaldoc.WithHeader("X-Synthetic-Refuse", "1"))
				assert.True(t, errors.Is(err, clinicaldoc.ErrRateLimited) && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown), "%v", err)
			}
		})
	}
	all.Wait()
}
