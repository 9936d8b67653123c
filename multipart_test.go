package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
)

// formServer creates a note from every form and hands the form to the test.
func formServer(t *testing.T) (*httptest.Server, <-chan sentForm) {
	t.Helper()
	forms := make(chan sentForm, 8)
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		form, err := readForm(r)
		assert.NoError(t, err)
		forms <- form
		socketStatus(http.StatusCreated, socketNote(21))(w, r)
	})
	return srv, forms
}

// The body is sent only after the server has agreed (100-continue) if it is a stream, or longer than 1 MiB.
func TestUpload_AnySize_ArrivesExactly(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 4096, 1 << 20, 1<<20 + 1, 3<<20 + 17} {
		want := syntheticAudio(size).bytes()
		_, file := audioFile(t, size)
		for name, source := range map[string]*clinicaldoc.AudioSource{
			"file":     file,
			"bytes":    clinicaldoc.AudioBytes("a.wav", want),
			"readerAt": clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size),
			"reader":   clinicaldoc.AudioReader("a.wav", io.MultiReader(bytes.NewReader(want))),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				srv, forms := formServer(t)
				note := must(socketClient(t, srv.URL).Notes.Create(socketContext(t),
					createParams{Name: "Synthetic\r\n\"name\" ü", PatientID: 7, PromptID: 3, Audio: source}))(t)
				assert.EqualValues(t, 21, note.ID)
				form := <-forms
				assert.True(t, bytes.Equal(want, form.file), "the audio differs")
				assert.Equal(t, map[string]string{"name": "Synthetic\r\n\"name\" ü", "patient_id": "7",
					"prompt_id": "3"}, form.fields)
				if name == "reader" {
					assert.EqualValues(t, -1, form.length)
					assert.Equal(t, []string{"chunked"}, form.transferEncoding)
					assert.Equal(t, "100-continue", form.expect)
					return
				}
				assert.Empty(t, form.transferEncoding)
				if form.length > 1<<20 {
					assert.Equal(t, "100-continue", form.expect)
				} else {
					assert.Empty(t, form.expect)
				}
			})
		}
	}
}

func TestUpload_FileNamesAndTypes_AreSent(t *testing.T) {
	t.Parallel()
	const ogg = "OggS\x00 synthetic"
	for _, tc := range []struct{ name, content, contentType, wantName, wantType string }{
		{"plain.wav", "synthetic", "", "plain.wav", "audio/wav"},
		{"LOUD.MP3", "synthetic", "", "LOUD.MP3", "audio/mpeg"},
		{"a.m4a", "synthetic", "", "a.m4a", "audio/mp4"},
		{"a.dss", "synthetic", "", "a.dss", "audio/x-dss"},
		{"a.ds2", "synthetic", "", "a.ds2", "audio/x-ds2"},
		{"a.unknown", "synthetic", "", "a.unknown", "application/octet-stream"},
		{"none", "synthetic", "", "none", "application/octet-stream"},
		{`with "quotes".ogg`, "synthetic", "", `with "quotes".ogg`, "audio/ogg"},
		{`C:\synthetic\back.flac`, "synthetic", "", "back.flac", "audio/flac"},
		{"übung 録音.webm", "synthetic", "", "übung 録音.webm", "audio/webm"},
		{"../../x", "synthetic", "", "x", "application/octet-stream"},
		{"/etc/x.wav", "synthetic", "", "x.wav", "audio/wav"},
		{"semi;colon=1.wav", "synthetic", "", "semi;colon=1.wav", "audio/wav"},
		{"typed.bin", "synthetic", "audio/x-synthetic", "typed.bin", "audio/x-synthetic"},
		{"typed.wav", "synthetic", "Audio/L16; rate=8000", "typed.wav", "audio/l16; rate=8000"},
		// The first bytes count more than the name.
		{"none", ogg, "", "none", "audio/ogg"},
		{"a.wav", ogg, "", "a.wav", "audio/ogg"},
		{"a.opus", ogg, "", "a.opus", "audio/ogg"},
		{"a.bin", "\x02dss synthetic", "", "a.bin", "audio/x-dss"},
	} {
		t.Run(tc.name+" "+tc.wantType, func(t *testing.T) {
			t.Parallel()
			srv, forms := formServer(t)
			source := clinicaldoc.AudioBytes(tc.name, []byte(tc.content))
			source.ContentType = tc.contentType
			must(socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source}))(t)
			form := <-forms
			assert.Equal(t, tc.wantName, form.fileName)
			assert.Equal(t, tc.wantType, form.fileType)
			assert.Equal(t, tc.content, string(form.file))
		})
	}
}

func TestUpload_RefusedEarly_SendsNoAudio(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{401: clinicaldoc.ErrUnauthorized, 413: clinicaldoc.ErrTooLarge,
		422: clinicaldoc.ErrValidation} {
		for _, abrupt := range []bool{false, true} {
			t.Run(http.StatusText(code), func(t *testing.T) {
				t.Parallel()
				pushed := make(chan int64, 1)
				srv := newRawServer(t, func(c *rawConn) {
					c.head()
					c.answer(code, `{"message":"synthetic","errors":{"file":["synthetic"]}}`)
					if abrupt {
						_ = c.Close() // which resets the connection if audio is under way
					}
					n, _ := io.Copy(io.Discard, c.in)
					pushed <- n
				})
				_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), socketParams(8<<20))
				require.ErrorIs(t, err, want)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				answered := requireAs[*clinicaldoc.Error](t, err)
				assert.Equal(t, "synthetic", answered.Message)
				assert.Contains(t, answered.Fields, "file")
				assert.Zero(t, <-pushed, "audio was sent although it was refused")
			})
		}
	}
}

// The response to the announcement ends the wait of net/http, which then begins to send the body. The call has a second
// to stop that, so the test has a time of its own.
func TestUpload_AnnouncementRefused_IsSentWithoutIt(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
		subtests(t, map[string]*clinicaldoc.AudioSource{
			"readerAt": clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size),
			"reader":   clinicaldoc.AudioReader("a.wav", io.NewSectionReader(syntheticAudio(size), 0, size)),
		}, func(t *testing.T, source *clinicaldoc.AudioSource) {
			synctest.Test(t, func(t *testing.T) {
				forms := make(chan sentForm, 1)
				tr := socketTransport(t)
				tr.DialContext = pipesTo(t,
					func(c *rawConn) {
						c.head()
						c.answer(http.StatusExpectationFailed, "")
						c.untilClosed()
					},
					func(c *rawConn) {
						forms <- c.form()
						c.answer(http.StatusCreated, socketNote(22))
						c.untilClosed()
					})
				var response clinicaldoc.Response
				client := socketClient(t, "http://127.0.0.1", over(tr))
				must(client.Notes.Create(t.Context(), createParams{Audio: source},
					append(opts, clinicaldoc.WithResponse(&response))...))(t)
				form := <-forms
				assert.Empty(t, form.expect)
				assert.True(t, bytes.Equal(syntheticAudio(size).bytes(), form.file), "the audio differs")
				assert.Equal(t, 1, response.Attempts)
			})
		})
	}
}

// A transport that ignores the context may return such a response when the call is over. Its caller was told then that
// no note can exist, so the body must not be sent.
func TestUpload_AnnouncementRefusedAfterTheCall_SendsNothing(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	synctest.Test(t, func(t *testing.T) {
		tr := socketTransport(t)
		tr.ExpectContinueTimeout = time.Minute
		refused := make(chan struct{})
		tr.DialContext = pipesTo(t, func(c *rawConn) {
			c.head()
			time.Sleep(5 * time.Second)
			c.answer(http.StatusExpectationFailed, "", "Connection", "close")
			close(refused)
		})
		client := socketClient(t, "http://127.0.0.1", over(roundTripper(func(r *http.Request) (*http.Response, error) {
			return tr.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		})))
		audio := clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size)
		_, err := client.Notes.Create(endsAfter(t, 2*time.Second), createParams{Audio: audio})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		<-refused
		synctest.Wait() // a second connection would fail the test
	})
}

// atFunc is an [io.ReaderAt].
type atFunc func(p []byte, off int64) (int, error)

func (f atFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// A reader that breaks the rules of io.Reader must not end the program: net/http reads it in a goroutine of its own.
func TestUpload_ReaderWithAWrongCount_IsAnError(t *testing.T) {
	t.Parallel()
	for _, extra := range []int{1, -100_000} {
		srv := newRawServer(t, func(c *rawConn) { c.receive(0); c.untilClosed() })
		at := atFunc(func(p []byte, _ int64) (int, error) { return len(p) + extra, nil })
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t),
			createParams{Audio: clinicaldoc.AudioReaderAt("a.wav", at, 50_000)})
		require.ErrorContains(t, err, "the audio could not be read: its reader returned a negative count")
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	}
}

func TestUpload_HalfReadStream_IsNotRetried(t *testing.T) {
	t.Parallel()
	// The server lets the upload begin and answers 417 then. What is left of the stream is no recording.
	srv := newRawServer(t, func(c *rawConn) {
		c.receive(256 << 10)
		c.answer(http.StatusExpectationFailed, `{"message":"synthetic"}`)
		c.untilClosed()
	})
	stream := io.NewSectionReader(syntheticAudio(32<<20), 0, 32<<20)
	_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t),
		createParams{Audio: clinicaldoc.AudioReader("a.wav", stream)})
	answered := requireAs[*clinicaldoc.Error](t, err)
	assert.Equal(t, http.StatusExpectationFailed, answered.StatusCode)
	assert.EqualValues(t, 1, srv.accepted.Load())
}

func TestUpload_UnreadStream_IsRetried(t *testing.T) {
	t.Parallel()
	forms := make(chan sentForm, 1)
	srv := newRawServer(t, func(c *rawConn) {
		c.head()
		c.answer(http.StatusTooManyRequests, "")
	}, func(c *rawConn) {
		forms <- c.form()
		c.answer(http.StatusCreated, socketNote(23))
		c.untilClosed()
	})
	source := clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic"))
	c := socketClient(t, srv.URL)
	must(c.Notes.Create(socketContext(t), createParams{Audio: source}))(t)
	assert.Equal(t, "synthetic", string((<-forms).file))
	_, err := c.Notes.Create(socketContext(t), createParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "the stream is used up")
}

func TestUpload_ReadStream_IsNotRetried(t *testing.T) {
	t.Parallel()
	srv := newRawServer(t, func(c *rawConn) {
		c.request()
		c.answer(http.StatusTooManyRequests, "")
	})
	_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t),
		createParams{Audio: clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic"))})
	require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
}

// While a large recording is uploaded, the heap grows by much less than its size. The server measures the heap after
// each 16 MiB that it receives.
func TestUpload_LargeRecording_HoldsLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the process' heap
	const size = 96 << 20
	const step = 16 << 20
	var peak atomic.Uint64
	var base runtime.MemStats
	srv := socketHandler(t, func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 64<<10)
		var total int64
		for {
			n, err := r.Body.Read(buffer)
			before := total
			total += int64(n)
			completesStep := before/step != total/step
			if completesStep {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
			if err != nil {
				assert.Greater(t, total, int64(size))
				break
			}
		}
		socketStatus(http.StatusCreated, socketNote(24))(w, r)
	})
	runtime.GC()
	runtime.ReadMemStats(&base)
	must(socketClient(t, srv.URL).Notes.Create(socketContext(t), socketParams(size)))(t)
	require.Positive(t, peak.Load())
	assert.Less(t, peak.Load(), base.HeapAlloc+16<<20, "the recording is in memory")
}

// watchedAudio counts its reads, and those that end after the call.
type watchedAudio struct {
	io.ReaderAt
	over  atomic.Bool
	late  atomic.Int32
	reads atomic.Int32
}

func TestUpload_Canceled_SourceIsNotReadAfterTheCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(socketContext(t))
	defer cancel()
	returned := make(chan struct{})
	srv := newRawServer(t, func(c *rawConn) {
		c.receive(1 << 20)
		cancel()
		<-returned // until then the rest of the recording cannot leave
		c.untilClosed()
	})
	audio := &watchedAudio{ReaderAt: syntheticAudio(64 << 20)}
	_, err := socketClient(t, srv.URL).Notes.Create(ctx,
		createParams{Audio: clinicaldoc.AudioReaderAt("a.wav", audio, 64<<20)})
	audio.over.Store(true)
	close(returned)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Positive(t, audio.reads.Load())
	srv.wait() // until the connection is closed
	assert.Zero(t, audio.late.Load())
}

func (w *watchedAudio) ReadAt(p []byte, off int64) (int, error) {
	w.reads.Add(1)
	defer func() {
		if w.over.Load() {
			w.late.Add(1)
		}
	}()
	return w.ReaderAt.ReadAt(p, off)
}

// net/http may read on after an early response. This transport does so when the call is over.
func TestUpload_TransportReadsOn_GetsNothing(t *testing.T) {
	t.Parallel()
	audio := &watchedAudio{ReaderAt: syntheticAudio(1 << 20)}
	returned, finished := make(chan struct{}), make(chan struct{})
	var reports atomic.Int32
	tr := roundTripper(func(r *http.Request) (*http.Response, error) {
		_, _ = io.CopyN(io.Discard, r.Body, 100<<10)
		go func() {
			defer close(finished)
			<-returned
			_, err := io.Copy(io.Discard, r.Body)
			assert.Error(t, err)
		}()
		return madeResponse(r, http.StatusRequestEntityTooLarge, ""), nil
	})
	_, err := socketClient(t, "http://127.0.0.1:1", over(tr)).Notes.Create(socketContext(t), createParams{
		Audio:      clinicaldoc.AudioReaderAt("a.wav", audio, 1<<20),
		OnProgress: func(int64, int64) { reports.Add(1) },
	})
	require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
	audio.over.Store(true)
	before := reports.Load()
	close(returned)
	<-finished
	assert.Zero(t, audio.late.Load())
	assert.Equal(t, before, reports.Load())
}

func TestUpload_File_IsClosed(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc")
	}
	for name, script := range map[string]func(*rawConn){
		"created": func(c *rawConn) { c.request(); c.answer(http.StatusCreated, socketNote(25)) },
		"refused": func(c *rawConn) { c.head(); c.answer(http.StatusUnauthorized, "") },
		"lost":    func(c *rawConn) { c.request(); resetConn(c.Conn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, source := audioFile(t, 2<<20)
			srv := newRawServer(t, script)
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source})
			assert.Equal(t, name == "created", err == nil)
			assert.Zero(t, openCount(t, path))
		})
	}
	t.Run("bad option", func(t *testing.T) {
		t.Parallel()
		path, source := audioFile(t, 10)
		_, err := serve(t).Notes.Create(t.Context(), createParams{Audio: source}, clinicaldoc.WithQuery("", ""))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Zero(t, openCount(t, path))
	})
	t.Run("check of package ingest", func(t *testing.T) {
		t.Parallel()
		path, source := audioFile(t, 10)
		require.NoError(t, media.CheckSource(source))
		assert.Zero(t, openCount(t, path))
	})
	t.Run("SHA256", func(t *testing.T) {
		t.Parallel()
		path, source := audioFile(t, 10)
		must(source.SHA256())(t)
		assert.Zero(t, openCount(t, path))
		require.NoError(t, os.Truncate(path, 9)) // a file of another size is not the recording
		_, err := source.SHA256()
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Zero(t, openCount(t, path))
	})
}

func TestUpload_FileChangesWhileItIsSent_IsAnError(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	subtests(t, map[string]func(path string) error{
		"shrinks":       func(path string) error { return os.Truncate(path, 8<<20) },
		"grows":         func(path string) error { return os.Truncate(path, size+1) },
		"is written to": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)) },
		"is written to in the same second": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			second := info.ModTime().Truncate(time.Second)
			fraction := (info.ModTime().Sub(second) + time.Second/2) % time.Second
			return os.Chtimes(path, time.Time{}, second.Add(fraction))
		},
	}, func(t *testing.T, change func(path string) error) {
		path, source := audioFile(t, size)
		srv := newRawServer(t, func(c *rawConn) {
			r := c.receive(64 << 10)
			assert.NoError(t, change(path)) //nolint:testifylint // in the server's goroutine
			_, err := io.Copy(io.Discard, r.Body)
			assert.Error(t, err, "the server must not take it for a complete recording")
		})
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source})
		require.Error(t, err)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Contains(t, err.Error(), "the audio could not be read")
		assert.EqualValues(t, 1, srv.accepted.Load())
	})
}

func TestUpload_FileChangedBefore_IsAnError(t *testing.T) {
	t.Parallel()
	path, source := audioFile(t, 100)
	require.NoError(t, os.Truncate(path, 99))
	_, err := serve(t).Notes.Create(t.Context(), createParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorContains(t, err, "has changed")
	require.NoError(t, os.Remove(path))
	_, err = serve(t).Notes.Create(t.Context(), createParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), filepath.Base(path))
}

// openCount counts this process' descriptors of a file.
func openCount(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	count := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && target == path {
			count++
		}
	}
	return count
}

// Another file of the same size and time at the same path is another recording.
func TestUpload_FileReplaced_IsAnError(t *testing.T) {
	t.Parallel()
	path, _ := audioFile(t, 100)
	other, _ := audioFile(t, 100)
	for _, name := range []string{path, other} {
		require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
	}
	source := must(clinicaldoc.AudioFile(path))(t)
	require.NoError(t, os.Rename(other, path))
	_, err := serve(t).Notes.Create(t.Context(), createParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorContains(t, err, "has changed")
}

// If a service fails before it has received the complete recording, its size and hash are unknown. Those of a part,
// or of an earlier attempt, would make FindCreated search for another recording.
func TestUpload_NotSentCompletely_HasNoHash(t *testing.T) {
	t.Parallel()
	attempts := 0
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			_, _ = io.Copy(io.Discard, r.Body)
			return madeResponse(r, http.StatusTooManyRequests, ""), nil
		}
		_, _ = io.ReadFull(r.Body, make([]byte, 2000))
		return madeResponse(r, http.StatusInternalServerError, ""), nil
	}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1}))
	sound := bytes.Repeat([]byte("sound"), 1000)
	var sum string
	for size, source := range map[int64]*clinicaldoc.AudioSource{
		5000: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader(sound), 5000),
		-1:   clinicaldoc.AudioReader("a.wav", bytes.NewReader(sound)),
	} {
		if attempts = 0; size < 0 {
			attempts = 1 // it is sent once
		}
		params := createParams{Name: "Visit", Audio: source, BeforeCommit: func(context.Context) error { return nil }}
		_, err := client.Notes.Create(context.WithValue(t.Context(), creates.WantedSum{}, &sum), params)
		lost := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
		assert.Equal(t, 2, attempts)
		assert.Equal(t, size, lost.AudioSize)
		assert.Empty(t, lost.AudioSHA256)
	}
}

// A caller inside the module that asks for the hash of the recording gets it before BeforeCommit is called.
func TestUpload_Hash_IsKnownBeforeTheCommit(t *testing.T) {
	t.Parallel()
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return madeResponse(r, http.StatusCreated, smallNote), nil
	}))
	var sum, committed string
	_, err := client.Notes.Create(context.WithValue(t.Context(), creates.WantedSum{}, &sum), createParams{
		Audio:        clinicaldoc.AudioBytes("a.wav", []byte("sound")),
		BeforeCommit: func(context.Context) error { committed = sum; return nil },
	})
	require.NoError(t, err)
	assert.Equal(t, soundSHA256, committed)
}

// lateAudio holds back its last read until somebody lets it go.
type lateAudio struct {
	*bytes.Reader
	letGo chan struct{}
}

func (a *lateAudio) ReadAt(p []byte, off int64) (int, error) {
	n, err := a.Reader.ReadAt(p, off)
	if off+int64(n) == a.Size() {
		<-a.letGo
		err = io.EOF
	}
	return n, err
}

// A read for an attempt that has ended may return late. Its bytes do not count in the hash of the next attempt.
func TestUpload_LateRead_DoesNotChangeALaterHash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		audio := &lateAudio{bytes.NewReader(bytes.Repeat([]byte("sound"), 100)), make(chan struct{})}
		attempts := 0
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				go func() { _, _ = io.Copy(io.Discard, r.Body) }()
				synctest.Wait()
				return madeResponse(r, http.StatusTooManyRequests, ""), nil
			}
			close(audio.letGo)
			synctest.Wait()
			return madeResponse(r, http.StatusInternalServerError, ""), nil
		}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1}))
		var sum string
		_, err := client.Notes.Create(context.WithValue(t.Context(), creates.WantedSum{}, &sum), createParams{
			Name: "Visit", Audio: clinicaldoc.AudioReaderAt("a.wav", audio, 500),
			BeforeCommit: func(context.Context) error { return nil },
		})
		lost := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
		assert.Equal(t, 2, attempts)
		assert.Empty(t, lost.AudioSHA256)
	})
}

// failingAudio breaks at an offset.
type failingAudio struct {
	syntheticAudio
	at  int64
	err error
}

func (f failingAudio) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		return 0, f.err
	}
	return f.syntheticAudio.ReadAt(p, off)
}

func TestUpload_SourceFails_IsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("synthetic-disk-failure")
	const size = 8 << 20
	failing := func(at int64) *clinicaldoc.AudioSource {
		return clinicaldoc.AudioReaderAt("a.wav", failingAudio{size, at, broken}, size)
	}
	type test struct {
		source *clinicaldoc.AudioSource
		want   error
	}
	subtests(t, map[string]test{
		"at the first read": {failing(0), broken},
		"in the middle":     {failing(size / 2), broken},
		"at the last read":  {failing(size - 1), broken},
		"a stream": {clinicaldoc.AudioReader("a.wav",
			io.NewSectionReader(failingAudio{size, size / 2, broken}, 0, size)), broken},
		"too short":       {clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size-1), size), io.ErrUnexpectedEOF},
		"an empty stream": {clinicaldoc.AudioReader("a.wav", strings.NewReader("")), clinicaldoc.ErrInvalidArgument},
	}, func(t *testing.T, tt test) {
		srv := newRawServer(t, func(c *rawConn) {
			_, err := io.Copy(io.Discard, c.receive(0).Body)
			assert.Error(t, err)
		})
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: tt.source})
		require.ErrorIs(t, err, tt.want)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Contains(t, err.Error(), "the audio could not be read")
		assert.NotContains(t, err.Error(), "synthetic-disk-failure")
	})
}

// OnProgress is called in the goroutine of Create, so this test needs no lock: each attempt starts at 0 and ends at the
// total.
func TestUpload_Progress_IsReported(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	script := newSocketSteps(socketStatus(http.StatusTooManyRequests, ""),
		socketStatus(http.StatusCreated, socketNote(26)))
	var attempts [][]int64 // what was sent, as reported
	creator := goroutineID()
	params := socketParams(size)
	params.OnProgress = func(sent, total int64) {
		assert.Equal(t, creator, goroutineID(), "it is called in the goroutine of Create")
		assert.EqualValues(t, size, total)
		if sent == 0 {
			attempts = append(attempts, nil)
		}
		last := len(attempts) - 1
		attempts[last] = append(attempts[last], sent)
	}
	must(script.client(t).Notes.Create(socketContext(t), params))(t)
	require.Len(t, attempts, 2, "each attempt starts at 0")
	for _, sent := range attempts {
		assert.IsIncreasing(t, sent)
		assert.EqualValues(t, size, sent[len(sent)-1], "an attempt ends at the total")
	}
}

// goroutineID returns the number of the goroutine that calls it.
func goroutineID() string {
	trace := string(debug.Stack()) // begins with "goroutine 7 [running]:"
	return strings.Fields(trace)[1]
}

func TestUpload_Stalled_Ends(t *testing.T) {
	t.Parallel()
	const patience = time.Second // less would end attempts that a busy machine has not begun, which count as never sent
	silent := func(c *rawConn) {
		c.receive(0)
		c.untilClosed()
	}
	pipe, writer := io.Pipe() // nothing ever comes out of it
	blocked := blockedAudio{make(chan struct{})}
	t.Cleanup(func() {
		_ = writer.Close()
		close(blocked.until)
	})
	type test struct {
		serve    func(*rawConn)
		audio    *clinicaldoc.AudioSource // nil: a small one
		attempts int
		unknown  bool
	}
	for name, tt := range map[string]test{
		"within the body": {attempts: 2,
			audio: clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(32<<20), 32<<20),
			serve: func(c *rawConn) {
				c.receive(1)
				<-c.t.Context().Done()
			}},
		"waiting for the response": {attempts: 1, unknown: true, serve: func(c *rawConn) {
			c.request()
			c.untilClosed()
		}},
		"within the response": {attempts: 1, unknown: true, serve: func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{")
			c.untilClosed()
		}},
		"at a stream": {attempts: 1, audio: clinicaldoc.AudioReader("a.wav", pipe), serve: silent},
		"at a source that can be read again": {attempts: 2,
			audio: clinicaldoc.AudioReaderAt("a.wav", blocked, 8<<20), serve: silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newRawServer(t, slices.Repeat([]func(*rawConn){tt.serve}, tt.attempts)...)
			params := socketParams(1 << 10)
			params.Audio = cmp.Or(tt.audio, params.Audio)
			_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).
				Notes.Create(socketContext(t), params)
			require.ErrorIs(t, err, clinicaldoc.ErrStalled)
			require.ErrorContains(t, err, "no data was transferred for 1s")
			assert.Equal(t, tt.unknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, err, &timeout)
			assert.True(t, timeout.Timeout())
		})
	}
}

// blockedAudio is a disk that hangs.
type blockedAudio struct{ until chan struct{} }

func (b blockedAudio) ReadAt([]byte, int64) (int, error) {
	<-b.until
	return 0, errors.New("synthetic")
}

func TestUpload_BlockedReader_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	pipe, unblock := io.Pipe()
	t.Cleanup(func() { _ = unblock.Close() })
	ctx, cancel := context.WithCancel(socketContext(t))
	defer cancel()
	srv := newRawServer(t, func(c *rawConn) {
		c.receive(0)
		cancel()
		c.untilClosed()
	})
	started := time.Now()
	_, err := socketClient(t, srv.URL).Notes.Create(ctx, createParams{Audio: clinicaldoc.AudioReader("a.wav", pipe)})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(started), 10*time.Second)
	assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// audioFile writes a recording of that size to a file, and returns its path and its source.
func audioFile(t *testing.T, size int64) (string, *clinicaldoc.AudioSource) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synthetic.mp3")
	require.NoError(t, os.WriteFile(path, syntheticAudio(size).bytes(), 0o600))
	return path, must(clinicaldoc.AudioFile(path))(t)
}

// FuzzEnvelope reads an upload back with the standard library. It contains exactly what was passed.
func FuzzEnvelope(f *testing.F) {
	f.Add("visit.wav", "", "Follow-up", int64(7), int64(1), []byte("RIFF"))
	f.Add(`C:\audio\a"b;c=d.mp3`, "audio/mpeg; codecs=\"a;b\"", "", int64(0), int64(0), []byte("x"))
	f.Add("n\r\nX-Injected: yes\r\n\r\n", "audio/wav\r\nX-Injected: yes", "a\r\n--b", int64(-1), int64(2), []byte("--"))
	f.Add("日本語\u2028.ogg", "audio/ogg; title*=utf-8''%e2%82%ac", "Naïve", int64(1), int64(2), []byte("\r\n--\r\n"))
	f.Add("a.ogg", "Audio/Ogg; codecs=Opus", "n", int64(1), int64(2), []byte{0})
	f.Add("..", "audio", "\xff", int64(1), int64(2), []byte{})
	f.Add("a%22b%0d%0a.wav", "audio/x-a; b=\"\"; c*0=d; c*1=e", "n", int64(1), int64(2), []byte{0})
	f.Add("0", "o/g;*=utf-8''$e2%82%ac", "9aïve", int64(1), int64(129), []byte("audio/"))
	f.Add(strings.Repeat("x", 256), "text/plain; a=\u00e9", "n", int64(1), int64(2), []byte{0})
	f.Fuzz(func(t *testing.T, fileName, contentType, name string, patient, prompt int64, audio []byte) {
		type part struct{ name, file, value string }
		var parts []part
		var types []string
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			body := must(io.ReadAll(r.Body))(t)
			require.EqualValues(t, len(body), r.ContentLength)
			kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			require.NoError(t, err)
			require.Equal(t, "multipart/form-data", kind)
			reader := multipart.NewReader(bytes.NewReader(body), params["boundary"])
			for {
				p, err := reader.NextRawPart()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				value := must(io.ReadAll(p))(t)
				kind, disposition, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
				require.NoError(t, err)
				require.Equal(t, "form-data", kind)
				allowed := 1
				if disposition["name"] == "file" {
					allowed = 2
					types = append(types, p.Header["Content-Type"]...)
				}
				require.Len(t, p.Header, allowed, "no header beside its own")
				parts = append(parts, part{disposition["name"], disposition["filename"], string(value)})
				delete(disposition, "name")
				delete(disposition, "filename")
				require.Empty(t, disposition)
			}
			return answerWith(http.StatusCreated, "application/json", []byte(smallNote))(r)
		}))
		source := clinicaldoc.AudioBytes(fileName, audio)
		source.ContentType = contentType
		_, err := client.Notes.Create(t.Context(),
			createParams{Name: name, PatientID: patient, PromptID: prompt, Audio: source})

		base := fileName[strings.LastIndexAny(fileName, `/\`)+1:]
		unsendable := base == "" || base == "." || base == ".." || len(base) > 255 || !utf8.ValidString(base) ||
			hasControl(base)
		if err != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.Empty(t, parts, "nothing is sent")
			require.Regexp(t, `^clinicaldoc: (Audio|Audio: ContentType|Notes\.Create: [A-Za-z]+): `+
				`[A-Za-z0-9 ,;/-]+: invalid argument$`, err.Error())
			kind, params, badType := mime.ParseMediaType(contentType)
			require.True(t, unsendable || patient < 0 || prompt < 0 || !utf8.ValidString(name) || len(audio) == 0 ||
				badType != nil ||
				!strings.Contains(kind, "/") || hasControl(contentType) || mime.FormatMediaType(kind, params) == "",
				err)
			return
		}
		require.False(t, unsendable)
		want := []part{{"file", base, string(audio)}} // first, so that a cut upload lacks what the service acts on
		if name != "" {
			want = append(want, part{name: "name", value: name})
		}
		if patient != 0 {
			want = append(want, part{name: "patient_id", value: strconv.FormatInt(patient, 10)})
		}
		if prompt != 0 {
			want = append(want, part{name: "prompt_id", value: strconv.FormatInt(prompt, 10)})
		}
		require.Equal(t, want, parts)
		require.Len(t, types, 1)
		kind, params, err := mime.ParseMediaType(types[0])
		require.NoError(t, err, "%q", types[0])
		if contentType != "" {
			wantKind, wantParams, err := mime.ParseMediaType(contentType)
			require.NoError(t, err)
			require.Equal(t, wantKind, kind)
			require.Equal(t, wantParams, params)
		}
	})
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func TestAudioSource_Size(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		audio *clinicaldoc.AudioSource
		want  int64
	}{
		"zero":          {&clinicaldoc.AudioSource{}, -1},
		"a stream":      {clinicaldoc.AudioReader("visit.mp3", strings.NewReader("sound")), -1},
		"bytes":         {clinicaldoc.AudioBytes("visit.mp3", []byte("sound")), 5},
		"a part of one": {clinicaldoc.AudioReaderAt("visit.mp3", strings.NewReader("sound, and more"), 5), 5},
	} {
		assert.Equal(t, tt.want, tt.audio.Size(), name)
	}
}

func TestAudioSource_Copy_IsTheSameRecording(t *testing.T) {
	t.Parallel()
	typed := clinicaldoc.AudioBytes("visit.wav", []byte("sound"))
	copied := *typed
	copied.ContentType = "audio/flac"
	for audio, mediaType := range map[*clinicaldoc.AudioSource]string{typed: "audio/wav", &copied: "audio/flac"} {
		sent := checkParts(part{`form-data; name="file"; filename="visit.wav"`, mediaType, "sound"})
		_, err := serve(t, call{method: "POST", url: "/v1/progress-notes", checkBody: sent,
			response: fullNote}).Notes.Create(t.Context(), createParams{Audio: audio})
		require.NoError(t, err)
	}

	stream := clinicaldoc.AudioReader("visit.wav", strings.NewReader("sound"))
	streamCopy := *stream
	reading := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(fullNote))}, err
	}))
	_, err := reading.Notes.Create(t.Context(), createParams{Audio: &streamCopy})
	require.NoError(t, err)
	for _, used := range []*clinicaldoc.AudioSource{stream, &streamCopy} {
		_, err = serve(t).Notes.Create(t.Context(), createParams{Audio: used})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "what is left of a stream is not the recording")
	}
}

func TestAudioFile_UnusableFile_IsRejected(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.wav")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{"", folder, empty} {
		source, err := clinicaldoc.AudioFile(path)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, path)
		assert.Nil(t, source, path)
	}
	// The error has the path of the missing file. Its text does not.
	missing := filepath.Join(folder, "CANARY.wav")
	source, err := clinicaldoc.AudioFile(missing)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Nil(t, source)
	assertFriendly(t, err, "AudioFile", "the file cannot be opened", syscall.ENOENT.Error())
	assert.Equal(t, missing, requireAs[*fs.PathError](t, err).Path)
}

func TestCreate_Extra_IsSentAsFurtherParts(t *testing.T) {
	t.Parallel()
	params := createParams{
		Name: "Visit", PatientID: 5, Audio: clinicaldoc.AudioBytes("a.wav", []byte("RIFF")),
		Extra: map[string]string{"language": "de", "encounter[id]": "17", "empty": "", "note text": "a\r\n--b"},
	}
	client := serve(t,
		call{method: "POST", url: "/v1/progress-notes", status: 201, response: smallNote, checkBody: checkParts(
			part{`form-data; name="file"; filename="a.wav"`, "audio/wav", "RIFF"},
			part{`form-data; name="name"`, "", "Visit"},
			part{`form-data; name="patient_id"`, "", "5"},
			part{`form-data; name="empty"`, "", ""},
			part{`form-data; name="encounter[id]"`, "", "17"},
			part{`form-data; name="language"`, "", "de"},
			part{`form-data; name="note text"`, "", "a\r\n--b"},
		)})
	must(client.Notes.Create(t.Context(), params))(t)
	assert.Len(t, params.Extra, 4)
}

// PHP reads "patient id", "patient.id", "patient[id" and "patient_id[0]" as patient_id: such a part would make the note
// another patient's.
func TestCreate_UnsendableExtra_IsRejected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "name", "patient_id", "prompt_id", "file", "Patient_ID", "patient.id", "patient id", " patient_id",
		"patient_id[0]", "file[]", "name[first]", "patient[id", "Prompt[ID", "patient_id[",
		"_method", "_METHOD", "a\"b", "a'b", "a\r\nX-Injected: yes", "a\x00", "a\x7f", "\xff", "[",
		strings.Repeat("x", 300),
	} {
		params := createParams{Name: "Visit", Extra: map[string]string{"language": "de", name: canary}}
		_, err := serve(t).Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%q", name)
		assert.Contains(t, err.Error(), "Notes.Create: Extra")
		assert.NotContains(t, err.Error(), canary)
	}
	params := createParams{Extra: map[string]string{"language": "\xff"}}
	_, err := serve(t).Notes.Create(t.Context(), params)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

// The parts of a form are read back as the standard library reads them: each under its name, with its value.
func FuzzCreateExtra(f *testing.F) {
	f.Add("language", "de")
	f.Add("a\"b", "x")
	f.Add("patient id", "8")
	f.Add("encounter[id]", "a\r\n--b")
	f.Add("n\\a", "\x00")
	f.Fuzz(func(t *testing.T, name, value string) {
		var sent sentForm
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			form, err := readForm(r)
			require.NoError(t, err)
			sent = form
			return answerWith(http.StatusCreated, "application/json", []byte(smallNote))(r)
		}))
		_, err := client.Notes.Create(t.Context(),
			createParams{Name: "Visit", PatientID: 5, Extra: map[string]string{name: value}})
		if err != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.Empty(t, sent.fields, "nothing was sent")
			return
		}
		require.Equal(t, map[string]string{"name": "Visit", "patient_id": "5", name: value}, sent.fields)
	})
}

// cutWAV is a WAV file whose header announces more than there is.
const cutWAV = "RIFF\x24\x10\x00\x00WAVEfmt \x10\x00\x00\x00 synthetic sound"

func TestCreate_Stream_IsNotReadForItsMediaType(t *testing.T) {
	t.Parallel()
	srv, forms := formServer(t)
	audio := clinicaldoc.AudioReader("visit.wav", strings.NewReader("OggS\x00 synthetic"))
	must(socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: audio}))(t)
	form := <-forms
	assert.Equal(t, "audio/wav", form.fileType)
	assert.Equal(t, "OggS\x00 synthetic", string(form.file))
}

// warningErrors keeps the errors of logged warnings.
type warningErrors struct {
	slog.Handler

	errors []error
}

func (w *warningErrors) Enabled(context.Context, slog.Level) bool { return true }

func (w *warningErrors) Handle(_ context.Context, record slog.Record) error {
	if record.Level != slog.LevelWarn {
		return nil
	}
	record.Attrs(func(attr slog.Attr) bool {
		if err, ok := attr.Value.Any().(error); ok {
			w.errors = append(w.errors, err)
		}
		return true
	})
	return nil
}

func TestCreate_UnusableRecording_IsSentWithATypedWarning(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]error{
		cutWAV: media.ErrCutShort, "%PDF-1.7 synthetic": media.ErrNotARecording, "synthetic": nil,
	} {
		logged := &warningErrors{Handler: slog.DiscardHandler}
		opts := []clinicaldoc.Option{clinicaldoc.WithLogger(slog.New(logged))}
		sent := checkParts(part{`form-data; name="file"; filename="canary.wav"`, "audio/wav", content})
		client := serveWith(t, opts,
			call{method: "POST", url: "/v1/progress-notes", status: 201, response: smallNote, checkBody: sent})
		note := must(client.Notes.Create(t.Context(),
			createParams{Audio: clinicaldoc.AudioBytes("canary.wav", []byte(content))}))(t)
		assert.NotZero(t, note.ID)
		if want == nil {
			assert.Empty(t, logged.errors)
			continue
		}
		require.Len(t, logged.errors, 1)
		require.ErrorIs(t, logged.errors[0], want)
		assert.NotContains(t, logged.errors[0].Error(), "canary")
	}
}

// readerAt is a reader of the caller's.
type readerAt func(p []byte, offset int64) (int, error)

func (f readerAt) ReadAt(p []byte, offset int64) (int, error) { return f(p, offset) }

// A reader of the caller's may block. Only a call that is sending can be ended then.
func TestCreate_CallersReader_IsNotReadBeforeTheRequestIsSent(t *testing.T) {
	t.Parallel()
	var read bool
	audio := clinicaldoc.AudioReaderAt("visit.wav", readerAt(func([]byte, int64) (int, error) {
		read = true
		return 0, io.EOF
	}), 100)
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		_ = r.Body.Close()
		return nil, errors.New("synthetic")
	}))
	_, err := client.Notes.Create(t.Context(), createParams{Audio: audio})
	require.Error(t, err)
	assert.False(t, read)
}
