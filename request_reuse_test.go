package clinicaldoc

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

type slowDocument struct{ exchange.JSON }

func (slowDocument) Streamed() bool { return true }

// The goroutine that sends a streamed body may live longer than the call.
func TestACallIsNotUsedAgainWhileItsBodyMayBeSent(t *testing.T) {
	t.Parallel()
	client, err := NewClient("https://api.clinic.test", "synthetic")
	require.NoError(t, err)
	call := client.newCall(request{op: createNote, body: slowDocument{}}, &callOptions{})
	call.release()
	assert.Same(t, client, call.client)
}

// echo knows every note whose id is even.
type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	var body string
	id, status := path.Base(strings.TrimSuffix(r.URL.Path, "/sign")), http.StatusOK
	switch {
	case strings.ContainsAny(id[len(id)-1:], "13579"):
		status, body = http.StatusNotFound, `{"message":"no note `+id+`"}`
	case r.Method == http.MethodDelete:
		body = `{"message":"deleted ` + id + `"}`
	default:
		body = `{"id":` + id + `,"name":"note ` + id + `","transcription":"of ` + id + `"}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"X-Request-Id": {"request-" + id}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Calls share what they are made of, one after the other, and nothing else.
func TestManyCallsAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	client, err := NewClient("https://api.clinic.test", "synthetic", WithHTTPClient(&http.Client{Transport: echo{}}))
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 100 {
				id := int64(1 + 8*i + worker)
				var response Response
				deleted, err := client.Notes.Delete(t.Context(), id, WithResponse(&response))
				assert.Equal(t, fmt.Sprintf("request-%d", id), response.RequestID)
				if id%2 == 1 {
					assert.Contains(t, fmt.Sprint(err), fmt.Sprintf("request-%d", id))
					continue
				}
				if assert.NoError(t, err) {
					assert.Equal(t, fmt.Sprintf("deleted %d", id), deleted.Message)
				}
				for _, call := range []func() (*ProgressNote, error){
					func() (*ProgressNote, error) { return client.Notes.Get(t.Context(), id) },
					func() (*ProgressNote, error) { return client.Notes.Sign(t.Context(), id) },
					func() (*ProgressNote, error) {
						return client.Notes.Update(t.Context(), id, UpdateNoteParams{Name: new("synthetic")})
					},
				} {
					note, err := call()
					if assert.NoError(t, err) {
						assert.Equal(t, fmt.Sprintf("note %d of %d", id, id), note.Name+" "+note.Transcription)
					}
				}
			}
		})
	}
	all.Wait()
}
