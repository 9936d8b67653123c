package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

func writeAudio(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synthetic.mp3")
	require.NoError(t, os.WriteFile(path, syntheticAudio(size).bytes(), 0o600))
	return path
}

func TestUpload_AnySize_ArrivesExactly(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 4096, 1 << 20, 1<<20 + 1, 3<<20 + 17} {
		want := syntheticAudio(size).bytes()
		file, err := clinicaldoc.AudioFile(writeAudio(t, size))
		require.NoError(t, err)
		for name, source := range map[string]*clinicaldoc.AudioSource{
			"file":     file,
			"bytes":    clinicaldoc.AudioBytes("a.wav", want),
			"readerAt": clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size),
			"reader":   clinicaldoc.AudioReader("a.wav", io.MultiReader(bytes.NewReader(want))),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				srv, forms := formServer(t)
				note, err := socketClient(t, srv.URL).Notes.Create(socketContext(t),
					createParams{Name: "Synthetic\r\n\"name\" ü", PatientID: 7, PromptID: 3, Audio: source})
				require.NoError(t, err)
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

func TestUpload_WithoutAudioOrFields_Arrives(t *testing.T) {
	t.Parallel()
	srv, forms := formServer(t)
	must(socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{}))(t)
	form := <-forms
	assert.Empty(t, form.fields, "what is not set is not sent")
	assert.Empty(t, form.fileName)
}

func TestUpload_FileNamesAndTypes_AreSent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, contentType, wantName, wantType string }{
		{"plain.wav", "", "plain.wav", "audio/wav"},
		{"LOUD.MP3", "", "LOUD.MP3", "audio/mpeg"},
		{"a.m4a", "", "a.m4a", "audio/mp4"},
		{"a.unknown", "", "a.unknown", "application/octet-stream"},
		{"none", "", "none", "application/octet-stream"},
		{`with "quotes".ogg`, "", `with "quotes".ogg`, "audio/ogg"},
		{`C:\synthetic\back.flac`, "", "back.flac", "audio/flac"},
		{"übung 録音.webm", "", "übung 録音.webm", "audio/webm"},
		{"../../x", "", "x", "application/octet-stream"},
		{"/etc/x.wav", "", "x.wav", "audio/wav"},
		{"semi;colon=1.wav", "", "semi;colon=1.wav", "audio/wav"},
		{"typed.bin", "audio/x-synthetic", "typed.bin", "audio/x-synthetic"},
		{"typed.wav", "Audio/L16; rate=8000", "typed.wav", "audio/l16; rate=8000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv, forms := formServer(t)
			source := clinicaldoc.AudioBytes(tc.name, []byte("synthetic"))
			source.ContentType = tc.contentType
			must(socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source}))(t)
			form := <-forms
			assert.Equal(t, tc.wantName, form.fileName)
			assert.Equal(t, tc.wantType, form.fileType)
		})
	}
}

func TestUpload_UnusableSource_IsRejected(t *testing.T) {
	t.Parallel()
	srv := socketHandler(t, func(http.ResponseWriter, *http.Request) { assert.Fail(t, "nothing may be sent") })
	c := socketClient(t, srv.URL)
	typed := func(contentType string) *clinicaldoc.AudioSource {
		a := clinicaldoc.AudioBytes("a.wav", []byte("x"))
		a.ContentType = contentType
		return a
	}
	for name, source := range map[string]*clinicaldoc.AudioSource{
		"line break":        clinicaldoc.AudioBytes("a\r\nX-Injected: 1.wav", []byte("x")),
		"NUL":               clinicaldoc.AudioBytes("a\x00.wav", []byte("x")),
		"escape":            clinicaldoc.AudioBytes("a\x1b.wav", []byte("x")),
		"delete":            clinicaldoc.AudioBytes("a\x7f.wav", []byte("x")),
		"not UTF-8":         clinicaldoc.AudioBytes("a\xff.wav", []byte("x")),
		"too long":          clinicaldoc.AudioBytes(strings.Repeat("a", 256), []byte("x")),
		"no name":           clinicaldoc.AudioBytes("", []byte("x")),
		"dots":              clinicaldoc.AudioBytes("synthetic/..", []byte("x")),
		"folder":            clinicaldoc.AudioBytes("synthetic/", []byte("x")),
		"empty":             clinicaldoc.AudioBytes("a.wav", nil),
		"negative":          clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(1), -1),
		"nil ReaderAt":      clinicaldoc.AudioReaderAt("a.wav", nil, 1),
		"nil Reader":        clinicaldoc.AudioReader("a.wav", nil),
		"zero":              {},
		"bad type":          typed("audio"),
		"injecting type":    typed("audio/wav\r\nX-Injected: 1"),
		"unreadable params": typed("audio/wav; rate"),
	} {
		_, err := c.Notes.Create(socketContext(t), createParams{Name: "Synthetic", Audio: source})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
	}
	_, err := clinicaldoc.AudioFile(t.TempDir())
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	_, err = clinicaldoc.AudioFile(filepath.Join(t.TempDir(), "missing-synthetic.wav"))
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), "missing-synthetic")
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

func TestUpload_AnnouncementRefused_IsSentWithoutIt(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
		subtests(t, map[string]func() *clinicaldoc.AudioSource{
			"readerAt": func() *clinicaldoc.AudioSource {
				return clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(2<<20), 2<<20)
			},
			"reader": func() *clinicaldoc.AudioSource {
				return clinicaldoc.AudioReader("a.wav", io.NewSectionReader(syntheticAudio(2<<20), 0, 2<<20))
			},
		}, func(t *testing.T, source func() *clinicaldoc.AudioSource) {
			forms := make(chan sentForm, 1)
			srv := newRawServer(t,
				func(c *rawConn) {
					c.head()
					c.answer(http.StatusExpectationFailed, "")
					c.untilClosed()
				},
				func(c *rawConn) {
					form, err := readForm(c.head())
					assert.NoError(t, err) //nolint:testifylint // in the server's goroutine
					forms <- form
					c.answer(http.StatusCreated, socketNote(22))
					c.untilClosed()
				})
			var response clinicaldoc.Response
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source()},
				append(opts, clinicaldoc.WithResponse(&response))...)
			require.NoError(t, err)
			form := <-forms
			assert.Empty(t, form.expect)
			assert.True(t, bytes.Equal(syntheticAudio(2<<20).bytes(), form.file), "the audio differs")
			assert.Equal(t, 1, response.Attempts)
		})
	}
}

func TestUpload_HalfReadStream_IsNotRetried(t *testing.T) {
	t.Parallel()
	// The server lets the upload begin and answers 417 then. What is left of the stream is no recording.
	srv := newRawServer(t, func(c *rawConn) {
		r := c.head()
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = io.CopyN(io.Discard, r.Body, 256<<10)
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
	t.Run("unread", func(t *testing.T) {
		t.Parallel()
		forms := make(chan sentForm, 1)
		srv := newRawServer(t, func(c *rawConn) {
			c.head()
			c.answer(http.StatusTooManyRequests, "")
		}, func(c *rawConn) {
			r := c.head()
			c.send("HTTP/1.1 100 Continue\r\n\r\n")
			form, err := readForm(r)
			assert.NoError(t, err) //nolint:testifylint // in the server's goroutine
			forms <- form
			c.answer(http.StatusCreated, socketNote(23))
			c.untilClosed()
		})
		source := clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic"))
		c := socketClient(t, srv.URL)
		must(c.Notes.Create(socketContext(t), createParams{Audio: source}))(t)
		assert.Equal(t, "synthetic", string((<-forms).file))
		_, err := c.Notes.Create(socketContext(t), createParams{Audio: source})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "the stream is used up")
	})
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			c.answer(http.StatusTooManyRequests, "")
		})
		_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t),
			createParams{Audio: clinicaldoc.AudioReader("a.wav", strings.NewReader("synthetic"))})
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
	})
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

// watchedAudio notes reads that come when none may come any more.
type watchedAudio struct {
	io.ReaderAt
	over  atomic.Bool
	late  atomic.Int32
	reads atomic.Int32
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

func TestUpload_Source_IsNotReadAfterTheCall(t *testing.T) {
	t.Parallel()
	// net/http goes on reading a body after an early answer and after a cancelled call.
	early := func(c *rawConn) {
		r := c.head()
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		c.answer(http.StatusRequestEntityTooLarge, "{}")
		c.untilClosed()
	}
	for range 10 {
		t.Run("early answer", func(t *testing.T) {
			t.Parallel()
			srv := newRawServer(t, early)
			audio := &watchedAudio{ReaderAt: syntheticAudio(64 << 20)}
			var told atomic.Int32
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{
				Audio: clinicaldoc.AudioReaderAt("a.wav", audio, 64<<20),
				OnProgress: func(int64, int64) {
					if audio.over.Load() {
						told.Add(1)
					}
				},
			})
			audio.over.Store(true)
			require.ErrorIs(t, err, clinicaldoc.ErrTooLarge)
			assert.Positive(t, audio.reads.Load())
			t.Cleanup(func() {
				assert.Zero(t, audio.late.Load())
				assert.Zero(t, told.Load())
			})
		})
		t.Run("cancelled", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(socketContext(t))
			defer cancel()
			returned := make(chan struct{})
			srv := newRawServer(t, func(c *rawConn) {
				r := c.head()
				c.send("HTTP/1.1 100 Continue\r\n\r\n")
				_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
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
			t.Cleanup(func() { assert.Zero(t, audio.late.Load()) })
		})
	}
}

func TestUpload_TransportReadsOn_GetsNothing(t *testing.T) {
	t.Parallel()
	// As net/http may, but surely: this transport answers early and reads the rest when the call is over.
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
			path := writeAudio(t, 2<<20)
			source := must(clinicaldoc.AudioFile(path))(t)
			srv := newRawServer(t, script)
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source})
			assert.Equal(t, name == "created", err == nil)
			assert.Zero(t, openCount(t, path))
		})
	}
	t.Run("bad option", func(t *testing.T) {
		t.Parallel()
		path := writeAudio(t, 10)
		source := must(clinicaldoc.AudioFile(path))(t)
		_, err := socketClient(t, "http://127.0.0.1:1").Notes.Create(socketContext(t), createParams{Audio: source},
			clinicaldoc.WithQuery("", ""))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Zero(t, openCount(t, path))
		must(source.SHA256())(t)
		assert.Zero(t, openCount(t, path))
		require.NoError(t, os.Truncate(path, 9)) // then it is refused as another one
		_, err = source.SHA256()
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Zero(t, openCount(t, path))
	})
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

func TestUpload_FileChanges_IsAnError(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	change := func(change func(path string) error) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			path := writeAudio(t, size)
			source, err := clinicaldoc.AudioFile(path)
			require.NoError(t, err)
			srv := newRawServer(t, func(c *rawConn) {
				r := c.head()
				c.send("HTTP/1.1 100 Continue\r\n\r\n")
				_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
				assert.NoError(t, change(path)) //nolint:testifylint // in the server's goroutine
				_, err := io.Copy(io.Discard, r.Body)
				assert.Error(t, err, "the server must not take it for a whole recording")
			})
			_, err = socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source})
			require.Error(t, err)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Contains(t, err.Error(), "the audio could not be read")
			assert.EqualValues(t, 1, srv.accepted.Load())
		}
	}
	t.Run("shrinks", change(func(path string) error { return os.Truncate(path, 8<<20) }))                               //nolint:paralleltest // change makes it parallel
	t.Run("grows", change(func(path string) error { return os.Truncate(path, size+1) }))                                //nolint:paralleltest // change makes it parallel
	t.Run("is written to", change(func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)) })) //nolint:paralleltest // change makes it parallel
	t.Run("before it is sent", func(t *testing.T) {
		t.Parallel()
		path := writeAudio(t, 100)
		source := must(clinicaldoc.AudioFile(path))(t)
		require.NoError(t, os.Truncate(path, 99))
		_, err := socketClient(t, "http://127.0.0.1:1").Notes.Create(socketContext(t), createParams{Audio: source})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.NoError(t, os.Remove(path))
		_, err = socketClient(t, "http://127.0.0.1:1").Notes.Create(socketContext(t), createParams{Audio: source})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// Another file of the same size and time in its place is another recording.
func TestUpload_FileReplaced_IsAnError(t *testing.T) {
	t.Parallel()
	path, other := writeAudio(t, 100), writeAudio(t, 100)
	for _, name := range []string{path, other} {
		require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
	}
	source := must(clinicaldoc.AudioFile(path))(t)
	require.NoError(t, os.Rename(other, path))
	_, err := refusing(t, io.ErrUnexpectedEOF).Notes.Create(t.Context(), createParams{Audio: source})
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

// Whoever wants to know what is sent knows it before the last bytes leave.
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

// A read of an attempt that is over may end late: what it brings is not what the attempt after it has sent.
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
	for name, source := range map[string]*clinicaldoc.AudioSource{
		"readerAt": clinicaldoc.AudioReaderAt("a.wav", failingAudio{size, size / 2, broken}, size),
		"reader": clinicaldoc.AudioReader("a.wav",
			io.NewSectionReader(failingAudio{size, size / 2, broken}, 0, size)),
		"at once":   clinicaldoc.AudioReaderAt("a.wav", failingAudio{size, 0, broken}, size),
		"at last":   clinicaldoc.AudioReaderAt("a.wav", failingAudio{size, size - 1, broken}, size),
		"too short": clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size-1), size),
		"empty":     clinicaldoc.AudioReader("a.wav", strings.NewReader("")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newRawServer(t, func(c *rawConn) {
				r := c.head()
				c.send("HTTP/1.1 100 Continue\r\n\r\n")
				_, err := io.Copy(io.Discard, r.Body)
				assert.Error(t, err)
			})
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{Audio: source})
			require.Error(t, err)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Contains(t, err.Error(), "the audio could not be read")
			assert.NotContains(t, err.Error(), "synthetic-disk-failure")
			switch name {
			case "too short":
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			case "empty":
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			default:
				require.ErrorIs(t, err, broken)
			}
		})
	}
}

func TestUpload_Progress_IsReported(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	script := newSocketSteps(socketStatus(http.StatusTooManyRequests, ""),
		socketStatus(http.StatusCreated, socketNote(26)))
	srv := socketHandler(t, script.ServeHTTP)
	var mu sync.Mutex
	var told []int64
	params := socketParams(size)
	params.OnProgress = func(sent, total int64) {
		mu.Lock()
		defer mu.Unlock()
		assert.EqualValues(t, size, total)
		told = append(told, sent)
	}
	must(socketClient(t, srv.URL).Notes.Create(socketContext(t), params))(t)
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, told)
	starts := 0
	for i, sent := range told {
		if sent == 0 {
			starts++
			if i > 0 {
				assert.EqualValues(t, size, told[i-1], "an attempt ends at the total")
			}
			continue
		}
		assert.Greater(t, sent, told[i-1])
	}
	assert.Equal(t, 2, starts, "each attempt starts at 0")
	assert.EqualValues(t, size, told[len(told)-1])
}

func TestUpload_Stalled_Ends(t *testing.T) {
	t.Parallel()
	const patience = time.Second // less would end attempts that a busy machine has not begun, which count as never sent
	t.Run("within the body", func(t *testing.T) {
		t.Parallel()
		stall := func(c *rawConn) {
			c.head()
			c.send("HTTP/1.1 100 Continue\r\n\r\n")
			_, _ = c.Read(make([]byte, 1)) // no more of it is read
			<-t.Context().Done()
		}
		srv := newRawServer(t, stall, stall)
		_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).Notes.Create(socketContext(t),
			socketParams(32<<20))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "no data was transferred for "+patience.String())
		assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	})
	t.Run("waiting for the answer", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			c.untilClosed()
		})
		params, started := socketParams(1<<10), time.Now()
		_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).Notes.Create(socketContext(t),
			params)
		requireUnknown(t, err, params, started)
		assert.Contains(t, err.Error(), "no data was transferred for "+patience.String())
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
	t.Run("within the answer", func(t *testing.T) {
		t.Parallel()
		srv := newRawServer(t, func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{")
			c.untilClosed()
		})
		params, started := socketParams(1<<10), time.Now()
		_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).Notes.Create(socketContext(t),
			params)
		requireUnknown(t, err, params, started)
	})
	t.Run("at the source", func(t *testing.T) {
		t.Parallel()
		// Nothing ever comes out of the pipe; neither the attempt nor its repeat may wait for it for ever.
		pipe, unblock := io.Pipe()
		t.Cleanup(func() { _ = unblock.Close() })
		srv := newRawServer(t, func(c *rawConn) {
			c.head()
			c.send("HTTP/1.1 100 Continue\r\n\r\n")
			c.untilClosed()
		})
		_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).
			Notes.Create(socketContext(t), createParams{Audio: clinicaldoc.AudioReader("a.wav", pipe)})
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	})
	t.Run("at a source that could be read again", func(t *testing.T) {
		t.Parallel()
		blocked := blockedAudio{make(chan struct{})}
		t.Cleanup(func() { close(blocked.until) })
		stall := func(c *rawConn) {
			c.head()
			c.send("HTTP/1.1 100 Continue\r\n\r\n")
			c.untilClosed()
		}
		srv := newRawServer(t, stall, stall)
		_, err := socketClient(t, srv.URL, clinicaldoc.WithStallTimeout(patience)).
			Notes.Create(socketContext(t), createParams{Audio: clinicaldoc.AudioReaderAt("a.wav", blocked, 8<<20)})
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
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
		c.head()
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
		cancel()
		c.untilClosed()
	})
	started := time.Now()
	_, err := socketClient(t, srv.URL).Notes.Create(ctx, createParams{Audio: clinicaldoc.AudioReader("a.wav", pipe)})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(started), 10*time.Second)
	assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// FuzzEnvelope reads an upload back with the standard library: it holds what was given, and nothing else.
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
			require.Regexp(t,
				`^clinicaldoc: (Audio|Audio: ContentType|Notes\.Create: [A-Za-z]+): [A-Za-z0-9 ,;/-]+: invalid argument$`, err.Error())
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
	for _, path := range []string{"", folder, empty, filepath.Join(folder, "secret.wav")} {
		source, err := clinicaldoc.AudioFile(path)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, path)
		assert.NotContains(t, err.Error(), "secret")
		assert.Nil(t, source, path)
	}
	_, err := clinicaldoc.AudioFile(filepath.Join(folder, "secret.wav"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCreate_ExtraIsSentAsFurtherParts(t *testing.T) {
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

// PHP reads "patient id", "patient.id" and "patient_id[0]" as patient_id: such a part would make the note another
// patient's.
func TestCreate_RejectsUnsendableExtra(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "name", "patient_id", "prompt_id", "file", "Patient_ID", "patient.id", "patient id", " patient_id",
		"patient_id[0]", "file[]", "name[first]",
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
		parts := map[string]string{}
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			require.NoError(t, err)
			for reader := multipart.NewReader(r.Body, params["boundary"]); ; {
				p, err := reader.NextPart()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				content := must(io.ReadAll(p))(t)
				parts[p.FormName()] = string(content)
			}
			return answerWith(http.StatusCreated, "application/json", []byte(smallNote))(r)
		}))
		_, err := client.Notes.Create(t.Context(),
			createParams{Name: "Visit", PatientID: 5, Extra: map[string]string{name: value}})
		if err != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.Empty(t, parts, "nothing was sent")
			return
		}
		require.Equal(t, map[string]string{"name": "Visit", "patient_id": "5", name: value}, parts)
	})
}

// cutWAV is a WAV file whose header announces more than there is.
const cutWAV = "RIFF\x24\x10\x00\x00WAVEfmt \x10\x00\x00\x00 synthetic sound"

func TestCreate_MediaTypeFollowsTheBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, content, want string }{
		{"visit", "OggS\x00 synthetic", "audio/ogg"},
		{"visit.wav", "OggS\x00 synthetic", "audio/ogg"},
		{"visit.opus", "OggS\x00 synthetic", "audio/ogg"},
		{"visit.bin", "\x02dss synthetic", "audio/x-dss"},
		{"visit.dss", "synthetic", "audio/x-dss"},
		{"visit.ds2", "synthetic", "audio/x-ds2"},
		{"visit.wav", "synthetic", "audio/wav"},
		{"visit", "synthetic", "application/octet-stream"},
	} {
		sent := checkParts(part{`form-data; name="file"; filename="` + tc.name + `"`, tc.want, tc.content})
		client := serve(t,
			call{method: "POST", url: "/v1/progress-notes", status: 201, response: smallNote, checkBody: sent})
		audio := clinicaldoc.AudioBytes(tc.name, []byte(tc.content))
		_, err := client.Notes.Create(t.Context(), createParams{Audio: audio})
		require.NoError(t, err, tc)
	}
}

func TestCreate_StreamIsNotReadForItsMediaType(t *testing.T) {
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
