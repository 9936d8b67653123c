package clinicaldoc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

var blanks = strings.Repeat(" ", 32<<10)

// endlessBody counts what is read of it.
type endlessBody struct{ read int64 }

func (b *endlessBody) Read(p []byte) (int, error) {
	n := copy(p, blanks)
	b.read += int64(n)
	return n, nil
}

func (b *endlessBody) Close() error { return nil }

func TestAnswersAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	endless := func(status int) (int64, error) {
		body := new(endlessBody)
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}, nil
		})
		_, err := client.Notes.Get(t.Context(), 7)
		return body.read, err
	}
	read, err := endless(http.StatusOK)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.ErrorContains(t, err, "it is longer than the limit of WithMaxResponseSize")
	assert.EqualValues(t, 64<<20+1, read, "one byte more tells that it is too long")

	read, err = endless(http.StatusNotFound)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.EqualValues(t, 64<<10+1, read)
}

func TestDeepAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for depth, fits := range map[int]bool{999: true, 1000: false} { // the note itself is one level
		patient := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		_, err := get(t, withField(`"patient":`+patient))
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), "nested too deeply")
	}
	for depth, fits := range map[int]bool{10_000: true, 10_001: false} {
		var out any
		answer := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		err := fuzzClient(t, answerWith(http.StatusOK, "application/json", []byte(answer))).Do(t.Context(), http.MethodGet, "/v1/other", nil, &out)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	}
}

// The transport is the SDK's own, which no other test uses on sockets.
func TestHeadersAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{900 << 10: true, 1100 << 10: false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range size >> 10 {
				w.Header().Add("X-Padding", strings.Repeat("x", 1<<10))
			}
			_, _ = io.WriteString(w, smallNote)
		}))
		t.Cleanup(srv.Close)
		client, err := clinicaldoc.NewClient(srv.URL, testToken, once)
		require.NoError(t, err)
		_, err = client.Notes.Get(t.Context(), 7)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the response's header is too large")
	}
}
