package clinicaldoc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestDownload_AnySize_StreamsTheRecording(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 511, 512, 513, 64 << 10, 64<<10 + 1, 1 << 20} {
		a := newAudioServer(t, size)
		a.requireDownload(t)
		assert.Len(t, a.seen(), 1)
		assert.Equal(t, 1, a.reads, "the note is read once, for its audio.size")
	}
}

func TestDownload_Storage_GetsNothingOfTheCallers(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	jar := must(cookiejar.New(nil))(t)
	home := must(url.Parse(a.storage.URL))(t)
	jar.SetCookies(home, []*http.Cookie{{Name: "session", Value: "secret"}})
	a.cutOnce(10)
	client := a.client(t, clinicaldoc.WithHTTPClient(&http.Client{Transport: socketTransport(t), Jar: jar}),
		clinicaldoc.WithUserAgent("synthetic/1"))
	_, err := client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{},
		clinicaldoc.WithHeader("X-Synthetic", "1"))
	require.NoError(t, err)
	require.Len(t, a.seen(), 2)
	for i, r := range a.seen() {
		want := http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"synthetic/1"}}
		if i == 1 {
			want["Range"], want["If-Range"] = []string{"bytes=10-"}, []string{a.etag}
		}
		assert.Equal(t, want, r.Header)
	}
}

func TestDownload_CutAtEveryByte_GoesOn(t *testing.T) {
	t.Parallel()
	const size = 40
	for at := range size {
		a := newAudioServer(t, size)
		a.cutOnce(at)
		a.requireDownload(t)
		want := fmt.Sprintf(`bytes=%d- "synthetic-1"`, at)
		if at == 0 {
			want = ""
		}
		assert.Equal(t, []string{"", want}, a.ranges())
	}
}

func TestDownload_FiveCutsAndTwoExpiries_IsComplete(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	a := newAudioServer(t, size)
	cuts := map[int]int{1: 100_000, 2: 0, 4: 65_536, 5: 1, 7: 300_001} // by the number of the request
	expiries := map[int]bool{3: true, 6: true}
	a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if expiries[n] {
			expired(w)
			return true
		}
		at, cut := cuts[n]
		if cut {
			a.cut(w, r, at)
		}
		return cut
	}
	hash := sha256.New()
	var received []int64
	n, err := a.client(t).Notes.DownloadAudio(socketContext(t), 7, hash,
		downloadParams{OnProgress: func(n, total int64) {
			received = append(received, n)
			assert.Equal(t, int64(size), total)
		}})
	require.NoError(t, err)
	assert.Equal(t, int64(size), n)
	assert.Equal(t, sha256.Sum256(a.data), [32]byte(hash.Sum(nil)))
	assert.Len(t, a.seen(), 8)
	assert.Equal(t, 3, a.addresses)
	require.NotEmpty(t, received)
	assert.Equal(t, int64(0), received[0])
	assert.Equal(t, int64(size), received[len(received)-1])
	for i := 1; i < len(received); i++ {
		assert.Greater(t, received[i], received[i-1], "progress grows")
	}
}

// others are what the second request meets when it asks for the rest.
var others = map[string]struct {
	first, then func(a *audioServer)
	answer      func(a *audioServer, w http.ResponseWriter, r *http.Request)
}{
	"changed to a longer one":  {then: replaced(bytes.Repeat([]byte{1}, 1500))},
	"changed to a shorter one": {then: replaced(bytes.Repeat([]byte{1}, 100))},
	"changed to the same size": {then: replaced(bytes.Repeat([]byte{1}, 1000))},
	"weak ETag":                {first: func(a *audioServer) { a.etag = `W/"synthetic-1"` }},
	"no ETag":                  {first: func(a *audioServer) { a.etag = "" }},
	"empty ETag":               {first: func(a *audioServer) { a.etag = `""` }},
	"no ranges and no ETag now": {answer: func(a *audioServer, w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		etag := a.etag
		a.etag = ""
		a.serveWhole(w, r)
		a.etag = etag
	}},
	"no ranges and another length": {answer: func(a *audioServer, w http.ResponseWriter, r *http.Request) {
		a.data = syntheticAudio(2000).bytes()
		a.serveWhole(w, r)
	}},
	"wrong start":   {answer: partial(`bytes 399-999/1000`, `"synthetic-1"`, 399)},
	"wrong total":   {answer: partial(`bytes 400-999/1001`, `"synthetic-1"`, 400)},
	"no total":      {answer: partial(`bytes 400-999/*`, `"synthetic-1"`, 400)},
	"no range":      {answer: partial(``, `"synthetic-1"`, 400)},
	"other unit":    {answer: partial(`items 400-999/1000`, `"synthetic-1"`, 400)},
	"other ETag":    {answer: partial(`bytes 400-999/1000`, `"synthetic-2"`, 400)},
	"weak ETag now": {answer: partial(`bytes 400-999/1000`, `W/"synthetic-1"`, 400)},
	"no ETag now":   {answer: partial(`bytes 400-999/1000`, ``, 400)},
	"too short now": {answer: func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes */300")
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	}},
	"unknown size now": {answer: func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	}},
}

// replaced puts another recording in the place of the first.
func replaced(data []byte) func(*audioServer) {
	return func(a *audioServer) { a.data, a.etag = data, `"synthetic-2"` }
}

// partial answers with the recording's rest under these headers.
func partial(contentRange, etag string, from int) func(*audioServer, http.ResponseWriter, *http.Request) {
	return func(a *audioServer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", contentRange)
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(a.data[from:])
	}
}

func TestDownload_RecordingChanges_IsNeverMixed(t *testing.T) {
	t.Parallel()
	for name, tt := range others {
		for _, rewindable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, rewindable %t", name, rewindable), func(t *testing.T) {
				t.Parallel()
				a := newAudioServer(t, 1000)
				if tt.first != nil {
					tt.first(a)
				}
				a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
					switch {
					case n == 1:
						a.cut(w, r, 400)
						return true
					case n == 2 && tt.then != nil:
						tt.then(a)
					case n == 2 && tt.answer != nil:
						tt.answer(a, w, r)
						return true
					}
					return false
				}
				var received []int64
				params := downloadParams{OnProgress: func(n, _ int64) { received = append(received, n) }}
				client := a.client(t)
				if rewindable {
					file := must(os.Create(filepath.Join(t.TempDir(), "recording")))(t)
					t.Cleanup(func() { _ = file.Close() })
					must(file.WriteString("kept"))(t)
					n := must(client.Notes.DownloadAudio(socketContext(t), 7, file, params))(t)
					assert.Equal(t, int64(len(a.data)), n)
					assert.Equal(t, append([]byte("kept"), a.data...), fileContent(t, file.Name()),
						"what stood before the recording stays")
					assert.Equal(t, []int64{0, 400, 0}, received[:3], "the restart is reported")
					return
				}
				var got bytes.Buffer
				n, err := client.Notes.DownloadAudio(socketContext(t), 7, &got, params)
				require.ErrorIs(t, err, clinicaldoc.ErrAudioChanged)
				assert.Equal(t, int64(400), n)
				assert.Equal(t, 400, got.Len(), "nothing was appended")
				assert.NotContains(t, err.Error(), signature)
			})
		}
	}
}

func TestDownload_StorageWithoutRanges_GoesOn(t *testing.T) {
	t.Parallel()
	const size = 300_000
	subtests(t, map[string][]int{
		"once":                  {100_000},
		"twice":                 {100_000, 200_000},
		"within what was there": {100_000, 50_000, 100_000, 150_000},
		"at the last byte":      {size - 1},
	}, func(t *testing.T, cuts []int) {
		a := newAudioServer(t, size)
		a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n <= len(cuts) {
				w = &cutWriter{w, cuts[n-1]}
			}
			a.serveWhole(w, r)
			return true
		}
		var received []int64
		var attempts []int64
		client := a.client(t, onAttempt(func(_ context.Context, at clinicaldoc.Attempt) {
			if at.Operation == "Notes.DownloadAudio" {
				attempts = append(attempts, at.BytesReceived)
			}
		}))
		var got bytes.Buffer // it cannot be rewound
		n, err := client.Notes.DownloadAudio(socketContext(t), 7, &got,
			downloadParams{OnProgress: func(n, _ int64) { received = append(received, n) }})
		require.NoError(t, err)
		assert.Equal(t, int64(size), n)
		assert.True(t, bytes.Equal(a.data, got.Bytes()))
		assert.True(t, slices.IsSorted(received), "progress grows")
		for i, cut := range cuts {
			assert.Equal(t, int64(cut), attempts[i], "all that came is reported, also what was there already")
		}
	})
	t.Run("never any further", func(t *testing.T) {
		t.Parallel()
		a := newAudioServer(t, size)
		a.answer = every(func(w http.ResponseWriter, r *http.Request) {
			a.serveWhole(&cutWriter{w, 1000}, r)
		})
		_, err := a.download(t, io.Discard)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Len(t, a.seen(), 4, "one that got further, three that did not")
	})
}

// failingFile is on a disk that fails.
type failingFile struct{ *os.File }

func (failingFile) Truncate(int64) error { return syscall.EIO }

func TestDownload_TruncateFails_ErrorHasTheCause(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	a.etag = ""
	a.cutOnce(400)
	file := must(os.Create(filepath.Join(t.TempDir(), "visit.wav")))(t)
	t.Cleanup(func() { _ = file.Close() })
	_, err := a.download(t, failingFile{file})
	require.ErrorIs(t, err, clinicaldoc.ErrAudioChanged)
	require.ErrorIs(t, err, syscall.EIO)
}

// Only the response with the rest has a length. It ends too early without an error, so the recording is not complete.
func TestDownload_OnlyTheRestHasALength_IsComplete(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	a.note = `{"id":7,"name":"n"}` // nor does the note
	a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 2 {
			return false
		}
		w.Header().Set("Content-Type", "audio/wav")
		w.Header().Set("ETag", a.etag)
		from, to := 0, 400
		if n == 2 {
			from, to = 400, 700
			w.Header().Set("Content-Range", "bytes 400-999/1000")
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(a.data[from:to])
		_ = http.NewResponseController(w).Flush() // in chunks
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	a.requireDownload(t)
	assert.Len(t, a.seen(), 3)
}

// refusals are answers that are no recording. More beginnings of files are told apart in internal/download.
var refusals = map[string]func(w http.ResponseWriter, r *http.Request){
	"gzip": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "audio/wav")
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		_, _ = zip.Write(make([]byte, 1000))
		_ = zip.Close()
	},
	"XML":         document("application/xml", `<?xml version="1.0"?><Error/>`),
	"text XML":    document("text/xml; charset=utf-8", `<Error/>`),
	"HTML":        document("text/html; charset=UTF-8", `<html>Login</html>`),
	"capitals":    document("Text/HTML", `<html>Login</html>`),
	"JSON":        document("application/json", `{"message":"Unauthenticated."}`),
	"problem":     document("application/problem+json", `{}`),
	"SVG":         document("image/svg+xml", `<svg/>`),
	"hidden HTML": document("audio/wav", `<!DOCTYPE html><html>Login</html>`),
	"hidden text": document("text/plain; charset=utf-8", "Request has expired"),
	"nothing":     document("audio/wav", ``),
	"nothing in chunks": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "audio/wav")
		_ = http.NewResponseController(w).Flush()
	},
	"204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	"redirect": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/audio/elsewhere?X-Amz-Signature="+signature, http.StatusTemporaryRedirect)
	},
	"a part": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-9/1000")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 10))
	},
	"416": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) },
}

func document(contentType, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func TestDownload_NotARecording_IsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAudioServer(t, 1000)
			a.answer = firstly(answer)
			var got bytes.Buffer
			n, err := a.download(t, &got)
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
			assert.Zero(t, n)
			assert.Zero(t, got.Len(), "nothing of it is written")
			assert.Len(t, a.seen(), 1)
			assert.NotContains(t, fmt.Sprintf("%+v", err), signature)
		})
		if name == "416" || name == "a part" || strings.HasPrefix(name, "nothing") {
			continue // in the middle these mean something else
		}
		t.Run(name+" in the middle", func(t *testing.T) {
			t.Parallel()
			a := newAudioServer(t, 1000)
			a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n == 1 {
					a.cut(w, r, 400)
				} else {
					answer(w, r)
				}
				return true
			}
			var got bytes.Buffer
			_, err := a.download(t, &got)
			if strings.HasPrefix(name, "hidden") {
				require.ErrorIs(t, err, clinicaldoc.ErrAudioChanged)
			} else {
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
			}
			assert.Equal(t, a.data[:400], got.Bytes())
		})
	}
}

// closeDelimited answers without a length and ends the body by closing the connection.
func closeDelimited(t *testing.T, w http.ResponseWriter, etag string, body []byte) {
	t.Helper()
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nETag: %s\r\nConnection: close\r\n\r\n",
		etag)
	_, _ = buffer.Write(body)
	_ = buffer.Flush()
	_ = conn.Close()
}

// sized is a note with the size of its recording.
func sized(size int) string {
	return strings.Replace(socketNote(7), `"has"`, fmt.Sprintf(`"audio":{"size":%d},"has"`, size), 1)
}

func TestDownload_CutOfUnknownLength_IsNoticedByTheNotesSize(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	a.note = sized(1000)
	a.answer = firstly(func(w http.ResponseWriter, _ *http.Request) { closeDelimited(t, w, a.etag, a.data[:600]) })
	a.requireDownload(t)
	assert.Equal(t, 1, a.reads)
	assert.Equal(t, []string{"", `bytes=600- "synthetic-1"`}, a.ranges())
}

func TestDownload_UnknownLength_IsReportedAsMinusOne(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	a.answer = every(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(a.data[:500])
		_ = http.NewResponseController(w).Flush() // so the rest comes in chunks
		_, _ = w.Write(a.data[500:])
	})
	totals := map[int64]bool{}
	params := downloadParams{OnProgress: func(_, total int64) { totals[total] = true }}
	must(a.client(t).Notes.DownloadAudio(socketContext(t), 7, io.Discard, params))(t)
	assert.Equal(t, map[int64]bool{-1: true}, totals)
}

// When a download fails, the request for the note's audio.size is canceled.
func TestDownload_Failed_CancelsTheReadOfTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, ended := make(chan struct{}), false
		transport := httpmock.NewMockTransport()
		transport.RegisterResponder(http.MethodGet, testBase+notesPath+"/7/audio-url",
			httpmock.NewStringResponder(http.StatusOK, `{"url":"https://storage.clinic.test/7.wav"}`))
		transport.RegisterResponder(http.MethodGet, testBase+notesPath+"/7",
			func(r *http.Request) (*http.Response, error) {
				close(asked)
				<-r.Context().Done()
				ended = true
				return nil, r.Context().Err()
			})
		transport.RegisterResponder(http.MethodGet, "https://storage.clinic.test/7.wav",
			func(*http.Request) (*http.Response, error) {
				cut := readerFunc(func([]byte) (int, error) { <-asked; return 0, io.ErrUnexpectedEOF })
				return &http.Response{StatusCode: http.StatusOK, ContentLength: 1000, Header: http.Header{},
					Body: io.NopCloser(cut)}, nil
			})
		client := clientOver(t, transport)
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		synctest.Wait() // the mock's function runs in a goroutine of its own
		assert.True(t, ended)
	})
}

func TestDownload_OtherSizeThanTheNotes_CanBeIgnored(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]int{"one less": 999, "one more": 1001}, func(t *testing.T, size int) {
		a := newAudioServer(t, 1000)
		a.note = sized(size)
		client := a.client(t)
		_, err := client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrSizeMismatch)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Contains(t, err.Error(), "IgnoreSize", "the error says what to do")

		reads := a.reads
		var got bytes.Buffer
		n := must(client.Notes.DownloadAudio(socketContext(t), 7, &got, downloadParams{IgnoreSize: true}))(t)
		assert.Equal(t, int64(1000), n)
		assert.Equal(t, a.data, got.Bytes())
		assert.Equal(t, reads, a.reads, "the note is not asked")

		path := filepath.Join(t.TempDir(), "visit.wav")
		kept, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrSizeMismatch)
		assert.NoFileExists(t, path)
		requests := len(a.seen())
		must(client.Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{IgnoreSize: true}))(t)
		assert.Equal(t, a.data, fileContent(t, path))
		assert.Equal(t, []string{"visit.wav"}, fileNames(t, filepath.Dir(path)))
		if kept > 0 {
			assert.NotEmpty(t, a.ranges()[requests], "the part was kept")
		}
	})
}

func TestDownload_NoProgress_IsBounded(t *testing.T) {
	t.Parallel()
	type test struct {
		answer              func(a *audioServer, w http.ResponseWriter, r *http.Request)
		target              error
		requests, addresses int
	}
	subtests(t, map[string]test{
		"cut": {func(*audioServer, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, io.EOF, 4, 1},
		"500": {storageStatus(500), clinicaldoc.ErrServer, 4, 1},
		"429": {storageStatus(429), clinicaldoc.ErrRateLimited, 4, 1},
		"501": {storageStatus(501), clinicaldoc.ErrServer, 1, 1},
		"405": {storageStatus(405), nil, 1, 1},
		"400": {storageStatus(400), nil, 2, 2},
		"401": {storageStatus(401), clinicaldoc.ErrUnauthorized, 2, 2},
		"403": {storageStatus(403), clinicaldoc.ErrForbidden, 2, 2},
		"404": {storageStatus(404), clinicaldoc.ErrNotFound, 2, 2},
		"too long": {func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "121")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, clinicaldoc.ErrServer, 1, 1},
	}, func(t *testing.T, tt test) {
		a := newAudioServer(t, 1000)
		a.answer = every(func(w http.ResponseWriter, r *http.Request) { tt.answer(a, w, r) })
		_, err := a.download(t, io.Discard)
		require.Error(t, err)
		if tt.target != nil {
			require.ErrorIs(t, err, tt.target)
		}
		assert.Len(t, a.seen(), tt.requests)
		assert.Equal(t, tt.addresses, a.addresses)
		assert.NotContains(t, err.Error(), signature)
		assert.NotContains(t, err.Error(), "token", "the token has nothing to do with it")
		_, err = a.client(t).Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{},
			clinicaldoc.WithoutRetry())
		require.Error(t, err)
		assert.Len(t, a.seen(), tt.requests+1, "asked once")
	})
}

func storageStatus(code int) func(*audioServer, http.ResponseWriter, *http.Request) {
	return func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<Error><Resource>/audio/7?X-Amz-Signature="+signature+"</Resource></Error>")
	}
}

type failingWriter struct {
	n   int
	err error
}

func (w failingWriter) Write(p []byte) (int, error) { return min(w.n, len(p)), w.err }

func TestDownload_WriterFails_Ends(t *testing.T) {
	t.Parallel()
	full := errors.New("synthetic: disk is full at /home/patient")
	for _, w := range []failingWriter{{3, full}, {0, full}, {3, nil}} {
		a := newAudioServer(t, 1000)
		n, err := a.download(t, w)
		want := w.err
		if want == nil {
			want = io.ErrShortWrite
		}
		require.ErrorIs(t, err, want)
		assert.Equal(t, int64(w.n), n)
		assert.Len(t, a.seen(), 1)
		assert.NotContains(t, err.Error(), "patient")
	}
}

func TestDownload_InvalidArguments_AreRejected(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 10)
	client := a.client(t)
	_, err := client.Notes.DownloadAudio(socketContext(t), 0, io.Discard, downloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = client.Notes.DownloadAudio(socketContext(t), 7, nil, downloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{},
		clinicaldoc.WithHeader("Authorization", "x"))
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	for _, id := range []int64{0, 7} {
		_, err = client.Notes.DownloadAudio(socketContext(t), id, io.Discard, downloadParams{}, nil)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	dir := t.TempDir()
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "visit.wav"), downloadParams{},
		clinicaldoc.WithoutRetry(), nil)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.Empty(t, fileNames(t, dir))
	assert.Zero(t, a.addresses)
}

func TestDownload_ContextEnds_Ends(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	logout := errors.New("synthetic: the user logged out")
	ctx, cancel := context.WithCancelCause(socketContext(t))
	a.answer = every(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(a.data[:400])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	n, err := a.client(t).Notes.DownloadAudio(ctx, 7,
		writerFunc(func(p []byte) (int, error) { cancel(logout); return len(p), nil }), downloadParams{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, logout)
	require.ErrorContains(t, err, "the download was interrupted: the call was cancelled")
	assert.NotContains(t, err.Error(), "logged out", "what a caller's error says is the caller's")
	assert.Equal(t, int64(400), n)
	assert.Len(t, a.seen(), 1)
}

// vault is a service and its storage in virtual time.
func vault(t *testing.T, address string, storage func(n int, r *http.Request) *reply,
	opts ...clinicaldoc.Option) (client *clinicaldoc.Client, addresses, requests *int) {
	t.Helper()
	addresses, requests = new(int), new(int)
	_, client = newPolled(t, func(_ int, _ time.Duration, r *http.Request) *reply {
		if r.URL.Host != "api.clinic.test" {
			assert.Empty(t, r.Header.Get("Authorization"))
			*requests++
			return storage(*requests, r)
		}
		assert.NotEmpty(t, r.Header.Get("Authorization"))
		if !strings.HasSuffix(r.URL.Path, "/audio-url") {
			return made(r, 404, "") // the note has no size
		}
		*addresses++
		return made(r, 200, fmt.Sprintf(`{"url":%q}`,
			strings.ReplaceAll(address, "{}", fmt.Sprint(time.Now().Add(time.Minute).Unix()))))
	}, opts...)
	return client, addresses, requests
}

// stalling gives a body's beginning and then nothing until the request is cancelled.
type stalling struct {
	io.Reader
	ctx context.Context
}

func (s stalling) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s stalling) Close() error { return nil }

// audioAnswer is an answer with the rest of a thousand bytes.
func audioAnswer(r *http.Request) *reply {
	data := string(syntheticAudio(1000).bytes())
	if r.Header.Get("Range") == "" {
		return made(r, 200, data, "Content-Type", "audio/wav", "ETag", `"synthetic-1"`)
	}
	return made(r, 206, data[400:], "Content-Type", "audio/wav", "ETag", `"synthetic-1"`, "Content-Range",
		"bytes 400-999/1000")
}

func TestDownload_Stalled_GoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _, requests := vault(t, "https://storage.clinic.test/7", func(n int, r *http.Request) *reply {
			resp := audioAnswer(r)
			if n == 1 {
				resp.Body = stalling{io.LimitReader(resp.Body, 400), r.Context()}
			}
			return resp
		})
		var got bytes.Buffer
		started := time.Now()
		must(client.Notes.DownloadAudio(t.Context(), 7, &got, downloadParams{}))(t)
		assert.Equal(t, syntheticAudio(1000).bytes(), got.Bytes())
		assert.Equal(t, 2, *requests)
		assert.InDelta(t, time.Minute+625*time.Millisecond, time.Since(started), float64(130*time.Millisecond),
			"the stall timeout and a short pause")
	})
}

// cancellable is a body in small pieces that ends with its request, as one from a socket does.
type cancellable struct {
	io.Reader
	ctx context.Context
}

func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p[:min(len(p), 400)])
}

func (c cancellable) Close() error { return nil }

func TestDownload_ExpiredURL_IsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, addresses, requests := vault(t, "https://storage.clinic.test/7?expires={}",
			func(n int, r *http.Request) *reply {
				if n == 1 { // it takes longer than the address is good for
					resp := audioAnswer(r)
					resp.Body = stalling{io.LimitReader(resp.Body, 400), r.Context()}
					return resp
				}
				return audioAnswer(r)
			})
		must(client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{}))(t)
		assert.Equal(t, 2, *addresses)
		assert.Equal(t, 2, *requests)
	})
}

func TestDownload_CanceledInAPause_ErrorHasBothCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _, _ := vault(t, "https://storage.clinic.test/7",
			func(_ int, r *http.Request) *reply { return made(r, 503, "", "Retry-After", "20") })
		ctx, cancel := context.WithCancelCause(t.Context())
		logout := errors.New("synthetic: the user logged out")
		time.AfterFunc(10*time.Second, func() { cancel(logout) })
		_, err := client.Notes.DownloadAudio(ctx, 7, io.Discard, downloadParams{})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, logout)
		require.ErrorIs(t, err, clinicaldoc.ErrServer)
		refusal := requireAs[*clinicaldoc.Error](t, err)
		assert.Equal(t, 20*time.Second, refusal.RetryAfter)
	})
}

// slow is a body that takes a while for each piece.
type slow struct{ io.ReadCloser }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(20 * time.Second)
	return s.ReadCloser.Read(p[:min(len(p), 100)])
}

func TestDownload_TimeoutAndLimiter_AreOfTheServiceAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		toService, admitted := 0, 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "api.clinic.test" {
				toService++
				return madeResponse(r, 200, `{"url":"https://storage.clinic.test/7"}`), nil
			}
			resp := audioAnswer(r)
			resp.Body = slow{cancellable{resp.Body, r.Context()}}
			return resp.Response, nil
		})
		client := must(clinicaldoc.NewClient("https://api.clinic.test", testToken,
			clinicaldoc.WithHTTPClient(&http.Client{Transport: transport, Timeout: 5 * time.Second}),
			clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { admitted++; return nil }))))(t)
		n, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{IgnoreSize: true},
			clinicaldoc.WithoutRetry())
		require.NoError(t, err)
		assert.Equal(t, int64(1000), n)
		assert.Equal(t, 1, toService)
		assert.Equal(t, 1, admitted)
	})
}

func TestDownload_ServiceFails_ErrorIsItsOwn(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]bool{"refused": false, "the context ends meanwhile": true}, func(t *testing.T, ends bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		addresses := 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host != "api.clinic.test":
				return madeResponse(r, 403, ""), nil
			case addresses == 0:
				addresses++
				return madeResponse(r, 200, `{"url":"https://storage.clinic.test/7"}`), nil
			case ends:
				cancel()
				return nil, ctx.Err()
			}
			return madeResponse(r, 404, ""), nil
		})
		client := must(clinicaldoc.NewClient("https://api.clinic.test", testToken, over(transport)))(t)
		_, err := client.Notes.DownloadAudio(ctx, 7, io.Discard, downloadParams{})
		require.ErrorContains(t, err, "Notes.AudioURL (GET /v1/progress-notes/{id}/audio-url)")
		assert.Equal(t, ends, errors.Is(err, context.Canceled))
		assert.Equal(t, !ends, errors.Is(err, clinicaldoc.ErrNotFound))
		assert.NotErrorIs(t, err, clinicaldoc.ErrForbidden)
	})
}

func TestDownload_UnsafeURL_IsNotUsed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"http://storage.clinic.test/7",
		"http://127.0.0.1/7",
		"https://user:secret@storage.clinic.test/7",
	} {
		client, _, requests := vault(t, address, func(_ int, r *http.Request) *reply { return audioAnswer(r) })
		_, err := client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, address)
		assert.Zero(t, *requests, address)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// net/http knows only localhost in lower case as this machine, and sends requests for any other spelling to the proxy.
func TestDownload_LocalhostInCapitals_IsThisMachine(t *testing.T) {
	t.Parallel()
	var hosts []string
	client := must(clinicaldoc.NewClient("http://localhost", "token", over(roundTripper(
		func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			if strings.HasSuffix(r.URL.Path, "/audio-url") {
				return madeResponse(r, http.StatusOK, `{"url":"http://LocalHost:9000/Visit.wav"}`), nil
			}
			return madeResponse(r, http.StatusOK, "synthetic", "Content-Type", "audio/wav"), nil
		}))))(t)
	must(client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{IgnoreSize: true}))(t)
	assert.Equal(t, []string{"localhost", "localhost:9000"}, hosts)
}

// A signature covers the path as it is written, so storage refuses the same path in another encoding.
func TestDownload_SafeURL_IsUsedUnchanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ server, target, fragment string }{
		{"https://storage.clinic.test", "/7", ""},
		{"https://storage.clinic.test", "/7", "#x"},
		{"https://storage.clinic.test", "/7?expires=1000", ""}, // long ago, by the clock of this machine
		{"https://storage.clinic.test", "/visits%2F7/a%20b+c%3D.wav?signature=a%2Fb+c", ""},
		{"http://storage.clinic.test", "/7", ""}, // allowed by WithInsecureHTTP
	} {
		address := tt.server + tt.target + tt.fragment
		client, addresses, requests := vault(t, address, func(_ int, r *http.Request) *reply {
			assert.Equal(t, tt.target, r.URL.RequestURI())
			return audioAnswer(r)
		}, clinicaldoc.WithInsecureHTTP())
		must(client.Notes.DownloadAudio(t.Context(), 7, io.Discard, downloadParams{}))(t)
		assert.Equal(t, 1, *requests, address)
		assert.Equal(t, 1, *addresses, address)
	}
}

func TestAudioURL_Query_ShowsWhenItExpires(t *testing.T) {
	t.Parallel()
	at := func(year int, month time.Month, day, hour, minute, second int) time.Time {
		return time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	}
	for query, want := range map[string]time.Time{
		"X-Amz-Date=20260102T030405Z&X-Amz-Expires=300":                  at(2026, 1, 2, 3, 9, 5),
		"X-Goog-Date=20260102T030405Z&X-Goog-Expires=300":                at(2026, 1, 2, 3, 9, 5),
		"expires=1767323345&signature=x":                                 at(2026, 1, 2, 3, 9, 5),
		"Expires=1767323345&Signature=x":                                 at(2026, 1, 2, 3, 9, 5),
		"":                                                               {},
		"X-Amz-Date=20260102T030405Z&X-Amz-Expires=0":                    {},
		"X-Amz-Date=20260102T030405Z&X-Amz-Expires=-300":                 {},
		"X-Amz-Date=20260102T030405Z&X-Amz-Expires=99999999999999999999": {},
		"X-Amz-Date=yesterday&X-Amz-Expires=300":                         {},
		"X-Amz-Date=99991231T235959Z&X-Amz-Expires=300":                  {},
		"X-Amz-Expires=300":                                              {},
		"expires=-5":                                                     {},
		"expires=0":                                                      {},
		"expires=1767323345000":                                          {},
		"expires=9223372036854775807":                                    {},
		"expires=99999999999999999999":                                   {},
		"expires=soon":                                                   {},
	} {
		service, client := newPolled(t, always(200, fmt.Sprintf(`{"url":"https://storage.clinic.test/7?%s"}`, query)))
		address := must(client.Notes.AudioURL(t.Context(), 7))(t)
		assert.Equal(t, want, address.ExpiresAt, query)
		assert.Len(t, service.polls, 1)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			assert.NotContains(t, fmt.Sprintf(verb, address), "storage", query)
			assert.NotContains(t, fmt.Sprintf(verb, *address), "storage", query)
		}
	}
}

func FuzzAudioURLExpiry(f *testing.F) {
	for _, seed := range []string{
		"https://storage.clinic.test/7.wav?X-Amz-Date=20240501T101112Z&X-Amz-Expires=300&X-Amz-Signature=s",
		"https://s.test/?X-Goog-Date=99991231T235959Z&X-Goog-Expires=2147483647",
		"http://s.test/?expires=1714558272", "https://s.test/?Expires=9223372036854775807",
		"https://s.test/?expires=-5", "https://s.test/?X-Amz-Expires=1&expires=5",
		"https://s.test/?X-Amz-Date=00000101T000000Z&X-Amz-Expires=1", "//s.test", "ftp://s.test", "https://",
		"https://s.test/%zz", "https://s.test/?expires=%zz;a", "https://s.test?expires=253402300799",
		"http://t\xb6\xb6",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		quoted := must(json.Marshal(map[string]string{"url": address}))(t)
		got, err := pointer(clientOver(t,
			answerWith(http.StatusOK, "application/json", quoted)).Notes.AudioURL(t.Context(), 7))
		checkDecoding(t, got, err)
		if err != nil {
			return
		}
		audio := got.(*clinicaldoc.AudioURL)
		var sent map[string]string
		require.NoError(t, json.Unmarshal(quoted, &sent))
		require.Equal(t, sent["url"], audio.URL)
		checkStored(t, *audio)
		u := must(url.Parse(audio.URL))(t)
		if audio.ExpiresAt.IsZero() {
			return
		}
		require.Equal(t, time.UTC, audio.ExpiresAt.Location())
		query := u.Query()
		require.True(t, query.Has("X-Amz-Expires") || query.Has("X-Goog-Expires") || query.Has("expires") ||
			query.Has("Expires"), "the query has no such time")
		require.Less(t, audio.ExpiresAt.Year(), 10000)
	})
}

func TestAudioURL_Response_IsRead(t *testing.T) {
	t.Parallel()
	const address = "https://storage.clinic.test/7.wav?signature=s"
	expiring := clinicaldoc.AudioURL{URL: address + "&expires=1714558272", ExpiresAt: time.Unix(1714558272, 0).UTC()}
	for response, want := range map[string]clinicaldoc.AudioURL{
		`{"url":"` + address + `"}`:          {URL: address},
		`{"data":{"url":"` + address + `"}}`: {URL: address},
		`{"url":"https:\/\/storage.clinic.test\/7.wav?signature=s\u0026expires=1714558272"}`: expiring,
	} {
		got := must(serve(t, call{url: notesPath + "/7/audio-url", response: response}).Notes.AudioURL(t.Context(), 7))(t)
		assert.True(t, want == *got, response) //nolint:testifylint // Equal would print redacted values
	}
}

func TestAudioURL_OtherResponse_IsRejected(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"", "<html>", "[]", "null", "{}", `{"url":null}`, `{"url":""}`, `{"url":7}`, `{"url":"/secret"}`,
		`{"url":"ftp://secret"}`, `{"url":"https:secret"}`, `{"url":"https://secret\u0000"}`,
	} {
		client := serve(t, call{url: "/v1/progress-notes/7/audio-url", response: answer})
		got, err := client.Notes.AudioURL(t.Context(), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		assert.NotContains(t, err.Error(), "secret")
		assert.Nil(t, got)
	}
}

// respond sets how storage answers from now on.
func (a *audioServer) respond(answer func(n int, w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// open opens the server's recording for the time of the test.
func (a *audioServer) open(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.AudioStream {
	t.Helper()
	stream := must(a.client(t, opts...).Notes.OpenAudio(socketContext(t), 7))(t)
	t.Cleanup(func() { assert.NoError(t, stream.Close()) })
	return stream
}

func TestOpenAudio_ContentType_IsStorages(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	a.answer = every(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "Audio/WAV; Codecs=1")
		w.Header().Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
	})
	assert.Equal(t, "Audio/WAV; Codecs=1", a.open(t).ContentType())
}

func TestOpenAudio_ReadsAndSeeksAsAFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 300, 64 << 10, 64<<10 + 1, 300_000} {
		a := newAudioServer(t, size)
		stream := a.open(t)
		if size < 1000 { // TestReader also seeks, and reads every byte by itself
			require.NoError(t, iotest.TestReader(stream, a.data), size)
		} else {
			got := must(io.ReadAll(stream))(t)
			require.True(t, bytes.Equal(a.data, got), size)
		}
		assert.Equal(t, int64(size), stream.Size())
		assert.Equal(t, "audio/wav", stream.ContentType())
		assert.Equal(t, a.etag, stream.ETag())
		assert.Equal(t, 1, a.addresses, "one URL serves all reads")
		assert.Zero(t, a.reads, "the note is not needed")
		for i, asked := range a.seen() {
			assert.Empty(t, asked.Header.Get("Authorization"))
			if i > 0 {
				assert.Equal(t, a.etag, asked.Header.Get("If-Range"))
			}
		}
	}
}

func TestOpenAudio_SeekThenRead_RequestsGrow(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	a := newAudioServer(t, size)
	stream := a.open(t)
	const middle = 4<<20 + 1
	at := must(stream.Seek(-size+middle, io.SeekEnd))(t)
	require.Equal(t, int64(middle), at)
	got := make([]byte, 100)
	must(io.ReadFull(stream, got))(t)
	assert.Equal(t, a.data[middle:middle+100], got)
	got = must(io.ReadAll(stream))(t)
	assert.True(t, bytes.Equal(a.data[middle+100:], got))
	const k = 1 << 10
	var want []string
	for _, part := range [][2]int{{0, 64 * k}, {middle, 64 * k}, {middle + 64*k, 128 * k}, {middle + 192*k, 256 * k},
		{middle + 448*k, 512 * k}, {middle + 960*k, 1024 * k}, {middle + 1984*k, 1024 * k}, {middle + 3008*k, 1024 * k},
		{middle + 4032*k, 64*k - 1}} {
		want = append(want, fmt.Sprintf(`bytes=%d-%d "synthetic-1"`, part[0], part[0]+part[1]-1))
	}
	want[0] = "bytes=0-65535"
	assert.Equal(t, want, a.ranges())
}

func TestOpenAudio_Storage_GetsNothingOfTheCallers(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 200_000)
	var response clinicaldoc.Response
	var names []string // in which the service was asked
	transport := socketTransport(t)
	client := a.client(t, clinicaldoc.WithUserAgent("synthetic/1"),
		clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.String(), a.api.URL) {
				names = append(names, r.Header.Get("Authorization")+" "+r.Header.Get("X-Synthetic"))
			}
			return transport.RoundTrip(r)
		})}))
	stream, err := client.Notes.OpenAudio(socketContext(t), 7, clinicaldoc.WithHeader("X-Synthetic", "1"),
		clinicaldoc.WithToken("synthetic-token-2"), clinicaldoc.WithResponse(&response))
	require.NoError(t, err)
	assert.Equal(t, 200, response.StatusCode, "of the request for the URL")
	response = clinicaldoc.Response{}
	a.mu.Lock()
	a.addresses++ // the one in use has expired
	a.mu.Unlock()
	must(stream.ReadAt(make([]byte, 10), 100_000))(t)
	assert.Equal(t, slices.Repeat([]string{"Bearer synthetic-token-2 1"}, 2), names)
	assert.Zero(t, response, "later reads do not write where the caller may be reading")
	require.NoError(t, stream.Close())
	require.Len(t, a.seen(), 3)
	for i, r := range a.seen() {
		want := http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"synthetic/1"}, "Range": {"bytes=0-65535"}}
		if i > 0 {
			want["Range"], want["If-Range"] = []string{"bytes=100000-100009"}, []string{a.etag}
		}
		assert.Equal(t, want, r.Header)
	}
}

func TestOpenAudio_ManyReaders_SurviveCutsAndAnExpiry(t *testing.T) {
	t.Parallel()
	const size, readers, each = 1 << 20, 16, 64 << 10
	a := newAudioServer(t, size)
	a.answer = func(n int, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case n == 1+readers/2: // from here on only a fresh address is good
			a.mu.Lock()
			a.addresses++
			a.mu.Unlock()
		case n%3 == 0:
			a.cut(w, r, 1000+n)
			return true
		}
		return false
	}
	stream := a.open(t)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			got := make([]byte, each)
			n, err := stream.ReadAt(got, int64(i*each))
			if assert.NoError(t, err) && assert.Equal(t, each, n) {
				assert.True(t, bytes.Equal(a.data[i*each:(i+1)*each], got), i)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 3, a.addresses, "two were asked for, one was never given out")
}

func TestOpenAudio_KnownExpiry_GetsAnotherURLInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := string(syntheticAudio(100_000).bytes())
		client, addresses, requests := vault(t, "https://storage.clinic.test/7?expires={}",
			func(_ int, r *http.Request) *reply {
				recorded := httptest.NewRecorder()
				recorded.Header().Set("ETag", `"synthetic-1"`)
				http.ServeContent(recorded, r, "visit.wav", time.Time{}, strings.NewReader(data))
				return &reply{Response: recorded.Result()}
			})
		stream, err := client.Notes.OpenAudio(t.Context(), 7, clinicaldoc.WithoutRetry())
		require.NoError(t, err)
		for range 3 {
			time.Sleep(59 * time.Second)
			_, err = stream.ReadAt(make([]byte, 1), 0)
			require.NoError(t, err)
		}
		require.NoError(t, stream.Close())
		assert.Equal(t, 2, *addresses, "each is good for a minute")
		assert.Equal(t, 4, *requests, "none is sent to a URL that has expired")
	})
}

// A stream may be open for hours. If its URL has expired, storage refuses it, and the URL is replaced, whatever the
// retry policy is. A URL that is refused when it is new is not replaced.
func TestOpenAudio_UnknownExpiry_GetsAnotherURLWithoutRetries(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 300_000)
	none := clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})
	stream := a.open(t, none)
	expire := func() { a.mu.Lock(); a.addresses++; a.mu.Unlock() }
	for i := range 3 {
		expire()
		got := make([]byte, 1000)
		n, err := stream.ReadAt(got, int64(i)*100_000)
		require.NoError(t, err, i)
		assert.Equal(t, a.data[i*100_000:][:1000], got[:n])
	}
	assert.Equal(t, 1+3*2, a.addresses, "one for each that has expired")
	assert.Len(t, a.seen(), 1+3*2)

	a.respond(every(func(w http.ResponseWriter, _ *http.Request) { expired(w) }))
	_, err := stream.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Len(t, a.seen(), 1+3*2+2, "nor is the fresh one tried again")
	_, err = a.client(t, none).Notes.OpenAudio(socketContext(t), 7)
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Len(t, a.seen(), 1+3*2+2+1, "nothing has expired: once is once")
	_, err = a.client(t, none).Notes.DownloadAudio(socketContext(t), 7, io.Discard, downloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Len(t, a.seen(), 1+3*2+2+1+1)
}

// brokenStream is a stream that gives a thousand bytes from 100,000 on, until its server responds otherwise.
func brokenStream(t *testing.T) (*audioServer, *clinicaldoc.AudioStream) {
	t.Helper()
	a := newAudioServer(t, 200_000)
	stream := a.open(t)
	a.respond(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 2 {
			panic(http.ErrAbortHandler)
		}
		a.cut(w, r, 1000)
		return true
	})
	must(stream.Seek(100_000, io.SeekStart))(t)
	return a, stream
}

func TestOpenAudio_ReadFails_ReturnsWhatCame(t *testing.T) {
	t.Parallel()
	a, stream := brokenStream(t)
	got, err := io.ReadAll(stream)
	require.Error(t, err)
	assert.True(t, clinicaldoc.Retryable(err))
	assert.Equal(t, a.data[100_000:101_000], got)
	assert.NotContains(t, fmt.Sprintf("%+v", err), signature)
	assert.Len(t, a.seen(), 5,
		"to open it, the first that came, and its retries; what failed is not asked for at once again")
	a.respond(nil)
	got, err = io.ReadAll(stream)
	require.NoError(t, err, "a later read may succeed")
	assert.True(t, bytes.Equal(a.data[101_000:], got))
}

// The error of a read is forgotten after a Seek, also to the same offset.
func TestOpenAudio_SeekAfterAFailure_ReadsAgain(t *testing.T) {
	t.Parallel()
	a, stream := brokenStream(t)
	got := make([]byte, 1000)
	must(io.ReadFull(stream, got))(t)
	a.respond(nil)
	must(stream.Seek(0, io.SeekCurrent))(t)
	must(io.ReadFull(stream, got))(t)
	assert.Equal(t, a.data[101_000:102_000], got)
}

func TestOpenAudio_NoRangesOrStrongETag_IsUnsupported(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*audioServer){
		"no ranges": func(a *audioServer) {
			a.answer = every(func(w http.ResponseWriter, r *http.Request) { a.serveWhole(w, r) })
		},
		"no ETag":   func(a *audioServer) { a.etag = "" },
		"weak ETag": func(a *audioServer) { a.etag = `W/"synthetic-1"` },
	} {
		a := newAudioServer(t, 200_000)
		prepare(a)
		stream, err := a.client(t).Notes.OpenAudio(socketContext(t), 7)
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Nil(t, stream)
		assert.False(t, clinicaldoc.Retryable(err))
		assert.Len(t, a.seen(), 1, name)
		assert.NotContains(t, fmt.Sprintf("%+v", err), signature)
	}
	a := newAudioServer(t, 200_000)
	stream := a.open(t)
	a.respond(every(func(w http.ResponseWriter, r *http.Request) { a.serveWhole(w, r) }))
	_, err := stream.ReadAt(make([]byte, 10), 100_000)
	require.ErrorIs(t, err, errors.ErrUnsupported, "in the middle")
}

func TestOpenAudio_RecordingChanges_IsNeverMixed(t *testing.T) {
	t.Parallel()
	for name, tt := range others {
		if tt.first != nil || name == "no total" || name == "no range" || name == "other unit" ||
			name == "wrong start" {
			continue // the stream is not opened, or these are no other recording: see below
		}
		a := newAudioServer(t, 1000)
		stream := a.open(t)
		if tt.then != nil {
			tt.then(a)
		} else {
			a.respond(every(func(w http.ResponseWriter, r *http.Request) { tt.answer(a, w, r) }))
		}
		n, err := stream.ReadAt(make([]byte, 100), 400)
		if name == "no ranges and another length" {
			require.ErrorIs(t, err, errors.ErrUnsupported, name)
		} else {
			require.ErrorIs(t, err, clinicaldoc.ErrAudioChanged, name)
		}
		assert.Zero(t, n)
		assert.Len(t, a.seen(), 2, name)
	}
	for name, answer := range map[string]func(*audioServer, http.ResponseWriter, *http.Request){
		"wrong start": partial("bytes 399-999/1000", `"synthetic-1"`, 399),
		"no start":    partial("bytes */1000", `"synthetic-1"`, 0),
	} {
		a := newAudioServer(t, 1000)
		stream := a.open(t)
		a.respond(every(func(w http.ResponseWriter, r *http.Request) { answer(a, w, r) }))
		n, err := stream.ReadAt(make([]byte, 100), 400)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, name)
		assert.Zero(t, n)
	}
}

func TestOpenAudio_NotARecording_IsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range refusals {
		a := newAudioServer(t, 1000)
		a.answer = firstly(answer)
		_, err := a.client(t).Notes.OpenAudio(socketContext(t), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, name)
		assert.Len(t, a.seen(), 1)
		assert.NotContains(t, fmt.Sprintf("%+v", err), signature)
	}
	for name, data := range map[string]string{"nothing": "", "text": "Request has expired",
		"HTML": "<!DOCTYPE html><html>Login</html>"} {
		a := newAudioServer(t, 0)
		a.data = []byte(data)
		a.answer = every(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", a.etag)
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
		})
		_, err := a.client(t).Notes.OpenAudio(socketContext(t), 7)
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, name)
	}
	a := newAudioServer(t, 1000)
	a.answer = firstly(func(w http.ResponseWriter, r *http.Request) {
		partial("bytes 0-999/*", `"synthetic-1"`, 0)(a, w, r)
	})
	_, err := a.client(t).Notes.OpenAudio(socketContext(t), 7)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, "a part of nobody knows what")

	a = newAudioServer(t, 1000)
	a.answer = every(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
	})
	_, err = a.client(t).Notes.OpenAudio(socketContext(t), 7)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.Equal(t, 2, a.addresses, "it was tried with a fresh URL")
}

func TestOpenAudio_CloseOrContext_EndsReads(t *testing.T) {
	t.Parallel()
	logout := errors.New("synthetic: the user logged out")
	for name, want := range map[string]error{"close": os.ErrClosed, "context": logout} {
		a := newAudioServer(t, 200_000)
		ctx, cancel := context.WithCancelCause(socketContext(t))
		t.Cleanup(func() { cancel(nil) })
		stream, err := a.client(t).Notes.OpenAudio(ctx, 7)
		require.NoError(t, err)
		begun := make(chan struct{})
		a.respond(every(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		}))
		failed := make(chan error, 2)
		go func() {
			_, err := stream.ReadAt(make([]byte, 10), 100_000)
			failed <- err
		}()
		<-begun
		if name == "close" {
			require.NoError(t, stream.Close())
		} else {
			cancel(logout)
		}
		err = <-failed
		require.ErrorIs(t, err, want, name)
		require.ErrorIs(t, err, context.Canceled)
		assert.NotContains(t, fmt.Sprintf("%+v", err), signature)
		_, err = stream.ReadAt(make([]byte, 10), 100_000)
		require.ErrorIs(t, err, want, "later")
		assert.Len(t, a.seen(), 2, "nothing more is sent")
		require.NoError(t, stream.Close())
		require.NoError(t, stream.Close(), "twice is once")
		_, err = stream.Read(make([]byte, 10))
		require.ErrorIs(t, err, want)
		_, err = stream.Seek(0, io.SeekStart)
		require.ErrorIs(t, err, want)
	}
}

func TestOpenAudio_InvalidArguments_AreRejected(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	client := a.client(t)
	_, err := client.Notes.OpenAudio(socketContext(t), 0)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = client.Notes.OpenAudio(socketContext(t), 7, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.Zero(t, a.addresses)
	stream := a.open(t)
	_, err = stream.ReadAt(make([]byte, 1), -1)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	for _, whence := range []int{-1, 3} {
		_, err = stream.Seek(0, whence)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	_, err = stream.Seek(-1001, io.SeekEnd)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = stream.Seek(math.MaxInt64, io.SeekEnd)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	before := len(a.seen())
	for _, off := range []int64{0, 500, 999} {
		n := must(stream.ReadAt(nil, off))(t)
		assert.Zero(t, n)
	}
	for _, off := range []int64{1000, math.MaxInt64} {
		_, err = stream.ReadAt(make([]byte, 1), off)
		require.Equal(t, io.EOF, err)
	}
	at, err := stream.Seek(5000, io.SeekStart)
	require.NoError(t, err, "as in a file")
	assert.Equal(t, int64(5000), at)
	n, err := stream.Read(make([]byte, 10))
	assert.Zero(t, n)
	require.Equal(t, io.EOF, err)
	assert.Len(t, a.seen(), before, "none of this asks storage")
	got := make([]byte, 10)
	n, err = stream.ReadAt(got, 995)
	require.Equal(t, io.EOF, err)
	assert.Equal(t, a.data[995:], got[:n])
}

// cutting makes every request but those from the n-th on break off after so many bytes, the second one at once.
func cutting(a *audioServer, n, bytes int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(number int, w http.ResponseWriter, r *http.Request) bool {
		if number >= n {
			return false
		}
		if number > 1 {
			bytes = 0
		}
		a.cut(w, r, bytes)
		return true
	}
}

func TestDownloadFile_WritesTheCompleteFile(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 100_000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	n := must(a.downloadFile(t, path))(t)
	assert.Equal(t, int64(100_000), n)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir), "nothing is left beside it")
	requirePrivate(t, path)
}

func TestDownloadFile_Cut_NextCallGoesOn(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 100_000)
	a.answer = cutting(a, 5, 40_000) // one attempt with 40,000 bytes, three with none
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	require.NoError(t, os.WriteFile(path, []byte("older recording"), 0o600))
	n, err := a.downloadFile(t, path)
	require.Error(t, err)
	assert.Equal(t, int64(40_000), n)
	left := fileNames(t, dir)
	require.Len(t, left, 3)
	require.Regexp(t, `^\.visit\.wav\.clinicaldoc-part-[0-9a-f]{16}$`, left[0])
	assert.Equal(t, []string{".visit.wav.clinicaldoc-part.json", "visit.wav"}, left[1:])
	assert.Equal(t, "older recording", string(fileContent(t, path)), "nothing half-written under the final name")
	assert.Equal(t, a.data[:40_000], fileContent(t, filepath.Join(dir, left[0])))

	var received []int64
	n, err = a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path,
		downloadParams{OnProgress: func(n, total int64) {
			received = append(received, n)
			assert.Equal(t, int64(100_000), total)
		}})
	require.NoError(t, err)
	assert.Equal(t, int64(100_000), n)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
	ranges := a.ranges()
	assert.Equal(t, `bytes=40000- "synthetic-1"`, ranges[len(ranges)-1])
	assert.Equal(t, int64(40_000), received[0])
}

const (
	companionName = ".visit.wav.clinicaldoc-part.json"
	partName      = ".visit.wav.clinicaldoc-part-0123456789abcdef"
)

// leftBehind lays a part and its companion into a directory as a call that died would leave them.
func leftBehind(t *testing.T, dir string, part []byte, companion string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, partName), part, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, companionName), []byte(companion), 0o600))
}

// companion is what stands beside a part that came from the server's storage.
func (a *audioServer) companion(note int, etag string, total, size int) string {
	service := strings.Replace(a.api.URL, "127.0.0.1", "localhost", 1)
	sum := sha256.Sum256([]byte(strings.TrimPrefix(a.storage.URL, "http://") + "/audio/7"))
	return fmt.Sprintf(`{"format":"clinicaldoc-part","part":"0123456789abcdef","of":"note %d of %s","location":"%x",`+
		`"etag":%q,"total":%d,"size":%[6]d,"again":%[6]d}`, note, service, sum[:16], etag, total, size)
}

func TestDownloadFile_PartLeftBehind_IsContinuedIfItFits(t *testing.T) {
	t.Parallel()
	const size = 1000
	data := syntheticAudio(size).bytes()
	garbage := make([]byte, 700)
	const etag = `"synthetic-1"`
	of := func(note int, etag string, total, size int) func(*audioServer) string {
		return func(a *audioServer) string { return a.companion(note, etag, total, size) }
	}
	location := regexp.MustCompile(`"location":"[^"]*",`)
	type test struct {
		part      []byte
		companion func(*audioServer) string
		first     string // Range and If-Range of the first request
	}
	subtests(t, map[string]test{
		"whole companion":  {data[:600], of(7, etag, size, 600), `bytes=600- "synthetic-1"`},
		"length not known": {data[:600], of(7, etag, -1, 600), `bytes=600- "synthetic-1"`},
		"bytes that may not be on disk": {append(data[:512:512], garbage...), of(7, etag, size, 512),
			`bytes=512- "synthetic-1"`},
		"too little to be judged by": {data[:511], of(7, etag, size, 511), ""},
		"complete, but not renamed":  {data, of(7, etag, size, size), `bytes=999- "synthetic-1"`},
		"another recording now":      {garbage, of(7, `"synthetic-0"`, size, 700), `bytes=700- "synthetic-0"`},
		"shorter than it says":       {data[:100], of(7, etag, size, 600), ""},
		"longer than the total":      {data, of(7, etag, 500, 600), ""},
		"another note":               {garbage, of(8, etag, size, 700), ""},
		"weak ETag":                  {garbage, of(7, `W/"synthetic-1"`, size, 700), ""},
		"negative size":              {garbage, of(7, etag, size, -1), ""},
		"another service": {garbage, func(a *audioServer) string {
			return strings.Replace(a.companion(7, etag, size, 700), "of http", "of https", 1)
		}, ""},
		"another address": {garbage, func(a *audioServer) string {
			return location.ReplaceAllString(a.companion(7, etag, size, 700), `"location":"elsewhere",`)
		}, ""},
		"an unknown address": {garbage, func(a *audioServer) string {
			return location.ReplaceAllString(a.companion(7, etag, size, 700), "")
		}, ""},
		"torn companion": {garbage, func(a *audioServer) string {
			return a.companion(7, etag, size, 700)[:100]
		}, ""},
	}, func(t *testing.T, tt test) {
		a := newAudioServer(t, size)
		dir := t.TempDir()
		leftBehind(t, dir, tt.part, tt.companion(a))
		path := filepath.Join(dir, "visit.wav")
		n := must(a.downloadFile(t, path))(t)
		assert.Equal(t, int64(size), n)
		assert.Equal(t, a.data, fileContent(t, path))
		assert.Equal(t, tt.first, a.ranges()[0])
		assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
		requirePrivate(t, path)
	})
}

// Two tenants have a note with the same ID. Their storage numbers the versions of each recording, so both have the same
// ETag and the same size. A download for one tenant does not continue what one for the other left.
func TestDownloadFile_PartOfAnotherTenant_IsNotContinued(t *testing.T) {
	t.Parallel()
	const size = 100_000
	recordings := map[string]string{"/north": strings.Repeat("n", size), "/south": strings.Repeat("s", size)}
	isCut := true
	storage := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/wav")
		w.Header().Set("ETag", `"1"`)
		if isCut {
			isCut = false
			w = &cutWriter{w, size / 2}
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(recordings[r.URL.Path]))
	})
	service := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/audio-url") {
			tenant := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			fmt.Fprintf(w, `{"url":"%s/%s?signature=1"}`, storage.URL, tenant)
			return
		}
		_, _ = io.WriteString(w, socketNote(7))
	})
	client := socketClient(t, service.URL)
	path := filepath.Join(t.TempDir(), "visit.wav")
	params := downloadParams{IgnoreSize: true}
	_, err := client.Notes.DownloadAudioFile(
		socketContext(t), 7, path, params, clinicaldoc.WithToken("north"), clinicaldoc.WithoutRetry())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	n := must(client.Notes.DownloadAudioFile(socketContext(t), 7, path, params, clinicaldoc.WithToken("south")))(t)
	assert.EqualValues(t, size, n)
	assert.Equal(t, recordings["/south"], string(fileContent(t, path)))
}

// requirePrivate demands that nobody else can read the file.
func requirePrivate(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	info := must(os.Stat(path))(t)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "a patient's recording is for nobody else")
}

// A download does not change the files of other programs in its directory, neither their content nor their mode.
//
// The companion is the file that describes a part. If a file has its name but was not written by a download, the call
// fails and changes nothing. If it is the beginning of one that a crash cut off, the download replaces it.
func TestDownloadFile_OtherFiles_AreNeverTouched(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"visit.wav.part":                   "mine",
		"visit.wav.part.json":              "{}",
		".visit.wav.part":                  "mine",
		partName:                           "named like a part",
		".visit.wav.clinicaldoc-part":      "mine",
		".other.wav.clinicaldoc-part.json": "mine",
	}
	const begin = `{"format":"clinicaldoc-part","part":"` // of each companion that a download writes
	cutOnce := func(a *audioServer, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			a.cut(w, r, 600)
		}
		a.cut(w, r, 0)
	}
	refuse := func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}
	for name, tt := range map[string]struct {
		companion *string                                                      // nil: there is none
		answer    func(a *audioServer, w http.ResponseWriter, r *http.Request) // nil: storage must not be asked
		err       error
	}{
		"success": {answer: (*audioServer).serve},
		"refusal": {answer: refuse, err: clinicaldoc.ErrServer},
		"cut":     {answer: cutOnce, err: io.ErrUnexpectedEOF},

		// Not written by a download.
		"a text as companion":                 {companion: new("my notes"), err: fs.ErrExist},
		"another JSON as companion":           {companion: new(`{"part":"0123456789abcdef"}`), err: fs.ErrExist},
		"a companion of another directory":    {companion: new(begin + `../../../visit"}`), err: fs.ErrExist},
		"a companion that is not hexadecimal": {companion: new(begin + `0123456789abcdeg"}`), err: fs.ErrExist},

		// Cut off by a crash.
		"a companion cut in its name": {companion: new(begin + `0123456789abcdef`), answer: (*audioServer).serve},
		"a companion cut before that": {companion: new(`{"form`), answer: (*audioServer).serve},
		"an empty companion":          {companion: new(""), answer: (*audioServer).serve},
		"zeros as companion":          {companion: new("\x00\x00"), answer: (*audioServer).serve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAudioServer(t, 1000)
			a.answer = every(func(w http.ResponseWriter, r *http.Request) { tt.answer(a, w, r) })
			dir := t.TempDir()
			write := func(name, content string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
			}
			mustStay := maps.Clone(others)
			isForeignCompanion := errors.Is(tt.err, fs.ErrExist)
			if isForeignCompanion {
				mustStay[companionName] = *tt.companion
			}
			for name, content := range mustStay {
				write(name, content)
			}
			if tt.companion != nil {
				write(companionName, *tt.companion)
			}
			path := filepath.Join(dir, "visit.wav")
			_, err := a.downloadFile(t, path)
			require.ErrorIs(t, err, tt.err)
			if tt.err == nil {
				assert.Equal(t, a.data, fileContent(t, path))
			}
			for name, content := range mustStay {
				assert.Equal(t, content, string(fileContent(t, filepath.Join(dir, name))), name)
				if info, err := os.Stat(filepath.Join(dir, name)); assert.NoError(t, err) && runtime.GOOS != "windows" {
					assert.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), name)
				}
			}
			if isForeignCompanion {
				assert.Len(t, fileNames(t, dir), len(mustStay), "no file is added")
				assert.Zero(t, a.addresses, "the recording's address is not requested")
				assert.NotContains(t, err.Error(), "visit", "the name of a file may contain a patient's")
			}
		})
	}
}

func TestDownloadFile_NothingToContinueFrom_LeavesNothing(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]func(a *audioServer, w http.ResponseWriter, r *http.Request){
		"no byte": func(_ *audioServer, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
		},
		"no ETag": func(a *audioServer, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			w.Header().Set("Content-Type", "audio/wav")
			http.ServeContent(&cutWriter{w, 400}, r, "", time.Time{}, bytes.NewReader(a.data))
		},
	}, func(t *testing.T, answer func(a *audioServer, w http.ResponseWriter, r *http.Request)) {
		a := newAudioServer(t, 1000)
		a.answer = every(func(w http.ResponseWriter, r *http.Request) { answer(a, w, r) })
		dir := t.TempDir()
		_, err := a.downloadFile(t, filepath.Join(dir, "visit.wav"))
		require.Error(t, err)
		assert.Empty(t, fileNames(t, dir))
	})
}

func TestDownloadFile_SecondToThePath_IsInUse(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	client := a.client(t)
	var second atomic.Bool
	must(client.Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{OnProgress: func(int64, int64) {
		if second.Swap(true) {
			return
		}
		_, err := client.Notes.DownloadAudioFile(context.WithoutCancel(t.Context()), 7, path, downloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrInUse)
		require.NotErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.True(t, clinicaldoc.Retryable(err))
	}}))(t)
	assert.True(t, second.Load())
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Len(t, a.seen(), 1)
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
}

func TestDownloadFile_CallbackPanics_LeavesThePathFree(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 100_000)
	dir := t.TempDir()
	path := filepath.Join(dir, "visit.wav")
	client := a.client(t)
	assert.PanicsWithValue(t, "synthetic", func() {
		_, _ = client.Notes.DownloadAudioFile(socketContext(t), 7, path,
			downloadParams{OnProgress: func(received, _ int64) {
				if received > 0 {
					panic("synthetic")
				}
			}})
	})
	assert.NoFileExists(t, path)
	must(client.Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{}))(t)
	assert.Equal(t, a.data, fileContent(t, path))
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
}

func TestDownloadFile_UnusablePath_IsRejected(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	dir := t.TempDir()
	client := a.client(t)
	for _, path := range []string{"", dir} {
		_, err := client.Notes.DownloadAudioFile(socketContext(t), 7, path, downloadParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	_, err := client.Notes.DownloadAudioFile(socketContext(t), 0, filepath.Join(dir, "visit.wav"), downloadParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, "patient", "visit.wav"),
		downloadParams{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.NotContains(t, fmt.Sprintf("%+v", err), "patient", "the name of a file may contain a patient's")
	_, err = client.Notes.DownloadAudioFile(socketContext(t), 7, filepath.Join(dir, strings.Repeat("patient", 1000)),
		downloadParams{})
	require.Error(t, err)
	assert.NotContains(t, fmt.Sprintf("%+v", err), "patient")
	assert.Zero(t, a.addresses, "a name that no file can have is refused before the recording is fetched")
}

// A download uses neither a part nor its companion if it is not a regular file, or if others own it, can write to it
// or can reach it under another name. Who may use a file is tested in internal/disk.
func TestDownloadFile_UnsafePart_IsNotContinued(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no modes there")
	}
	link := func(t *testing.T, to, file string) {
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Symlink(to, file))
	}
	for name, prepare := range map[string]func(t *testing.T, dir, file string){
		"directory": func(t *testing.T, _, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		},
		"link to a file":   func(t *testing.T, dir, file string) { link(t, filepath.Join(dir, "letter"), file) },
		"others may write": func(t *testing.T, _, file string) { require.NoError(t, os.Chmod(file, 0o666)) },
	} {
		for _, which := range []string{partName, companionName} {
			t.Run(name+": "+which, func(t *testing.T) {
				t.Parallel()
				a := newAudioServer(t, 1000)
				dir := t.TempDir()
				description := a.companion(7, a.etag, 1000, 600)
				leftBehind(t, dir, a.data[:600], description)
				letter := filepath.Join(dir, "letter")
				require.NoError(t, os.WriteFile(letter, []byte(description), 0o600))
				file := filepath.Join(dir, which)
				prepare(t, dir, file)
				names := fileNames(t, dir)
				before := must(os.Lstat(file))(t)

				_, err := a.downloadFile(t, filepath.Join(dir, "visit.wav"))
				require.Error(t, err)
				assert.NotContains(t, err.Error(), "visit", "the name of a file may contain a patient's")
				assert.Equal(t, names, fileNames(t, dir))
				assert.Equal(t, before.Mode(), must(os.Lstat(file))(t).Mode())
				assert.Equal(t, description, string(fileContent(t, letter)))
				assert.Zero(t, a.addresses, "the recording's address is not requested")
			})
		}
	}
}

// If a directory takes the path during the download, the complete recording cannot get its name, which is an error.
func TestDownloadFile_PathTakenMeanwhile_IsAnError(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	path := filepath.Join(t.TempDir(), "visit.wav")
	params := downloadParams{OnProgress: func(received, _ int64) {
		if received == 1000 {
			assert.NoError(t, os.Mkdir(path, 0o700))
		}
	}}
	_, err := a.client(t).Notes.DownloadAudioFile(socketContext(t), 7, path, params)
	require.ErrorContains(t, err, "could not be completed")
}

// The call options apply to the request for the URL and to the read of the note. Without that read, WithResponse holds
// the response with the URL.
func TestDownload_CallOptions_ApplyToEachRequestOfTheService(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	var mu sync.Mutex // the size is asked for meanwhile
	var headers []string
	transport := socketTransport(t)
	client := a.client(t,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			headers = append(headers, r.Header.Get("X-Synthetic"))
			mu.Unlock()
			return transport.RoundTrip(r)
		})}))
	for ignored, want := range map[bool][]string{true: {"1", ""}, false: {"1", "", "1"}} {
		var response clinicaldoc.Response
		headers = nil
		params := downloadParams{IgnoreSize: ignored}
		_, err := client.Notes.DownloadAudio(socketContext(t), 7, io.Discard, params,
			clinicaldoc.WithHeader("X-Synthetic", "1"), clinicaldoc.WithResponse(&response))
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.Equal(t, ignored, strings.Contains(string(response.Body), `"url"`),
			"the last response is that to the question for the size, if there is one")
		assert.ElementsMatch(t, want, headers)
	}
}

// The call of OpenAudio ends when the stream is open. Its later reads are calls of their own, without the values of the
// context that CallStart returned for it.
func TestOpenAudio_Hooks_ReadsAreSeparateCalls(t *testing.T) {
	t.Parallel()
	type opening struct{}
	a := newAudioServer(t, 200_000)
	reads := 0
	stream, err := a.client(t, clinicaldoc.WithHooks(
		clinicaldoc.Hooks{CallStart: func(ctx context.Context, call clinicaldoc.Call) context.Context {
			if call.Operation == "AudioStream.ReadAt" {
				reads++
				assert.Nil(t, ctx.Value(opening{}))
			}
			return context.WithValue(ctx, opening{}, true)
		}})).Notes.OpenAudio(socketContext(t), 7)
	require.NoError(t, err)
	defer func() { assert.NoError(t, stream.Close()) }()
	must(stream.ReadAt(make([]byte, 10), 100_000))(t)
	assert.Equal(t, 1, reads)
}

// A link is the file that it leads to.
func TestDownloadFile_Link_WritesItsTarget(t *testing.T) {
	t.Parallel()
	a := newAudioServer(t, 1000)
	dir, share := t.TempDir(), t.TempDir()
	path, target := filepath.Join(dir, "visit.wav"), filepath.Join(share, "visit.wav")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
	if err := os.Symlink(target, path); err != nil {
		t.Skip("no links here")
	}
	must(a.downloadFile(t, path))(t)
	assert.Equal(t, a.data, fileContent(t, target))
	info := must(os.Lstat(path))(t)
	assert.Equal(t, fs.ModeSymlink, info.Mode().Type(), "the link stays one")
	require.NoError(t, os.RemoveAll(share)) // it is not mounted: the recording does not belong on this disk
	_, err := a.downloadFile(t, path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, []string{"visit.wav"}, fileNames(t, dir))
	info = must(os.Lstat(path))(t)
	assert.Equal(t, fs.ModeSymlink, info.Mode().Type(), "the link stays one")
}

// memoryChild is set in the process whose memory is measured.
const memoryChild = "CLINICALDOC_TEST_MEMORY_CHILD"

// transfer sends a file of the given size up and down.
func transfer(t *testing.T, size int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse.wav")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size)) // it takes no space on disk
	taken := make(chan int64, 1)
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	mux.HandleFunc("POST /v1/progress-notes", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		taken <- n
		_, _ = io.WriteString(w, socketNote(7))
	})
	mux.HandleFunc("GET /v1/progress-notes/7/audio-url", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"url":"%s/audio"}`, srv.URL)
	})
	mux.HandleFunc("GET /audio", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"synthetic-1"`)
		w.Header().Set("Content-Type", "audio/wav")
		file, err := os.Open(path)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer func() { _ = file.Close() }()
		http.ServeContent(w, r, "", time.Time{}, file)
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := clinicaldoc.NewClient(srv.URL, socketToken, over(transport))
	require.NoError(t, err)
	source, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	_, err = client.Notes.Create(t.Context(),
		createParams{Name: "Synthetic note", PatientID: 7, PromptID: 3, Audio: source})
	require.NoError(t, err)
	require.Greater(t, <-taken, size)
	n, err := client.Notes.DownloadAudio(t.Context(), 7,
		writerFunc(func(p []byte) (int, error) { return len(p), nil }), downloadParams{})
	require.NoError(t, err)
	require.Equal(t, size, n)
	stream, err := client.Notes.OpenAudio(t.Context(), 7)
	require.NoError(t, err)
	n, err = io.Copy(io.Discard, stream)
	require.NoError(t, err)
	require.Equal(t, size, n)
	require.NoError(t, stream.Close())
}

// memoryGrowth is how much more memory the process had to ask the system for, in all, while it transferred.
func memoryGrowth(t *testing.T, size int64) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	transfer(t, 8<<20) // what every transfer needs, whatever its size
	runtime.ReadMemStats(&before)
	transfer(t, size)
	runtime.ReadMemStats(&after)
	return after.Sys - before.Sys
}

func TestTransfers_LargeRecording_TakeFlatMemory(t *testing.T) {
	t.Parallel()
	const size, allowed = 128 << 20, 16 << 20
	if os.Getenv(memoryChild) != "" {
		growth := memoryGrowth(t, size)
		require.Less(t, growth, uint64(allowed), "bytes more for %d bytes up and down", size)
		t.Logf("grew by %d KiB", growth>>10)
		return
	}
	if testing.Short() {
		t.Skip("moves hundreds of megabytes")
	}
	binary := must(os.Executable())(t)
	// A process of its own, because the other tests use memory too.
	child := exec.CommandContext(t.Context(), binary, "-test.run=^TestTransfers_LargeRecording_TakeFlatMemory$",
		"-test.v", "-test.count=1")
	child.Env = append(os.Environ(), memoryChild+"=1")
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "grew by")
}
