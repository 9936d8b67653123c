package clinicaldoc_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// archive is a service with one recording in a storage of its own, both on real sockets.
type archive struct {
	data []byte
	etag string
	note string // the note's JSON

	// answer answers the n-th request to storage, counted from 1; nil, or false from it: as usual.
	answer func(n int, w http.ResponseWriter, r *http.Request) bool

	api, storage *httptest.Server
	mu           sync.Mutex
	requests     []*http.Request // to storage
	addresses    int             // given out; only the latest is good
	reads        int             // of the note
}

const signature = "SYNTHETIC-SIGNATURE"

func newArchive(t *testing.T, size int) *archive {
	t.Helper()
	a := &archive{data: syntheticAudio(size).bytes(), etag: `"synthetic-1"`, note: socketNote(7)}
	a.storage = httptest.NewServer(http.HandlerFunc(a.serveStorage))
	t.Cleanup(a.storage.Close)
	a.api = httptest.NewServer(http.HandlerFunc(a.serveAPI))
	t.Cleanup(a.api.Close)
	return a
}

func (a *archive) serveAPI(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/audio-url") {
		a.addresses++
		fmt.Fprintf(w, `{"url":"%s/audio/7?address=%d&X-Amz-Signature=%s"}`, a.storage.URL, a.addresses, signature)
		return
	}
	a.reads++
	_, _ = io.WriteString(w, a.note)
}

func (a *archive) serveStorage(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r)
	n, latest, answer := len(a.requests), fmt.Sprint(a.addresses), a.answer
	a.mu.Unlock()
	if answer != nil && answer(n, w, r) {
		return
	}
	if r.URL.Query().Get("address") != latest {
		expired(w)
		return
	}
	a.serve(w, r)
}

// serve gives the recording as S3 does.
func (a *archive) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "audio/wav")
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
}

// serveWhole gives the recording as a storage does that knows no ranges.
func (a *archive) serveWhole(w http.ResponseWriter, r *http.Request) {
	r.Header.Del("Range")
	a.serve(w, r)
}

// expired is the answer to an address that is too old.
func expired(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`)
}

// cutWriter drops the connection once so many bytes of the body are out.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	_, _ = w.ResponseWriter.Write(p[:n])
	w.left -= n
	if n < len(p) {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// cut serves the recording up to the n-th byte of the answer and drops the connection.
func (a *archive) cut(w http.ResponseWriter, r *http.Request, n int) {
	a.serve(&cutWriter{w, n}, r)
}

func (a *archive) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return socketClient(t, a.api.URL, opts...)
}

// firstly answers the first request so, and the others as usual.
func firstly(answer func(w http.ResponseWriter, r *http.Request)) func(int, http.ResponseWriter, *http.Request) bool {
	return func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			answer(w, r)
		}
		return n == 1
	}
}

// seen returns the requests that storage has seen.
func (a *archive) seen() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *archive) ranges() []string {
	var ranges []string
	for _, r := range a.seen() {
		ranges = append(ranges, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	}
	return ranges
}

func fileContent(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// fileNames lists a directory.
func fileNames(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	list := []string{}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

// storageAt answers for the service that a recording lies there, and lets all else through.
func storageAt(address string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.String(), testBase) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"id":7,"url":"` + address + "/" + canary + "?signature=" + canary + `"}`))}, nil
		}
		transport := &http.Transport{DisableKeepAlives: true}
		return transport.RoundTrip(r)
	}
}
